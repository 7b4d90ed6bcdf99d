//! About how long a launch takes, to keep a sweep short; nothing that is reported comes from here.
//!
//! The launch is bounded by the slowest of: instructions issued by the multiprocessors that have work,
//! bytes moved with as many warps as are resident, the longest thread times the waves, what must happen
//! one after the other, and blocks started. The constants are those of an H200, rounded.

use super::kernel::Work;
use super::point::Point;
use crate::DeviceFacts;

/// What the launch space must know of a device.
///
/// ```
/// assert_eq!(apex_exec::zoo::Target::H200.multiprocessors, 132);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its multiprocessors: grids are made in multiples of them.
    pub multiprocessors: u32,
    /// The most dynamic shared memory a block may have.
    pub shared_bytes_per_block: u32,
}

impl Target {
    /// An H200, by which the points of a sweep are counted where there is no GPU.
    pub const H200: Target = Target { multiprocessors: 132, shared_bytes_per_block: 232_448 };

    /// A device by its facts.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// assert!(apex_exec::zoo::Target::of(executor.facts()).shared_bytes_per_block >= 48 << 10);
    /// # Ok(())
    /// # }
    /// ```
    pub fn of(facts: &DeviceFacts) -> Target {
        Target {
            multiprocessors: facts.multiprocessors,
            shared_bytes_per_block: facts.shared_bytes_per_block,
        }
    }
}

const CYCLES_PER_NANO: f64 = 1.7;
const BYTES_PER_NANO: f64 = 4_000.0;
const MEMORY_NANOS: f64 = 700.0;
const LAUNCH_NANOS: f64 = 2_000.0;
const WARPS_PER_SM: u32 = 64;
const BLOCKS_PER_SM: u32 = 32;
const SHARED_PER_SM: u32 = 228 << 10;
const SHARED_RESERVED: u32 = 1 << 10;

/// The estimate in nanoseconds.
pub(crate) fn estimated_nanos(target: &Target, point: &Point, work: &Work) -> f64 {
    let threads = point.threads_per_block();
    let warps = threads.div_ceil(32);
    let by_shared = SHARED_PER_SM / (point.shared_bytes + SHARED_RESERVED);
    let resident = (WARPS_PER_SM / warps).min(BLOCKS_PER_SM).min(by_shared).max(1);
    let blocks = point.blocks() as f64;
    let multiprocessors = f64::from(target.multiprocessors);
    let slots = multiprocessors * f64::from(resident);
    let active_warps = blocks.min(slots) * f64::from(warps);
    let lanes = f64::from(threads) / f64::from(32 * warps);
    let issuing = (4.0 * blocks.min(multiprocessors)).min(active_warps);
    let issue = work.instructions / (32.0 * lanes * issuing) / CYCLES_PER_NANO;
    let bytes = (work.bytes_read + work.bytes_written) as f64;
    let in_flight = active_warps * 32.0 * lanes * 4.0;
    let memory = (bytes / BYTES_PER_NANO).max(bytes / in_flight * MEMORY_NANOS);
    let chain = work.chain_cycles / CYCLES_PER_NANO * (blocks / slots).max(1.0);
    let serial = work.serial_cycles / CYCLES_PER_NANO;
    let starts = blocks / CYCLES_PER_NANO;
    LAUNCH_NANOS + issue.max(memory).max(chain).max(serial).max(starts)
}
