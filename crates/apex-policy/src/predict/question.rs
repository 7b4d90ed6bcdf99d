//! What is known of a launch when it is asked about.
//!
//! Plain data of fixed size: the shim fills it in without allocating, `apex train` from a row, `apex predict`
//! from a command line. What is not known stays empty, and the features say that it is missing instead of
//! guessing.

use super::parts::{Costs, USUAL};
pub use super::text::{Mix, Walked};
use crate::{Carveout, Chip, KernelNeeds, LaunchShape};

/// A device, as far as time depends on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Device {
    /// What one multiprocessor holds.
    pub chip: Chip,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Bytes a second between device memory and the multiprocessors, at best.
    pub bytes_per_second: f32,
    /// Single-precision operations a second, at best.
    pub flops_per_second: f32,
    /// Double-precision operations in the time of one of single precision.
    pub double_rate: f32,
    /// Operations of the matrix units on halves in that time.
    pub tensor_rate: f32,
    /// Bytes of second-level cache.
    pub l2_bytes: u64,
    /// The time of a kernel that does nothing.
    pub floor_nanos: f32,
    /// What the parts of a launch cost.
    pub costs: Costs,
}

impl Device {
    /// A device by its chip, number of multiprocessors, clock and memory speed, with usual values for
    /// what no attribute tells: 128 multiply-adds a clock and multiprocessor, half as many in double precision,
    /// ten times as many on matrix units, two microseconds at least.
    #[must_use]
    pub fn from_attributes(
        chip: Chip,
        multiprocessors: u32,
        clock_khz: u32,
        bytes_per_second: f32,
        l2_bytes: u64,
    ) -> Device {
        Device {
            chip,
            multiprocessors,
            bytes_per_second,
            flops_per_second: multiprocessors as f32 * 256.0 * clock_khz as f32 * 1e3,
            double_rate: 0.5,
            tensor_rate: 10.0,
            l2_bytes,
            floor_nanos: 2_000.0,
            costs: USUAL,
        }
    }
}

/// A kernel, as far as it is known before it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Kernel {
    /// Hash of its code and name: what "the same kernel" means here.
    pub identity: u64,
    /// Registers of one thread.
    pub registers: u32,
    /// Shared memory that it declares, in bytes.
    pub static_shared: u32,
    /// The most dynamic shared memory a launch may ask for.
    pub max_dynamic_shared: u32,
    /// Local memory of one thread, in bytes.
    pub local_bytes: u32,
    /// How the SM should divide its memory.
    pub carveout: Carveout,
    /// What its instructions are; all zero where the code was not read.
    pub mix: Mix,
}

impl Kernel {
    /// What occupancy asks of the kernel for a launch with so much dynamic shared memory.
    #[inline]
    #[must_use]
    pub fn needs(&self, dynamic_shared: u32) -> KernelNeeds {
        KernelNeeds {
            registers: self.registers,
            static_shared: self.static_shared,
            dynamic_shared,
            max_dynamic_shared: self.max_dynamic_shared,
            carveout: self.carveout,
        }
    }
}

/// The most integer arguments that are looked at.
pub const INTEGERS: usize = 8;
/// The most pointer arguments that are looked at.
pub const ALLOCATIONS: usize = 6;

/// The values a launch passes, decoded.
///
/// The driver tells sizes of parameters, not types: eight bytes that lie in a known allocation are a
/// pointer, everything else of four or eight bytes an integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Arguments {
    /// Integers in the order of the parameters.
    pub integers: [u64; INTEGERS],
    /// Bytes of the allocations that pointers fall in, in the order of the parameters.
    pub allocations: [u64; ALLOCATIONS],
    /// Parameters of all kinds.
    pub count: u8,
}

impl Arguments {
    /// Nothing is known of what is passed.
    pub const NONE: &'static Arguments =
        &Arguments { integers: [0; INTEGERS], allocations: [0; ALLOCATIONS], count: 0 };

    /// Takes values and allocation sizes in order; what is too much is left out.
    #[must_use]
    pub fn of(integers: &[u64], allocations: &[u64]) -> Arguments {
        let mut arguments = Arguments {
            count: u8::try_from(integers.len() + allocations.len()).unwrap_or(u8::MAX),
            ..Arguments::default()
        };
        arguments.integers.iter_mut().zip(integers).for_each(|(to, from)| *to = *from);
        arguments.allocations.iter_mut().zip(allocations).for_each(|(to, from)| *to = *from);
        arguments
    }
}

/// Work that a launch is known to do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Arithmetic operations; a multiply-add is two.
    pub flops: f64,
    /// Bytes that must move between device memory and the multiprocessors.
    pub bytes: f64,
    /// The units that do the arithmetic.
    pub pipe: Pipe,
}

/// Which units of a device do the arithmetic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pipe {
    /// Single precision, and everything that is not one of the others.
    #[default]
    Single,
    /// Double precision.
    Double,
    /// Matrix units on halves.
    Tensor,
}

/// What launches like it took, as log2 over the expected time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Near {
    /// The most likely.
    pub mean: f32,
    /// How far off that usually is; 0 with no launch at all.
    pub deviation: f32,
}

/// What was measured of the same kernel so far, each as log2 of time over the time to expect.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct History {
    /// Times measured.
    pub count: u32,
    /// The last one.
    pub last: f32,
    /// Their mean.
    pub mean: f32,
    /// Their standard deviation.
    pub spread: f32,
    /// What the kernel's own line says of this launch; see [`crate::predict::online`].
    pub line: f32,
    /// What launches like this one took; see [`crate::predict::neighbours`].
    pub near: Near,
}

/// One launch, as it is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Where it runs.
    pub device: &'a Device,
    /// What runs.
    pub kernel: &'a Kernel,
    /// Grid and block.
    pub shape: LaunchShape,
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: u32,
    /// What is passed.
    pub arguments: &'a Arguments,
    /// What it will do, where that is known.
    pub work: Option<Work>,
    /// What its warps do.
    pub walked: &'a Walked,
}

/// Bytes that a thread is taken to move where nobody read the code: what counts is that twice the threads are twice
/// the work.
pub const BYTES_PER_THREAD: f64 = 12.0;

impl<'a> Question<'a> {
    /// A launch of which the shape is all that is known. Programs and the collector that answers them ask alike.
    #[must_use]
    pub fn by_shape(
        device: &'a Device,
        kernel: &'a Kernel,
        shape: LaunchShape,
        dynamic_shared: u32,
    ) -> Question<'a> {
        let threads = shape.blocks() as f64 * f64::from(shape.threads_per_block());
        let work = Some(Work { bytes: threads * BYTES_PER_THREAD, ..Work::default() });
        Question {
            device,
            kernel,
            shape,
            dynamic_shared,
            arguments: Arguments::NONE,
            work,
            walked: Walked::NONE,
        }
    }
}
