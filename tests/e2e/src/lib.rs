//! Runs the foreign programs of `tests/programs` with and without apex, on the software GPU.
//!
//! A test makes a [`Place`] of its own, in which nothing of another test or of the user's own
//! sessions is seen: driver, state directory and rings lie in it, and go with it. Programs are C,
//! compiled once per content. The same program, in the same surroundings, runs plain and under
//! `apex run`: output, exit code and signal must be the same, and what the program says it did must
//! be what was recorded ([`Watched::check_expected`]).
//!
//! Nothing here needs a GPU, and none is used where there is one: every place has a `libcuda.so.1` of
//! its own, and `APEX_DEVICE` says to take it. What needs to be root (a full disk, a read-only one) says so and is
//! left out elsewhere.

#![forbid(unsafe_code)]

mod compile;
mod ended;
mod expected;
mod line;
mod place;
mod tools;

pub use compile::{alone, library, linked, linked_cpp, nvcc, with_runtime, with_static_runtime};
pub use ended::{Ended, Watched};
pub use line::Line;
pub use place::{Place, Running, until};
pub use tools::{Tools, tools};
