//! Stands inside the program where it looks for `libcuda.so.1`.
//!
//! Every call goes down once: [`exports`] takes it, the real driver answers, [`record`] notes what
//! happened in this thread's ring. The driver's answer is returned untouched. What is ours may fail
//! (no space for a ring, a panic) and then the call goes through as if apex were absent, a counter
//! rises and one line is logged.
//!
//! Nothing happens before the first CUDA call: no constructor, no thread, ever. The driver is loaded
//! when a function of it is first called ([`load`]); the ring and the facts file are made when the
//! first event is recorded ([`process`]), and made anew in a forked child. On the way of a recorded
//! call there is no lock, no allocation and no system call.

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("the shim's entries are written for Linux on x86-64");

mod capture;
mod contexts;
mod cupti;
mod detail;
mod exports;
mod extras;
mod gate;
mod handles;
mod hooks;
mod kernels;
mod load;
#[cfg_attr(test, expect(dead_code, reason = "a test binary must not replace dlopen and dlsym"))]
mod loader;
mod lock;
mod outputs;
mod predict;
mod process;
mod record;
mod sample;
mod thread;
mod tuned;
