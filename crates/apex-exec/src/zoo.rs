//! The kernel zoo: kernels of ours that stand for what programs do, each with its launch space, exact counts
//! of work, and a truth to check against.
//!
//! It is the ground on which predictions are learned and measured: `apex bench zoo` runs it, and training
//! collects its rows. A kernel is one entry of [`kernels`]; a [`Point`] is one configuration of it; a
//! [`Ground`] is an executor with the inputs on its device; a [`Prepared`] point can be timed and checked.
//!
//! ```
//! # fn main() -> apex_exec::Result<()> {
//! use apex_exec::zoo::{self, Ground, Scale};
//!
//! let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
//! let ground = Ground::new(&executor)?;
//! let triad = zoo::kernels().find(|kernel| kernel.name == "triad").unwrap();
//! for point in zoo::points(&[triad], &ground.target(), Scale::Small, Some(2), 7) {
//!     let mut prepared = ground.prepare(&point)?;
//!     assert_eq!(prepared.check()?.fault, None);
//!     println!("{:?}: {} ns", point.block, prepared.time(20)?.median_ns);
//! }
//! # Ok(())
//! # }
//! ```

mod check;
#[allow(unsafe_code)] // It calls NVIDIA's management library.
mod clocks;
mod estimate;
mod fill;
mod ground;
mod kernel;
mod launch_space;
mod point;
mod prepared;
mod table;
mod timing;

pub use check::{Fault, Outputs, Verdict};
pub use clocks::Clocks;
pub use estimate::Target;
pub use fill::Fill;
pub use ground::Ground;
pub use kernel::{Axis, Given, Pipe, Work, ZooKernel};
pub use point::{Point, Scale, all_points, points};
pub use prepared::{Prepared, Residency};
pub use timing::Timing;

/// Every kernel of the zoo.
///
/// ```
/// assert!(apex_exec::zoo::kernels().count() >= 40);
/// ```
pub fn kernels() -> impl Iterator<Item = &'static ZooKernel> {
    table::GROUPS.iter().flat_map(|group| group.iter())
}
