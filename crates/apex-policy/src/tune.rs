//! Decides what to try on a kernel that may not be touched, in which order, and what wins.
//!
//! Safest first: hints cannot change a result; compiling the same text with other limits keeps its meaning;
//! another block is tried only where the kernel's text proves that nobody can tell ([`Subject::free_sides`]). Of
//! each kind only what the device's arithmetic gives a chance is tried ([`candidates`]), because every trial is
//! a run of somebody's program. A change wins when every run with it was faster than every run without
//! ([`verdict`]).

mod candidates;
mod change;
mod reshaped;
mod search;
mod suggest;
mod verdict;

pub use candidates::{LINEAR_BLOCKS, Subject, candidates};
pub use change::{Cache, Change, Tier};
pub use reshaped::reshaped;
pub use search::{Outcome, Search, Subjected, Tried};
pub use suggest::{Suggestion, suggest};
pub use verdict::{Verdict, verdict};
