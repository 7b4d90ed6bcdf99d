//! Which device, and what it is.
//!
//! Facts are read once, when the executor is made; nothing about a device changes while it runs except its
//! free memory.

use crate::driver;
use crate::error::{Error, Result};
use crate::query::{self, DeviceQuery};
use crate::settings::knobs;
use apex_core::knobs::DeviceChoice;
use apex_cuda::Driver;
use core::fmt;

/// Which device an executor uses.
///
/// ```
/// use apex_exec::{Device, Executor};
///
/// # fn main() -> apex_exec::Result<()> {
/// let executor = Executor::new(Device::Auto)?;
/// println!("{}", executor.facts().name);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Device {
    /// The first GPU, else the software GPU; `APEX_DEVICE` (gpu, soft) decides where it is set.
    #[default]
    Auto,
    /// The GPU of that number, as the driver counts them.
    Gpu(u32),
    /// The software GPU of that number.
    Soft(u32),
}

impl fmt::Display for Device {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Auto => write!(out, "any device"),
            Device::Gpu(number) => write!(out, "GPU {number}"),
            Device::Soft(number) => write!(out, "software GPU {number}"),
        }
    }
}

/// What a device is.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// let facts = executor.facts();
/// assert!(facts.multiprocessors > 0 && facts.compute_capability >= (7, 5));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceFacts {
    /// Its name.
    pub name: String,
    /// Compute capability: 9 and 0 for a Hopper.
    pub compute_capability: (u32, u32),
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of shared memory that one block can have at most.
    pub shared_bytes_per_block: u32,
    /// Bytes of shared memory that a multiprocessor has.
    pub shared_bytes_per_multiprocessor: u32,
    /// Bytes of the second-level cache.
    pub l2_bytes: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Whether it is the software GPU.
    pub is_software: bool,
    /// Threads that one block can have at most.
    pub max_threads_per_block: u32,
    /// Threads of a block along x, y and z at most.
    pub max_threads: [u32; 3],
    /// Blocks of a grid along x, y and z at most.
    pub max_blocks: [u32; 3],
    /// Threads that a multiprocessor holds at most.
    pub threads_per_multiprocessor: u32,
    /// Threads of a warp.
    pub warp_threads: u32,
    /// The driver's version: 13000 for CUDA 13.0.
    pub driver_version: u32,
}

impl DeviceFacts {
    /// The architecture as compilers name it: `sm_90`.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// assert!(executor.facts().architecture().starts_with("sm_"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn architecture(&self) -> String {
        format!("sm_{}{}", self.compute_capability.0, self.compute_capability.1)
    }

    /// Reads them.
    pub(crate) fn read(device: &DeviceQuery<'_>) -> Result<DeviceFacts> {
        use cudarc::driver::sys::CUdevice_attribute::*;
        let name = device.name()?;
        let number = |which| device.get(which);
        Ok(DeviceFacts {
            is_software: name.starts_with("apex software GPU"),
            name,
            compute_capability: (
                number(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                number(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            multiprocessors: number(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            shared_bytes_per_block: number(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            shared_bytes_per_multiprocessor: number(
                CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
            )?,
            l2_bytes: u64::from(number(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
            memory_bytes: device.memory_bytes()?,
            max_threads_per_block: number(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            max_threads: [
                number(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
                number(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
                number(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
            ],
            max_blocks: [
                number(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
                number(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
                number(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
            ],
            threads_per_multiprocessor: number(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
            warp_threads: number(CU_DEVICE_ATTRIBUTE_WARP_SIZE)?,
            driver_version: device.driver_version()?,
        })
    }
}

/// The driver to use for a device, and the device's number there.
pub(crate) fn choose(device: Device) -> Result<(&'static Driver, u32)> {
    match device {
        Device::Gpu(number) => Ok((driver::real()?, number)),
        Device::Soft(number) => Ok((software()?, number)),
        Device::Auto => match knobs().device {
            DeviceChoice::Gpu => Ok((driver::real()?, 0)),
            DeviceChoice::Soft => Ok((software()?, 0)),
            DeviceChoice::Auto => first_found(),
        },
    }
}

/// Under `apex run` with the software GPU the driver's own name leads to it, and what is called there is seen;
/// elsewhere its library is looked for.
fn software() -> Result<&'static Driver> {
    match driver::real() {
        Ok(driver) if query::first_is_software(driver) => Ok(driver),
        _ => driver::software(),
    }
}

fn first_found() -> Result<(&'static Driver, u32)> {
    let real = driver::real().and_then(|driver| {
        query::count_devices(driver).and_then(|count| match count {
            0 => Err(Error::NoDevice {
                asked: "a GPU".into(),
                reason: "the driver says that the machine has none".into(),
            }),
            _ => Ok(driver),
        })
    });
    match real {
        Ok(driver) => Ok((driver, 0)),
        Err(no_gpu) => match driver::software() {
            Ok(driver) => Ok((driver, 0)),
            Err(no_software) => Err(Error::NoDevice {
                asked: "any device".into(),
                reason: format!("{no_gpu}; {no_software}"),
            }),
        },
    }
}
