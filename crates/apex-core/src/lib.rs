//! The words all parts of apex share: events, facts, knobs, time, and the ring that carries events.
//!
//! The shim inside the program and the collector outside it share this crate and nothing else, so
//! whatever both must agree on stands here once. Nothing here knows CUDA: a driver function is a
//! number ([`CallId`]), a result is a number, a handle is a number.

#[cfg(not(loom))]
pub mod alive;
#[cfg(not(loom))]
pub mod answer_page;
mod checked;
pub mod event;
pub mod facts;
pub mod fetch;
#[cfg(not(loom))]
pub mod gate_page;
pub mod histogram;
pub mod kept;
pub mod knobs;
pub mod launch_costs;
pub mod outputs;
pub mod pace;
pub mod printable;
pub mod queue_counts;
#[cfg(not(loom))]
pub mod refusal;
pub mod ring;
pub mod small_file;
pub mod time;
pub mod tuning;

pub use event::{
    AllocKind, CallId, Copy, Event, Head, KernelId, Launch, LaunchShape, Life, ObjectKind, Record,
    Set, SyncKind, TimeBasis, What,
};
