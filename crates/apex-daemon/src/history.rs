//! What was measured of kernels in earlier runs, by device, driver and code, so that the next run begins with it.
//!
//! One file. Who reads it takes in its index and asks the file for a kernel when that is seen: it is opened in
//! milliseconds however much it holds. Who has something new writes the whole file anew under a lock and renames it, so
//! a killed writer or a full disk leaves what was there. The file's name bears the version of its form: another version
//! of apex has a file of its own. It is bounded; kernels that were not seen for longest go first. A kernel is known by the
//! hash of its code and its name, so changed code is another kernel.

mod file;
mod keep;
mod lines;

pub use file::History;
pub use keep::{Outcome, forget, keep};
pub use lines::{read_lines, write_lines};

use apex_core::event::{LaunchShape, TimeBasis};
use apex_policy::predict::features::{FNV_START, fnv};
use serde::{Deserialize, Serialize};

/// Name of the file: it bears the version of its form.
pub const FILE: &str = "kernels-1.history";

/// Kernels that are kept at most.
pub const MOST_KERNELS: usize = 100_000;
/// Bytes of their records at most.
const MOST_BYTES: usize = 48 << 20;
/// Shapes of a kernel that are kept at most.
pub const MOST_SHAPES: usize = 24;

/// One kernel's past on one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Past {
    /// The device's name.
    pub device: String,
    /// The driver's version number.
    pub driver: u32,
    /// Hash of the kernel's image and name: see [`code`].
    pub code: u64,
    /// Its name, cut short where it is long.
    pub kernel: String,
    /// Days since 1970 when it was last seen.
    pub day: u32,
    /// What was measured of its shapes.
    pub shapes: Vec<Measured>,
}

/// What one shape of a kernel took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Blocks by dimension.
    pub grid: [u32; 3],
    /// Threads of a block by dimension.
    pub block: [u16; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: u32,
    /// How it was timed.
    pub timed: Timed,
    /// The usual time in nanoseconds.
    pub nanos: f32,
    /// Half of an 80 % interval, in log2.
    pub half_width: f32,
    /// Times measured.
    pub count: u32,
}

/// How a time was taken, as far as times differ by it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Timed {
    /// Events around launches on a busy stream.
    #[default]
    Events,
    /// Events around launches that found their stream idle: with the wait for the launch.
    Idle,
    /// CUPTI.
    Cupti,
}

impl Timed {
    /// How a time of this basis was taken.
    #[must_use]
    pub fn of(basis: TimeBasis) -> Timed {
        match basis {
            TimeBasis::EventPairIdle => Timed::Idle,
            TimeBasis::Cupti => Timed::Cupti,
            _ => Timed::Events,
        }
    }
}

impl Measured {
    /// Whether both are times of the same launch, taken alike.
    #[must_use]
    pub fn is_like(&self, other: &Measured) -> bool {
        let key = |one: &Measured| (one.grid, one.block, one.dynamic_shared, one.timed);
        key(self) == key(other)
    }

    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> LaunchShape {
        let Measured { grid, block, dynamic_shared, .. } = *self;
        LaunchShape { grid, block, dynamic_shared, ..LaunchShape::default() }
    }
}

impl Past {
    /// What it is found by; never zero.
    #[must_use]
    pub fn key(&self) -> u64 {
        key(&self.device, self.driver, self.code)
    }
}

/// What a kernel is known by: the hash of its image, and its name.
#[must_use]
pub fn code(image_hash: u64, name: &str) -> u64 {
    fnv(FNV_START ^ image_hash, name.as_bytes())
}

/// What a kernel's past is found by; never zero.
#[must_use]
pub fn key(device: &str, driver: u32, code: u64) -> u64 {
    let hash = fnv(fnv(FNV_START, device.as_bytes()), &driver.to_le_bytes());
    fnv(hash, &code.to_le_bytes()).max(1)
}

#[cfg(test)]
mod tests;
