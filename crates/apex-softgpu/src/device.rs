//! The devices and what they say of themselves.
//!
//! They have the numbers of a real product, so that programs choose what they would
//! choose there, and a name that says what they are. Which product and how many is
//! settled by the settings when `cuInit` is called. How much memory a device has is
//! what this machine can really give: a program that asks for more is refused, and
//! not ended by the system later.
//!
//! A child made by `fork` after `cuInit` has no driver, as with the real one: the
//! threads that do the work stayed with the parent.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, Once, OnceLock};

use apex_cuda::types::*;
use apex_policy::Chip;

use crate::arena::Arena;
use crate::border::{Answer, put, put_text, text};
use crate::context::Primary;
use crate::identity::{IDENTITIES, Identity};
use crate::pool::Pools;
use crate::settings::{say, settings};

pub(crate) const DRIVER_VERSION: i32 = 13_000;
const DEVICES_AT_MOST: u64 = 64;
const LINEAR_TEXTURE_BYTES: usize = 1 << 32;

/// One device.
pub(crate) struct Device {
    pub(crate) ordinal: i32,
    pub(crate) identity: &'static Identity,
    pub(crate) chip: Chip,
    /// Bytes of memory the device has.
    pub(crate) memory_bytes: u64,
    /// Bytes of device memory given out.
    pub(crate) used_bytes: AtomicU64,
    pub(crate) primary: Mutex<Primary>,
    pub(crate) pools: Pools,
}

/// All devices and the memory they share.
pub(crate) struct Machine {
    devices: Box<[Device]>,
    pub(crate) arena: Arena,
    /// Bytes that this machine can give to all devices and the host together.
    pub(crate) host_limit: u64,
    pub(crate) host_used: AtomicU64,
}

static INITIALIZED: AtomicBool = AtomicBool::new(false);
/// Whether this process is a child that has no driver.
static FORKED: AtomicBool = AtomicBool::new(false);
static MACHINE: OnceLock<Option<Machine>> = OnceLock::new();

/// Refuses what comes before `cuInit`, and everything in a child made by `fork`.
#[inline]
pub(crate) fn initialized() -> Result<(), CUresult> {
    if INITIALIZED.load(Ordering::Acquire) { Ok(()) } else { Err(CUDA_ERROR_NOT_INITIALIZED) }
}

/// All devices and the memory they share.
pub(crate) fn machine() -> Result<&'static Machine, CUresult> {
    initialized()?;
    MACHINE.get().and_then(Option::as_ref).ok_or(CUDA_ERROR_NOT_INITIALIZED)
}

/// The device of that number.
pub(crate) fn device(ordinal: CUdevice) -> Result<&'static Device, CUresult> {
    let devices = &machine()?.devices;
    let index = usize::try_from(ordinal).map_err(|_| CUDA_ERROR_INVALID_DEVICE)?;
    devices.get(index).ok_or(CUDA_ERROR_INVALID_DEVICE)
}

pub(crate) fn device_count() -> i32 {
    machine().map_or(0, |machine| machine.devices.len() as i32)
}

impl Machine {
    fn from_settings() -> Option<Machine> {
        let knobs = settings();
        let identity = Identity::named(&knobs.softgpu_device).unwrap_or_else(|| {
            let known: Vec<&str> = IDENTITIES.iter().map(|identity| identity.key).collect();
            say(&format!(
                "APEX_SOFTGPU_DEVICE={} is not one of {}; {} is used",
                knobs.softgpu_device,
                known.join(", "),
                IDENTITIES[0].key
            ));
            &IDENTITIES[0]
        });
        let count = knobs.softgpu_devices.min(DEVICES_AT_MOST);
        let host_limit = free_host_bytes();
        let wanted = match knobs.softgpu_memory {
            0 => identity.memory_bytes,
            bytes => bytes.min(identity.memory_bytes),
        };
        let memory_bytes = wanted.min(host_limit) >> 21 << 21;
        // Room for guards and for host memory beside the devices'.
        let arena = Arena::reserve((count.max(1) * memory_bytes + host_limit) * 2)?;
        let make = |ordinal| Device {
            ordinal,
            identity,
            chip: identity.chip(),
            memory_bytes,
            used_bytes: AtomicU64::new(0),
            primary: Mutex::default(),
            pools: Pools::default(),
        };
        Some(Machine {
            devices: (0..count as i32).map(make).collect(),
            arena,
            host_limit,
            host_used: AtomicU64::new(0),
        })
    }

    /// Counts bytes against the machine's memory, or refuses.
    pub(crate) fn take_bytes(&self, bytes: u64) -> Answer {
        take_bytes(&self.host_used, self.host_limit, bytes)
    }

    /// Counts bytes as given back.
    pub(crate) fn give_back_bytes(&self, bytes: u64) {
        self.host_used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Device {
    /// Counts bytes against the device's and the machine's memory, or refuses.
    pub(crate) fn take_bytes(&self, bytes: u64) -> Answer {
        take_bytes(&self.used_bytes, self.memory_bytes, bytes)?;
        machine()?.take_bytes(bytes).inspect_err(|_| {
            self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        })
    }

    /// What kernels can see of the device.
    pub(crate) fn engine_identity(&self) -> apex_engine::Identity {
        let (identity, chip) = (self.identity, &self.chip);
        apex_engine::Identity {
            multiprocessors: identity.multiprocessors,
            capability: 10 * identity.capability.0 + identity.capability.1,
            clock_khz: identity.clock_khz,
            shared_per_block: chip.max_shared_per_block_optin,
            threads_per_multiprocessor: chip.max_threads_per_sm,
            blocks_per_multiprocessor: chip.max_blocks_per_sm,
        }
    }

    /// Counts bytes as given back.
    pub(crate) fn give_back_bytes(&self, bytes: u64) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        if let Ok(machine) = machine() {
            machine.give_back_bytes(bytes);
        }
    }
}

fn take_bytes(used: &AtomicU64, limit: u64, bytes: u64) -> Answer {
    let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
    match used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
        Ok(_) => Ok(()),
        Err(_) => Err(CUDA_ERROR_OUT_OF_MEMORY),
    }
}

/// What this process may take of the machine's memory, with a twentieth left to others.
fn free_host_bytes() -> u64 {
    const WITHOUT_ANSWER: u64 = 4 << 30;
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let number = |path: &str| read(path)?.trim().parse::<u64>().ok();
    let available = read("/proc/meminfo").and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
    });
    let mut least = available.unwrap_or(WITHOUT_ANSWER);
    let group = "/sys/fs/cgroup/memory.max";
    if let (Some(limit), Some(used)) = (number(group), number("/sys/fs/cgroup/memory.current")) {
        // What the group keeps of files goes when memory is wanted: it is not counted.
        let files = read("/sys/fs/cgroup/memory.stat").and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("file "))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        });
        let used = used.saturating_sub(files.unwrap_or(0));
        least = least.min(limit.saturating_sub(used));
    }
    least / 20 * 19
}

/// Runs in every child that `fork` makes.
extern "C" fn forget_driver() {
    FORKED.store(true, Ordering::Release);
    INITIALIZED.store(false, Ordering::Release);
}

/// Runs when the program ends by returning or calling `exit`.
extern "C" fn end() {
    if INITIALIZED.load(Ordering::Acquire) {
        crate::schedule::stop();
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

fn bus_id(ordinal: i32) -> String {
    format!("0000:{:02X}:00.0", ordinal + 1)
}

/// The uuid is the same in every process, so that runs can be compared.
fn uuid(ordinal: i32) -> CUuuid {
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
        let element = crate::array::format_of(format).ok_or(CUDA_ERROR_INVALID_VALUE)?.bytes();
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
        crate::context::tests::with_context(|| {
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
