//! Which waiting launches go down together, as one graph.
//!
//! A launch is told apart by a word: kernel, shape and stream, without what its arguments hold. [`cut`] says where a
//! piece of the waiting words ends, so that the same passage of a program is cut at the same places whenever it comes.
//! [`Repeats`] counts the pieces and says which of them has come often enough to be kept as a graph. Nothing is ever held
//! back to wait for more: what does not make a piece yet goes down one by one. [`Room`] says whether the machine has a
//! processor to spare for the thread that sends.

mod cut;
mod repeats;
mod room;
mod saved;

pub use cut::{MOST, cut};
pub use repeats::{Costs, Repeats, Step};
pub use room::Room;
pub use saved::Sent;
