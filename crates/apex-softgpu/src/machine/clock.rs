//! What time it is on the device.
//!
//! By the machine's clock, events tell when their point was reached. By the virtual
//! clock they tell when a simple model of the device would have reached it: a task
//! begins when all it follows have ended, a kernel takes its instructions over the
//! device's multiprocessors, a copy its bytes over the bus. So times are the same in
//! every run, on every machine.

use apex_core::knobs::Clock;
use apex_engine::Grid;

use crate::machine::device::Device;
use crate::settings::settings;

const LAUNCH_NANOS: u64 = 2_000;
const COPY_NANOS: u64 = 1_000;
/// Bytes that a copy moves in a microsecond.
const COPY_BYTES_PER_MICRO: u64 = 25_000;
/// Warp instructions that one multiprocessor issues in a cycle.
const WARP_INSTRUCTIONS_PER_CYCLE: u64 = 4;

/// Whether times come from the model.
pub(crate) fn is_virtual() -> bool {
    settings().softgpu_clock == Clock::Virtual
}

/// The time at a point that the model reaches at `modelled`; never 0.
pub(crate) fn now(modelled: u64) -> u64 {
    if is_virtual() {
        return modelled + 1;
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` can be written.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What a copy takes in the model, in nanoseconds.
pub(crate) fn copy_cost(bytes: u64) -> u64 {
    if is_virtual() { COPY_NANOS + bytes * 1_000 / COPY_BYTES_PER_MICRO } else { 0 }
}

/// What a kernel took in the model, in nanoseconds.
pub(crate) fn kernel_cost(grid: &Grid, device: &Device) -> u64 {
    if !is_virtual() {
        return 0;
    }
    let identity = device.identity;
    let per_cycle = u64::from(identity.multiprocessors) * WARP_INSTRUCTIONS_PER_CYCLE;
    let cycles = grid.instructions().div_ceil(per_cycle);
    LAUNCH_NANOS + cycles.saturating_mul(1_000_000) / u64::from(identity.clock_khz)
}
