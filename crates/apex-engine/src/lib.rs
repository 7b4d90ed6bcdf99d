//! Executes PTX on the CPU.
//!
//! Text comes in, is linked and lowered once to [`code`] (`passes.rs` lists how), and runs in two tiers over one
//! register layout: a warp interpreter that knows every instruction, and a compiler for the
//! parts in which lanes stay together. The state of a thread is data, never a stack, so a
//! block can stop anywhere and go on elsewhere. Nothing here knows the CUDA API: the driver
//! (`apex-softgpu`) hands over [`Launch`]es and lends its threads to [`Grid`]s.

mod check;
pub mod code;
mod device;
mod dump;
mod fault;
pub mod frame;
mod grid;
pub mod interpret;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod jit;
mod kernel;
mod lower;
mod mbarrier;
mod module;
mod number;
mod operands;
mod passes;
mod site;
mod tensor_map;
mod texture;
mod tiers;
mod window;

pub use check::{Kind, Report};
pub use device::{Device, Identity, Services};
pub use dump::Dump;
pub use fault::Fault;
pub use grid::Grid;
pub use kernel::{Kernel, Launch, Param};
pub use module::{LoadError, LoadErrorKind, Module, Placed, Space, Variable};
pub use site::{Access, Site};
pub use tensor_map::{DIMENSIONS, TensorMap};
pub use texture::{AddressMode, Channel, Filter, Image, Surface, Texture};
pub use tiers::{compile, prepare};
pub use window::Window;
