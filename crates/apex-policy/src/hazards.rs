//! Which of the launches that wait must keep their order, and whether it pays to run the others at once.
//!
//! [`Window`] takes launches in their order with the bytes that each touches, and says on which earlier ones each
//! depends: a read on the last write, a write on the last write and on all reads since. Of a launch of which nothing is
//! known everything is thought. [`place`] says whether branches are shorter than a chain.

mod place;
mod window;

pub use place::{Costs, Task, ancestors, place, reduced};
pub use window::{Hazards, Touched, Window};
