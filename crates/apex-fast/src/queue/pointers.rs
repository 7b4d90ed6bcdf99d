//! Pointers to the parameters of a launch, as the driver wants them.

use super::known::Launch;
use core::ffi::c_void;

/// A pointer to each parameter of a launch.
#[derive(Default)]
pub(super) struct Pointers(Vec<*mut c_void>);

impl Pointers {
    /// The pointers to the parameters that stand packed at `packed`.
    pub(super) fn to(&mut self, launch: &Launch, packed: *const u8) -> *mut *mut c_void {
        let place =
            |&(offset, _): &(u32, u32)| packed.wrapping_add(offset as usize).cast_mut().cast();
        self.0.clear();
        self.0.extend(launch.kernel.parameters.iter().map(place));
        self.0.as_mut_ptr()
    }
}
