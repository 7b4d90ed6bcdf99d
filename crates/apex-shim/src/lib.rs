//! Stands inside the program where it looks for `libcuda.so.1`.
//!
//! It stands in storeys, each using those below it and none above:
//!
//! | storey | what is there |
//! |---|---|
//! | [`entries`] | exports and hooks: C arguments become one plain description of the call |
//! | [`aspects`] | what is done with a call beside making it, and the list that shows the order |
//! | [`state`] | streams, kernels, contexts, threads, times: known once, asked by all |
//! | [`driver`] | the loaded table of functions |
//!
//! Every call goes down once: [`entries`] takes it, the real driver answers, an aspect notes what
//! happened in this thread's ring. The driver's answer is returned untouched. What is ours may fail
//! (no space for a ring, a panic) and then the call goes through as if apex were absent, a counter
//! rises and one line is logged.
//!
//! Nothing happens before the first CUDA call: there is no constructor. Only the gate and CUPTI have threads, and
//! only where they are asked for. The driver is loaded
//! when a function of it is first called ([`driver::load`]); the ring and the facts file are made when the
//! first event is recorded ([`state::process`]), and made anew in a forked child. On the way of a recorded
//! call there is no lock, no allocation and no system call.

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("the shim's entries are written for Linux on x86-64");

mod aspects;
mod driver;
mod entries;
mod settings;
mod state;
