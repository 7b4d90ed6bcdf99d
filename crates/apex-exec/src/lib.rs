//! Compiles, loads and runs kernels from Rust, on a GPU or on the software GPU.
//!
//! An [`Executor`] is a device ready for work. Memory on it is a [`Buffer`] that owns what it points to;
//! work goes into a [`Stream`], in order; kernels come from CUDA source, PTX, cubins or fatbins as a
//! [`Module`]. What is read while a launch is prepared is borrowed, what is written is borrowed mutably,
//! and a buffer that wanders from stream to stream takes its order along: the second stream waits, on the
//! device, for what the first was given to do with it.
//!
//! ```
//! # fn main() -> apex_exec::Result<()> {
//! use apex_exec::{Device, Executor, Grid};
//!
//! let executor = Executor::new(Device::Auto)?;
//! let module = executor.load_ptx(apex_exec::EXAMPLE_PTX)?;
//! let add = module.kernel("add")?;
//!
//! let a = executor.upload(&[1.0_f32, 2.0, 3.0])?;
//! let b = executor.upload(&[10.0_f32, 20.0, 30.0])?;
//! let mut sum = executor.zeros::<f32>(3)?;
//! let grid = Grid::for_elements(3, 128);
//! executor.stream().launch(&add, grid).arg(&a).arg(&b).arg(&mut sum).arg(&3_u32).run()?;
//! assert_eq!(executor.download(&sum)?, [11.0, 22.0, 33.0]);
//! # Ok(())
//! # }
//! ```
//!
//! A kernel is foreign code: that its arguments fit is checked here, what it then does to the device's memory
//! is its own affair.

#![deny(unsafe_code)]

mod buffer;
mod cache;
mod compile;
mod device;
mod element;
mod error;
mod event;
mod executor;
mod expression;
mod float;
mod foreign;
mod freedom;
mod grid;
mod kept;
mod kernel;
mod lock;
mod matmul;
mod module;
mod ops;
mod order;
mod parameters;
mod pipeline;
mod product;
mod queue;
mod settings;
mod shape;
mod stream;
mod suggest;
pub mod zoo;

// Where this crate meets the driver, the loader and the compiler.
#[allow(unsafe_code)]
mod calls;
#[allow(unsafe_code)]
mod code;
#[allow(unsafe_code)]
mod context;
#[allow(unsafe_code)]
mod driver;
#[allow(unsafe_code)]
mod launch;
#[allow(unsafe_code)]
mod libraries;
#[allow(unsafe_code)]
mod memory;
#[allow(unsafe_code)]
mod nvrtc;
#[allow(unsafe_code)]
mod pinned;
#[allow(unsafe_code)]
mod query;

pub use buffer::{Buffer, Readable, View, ViewMut, Writable};
pub use compile::{CompileOptions, compile_to_ptx};
pub use device::{Device, DeviceFacts};
pub use element::Element;
pub use error::{Error, Result};
pub use event::Event;
pub use executor::{Executor, global};
pub use expression::{Expression, Fused};
pub use float::Float;
pub use freedom::{BlockFreedom, block_freedom, block_freedom_in};
pub use grid::Grid;
pub use kept::{EXAMPLE, KeptSource};
pub use kernel::{Kernel, KernelAttributes};
pub use launch::{Argument, Launch};
pub use matmul::{MatmulShape, measure_matmul};
pub use module::Module;
pub use ops::{BatchStatistics, Channels, Function, Norm, Ops, Reduction, Running};
pub use pinned::{Pending, Pinned};
pub use pipeline::Pipeline;
pub use product::{Activation, Matmul, MatmulChoice, MatmulKernel};
pub use stream::Stream;
pub use suggest::{BetterConfig, Predictor, Problem, suggest_better_config};

/// The PTX of [`EXAMPLE`].
pub const EXAMPLE_PTX: &str = EXAMPLE.ptx;
