//! Executes PTX on the CPU.
//!
//! Text comes in, is linked and lowered once to [`code`], and runs in two tiers over one
//! register layout: a warp interpreter that knows every instruction, and a compiler for the
//! parts in which lanes stay together. The state of a thread is data, never a stack, so a
//! block can stop anywhere and go on elsewhere. Nothing here knows the CUDA API: the driver
//! (`apex-softgpu`) hands over [`Launch`]es and lends its threads to [`Grid`]s.

pub mod code;
pub mod frame;
mod kernel;

pub use kernel::{Kernel, Launch, Param};
