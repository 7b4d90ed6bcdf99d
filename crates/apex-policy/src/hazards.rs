//! Which of the launches that wait must keep their order.
//!
//! [`Window`] takes launches in their order with the bytes that each touches, and says on which earlier ones each
//! depends: a read on the last write, a write on the last write and on all reads since. Of a launch of which nothing is
//! known everything is thought. [`reduced`] makes the edges of a graph of that. Whether
//! branches are faster than a chain is asked of no model: both are tried ([`crate::duel`]).

mod edges;
mod window;

pub use edges::{ancestors, is_chain, reduced};
pub use window::{Found, Hazards, Touched, Window};
