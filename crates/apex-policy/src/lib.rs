//! Every decision, as pure functions over plain data.
//!
//! The shim, the daemon and the simulator call the same functions here. Nothing in
//! this crate reads a clock, a file or the GPU, so what it decides depends on its
//! arguments alone and every decision can be replayed.
#![forbid(unsafe_code)]

pub mod advise;
pub mod amounts;
mod chip;
pub mod duel;
pub mod foresee;
pub mod gate;
pub mod hazards;
pub mod launchable;
mod occupancy;
pub mod pool;
pub mod predict;
pub mod sampling;
pub mod schedule;
pub mod specialise;
pub mod submit;
pub mod tune;

pub use chip::Chip;
pub use occupancy::{
    Carveout, KernelNeeds, LaunchFacts, LaunchShape, Limiter, Occupancy, launch_facts, occupancy,
};
