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

use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use apex_cuda::types::*;
use apex_policy::Chip;

use crate::border::Answer;
use crate::machine::arena::Arena;
use crate::machine::identity::{IDENTITIES, Identity};
use crate::settings::{say, settings};

pub(crate) const DRIVER_VERSION: i32 = 13_000;
const DEVICES_AT_MOST: u64 = 64;

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
    pub(crate) devices: Box<[Device]>,
    pub(crate) arena: Arena,
    /// Bytes that this machine can give to all devices and the host together.
    pub(crate) host_limit: u64,
    pub(crate) host_used: AtomicU64,
}

/// A device's primary context and how often it was retained.
pub(crate) struct Primary {
    pub(crate) context: CUcontext,
    pub(crate) retained: u32,
    pub(crate) flags: u32,
}

// SAFETY: the handle is an address that any thread may use.
unsafe impl Send for Primary {}

impl Default for Primary {
    fn default() -> Primary {
        Primary { context: null_mut(), retained: 0, flags: 0 }
    }
}

/// The pools of a device: the one it has from the start and the one in use.
#[derive(Default)]
pub(crate) struct Pools {
    pub(crate) first: AtomicPtr<c_void>,
    pub(crate) chosen: AtomicPtr<c_void>,
}

pub(crate) static INITIALIZED: AtomicBool = AtomicBool::new(false);

/// Whether this process is a child that has no driver.
pub(crate) static FORKED: AtomicBool = AtomicBool::new(false);

pub(crate) static MACHINE: OnceLock<Option<Machine>> = OnceLock::new();

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

/// What the settings and this machine make of the devices.
pub(crate) struct Plan {
    pub(crate) identity: &'static Identity,
    pub(crate) count: u64,
    /// Bytes of memory of each.
    pub(crate) memory_bytes: u64,
    host_limit: u64,
}

impl Plan {
    pub(crate) fn from_settings() -> Plan {
        let knobs = settings();
        let identity = Identity::named(&knobs.softgpu_device).unwrap_or(&IDENTITIES[0]);
        let host_limit = free_host_bytes();
        let wanted = match knobs.softgpu_memory.0 {
            0 => identity.memory_bytes,
            bytes => bytes.min(identity.memory_bytes),
        };
        let count = knobs.softgpu_devices.min(DEVICES_AT_MOST);
        Plan { identity, count, memory_bytes: wanted.min(host_limit) >> 21 << 21, host_limit }
    }
}

/// A product that is none is said once.
fn complain_of_product() {
    let asked = &settings().softgpu_device;
    if Identity::named(asked).is_none() {
        let known: Vec<&str> = IDENTITIES.iter().map(|identity| identity.key).collect();
        say(&format!(
            "APEX_SOFTGPU_DEVICE={asked} is not one of {}; {} is used",
            known.join(", "),
            IDENTITIES[0].key
        ));
    }
}

impl Machine {
    pub(crate) fn from_settings() -> Option<Machine> {
        complain_of_product();
        let Plan { identity, count, memory_bytes, host_limit } = Plan::from_settings();
        let arena = Arena::reserve()?;
        if arena.room() < count.max(1) * memory_bytes + host_limit {
            say(&format!(
                "this process may have few addresses (ulimit -v): all memory of the software GPU must do with {} MiB",
                arena.room() >> 20
            ));
        }
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
pub(crate) extern "C" fn forget_driver() {
    FORKED.store(true, Ordering::Release);
    INITIALIZED.store(false, Ordering::Release);
}
