//! The devices and what they say of themselves.
//!
//! They have the numbers of an H200, so that programs choose what they would choose
//! there, and a name that says what they are. There is one, or as many as
//! `APEX_STANDIN_DEVICES` says when `cuInit` is called.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use apex_cuda::types::*;

use crate::border::{Answer, put, put_text, text};
use crate::context::Primary;
use crate::pool::Pools;

pub(crate) const NAME: &str = "apex stand-in (kernels do not run)";
pub(crate) const TOTAL_BYTES: u64 = 150_109_880_320;
pub(crate) const MULTIPROCESSORS: i32 = 132;
pub(crate) const THREADS_PER_MULTIPROCESSOR: i32 = 2048;
pub(crate) const BLOCKS_PER_MULTIPROCESSOR: i32 = 32;
pub(crate) const THREADS_PER_BLOCK: u32 = 1024;
pub(crate) const REGISTERS_PER_MULTIPROCESSOR: i32 = 65_536;
pub(crate) const SHARED_BYTES_PER_MULTIPROCESSOR: i32 = 228 << 10;
pub(crate) const SHARED_BYTES_PER_BLOCK: i32 = 48 << 10;
pub(crate) const SHARED_BYTES_PER_BLOCK_AT_MOST: i32 = 227 << 10;
pub(crate) const WARP_THREADS: i32 = 32;
pub(crate) const DRIVER_VERSION: i32 = 13_000;
const DEVICES_AT_MOST: usize = 64;

/// One device.
pub(crate) struct Device {
    pub(crate) ordinal: i32,
    /// Bytes of device memory given out.
    pub(crate) used_bytes: AtomicU64,
    pub(crate) primary: Mutex<Primary>,
    pub(crate) pools: Pools,
}

static INITIALIZED: AtomicBool = AtomicBool::new(false);
static DEVICES: OnceLock<Box<[Device]>> = OnceLock::new();

/// Refuses what comes before `cuInit`.
#[inline]
pub(crate) fn initialized() -> Result<(), CUresult> {
    if INITIALIZED.load(Ordering::Acquire) { Ok(()) } else { Err(CUDA_ERROR_NOT_INITIALIZED) }
}

/// The device of that number.
pub(crate) fn device(ordinal: CUdevice) -> Result<&'static Device, CUresult> {
    initialized()?;
    let devices = DEVICES.get().ok_or(CUDA_ERROR_NOT_INITIALIZED)?;
    let index = usize::try_from(ordinal).map_err(|_| CUDA_ERROR_INVALID_DEVICE)?;
    devices.get(index).ok_or(CUDA_ERROR_INVALID_DEVICE)
}

pub(crate) fn device_count() -> i32 {
    DEVICES.get().map_or(0, |devices| devices.len() as i32)
}

fn requested_devices() -> usize {
    let requested = std::env::var("APEX_STANDIN_DEVICES").ok().and_then(|text| text.parse().ok());
    requested.unwrap_or(1).min(DEVICES_AT_MOST)
}

fn bus_id(ordinal: i32) -> String {
    format!("0000:{:02X}:00.0", ordinal + 1)
}

/// The uuid is the same in every process, so that runs can be compared.
fn uuid(ordinal: i32) -> CUuuid {
    let mut bytes = *b"apex-standin\0\0\0\0";
    bytes[15] = ordinal as u8;
    CUuuid { bytes: bytes.map(|byte| byte as c_char) }
}

answers! {
    fn cuInit(flags: u32) {
        if flags != 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let devices = DEVICES.get_or_init(|| {
            (0..requested_devices() as i32)
                .map(|ordinal| Device {
                    ordinal,
                    used_bytes: AtomicU64::new(0),
                    primary: Mutex::default(),
                    pools: Pools::default(),
                })
                .collect()
        });
        if devices.is_empty() {
            return Err(CUDA_ERROR_NO_DEVICE);
        }
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
        device(dev)?;
        put_text(name, len, NAME)
    }

    fn cuDeviceGetUuid(out: *mut CUuuid, dev: CUdevice) {
        put(out, uuid(device(dev)?.ordinal))
    }

    fn cuDeviceGetUuid_v2(out: *mut CUuuid, dev: CUdevice) {
        put(out, uuid(device(dev)?.ordinal))
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, dev: CUdevice) {
        device(dev)?;
        put(bytes, TOTAL_BYTES as usize)
    }

    fn cuDeviceComputeCapability(major: *mut i32, minor: *mut i32, dev: CUdevice) {
        device(dev)?;
        put(major, 9)?;
        put(minor, 0)
    }

    fn cuDeviceGetAttribute(value: *mut i32, attribute: CUdevice_attribute, dev: CUdevice) {
        let device = device(dev)?;
        put(value, attribute_of(device, attribute).ok_or(CUDA_ERROR_INVALID_VALUE)?)
    }

    fn cuDeviceGetProperties(out: *mut CUdevprop, dev: CUdevice) {
        device(dev)?;
        put(out, CUdevprop {
            maxThreadsPerBlock: THREADS_PER_BLOCK as i32,
            maxThreadsDim: [1024, 1024, 64],
            maxGridSize: [i32::MAX, 65_535, 65_535],
            sharedMemPerBlock: SHARED_BYTES_PER_BLOCK,
            totalConstantMemory: 65_536,
            SIMDWidth: WARP_THREADS,
            memPitch: i32::MAX,
            regsPerBlock: 65_536,
            clockRate: 1_980_000,
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

/// The attributes, by number. Those of the hardware are an H200's; a service of the
/// driver that is not answered here is said to be absent.
fn attribute_of(device: &Device, attribute: CUdevice_attribute) -> Option<i32> {
    Some(match attribute {
        1 => THREADS_PER_BLOCK as i32,
        2 | 3 | 111 => 1024,
        4 => 64,
        5 | 11 => i32::MAX,
        6 | 7 => 65_535,
        8 => SHARED_BYTES_PER_BLOCK,
        9 | 12 | 23 | 57 => 65_536,
        10 => WARP_THREADS,
        13 => 1_980_000,
        14 | 30 => 512,
        15
        | 19
        | 31
        | 32
        | 41
        | 44
        | 78..=80
        | 83
        | 89..=91
        | 95
        | 96
        | 99
        | 102
        | 113
        | 115
        | 122
        | 123 => 1,
        16 => MULTIPROCESSORS,
        17
        | 18
        | 20
        | 34
        | 35
        | 50
        | 76
        | 84
        | 86
        | 88
        | 92..=94
        | 98
        | 100
        | 101
        | 103..=105
        | 107
        | 110
        | 112
        | 114
        | 116..=121
        | 124
        | 125
        | 127..=130
        | 132..=147 => 0,
        21 | 22 | 56 | 70 => 131_072,
        24..=26 | 58..=60 => 16_384,
        27 | 28 | 42 | 45 | 46 | 49 | 52 | 53 | 55 | 61 | 63 | 64 | 66 | 67 | 73 | 74 | 77 => {
            32_768
        }
        29 | 43 | 62 | 65 => 2048,
        33 => device.ordinal + 1,
        36 => 3_201_000,
        37 => 6016,
        38 => 62_914_560,
        39 => THREADS_PER_MULTIPROCESSOR,
        40 => 3,
        47 | 48 => 8192,
        51 => 32,
        54 | 68 => 2046,
        69 => 268_435_456,
        71 => 65_000,
        72 => 2_097_120,
        75 => 9,
        81 => SHARED_BYTES_PER_MULTIPROCESSOR,
        82 => REGISTERS_PER_MULTIPROCESSOR,
        85 => device.ordinal,
        87 => 2,
        97 => SHARED_BYTES_PER_BLOCK_AT_MOST,
        106 => BLOCKS_PER_MULTIPROCESSOR,
        108 => 39_321_600,
        109 => 134_217_728,
        126 => 4,
        131 => -1,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_says_what_it_is() {
        crate::context::tests::with_context(|| {
            let mut name = [0; 100];
            let mut attribute = 0;
            // SAFETY: the buffers are as long as said.
            unsafe {
                assert_eq!(cuDeviceGetName(name.as_mut_ptr(), 100, 0), CUDA_SUCCESS);
                assert_eq!(text(name.as_ptr()).unwrap().to_str().unwrap(), NAME);
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
