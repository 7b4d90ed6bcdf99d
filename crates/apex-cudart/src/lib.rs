//! The CUDA runtime library over the driver's functions.
//!
//! A program linked with shared cudart finds this library under the name of NVIDIA's
//! (`libcudart.so.12` or `.13`). It reaches the driver by the name `libcuda.so.1`
//! alone, so under `apex run` every call goes through apex like any other. Nothing
//! is done here that the driver can do: what remains is what the runtime adds to it,
//! namely the primary context that appears at first use, the code and variables that
//! a program registers before `main`, the last error of a thread, and the runtime's
//! own layouts of the driver's structs.
//!
//! Both libraries are linked from one archive. Where CUDA 12 and 13 give one name to
//! two signatures, the functions here are called `cudart12_NAME` and `cudart13_NAME`
//! and get their public name at that link; `link/libcudart.so.1x.exports` say which.
//! What is exported but not answered stands in `unsupported.rs`.
//!
//! | storey | files, the lowest first |
//! |---|---|
//! | plain | `errors`, `layouts`, `version` |
//! | border | `last_error`, `border` (C arguments and answers) |
//! | state | `driver`, `load`, `registry` (what was registered before `main`), `context` |
//! | functions | all others, one file for each subject |
//!
//! A storey knows those below it and none above. Among the functions some files lend their
//! readers of arguments to others, and never in a circle.

#![allow(non_snake_case, reason = "the functions bear the runtime's own names")]
#![cfg_attr(test, allow(dead_code, reason = "the exported functions are called from C alone"))]

// First, because the others use its macro.
#[macro_use]
mod border;

mod array;
mod array_copy;
mod capture;
mod context;
mod copy;
mod copy3d;
mod device;
mod driver;
mod entry;
mod error_functions;
mod errors;
mod event;
mod exec;
mod function;
mod graph;
mod ipc;
mod last_error;
mod launch;
mod layouts;
mod library;
mod load;
mod managed;
mod memory;
mod node;
mod node_params;
mod occupancy;
mod plain_node;
mod pointer;
mod pool;
mod properties;
mod register;
mod registry;
mod set;
mod stream;
mod symbol;
mod texture;
mod unsupported;
mod version;
mod version_functions;
