//! Which memory a program asks for next, and whether knowing it pays.
//!
//! A [`Trace`] is what a program allocated and freed. A [`Method`] sees one allocation after the other and ranks what may
//! come next; [`judge`] plays a trace through a pool of exact sizes, without foresight and with blocks that are made ahead
//! of need, and counts what that saved and wasted. Nothing of it stands on the way of a call, and the pool of `--fast` uses
//! none: `results/foresight` has the table that says why.

mod attention;
mod judge;
mod methods;
mod trace;

pub use attention::{Attention, Foreseeing, LENGTH, WEIGHTS};
pub use judge::{Score, judge};
pub use methods::{Markov, Method, Nothing, Replay, Suffix};
pub use trace::{CLASSES, Class, Step, Trace, class_of};
