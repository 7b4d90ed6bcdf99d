//! Decides who may use the GPU now: one program that answers requests, others that fill the time it leaves.
//!
//! Two decisions, both pure. At each launch of a program that yields to others the gate ([`crate::gate`]) says go or
//! wait from a handful of numbers. Every few milliseconds a [`Policy`] looks at all programs and sets the
//! [`Limits`] that the gate compares with. The page in shared memory between them, the waiting and the clock
//! belong to the callers: the shim, the daemon, and the simulator, which runs the same two on a virtual GPU.
//!
//! Work is counted in predicted nanoseconds of GPU time, never in launches: one launch may be a thousand times
//! another, and what a burst waits for is the length of what is ahead of it.

mod adaptive;
mod choice;
mod deadline;
mod fair;
mod ledger;
mod log;
mod none;
mod policy;
mod priority;
mod program;
mod rescue;
pub mod simulate;

pub use crate::gate::{Burst, Limits, STALE_NS};
pub use choice::{Choice, DEFAULT_POLICY, POLICIES, policy};
pub use ledger::MINIMUM_SHARE;
pub use log::Logged;
pub use policy::{Belief, Device, Observed, Policy, Settings};
pub use program::{Bottleneck, Class, Sla};
