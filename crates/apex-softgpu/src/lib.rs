//! The software GPU: a CUDA driver that executes kernels on the CPU.
//!
//! It answers where a program, or apex's shim, looks for libcuda on a machine that
//! has none, and says so in the name of its device. Kernels are executed by
//! `apex-engine`; everything around them is here: device memory is host memory,
//! streams are queues that worker threads empty, and a thread that waits helps.
//!
//! | storey | what it holds | knows |
//! |---|---|---|
//! | `api/` | the driver's functions, and the table of them | everything below |
//! | `submit.rs` | the one way to a stream: into its queue, or into the graph that it records | `graph`, `run` |
//! | `graph/` | nodes, captures, executable graphs | `run` |
//! | `run/` | contexts, streams, events, work, and the scheduler that does it | `module`, `memory`, `machine` |
//! | `module/` | images, modules, libraries, kernels | `memory`, `machine` |
//! | `memory/` | the map of memory, and everything made of it | `machine` |
//! | `machine/` | devices, addresses, time | nothing of the above |
//! | `border.rs`, `object.rs`, `print.rs`, `settings.rs` | C arguments, handles, kernels' output, knobs | nothing of the above |
//!
//! A storey knows those below it and none above; the same holds for the files of a folder,
//! whose own header names their order.
//!
//! Every function of apex-cuda's table is handed out. Those found in one of the files of
//! `api/` are answered there; all others answer `CUDA_ERROR_NOT_SUPPORTED`. To answer one
//! more, write it in the file of its subject: `api/table.rs` finds it by its name.

#![allow(non_snake_case, reason = "the functions bear the driver's own names")]

// First, because the others use its macro.
#[macro_use]
mod border;

mod api;
mod graph;
mod machine;
mod memory;
mod module;
mod object;
mod print;
mod run;
mod settings;
mod submit;

#[doc(hidden)]
pub use api::table::{ANSWERS, hand_out};
pub use api::table::{apex_softgpu_function, driver, is_answered};
pub use run::launch::launches;
