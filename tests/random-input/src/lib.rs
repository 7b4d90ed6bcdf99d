//! Readers of foreign input, and what breaks their input.
//!
//! [`readers`] lists them, each with good examples to begin with; [`mutate`] breaks an example; [`worker`] hands
//! what comes out to a reader in a process of its own, and [`supervise`] starts that process and says how it ended.

mod mutate;
mod readers;
mod supervise;
mod worker;

pub use supervise::{Outcome, run};
pub use worker::{repeat, work};
