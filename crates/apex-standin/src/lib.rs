//! A driver that answers without a GPU and without running kernels.
//!
//! It stands where a program, or apex's shim, looks for libcuda on a machine that
//! has none, and says so in the name of its device. Kernels do not execute. The
//! rest is real: device memory is host memory, copies copy, host functions run,
//! events carry host times. All work is done before the call that gave it returns,
//! so streams are in order by nature and nothing is ever "not ready".
//!
//! Every function of apex-cuda's table is exported. Those found in one of the
//! modules below are answered there; all others answer `CUDA_ERROR_NOT_SUPPORTED`.
//! To answer one more, write it in its module: `exports.rs` finds it by its name.

#![allow(non_snake_case, reason = "the functions bear the driver's own names")]

// First, because the others use its macro.
#[macro_use]
mod border;

mod arguments;
mod array;
mod capture;
mod context;
mod copy;
mod device;
mod event;
mod exec;
mod exports;
mod graph;
mod kernel;
mod launch;
mod library;
mod link;
mod memory;
mod module;
mod node;
mod object;
mod occupancy;
mod pointer;
mod pool;
mod ptx;
mod resolve;
mod session;
mod set;
mod stream;
mod twins;
mod vmm;
mod work;
