//! What the software GPU tells of its devices without being started.
//!
//! A management library must answer before `cuInit` and must not cause it: a program that forks later would have no
//! driver in its children. So the software GPU hands out one function more than a driver has.

use core::ffi::CStr;

/// The name by which the software GPU hands out [`TellDevice`].
pub const TELL_DEVICE: &CStr = c"apex_softgpu_device";

/// Writes what is known of a device; 0 where there is no device of that number.
pub type TellDevice = unsafe extern "C" fn(ordinal: u32, facts: *mut DeviceFacts) -> i32;

/// A device of the software GPU.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// What it is called, ended by a NUL.
    pub name: [u8; 96],
    /// Its uuid.
    pub uuid: [u8; 16],
    /// Where it says that it sits: domain, bus, device.
    pub place: [u32; 3],
    /// Compute capability.
    pub capability: [u32; 2],
    /// Bytes of memory it has.
    pub memory_bytes: u64,
    /// Bytes of it that this process has taken.
    pub used_bytes: u64,
    /// How many devices there are.
    pub devices: u32,
    /// Threads that execute kernels.
    pub workers: u32,
    /// Clocks of the product that it poses as, in kHz.
    pub clock_khz: u32,
    /// The same for memory.
    pub memory_clock_khz: u32,
    /// Width of the memory bus of that product, in bits.
    pub bus_bits: u32,
    /// 1 where that product corrects errors of memory.
    pub is_ecc: u32,
    /// The driver's version, as `cuDriverGetVersion` has it.
    pub driver_version: i32,
}
