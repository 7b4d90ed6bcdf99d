//! Which kernels are compiled again for what they are called with, and which of two forms stays.
//!
//! A call of a kernel is told by a list of numbers: its block, its grid, and what its scalars hold. [`Watch`] sees the
//! calls of one kernel and says which numbers stay the same often enough to be written into it. [`Duel`] is asked at
//! each call that a rewritten form fits: it alternates both forms, is told their times, and keeps the rewritten one only
//! if it is faster beyond what chance explains.

mod duel;
mod proof;
mod watch;

pub use duel::{Duel, Form, Turn, Verdict};
pub use proof::{Finding, Proof, Proven, Wanted};
pub use watch::{Seen, Watch};
