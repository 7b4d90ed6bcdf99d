//! Which kernels are compiled again for what they are called with, and which of two forms stays.
//!
//! A call of a kernel is told by a list of numbers: its block, its grid, and what its scalars hold. [`Watch`] sees the
//! calls of one kernel and says which numbers stay the same often enough to be written into it. A [`crate::duel`] then says
//! whether the rewritten form stays, and [`Proof`] whether both forms write the same bytes. [`Earlier`] is what earlier
//! runs know.

mod ahead;
mod proof;
mod watch;

pub use ahead::Earlier;
pub use proof::{Finding, Proof, Proven, Wanted};
pub use watch::{Seen, Watch};
