//! Decides who may use the GPU now: one program that answers requests, others that fill the time it leaves.
//!
//! Two decisions, both pure. Inline, before a launch of a program that yields to others, [`admit`] says go or
//! wait from a handful of numbers. Every few milliseconds a [`Policy`] looks at all programs and sets the
//! [`Limits`] that `admit` compares with. The page in shared memory between them, the waiting and the clock
//! belong to the callers: the shim, the daemon, and the simulator, which runs the same two on a virtual GPU.
//!
//! Work is counted in predicted nanoseconds of GPU time, never in launches: one launch may be a thousand times
//! another, and what a burst waits for is the length of what is ahead of it.

mod adaptive;
mod admit;
mod allowance;
mod backlog;
mod colocate;
mod deadline;
mod fair;
mod ledger;
mod log;
mod none;
mod pauses;
mod play;
mod policy;
mod priority;
mod program;
mod rescue;
mod rhythm;
pub mod simulate;
mod slopes;
mod watch;

pub use admit::{
    AHEAD_NS, Admission, Kind, LEAD_NS, Limits, Reason, STALE_NS, View, Work, admit, is_free,
    parts, queue,
};
pub use backlog::Backlog;
pub use colocate::harm_kept_ns;
pub use ledger::MINIMUM_SHARE;
pub use log::{Belief, Logged};
pub use policy::{
    Burst, Choice, DEFAULT_POLICY, Device, Observed, POLICIES, Policy, Settings, policy,
};
pub use program::{Bottleneck, Class, Sla};
pub use rhythm::Rhythm;
