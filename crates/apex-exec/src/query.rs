//! What a driver says of its devices, before one is made ready.

use crate::calls::call;
use crate::error::Result;
use apex_cuda::Driver;
use apex_cuda::types::*;
use core::ffi::CStr;
use cudarc::driver::sys;

/// How many devices a driver has.
pub(crate) fn count_devices(driver: &Driver) -> Result<u32> {
    let mut count = 0;
    // SAFETY: plain calls with an out-pointer to a local.
    unsafe {
        call!(driver, cuInit(0))?;
        call!(driver, cuDeviceGetCount(&raw mut count))?;
    }
    Ok(count.cast_unsigned())
}

/// Whether a driver is the software GPU under the driver's name.
pub(crate) fn first_is_software(driver: &Driver) -> bool {
    count_devices(driver).is_ok_and(|count| count > 0)
        && DeviceQuery::new(driver, 0)
            .name()
            .is_ok_and(|name| name.starts_with("apex software GPU"))
}

/// Asks one device about itself.
pub(crate) struct DeviceQuery<'a> {
    driver: &'a Driver,
    device: CUdevice,
}

impl DeviceQuery<'_> {
    /// Of the device with this handle.
    pub(crate) fn new(driver: &Driver, device: CUdevice) -> DeviceQuery<'_> {
        DeviceQuery { driver, device }
    }

    pub(crate) fn get(&self, attribute: sys::CUdevice_attribute) -> Result<u32> {
        let mut value = 0;
        // SAFETY: an out-pointer to a local.
        unsafe {
            call!(
                self.driver,
                cuDeviceGetAttribute(&raw mut value, attribute as u32, self.device)
            )?;
        }
        Ok(value.cast_unsigned())
    }

    pub(crate) fn name(&self) -> Result<String> {
        let mut name = [0_u8; 256];
        // SAFETY: the driver writes at most as many bytes as it is told, with a NUL.
        unsafe {
            call!(self.driver, cuDeviceGetName(name.as_mut_ptr().cast(), 256, self.device))?;
        }
        let text = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }

    pub(crate) fn memory_bytes(&self) -> Result<u64> {
        let mut bytes = 0;
        // SAFETY: an out-pointer to a local.
        unsafe { call!(self.driver, cuDeviceTotalMem_v2(&raw mut bytes, self.device))? };
        Ok(bytes as u64)
    }

    pub(crate) fn driver_version(&self) -> Result<u32> {
        let mut version = 0;
        // SAFETY: an out-pointer to a local.
        unsafe { call!(self.driver, cuDriverGetVersion(&raw mut version))? };
        Ok(version.cast_unsigned())
    }
}
