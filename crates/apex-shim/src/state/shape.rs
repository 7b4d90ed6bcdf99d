//! The shape of a launch, which the whole shim has as events have it.

use apex_core::event::LaunchShape;

/// Grid and block as the policies have them, which know nothing of events.
#[inline(always)]
pub(crate) fn grid_and_block(shape: &LaunchShape) -> apex_policy::LaunchShape {
    apex_policy::LaunchShape { grid: shape.grid, block: shape.block.map(u32::from) }
}
