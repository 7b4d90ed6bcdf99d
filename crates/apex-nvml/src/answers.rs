//! The functions of NVML that are answered.

#![allow(non_snake_case, reason = "exported functions bear NVML's own names")]

use crate::border::{
    Answer, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, SUCCESS, UNKNOWN, VERSION_MISMATCH, get,
    meaning, put, put_list, put_text, text,
};
use crate::devices::{self, device, handle};
use crate::workers;
use apex_cuda::soft::DeviceFacts;
use core::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// A device as NVML hands it out.
pub(crate) type Device = *mut c_void;

/// The version that is told where a driver's is asked for: that of no driver of NVIDIA.
const DRIVER: &str = "580.00";
const NVML: &str = "13.580.00";

/// Where a number is not known.
const NOT_AVAILABLE: u64 = u64::MAX;

#[repr(C)]
pub(crate) struct Pci {
    legacy_id: [u8; 16],
    domain: u32,
    bus: u32,
    device: u32,
    device_id: u32,
    subsystem_id: u32,
    id: [u8; 32],
}

/// As it was before the longer name of the place was added.
#[repr(C)]
pub(crate) struct OldPci {
    id: [u8; 16],
    domain: u32,
    bus: u32,
    device: u32,
    device_id: u32,
    subsystem_id: u32,
    reserved: [u32; 4],
}

#[repr(C)]
pub(crate) struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

#[repr(C)]
pub(crate) struct VersionedMemory {
    version: u32,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

#[repr(C)]
pub(crate) struct Utilisation {
    gpu: u32,
    memory: u32,
}

#[repr(C)]
pub(crate) struct OldProcess {
    process: u32,
    used_bytes: u64,
}

#[repr(C)]
pub(crate) struct Process {
    process: u32,
    used_bytes: u64,
    gpu_instance: u32,
    compute_instance: u32,
}

macro_rules! answers {
    ($($(#[$attribute:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            $(#[$attribute])*
            pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                #[allow(unused_unsafe, reason = "some bodies only look at numbers")]
                // SAFETY: the caller keeps the C contract of this function.
                let body = move || -> Answer { unsafe { $body } };
                match catch_unwind(AssertUnwindSafe(body)) {
                    Ok(Ok(())) => SUCCESS,
                    Ok(Err(result)) => result,
                    Err(_) => UNKNOWN,
                }
            }
        )*

        /// The names of these functions.
        #[cfg(test)]
        pub(crate) const ANSWERED: &[&str] = &["nvmlErrorString", $(stringify!($name)),*];
    };
}

/// What a result means.
pub(crate) extern "C" fn nvmlErrorString(result: c_int) -> *const c_char {
    meaning(result).as_ptr()
}

answers! {
    fn nvmlInit() { devices::begin() }
    fn nvmlInit_v2() { devices::begin() }
    fn nvmlInitWithFlags(_flags: u32) { devices::begin() }
    fn nvmlShutdown() { devices::end() }

    fn nvmlSystemGetDriverVersion(version: *mut c_char, room: u32) { put_text(version, room, DRIVER) }
    fn nvmlSystemGetNVMLVersion(version: *mut c_char, room: u32) { put_text(version, room, NVML) }
    fn nvmlSystemGetCudaDriverVersion(version: *mut c_int) { put(version, driver_version()?) }
    fn nvmlSystemGetCudaDriverVersion_v2(version: *mut c_int) { put(version, driver_version()?) }
    fn nvmlSystemGetProcessName(process: u32, name: *mut c_char, room: u32) {
        let link = std::fs::read_link(format!("/proc/{process}/exe")).map_err(|_| NOT_FOUND)?;
        put_text(name, room, &link.to_string_lossy())
    }

    fn nvmlDeviceGetCount(count: *mut u32) { put(count, devices::count()?) }
    fn nvmlDeviceGetCount_v2(count: *mut u32) { put(count, devices::count()?) }
    fn nvmlDeviceGetHandleByIndex(index: u32, out: *mut Device) { put_by_index(index, out) }
    fn nvmlDeviceGetHandleByIndex_v2(index: u32, out: *mut Device) { put_by_index(index, out) }
    fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, out: *mut Device) {
        let asked = text(uuid)?;
        put_found(out, |facts| uuid_of(facts).eq_ignore_ascii_case(&asked))
    }
    fn nvmlDeviceGetHandleByPciBusId(id: *const c_char, out: *mut Device) { put_by_place(id, out) }
    fn nvmlDeviceGetHandleByPciBusId_v2(id: *const c_char, out: *mut Device) { put_by_place(id, out) }

    fn nvmlDeviceGetIndex(of: Device, index: *mut u32) { put(index, device(of)?.0) }
    fn nvmlDeviceGetMinorNumber(of: Device, number: *mut u32) { put(number, device(of)?.0) }
    fn nvmlDeviceGetName(of: Device, name: *mut c_char, room: u32) {
        let facts = device(of)?.1;
        let known = CStr::from_bytes_until_nul(&facts.name).map_err(|_| UNKNOWN)?;
        put_text(name, room, &known.to_string_lossy())
    }
    fn nvmlDeviceGetUUID(of: Device, uuid: *mut c_char, room: u32) {
        put_text(uuid, room, &uuid_of(&device(of)?.1))
    }
    fn nvmlDeviceGetPciInfo(of: Device, pci: *mut OldPci) { put(pci, old_pci(&device(of)?.1)) }
    fn nvmlDeviceGetPciInfo_v2(of: Device, pci: *mut OldPci) { put(pci, old_pci(&device(of)?.1)) }
    fn nvmlDeviceGetPciInfo_v3(of: Device, pci: *mut Pci) { put(pci, pci_of(&device(of)?.1)) }

    fn nvmlDeviceGetCudaComputeCapability(of: Device, major: *mut c_int, minor: *mut c_int) {
        let [first, second] = device(of)?.1.capability;
        put(major, first.cast_signed())?;
        put(minor, second.cast_signed())
    }
    fn nvmlDeviceGetArchitecture(of: Device, architecture: *mut u32) {
        // The numbers that NVML has for Turing, Ampere, Ada, Hopper and Blackwell.
        put(architecture, match device(of)?.1.capability {
            [7, 5] => 6,
            [8, 9] => 8,
            [8, _] => 7,
            [9, _] => 9,
            [10..=12, _] => 10,
            _ => return Err(NOT_SUPPORTED),
        })
    }
    fn nvmlDeviceGetBrand(of: Device, brand: *mut u32) { put_zero(of, brand) }
    fn nvmlDeviceGetComputeMode(of: Device, mode: *mut u32) { put_zero(of, mode) }
    fn nvmlDeviceGetPersistenceMode(of: Device, mode: *mut u32) { put_zero(of, mode) }
    fn nvmlDeviceGetDisplayMode(of: Device, mode: *mut u32) { put_zero(of, mode) }
    fn nvmlDeviceGetDisplayActive(of: Device, mode: *mut u32) { put_zero(of, mode) }
    fn nvmlDeviceGetMultiGpuBoard(of: Device, is: *mut u32) { put_zero(of, is) }
    fn nvmlDeviceGetEccMode(of: Device, now: *mut u32, later: *mut u32) {
        let is_ecc = device(of)?.1.is_ecc;
        put(now, is_ecc)?;
        put(later, is_ecc)
    }
    fn nvmlDeviceGetClockInfo(of: Device, kind: u32, mhz: *mut u32) { put_clock(of, kind, mhz) }
    fn nvmlDeviceGetMaxClockInfo(of: Device, kind: u32, mhz: *mut u32) { put_clock(of, kind, mhz) }
    fn nvmlDeviceGetMemoryBusWidth(of: Device, bits: *mut u32) { put(bits, device(of)?.1.bus_bits) }

    fn nvmlDeviceGetMemoryInfo(of: Device, memory: *mut Memory) {
        let DeviceFacts { memory_bytes: total, used_bytes: used, .. } = device(of)?.1;
        put(memory, Memory { total, free: total.saturating_sub(used), used })
    }
    fn nvmlDeviceGetMemoryInfo_v2(of: Device, memory: *mut VersionedMemory) {
        // A structure tells its size and version itself.
        let version = size_of::<VersionedMemory>() as u32 | 2 << 24;
        let DeviceFacts { memory_bytes: total, used_bytes: used, .. } = device(of)?.1;
        if get(memory.cast::<u32>())? != version {
            return Err(VERSION_MISMATCH);
        }
        let free = total.saturating_sub(used);
        put(memory, VersionedMemory { version, total, reserved: 0, free, used })
    }
    fn nvmlDeviceGetUtilizationRates(of: Device, rates: *mut Utilisation) {
        // How busy the memory is nobody knows.
        let gpu = workers::busy_percent(device(of)?.1.workers);
        put(rates, Utilisation { gpu, memory: 0 })
    }

    fn nvmlDeviceGetComputeRunningProcesses(of: Device, count: *mut u32, list: *mut OldProcess) {
        let old = |one: Process| OldProcess { process: one.process, used_bytes: one.used_bytes };
        put_list(list, count, &processes(of)?.into_iter().map(old).collect::<Vec<_>>())
    }
    fn nvmlDeviceGetComputeRunningProcesses_v2(of: Device, count: *mut u32, list: *mut Process) {
        put_list(list, count, &processes(of)?)
    }
    fn nvmlDeviceGetComputeRunningProcesses_v3(of: Device, count: *mut u32, list: *mut Process) {
        put_list(list, count, &processes(of)?)
    }
    fn nvmlDeviceGetGraphicsRunningProcesses(of: Device, count: *mut u32, _list: *mut Process) { put_none(of, count) }
    fn nvmlDeviceGetGraphicsRunningProcesses_v2(of: Device, count: *mut u32, _list: *mut Process) { put_none(of, count) }
    fn nvmlDeviceGetGraphicsRunningProcesses_v3(of: Device, count: *mut u32, _list: *mut Process) { put_none(of, count) }
    fn nvmlDeviceGetMPSComputeRunningProcesses(of: Device, count: *mut u32, _list: *mut Process) { put_none(of, count) }
    fn nvmlDeviceGetMPSComputeRunningProcesses_v2(of: Device, count: *mut u32, _list: *mut Process) { put_none(of, count) }
    fn nvmlDeviceGetMPSComputeRunningProcesses_v3(of: Device, count: *mut u32, _list: *mut Process) { put_none(of, count) }
}

fn driver_version() -> Result<c_int, c_int> {
    devices::count()?;
    device(handle(0)).map(|(_, facts)| facts.driver_version).map_err(|_| NOT_SUPPORTED)
}

fn uuid_of(facts: &DeviceFacts) -> String {
    let hex: String = facts.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn place_of(facts: &DeviceFacts) -> String {
    let [domain, bus, device] = facts.place;
    format!("{domain:08X}:{bus:02X}:{device:02X}.0")
}

fn bytes<const ROOM: usize>(text: &str) -> [u8; ROOM] {
    let mut bytes = [0; ROOM];
    for (place, byte) in bytes.iter_mut().zip(text.bytes().take(ROOM - 1)) {
        *place = byte;
    }
    bytes
}

fn pci_of(facts: &DeviceFacts) -> Pci {
    let [domain, bus, device] = facts.place;
    let id = place_of(facts);
    // The short form has four digits of the domain.
    Pci {
        legacy_id: bytes(&id[4..]),
        domain,
        bus,
        device,
        device_id: 0,
        subsystem_id: 0,
        id: bytes(&id),
    }
}

fn old_pci(facts: &DeviceFacts) -> OldPci {
    let Pci { legacy_id: id, domain, bus, device, device_id, subsystem_id, .. } = pci_of(facts);
    OldPci { id, domain, bus, device, device_id, subsystem_id, reserved: [0; 4] }
}

/// Those of this process are known exactly, of others that they are there.
fn processes(of: Device) -> Result<Vec<Process>, c_int> {
    let facts = device(of)?.1;
    let own = std::process::id();
    let users = workers::users(Path::new("/proc")).into_iter();
    Ok(users
        .map(|user| Process {
            process: user.process,
            used_bytes: if user.process == own { facts.used_bytes } else { NOT_AVAILABLE },
            gpu_instance: u32::MAX,
            compute_instance: u32::MAX,
        })
        .collect())
}

/// # Safety
///
/// `out` is null or can be written.
unsafe fn put_by_index(index: u32, out: *mut Device) -> Answer {
    if index >= devices::count()? {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: the caller vouches for the place.
    unsafe { put(out, handle(index)) }
}

/// # Safety
///
/// `out` is null or can be written.
unsafe fn put_found(out: *mut Device, is: impl Fn(&DeviceFacts) -> bool) -> Answer {
    let number = devices::find(is)?.ok_or(NOT_FOUND)?;
    // SAFETY: the caller vouches for the place.
    unsafe { put(out, handle(number)) }
}

/// # Safety
///
/// `id` is null or a C string; `out` is null or can be written.
unsafe fn put_by_place(id: *const c_char, out: *mut Device) -> Answer {
    // SAFETY: the caller vouches for both.
    unsafe {
        let asked = text(id)?.to_uppercase();
        // Asked with four or eight digits of the domain, or with none.
        put_found(out, |facts| {
            let place = place_of(facts);
            [0, 4, 9].iter().any(|&from| place[from..] == asked)
        })
    }
}

/// # Safety
///
/// `place` is null or can be written.
unsafe fn put_zero(of: Device, place: *mut u32) -> Answer {
    device(of)?;
    // SAFETY: the caller vouches for the place.
    unsafe { put(place, 0) }
}

/// # Safety
///
/// `count` is null or can be written.
unsafe fn put_none(of: Device, count: *mut u32) -> Answer {
    // SAFETY: the caller vouches for the place.
    unsafe { put_zero(of, count) }
}

/// # Safety
///
/// `mhz` is null or can be written.
unsafe fn put_clock(of: Device, kind: u32, mhz: *mut u32) -> Answer {
    const MEMORY: u32 = 2;
    let facts = device(of)?.1;
    let khz = match kind {
        0 | 1 => facts.clock_khz,
        MEMORY => facts.memory_clock_khz,
        _ => return Err(NOT_SUPPORTED),
    };
    // SAFETY: the caller vouches for the place.
    unsafe { put(mhz, khz / 1000) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_told_before_the_beginning() {
        let mut count = 7;
        // SAFETY: a place for the count.
        let result = unsafe { nvmlDeviceGetCount_v2(&raw mut count) };
        assert_eq!((result, count), (crate::border::UNINITIALIZED, 7));
        assert_eq!(devices::end(), Err(crate::border::UNINITIALIZED));
    }

    #[test]
    fn structures_have_the_sizes_that_programs_were_compiled_with() {
        assert_eq!((size_of::<Pci>(), size_of::<OldPci>()), (68, 52));
        assert_eq!(size_of::<VersionedMemory>() as u32 | 2 << 24, 0x0200_0028);
        assert_eq!((size_of::<OldProcess>(), size_of::<Process>()), (16, 24));
    }
}
