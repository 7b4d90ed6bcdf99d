//! Executes PTX on the CPU.
//!
//! Text comes in, is linked and lowered once to [`code`], and runs in two tiers over one
//! register layout: a warp interpreter that knows every instruction, and a compiler for the
//! parts in which lanes stay together. The state of a thread is data, never a stack, so a
//! block can stop anywhere and go on elsewhere. Nothing here knows the CUDA API: the driver
//! (`apex-softgpu`) hands over [`Launch`]es and lends its threads to [`Grid`]s.

mod check;
pub mod code;
mod device;
mod fault;
pub mod frame;
mod grid;
pub mod interpret;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod jit;
mod kernel;
mod lower;
mod module;
mod number;
mod texture;
mod tiers;

pub use check::{Kind, Report};
pub use device::{Device, Identity, Services};
pub use fault::{Fault, Place};
pub use grid::Grid;
pub use kernel::{Kernel, Launch, Param};
pub use module::{LoadError, LoadErrorKind, Module, Placed, Space, Variable};
pub use texture::{AddressMode, Channel, Filter, Image, Surface, Texture};
pub use tiers::compile;
