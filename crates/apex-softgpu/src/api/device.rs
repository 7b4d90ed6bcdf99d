//! The driver's functions for devices, and for the driver's own beginning and end.

use core::ffi::CStr;
use core::sync::atomic::Ordering;
use std::sync::Once;

use apex_cuda::types::*;

use crate::border::{Answer, put, put_text, text};
use crate::machine::device::{
    DRIVER_VERSION, FORKED, INITIALIZED, MACHINE, Machine, device, device_count, forget_driver,
    initialized,
};

const LINEAR_TEXTURE_BYTES: usize = 1 << 32;

/// Runs when the program ends by returning or calling `exit`.
extern "C" fn end() {
    if INITIALIZED.load(Ordering::Acquire) {
        crate::run::scheduler::stop();
        crate::print::flush();
    }
}

fn watch_process() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: both functions stay where they are: the library is never unloaded.
        unsafe {
            libc::pthread_atfork(None, None, Some(forget_driver));
            libc::atexit(end);
        }
    });
}

/// The number of the bus that a device says it sits on.
pub(crate) fn bus(ordinal: i32) -> u32 {
    ordinal.cast_unsigned() + 1
}

fn bus_id(ordinal: i32) -> String {
    format!("0000:{:02X}:00.0", bus(ordinal))
}

/// The uuid is the same in every process, so that runs can be compared.
pub(crate) fn uuid(ordinal: i32) -> CUuuid {
    let mut bytes = *b"apex-softgpu\0\0\0\0";
    bytes[15] = ordinal as u8;
    CUuuid { bytes: bytes.map(|byte| byte as c_char) }
}

answers! {
    fn cuInit(flags: u32) {
        if flags != 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        if FORKED.load(Ordering::Acquire) {
            return Err(CUDA_ERROR_NOT_INITIALIZED);
        }
        let machine = MACHINE.get_or_init(Machine::from_settings);
        let machine = machine.as_ref().ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
        if machine.devices.is_empty() {
            return Err(CUDA_ERROR_NO_DEVICE);
        }
        watch_process();
        INITIALIZED.store(true, Ordering::Release);
        Ok(())
    }

    fn cuDriverGetVersion(driver_version: *mut i32) {
        put(driver_version, DRIVER_VERSION)
    }

    fn cuDeviceGetCount(count: *mut i32) {
        initialized()?;
        put(count, device_count())
    }

    fn cuDeviceGet(out: *mut CUdevice, ordinal: i32) {
        put(out, device(ordinal)?.ordinal)
    }

    fn cuDeviceGetName(name: *mut c_char, len: i32, dev: CUdevice) {
        put_text(name, len, device(dev)?.identity.name)
    }

    fn cuDeviceGetUuid(out: *mut CUuuid, dev: CUdevice) {
        put(out, uuid(device(dev)?.ordinal))
    }

    fn cuDeviceGetUuid_v2(out: *mut CUuuid, dev: CUdevice) {
        put(out, uuid(device(dev)?.ordinal))
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, dev: CUdevice) {
        put(bytes, device(dev)?.memory_bytes as usize)
    }

    fn cuDeviceComputeCapability(major: *mut i32, minor: *mut i32, dev: CUdevice) {
        let capability = device(dev)?.identity.capability;
        put(major, capability.0 as i32)?;
        put(minor, capability.1 as i32)
    }

    fn cuDeviceGetAttribute(value: *mut i32, attribute: CUdevice_attribute, dev: CUdevice) {
        let device = device(dev)?;
        let known = device.identity.attribute(attribute, device.ordinal);
        put(value, known.ok_or(CUDA_ERROR_INVALID_VALUE)?)
    }

    fn cuDeviceGetProperties(out: *mut CUdevprop, dev: CUdevice) {
        let device = device(dev)?;
        put(out, CUdevprop {
            maxThreadsPerBlock: device.chip.max_threads_per_block as i32,
            maxThreadsDim: [1024, 1024, 64],
            maxGridSize: [i32::MAX, 65_535, 65_535],
            sharedMemPerBlock: device.chip.max_shared_per_block as i32,
            totalConstantMemory: 65_536,
            SIMDWidth: device.chip.warp_threads as i32,
            memPitch: i32::MAX,
            regsPerBlock: 65_536,
            clockRate: device.identity.clock_khz as i32,
            textureAlign: 512,
        })
    }

    fn cuDeviceGetPCIBusId(buffer: *mut c_char, len: i32, dev: CUdevice) {
        put_text(buffer, len, &bus_id(device(dev)?.ordinal))
    }

    fn cuDeviceGetByPCIBusId(out: *mut CUdevice, pci_bus_id: *const c_char) {
        initialized()?;
        let asked = text(pci_bus_id)?.to_string_lossy().to_uppercase();
        let found = (0..device_count()).find(|&ordinal| bus_id(ordinal).ends_with(&asked));
        put(out, found.ok_or(CUDA_ERROR_INVALID_DEVICE)?)
    }

    fn cuDeviceGetExecAffinitySupport(out: *mut i32, _kind: CUexecAffinityType, dev: CUdevice) {
        device(dev)?;
        put(out, 0)
    }

    fn cuDeviceCanAccessPeer(can_access: *mut i32, dev: CUdevice, peer: CUdevice) {
        let (device, peer) = (device(dev)?, device(peer)?);
        put(can_access, i32::from(device.ordinal != peer.ordinal))
    }

    fn cuDeviceGetP2PAttribute(
        value: *mut i32,
        attribute: CUdevice_P2PAttribute,
        source: CUdevice,
        destination: CUdevice,
    ) {
        let (source, destination) = (device(source)?, device(destination)?);
        if source.ordinal == destination.ordinal {
            return Err(CUDA_ERROR_INVALID_DEVICE);
        }
        match attribute {
            1 => put(value, 0),
            2..=4 => put(value, 1),
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn cuDeviceGetTexture1DLinearMaxWidth(
        out: *mut usize,
        format: CUarray_format,
        channels: u32,
        dev: CUdevice,
    ) {
        device(dev)?;
        let element = crate::memory::array::format_of(format).ok_or(CUDA_ERROR_INVALID_VALUE)?.bytes();
        if !matches!(channels, 1 | 2 | 4) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        put(out, LINEAR_TEXTURE_BYTES / (element * channels as usize))
    }

    fn cuGetErrorName(error: CUresult, out: *mut *const c_char) {
        put_known(result_name(error), out)
    }

    fn cuGetErrorString(error: CUresult, out: *mut *const c_char) {
        put_known(result_text(error), out)
    }
}

/// # Safety
///
/// `out` is null or can be written.
unsafe fn put_known(text: Option<&'static CStr>, out: *mut *const c_char) -> Answer {
    // SAFETY: the caller vouches for `out`.
    unsafe { put(out, text.map_or(core::ptr::null(), CStr::as_ptr)) }?;
    text.map(|_| ()).ok_or(CUDA_ERROR_INVALID_VALUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_says_what_it_is() {
        crate::api::context::tests::with_context(|| {
            let mut name = [0; 100];
            let mut attribute = 0;
            // SAFETY: the buffers are as long as said.
            unsafe {
                assert_eq!(cuDeviceGetName(name.as_mut_ptr(), 100, 0), CUDA_SUCCESS);
                assert_eq!(
                    text(name.as_ptr()).unwrap().to_str().unwrap(),
                    "apex software GPU (H200)"
                );
                assert_eq!(cuDeviceGetAttribute(&raw mut attribute, 16, 0), CUDA_SUCCESS);
                assert_eq!(attribute, 132);
                assert_eq!(
                    cuDeviceGetAttribute(&raw mut attribute, 9999, 0),
                    CUDA_ERROR_INVALID_VALUE
                );
                assert_eq!(
                    cuDeviceGetAttribute(&raw mut attribute, 16, 77),
                    CUDA_ERROR_INVALID_DEVICE
                );
                let mut out = core::ptr::null();
                assert_eq!(cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &raw mut out), CUDA_SUCCESS);
                assert_eq!(text(out).unwrap(), c"CUDA_ERROR_INVALID_VALUE");
                assert_eq!(cuGetErrorString(CUDA_ERROR_INVALID_VALUE, &raw mut out), CUDA_SUCCESS);
                assert_eq!(text(out).unwrap(), c"invalid argument");
                assert_eq!(cuGetErrorName(12_345, &raw mut out), CUDA_ERROR_INVALID_VALUE);
            }
        });
    }
}
