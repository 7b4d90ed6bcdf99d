//! The software GPU: a CUDA driver that executes kernels on the CPU.
//!
//! It answers where a program, or apex's shim, looks for libcuda on a machine that
//! has none, and says so in the name of its device. Kernels are executed by
//! `apex-engine`; everything around them is here: device memory is host memory,
//! streams are queues that worker threads empty, and a thread that waits helps.
//!
//! Every function of apex-cuda's table is handed out. Those found in one of the
//! modules below are answered there; all others answer `CUDA_ERROR_NOT_SUPPORTED`.
//! To answer one more, write it in its module: `exports.rs` finds it by its name.

#![allow(non_snake_case, reason = "the functions bear the driver's own names")]

// First, because the others use its macro.
#[macro_use]
mod border;

mod arena;
mod arguments;
mod array;
mod capture;
mod clock;
mod context;
mod copy;
mod device;
mod domain;
mod event;
mod exec;
mod exports;
mod fatbin;
mod graph;
mod graph_memory;
mod identity;
mod ipc;
mod jit;
mod kernel;
mod launch;
mod level;
mod library;
mod link;
mod managed;
mod memory;
mod module;
mod node;
mod object;
mod occupancy;
mod order;
mod pointer;
mod pool;
mod print;
mod profiler;
mod reference;
mod resolve;
mod schedule;
mod services;
mod session;
mod set;
mod settings;
mod stream;
mod texture;
mod twins;
mod user_object;
mod vmm;
mod work;

#[doc(hidden)]
pub use exports::{ANSWERS, hand_out};
pub use exports::{apex_softgpu_function, driver, is_answered};
pub use launch::launches;
