//! Memory: one map of every range that the driver knows.
//!
//! Device memory is host memory, so a device address can be copied with a plain
//! copy. The map says which addresses are device memory, which are pinned or
//! managed, how long they are and whose; copies and pointer questions ask it. The
//! addresses come from the machine's arena, and every byte given out is counted, so
//! that what cannot be had is refused at once.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use apex_cuda::types::*;

use crate::border::{Answer, put, put_if_wanted};
use crate::context::current;
use crate::device::{Device, device, machine};
use crate::object::lock;

/// What a range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Device memory.
    Device,
    /// Device memory mapped by hand; the range was reserved before.
    Mapped,
    /// Memory that moves between host and device.
    Managed,
    /// Pinned host memory of the driver.
    Host,
    /// Device memory of another process.
    Imported,
    /// The program's own host memory, made known to the driver.
    Registered,
}

/// One range that the driver knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) length: u64,
    pub(crate) place: Place,
    pub(crate) context: CUcontext,
    pub(crate) device: i32,
    pub(crate) pool: CUmemoryPool,
    /// The physical memory mapped here, for [`Place::Mapped`].
    pub(crate) physical: u64,
    pub(crate) flags: u32,
    /// Tells this range from all others of the process's life.
    pub(crate) id: u64,
    /// Whether it may be touched yet.
    pub(crate) accessible: bool,
}

impl Range {
    /// Whether the program may look at the memory itself.
    pub(crate) fn is_seen_by_host(&self) -> bool {
        !matches!(self.place, Place::Device | Place::Mapped)
    }
}

// SAFETY: the handles inside are addresses that any thread may use.
unsafe impl Send for Range {}
// SAFETY: as above.
unsafe impl Sync for Range {}

static RANGES: RwLock<BTreeMap<u64, Range>> = RwLock::new(BTreeMap::new());

const PITCH_ALIGNMENT: usize = 512;

pub(crate) fn ranges() -> RwLockReadGuard<'static, BTreeMap<u64, Range>> {
    RANGES.read().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn ranges_to_change() -> RwLockWriteGuard<'static, BTreeMap<u64, Range>> {
    RANGES.write().unwrap_or_else(PoisonError::into_inner)
}

/// The range around an address, with its start.
pub(crate) fn range_of(address: u64) -> Option<(u64, Range)> {
    let ranges = ranges();
    let (&start, &range) = ranges.range(..=address).next_back()?;
    (address - start < range.length).then_some((start, range))
}

/// Whether all the bytes lie in known ranges that may be touched. Ranges that meet
/// count as one: mapped memory grows piece by piece.
pub(crate) fn is_known(address: u64, length: u64) -> bool {
    let Some(end) = address.checked_add(length) else { return false };
    let mut at = address;
    loop {
        match range_of(at) {
            Some((start, range)) if range.accessible => at = start + range.length,
            _ => return length == 0,
        }
        if at >= end {
            return true;
        }
    }
}

/// Memory that is being copied or filled, and therefore not given back meanwhile.
static HELD: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());
static LET_GO: Condvar = Condvar::new();

/// Keeps known memory from being given back while it is used. A program that frees
/// memory in one thread while another still copies it is wrong, but not worth a crash.
pub(crate) struct Hold {
    address: u64,
    length: u64,
}

impl Hold {
    /// Holds the bytes, if they are known.
    pub(crate) fn on(address: u64, length: u64) -> Option<Hold> {
        // Held before it is looked up: whoever gives it back looks in the other order.
        lock(&HELD).push((address, length));
        let hold = Hold { address, length };
        is_known(address, length).then_some(hold)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = lock(&HELD);
        let own = (self.address, self.length);
        if let Some(at) = held.iter().position(|other| *other == own) {
            held.swap_remove(at);
        }
        LET_GO.notify_all();
    }
}

/// Waits until nobody holds a part of a range that is known no more.
pub(crate) fn wait_for_holders(start: u64, length: u64) {
    let overlaps = |&(address, bytes): &(u64, u64)| {
        address < start.saturating_add(length) && start < address.saturating_add(bytes)
    };
    let mut held = lock(&HELD);
    while held.iter().any(overlaps) {
        held = LET_GO.wait(held).unwrap_or_else(PoisonError::into_inner);
    }
}

pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Takes memory and makes it known.
pub(crate) fn allocate(
    device: &Device,
    context: CUcontext,
    bytes: usize,
    place: Place,
    flags: u32,
    pool: CUmemoryPool,
) -> Result<u64, CUresult> {
    if bytes == 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let length = bytes as u64;
    let machine = machine()?;
    let counted =
        if place == Place::Host { machine.take_bytes(length) } else { device.take_bytes(length) };
    counted?;
    let Some(address) = machine.arena.take(length) else {
        uncount(device, place, length);
        return Err(CUDA_ERROR_OUT_OF_MEMORY);
    };
    ranges_to_change().insert(
        address,
        Range {
            length,
            place,
            context,
            device: device.ordinal,
            pool,
            physical: 0,
            flags,
            id: next_id(),
            accessible: true,
        },
    );
    Ok(address)
}

/// Gives memory back, if the address is the start of such a range.
pub(crate) fn free(address: u64, wanted: impl Fn(&Range) -> bool) -> Answer {
    let mut ranges = ranges_to_change();
    let range =
        *ranges.get(&address).filter(|range| wanted(range)).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    ranges.remove(&address);
    drop(ranges);
    give_back(address, &range);
    Ok(())
}

/// Frees what a context that ends still holds.
pub(crate) fn release_all(context: CUcontext) {
    let mut ranges = ranges_to_change();
    let owned = |range: &Range| {
        range.context == context && !matches!(range.place, Place::Mapped | Place::Registered)
    };
    let gone: Vec<_> = ranges.extract_if(.., |_, range| owned(range)).collect();
    drop(ranges);
    for (address, range) in gone {
        give_back(address, &range);
    }
}

fn give_back(address: u64, range: &Range) {
    wait_for_holders(address, range.length);
    if range.place == Place::Imported {
        return crate::ipc::unmap(address, range);
    }
    crate::pool::note_free(range);
    crate::ipc::forget(address);
    if let (Ok(device), Ok(machine)) = (device(range.device), machine()) {
        uncount(device, range.place, range.length);
        machine.arena.give_back(address);
    }
}

fn uncount(device: &Device, place: Place, length: u64) {
    match (place, machine()) {
        (Place::Host, Ok(machine)) => machine.give_back_bytes(length),
        _ => device.give_back_bytes(length),
    }
}

/// Whether the program may free it: device memory that it took itself. The variables of a module and what kernels took
/// from their heap belong to no context.
pub(crate) fn is_the_programs(range: &Range) -> bool {
    matches!(range.place, Place::Device | Place::Managed) && !range.context.is_null()
}

answers! {
    fn cuMemAlloc_v2(out: *mut CUdeviceptr, bytes: usize) {
        let context = current()?;
        context.captures.refuse_unsafe()?;
        put(out, 0)?;
        let address = allocate(context.device, context.handle(), bytes, Place::Device, 0, null_mut())?;
        put(out, address)
    }

    fn cuMemAllocPitch_v2(
        out: *mut CUdeviceptr,
        pitch_out: *mut usize,
        width_bytes: usize,
        height: usize,
        element_bytes: u32,
    ) {
        let context = current()?;
        context.captures.refuse_unsafe()?;
        if width_bytes == 0 || height == 0 || !matches!(element_bytes, 4 | 8 | 16) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let pitch = width_bytes.checked_next_multiple_of(PITCH_ALIGNMENT);
        let pitch = pitch.ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
        let bytes = pitch.checked_mul(height).ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
        let address = allocate(context.device, context.handle(), bytes, Place::Device, 0, null_mut())?;
        put(pitch_out, pitch)?;
        put(out, address)
    }

    fn cuMemAllocManaged(out: *mut CUdeviceptr, bytes: usize, flags: u32) {
        let context = current()?;
        if !matches!(flags, 1 | 2) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        put(out, allocate(context.device, context.handle(), bytes, Place::Managed, flags, null_mut())?)
    }

    fn cuMemFree_v2(address: CUdeviceptr) {
        let context = current()?;
        context.captures.refuse_unsafe()?;
        if address == 0 {
            return Ok(());
        }
        // Work under way may still use the memory.
        context.domain.drain(context.spins())?;
        if crate::graph_memory::is_of_graph(address) {
            return Ok(());
        }
        free(address, is_the_programs)
    }

    fn cuMemGetInfo_v2(free_bytes: *mut usize, total_bytes: *mut usize) {
        let (device, machine) = (current()?.device, machine()?);
        let of_device = device.memory_bytes.saturating_sub(device.used_bytes.load(Ordering::Relaxed));
        let of_host = machine.host_limit.saturating_sub(machine.host_used.load(Ordering::Relaxed));
        put_if_wanted(free_bytes, of_device.min(of_host) as usize);
        put_if_wanted(total_bytes, device.memory_bytes as usize);
        Ok(())
    }

    fn cuMemAllocHost_v2(out: *mut *mut c_void, bytes: usize) {
        allocate_host(out, bytes, 0)
    }

    fn cuMemHostAlloc(out: *mut *mut c_void, bytes: usize, flags: u32) {
        if flags > 7 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        allocate_host(out, bytes, flags)
    }

    fn cuMemFreeHost(pointer: *mut c_void) {
        let context = current()?;
        if pointer.is_null() {
            return Ok(());
        }
        context.domain.drain(context.spins())?;
        free(pointer.addr() as u64, |range| range.place == Place::Host)
    }

    fn cuMemHostRegister_v2(pointer: *mut c_void, bytes: usize, flags: u32) {
        let context = current()?;
        let start = pointer.expose_provenance() as u64;
        let end = start.checked_add(bytes as u64).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        if pointer.is_null() || bytes == 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let mut ranges = ranges_to_change();
        let before = ranges.range(..end).next_back();
        if before.is_some_and(|(&other, range)| other + range.length > start) {
            return Err(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
        }
        ranges.insert(start, Range {
            length: bytes as u64,
            place: Place::Registered,
            context: context.handle(),
            device: context.device.ordinal,
            pool: null_mut(),
            physical: 0,
            flags,
            id: next_id(),
            accessible: true,
        });
        Ok(())
    }

    fn cuMemHostUnregister(pointer: *mut c_void) {
        let context = current()?;
        context.domain.drain(context.spins())?;
        let mut ranges = ranges_to_change();
        let start = pointer.addr() as u64;
        let registered = ranges.get(&start).is_some_and(|range| range.place == Place::Registered);
        if !registered {
            return Err(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
        }
        ranges.remove(&start);
        Ok(())
    }
}

pub(crate) use self::cuMemHostRegister_v2 as cuMemHostRegister;

/// # Safety
///
/// `out` is null or can be written.
unsafe fn allocate_host(out: *mut *mut c_void, bytes: usize, flags: u32) -> Answer {
    let context = current()?;
    context.captures.refuse_unsafe()?;
    if bytes == 0 {
        // SAFETY: the caller vouches for `out`.
        return unsafe { put(out, null_mut()) };
    }
    let address =
        allocate(context.device, context.handle(), bytes, Place::Host, flags, null_mut())?;
    // SAFETY: the caller vouches for `out`.
    unsafe { put(out, core::ptr::with_exposed_provenance_mut(address as usize)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::tests::with_context;

    #[test]
    fn memory_is_counted_and_bounded() {
        with_context(|| {
            let mut address = 0;
            // SAFETY: plain calls of the driver's own kind.
            unsafe {
                assert_eq!(cuMemAlloc_v2(&raw mut address, 0), CUDA_ERROR_INVALID_VALUE);
                let all = device(0).unwrap().memory_bytes as usize;
                assert_eq!(cuMemAlloc_v2(&raw mut address, all + 1), CUDA_ERROR_OUT_OF_MEMORY);
                assert_eq!(cuMemAlloc_v2(&raw mut address, 1 << 30), CUDA_SUCCESS);
                assert!(is_known(address + 5, 100));
                assert!(!is_known(address, (1 << 30) + 1));
                assert_eq!(cuMemFree_v2(address + 512), CUDA_ERROR_INVALID_VALUE);
                assert_eq!(cuMemFree_v2(address), CUDA_SUCCESS);
                assert_eq!(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
                assert_eq!(cuMemFree_v2(0), CUDA_SUCCESS);
            }
        });
    }

    #[test]
    fn host_memory_is_registered_once() {
        with_context(|| {
            let mut bytes = vec![0_u8; 4096];
            let pointer = bytes.as_mut_ptr().cast();
            // SAFETY: the vector outlives its registration.
            unsafe {
                assert_eq!(cuMemHostRegister_v2(pointer, 4096, 0), CUDA_SUCCESS);
                assert_eq!(
                    cuMemHostRegister_v2(pointer.byte_add(8), 8, 0),
                    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
                );
                assert_eq!(cuMemHostUnregister(pointer), CUDA_SUCCESS);
                assert_eq!(cuMemHostUnregister(pointer), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
            }
        });
    }
}
