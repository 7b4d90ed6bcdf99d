//! Replaces the CUDA runtime that is linked into a program, at its doors.
//!
//! nvcc links NVIDIA's runtime into a program by default, and that runtime asks the driver for private tables which
//! the software GPU does not have. Its functions stand in `.symtab` with name and size unless the file is stripped.
//! Each is turned into a jump to the function of the same name in `libcudart.so.12` or `.13` of apex, before the first
//! constructor of that file runs. `apex run` preloads this library on the software GPU alone.
//!
//! The functions of a file are replaced together or not at all: a runtime that is ours in one call and NVIDIA's in
//! the next computes wrong values without an error. So everything is checked before the first byte is written: that
//! each function has a counterpart and room for a jump, and that the file still holds what is in memory.
//!
//! | storey | what is there |
//! |---|---|
//! | `symbols`, `plan`, `jumps` | what a file says, what is to be done, which bytes do it: plain functions |
//! | `objects`, `ours`, `place` | the loader's list, our runtime's addresses, the memory of code |
//! | `entries` | when to look: at the start, and when the loader initialises another library |

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("jumps are written for Linux on x86-64");

mod entries;
mod jumps;
mod objects;
mod ours;
mod place;
mod plan;
mod symbols;
