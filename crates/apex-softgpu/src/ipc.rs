//! Memory and events shared between processes.
//!
//! A handle carries the process that made it and the number of a file of that
//! process, which lives in memory; another process opens it as `/proc/PID/fd/N`, so
//! it must run as the same user while the maker lives, as with the driver. Memory
//! becomes such a file when its handle is first asked for: its pages are copied there
//! and mapped again at the same address. An event is two counters in a file.

use core::ptr::{null_mut, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::sync::{Arc, Mutex};

use apex_cuda::types::*;

use crate::border::put;
use crate::context::current;
use crate::device::machine;
use crate::event::Event;
use crate::memory::{Place, Range, free, next_id, range_of, ranges_to_change};
use crate::object::{create, live, lock};

/// What the opaque bytes of a handle hold.
#[repr(C)]
#[derive(Clone, Copy)]
struct Handle {
    magic: u64,
    process: u32,
    file: i32,
    /// Where in the file the memory begins, and how long the file and it are.
    offset: u64,
    file_bytes: u64,
    bytes: u64,
    /// Tells the file from a later one of the same number.
    id: u64,
    reserved: u64,
    unused: u64,
}

const MEMORY_MAGIC: u64 = u64::from_le_bytes(*b"apexmem1");
const EVENT_MAGIC: u64 = u64::from_le_bytes(*b"apexevt1");
const PAGE: u64 = 4096;

const _: () = assert!(size_of::<Handle>() == size_of::<CUipcMemHandle>());
const _: () = assert!(size_of::<Handle>() == size_of::<CUipcEventHandle>());

/// The files that allocations of this process became, by their first page.
static SHARED: Mutex<Option<HashMap<u64, (i32, u64)>>> = Mutex::new(None);

/// The counters of an event that several processes see.
pub(crate) struct SharedEvent {
    file: File,
    /// How often it was recorded, and the last record that was reached.
    counters: *mut [AtomicU64; 2],
    id: u64,
}

// SAFETY: the counters are atomics in a mapping that lives as long as this.
unsafe impl Send for SharedEvent {}
// SAFETY: as above.
unsafe impl Sync for SharedEvent {}

impl SharedEvent {
    /// Counters of a new event.
    pub(crate) fn create() -> Result<Arc<SharedEvent>, CUresult> {
        SharedEvent::over(memory_file(PAGE)?, next_id())
    }

    fn over(file: File, id: u64) -> Result<Arc<SharedEvent>, CUresult> {
        let counters = map(&file, PAGE, 0, null_mut())?.cast();
        Ok(Arc::new(SharedEvent { file, counters, id }))
    }

    fn counters(&self) -> &[AtomicU64; 2] {
        // SAFETY: the mapping is as long as a page and lives as long as this.
        unsafe { &*self.counters }
    }

    /// Counts a record; its number.
    pub(crate) fn record(&self) -> u64 {
        self.counters()[0].fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The number of the last record.
    pub(crate) fn recorded(&self) -> u64 {
        self.counters()[0].load(Ordering::Acquire)
    }

    /// The record of that number was reached.
    pub(crate) fn reach(&self, count: u64) {
        self.counters()[1].fetch_max(count, Ordering::AcqRel);
    }

    /// Whether the record of that number was reached.
    pub(crate) fn has_reached(&self, count: u64) -> bool {
        self.counters()[1].load(Ordering::Acquire) >= count
    }

    /// Whether the last record was reached.
    pub(crate) fn is_reached(&self) -> bool {
        self.has_reached(self.recorded())
    }

    /// Waits until the last record is reached.
    pub(crate) fn wait(&self) {
        let count = self.recorded();
        while !self.has_reached(count) {
            std::thread::sleep(Duration::from_micros(20));
        }
    }
}

impl Drop for SharedEvent {
    fn drop(&mut self) {
        // SAFETY: mapped with this length when the event was made.
        unsafe { libc::munmap(self.counters.cast(), PAGE as usize) };
    }
}

/// A file in memory.
pub(crate) fn memory_file(bytes: u64) -> Result<File, CUresult> {
    // SAFETY: the name ends with a NUL; the answer is checked and owned by nobody else.
    let file = unsafe {
        let file = libc::memfd_create(c"apex-softgpu".as_ptr(), libc::MFD_CLOEXEC);
        if file < 0 {
            return Err(CUDA_ERROR_OPERATING_SYSTEM);
        }
        File::from_raw_fd(file)
    };
    file.set_len(bytes).map_err(|_| CUDA_ERROR_OUT_OF_MEMORY)?;
    Ok(file)
}

/// Maps a file, at `place` if that is not null.
fn map(file: &File, bytes: u64, offset: u64, place: *mut c_void) -> Result<*mut c_void, CUresult> {
    let allowed = libc::PROT_READ | libc::PROT_WRITE;
    let fixed = if place.is_null() { 0 } else { libc::MAP_FIXED };
    let (length, start) = (bytes as usize, offset as libc::off_t);
    // SAFETY: a new mapping, or one over pages that the caller owns; the answer is checked.
    let mapped = unsafe {
        libc::mmap(place, length, allowed, libc::MAP_SHARED | fixed, file.as_raw_fd(), start)
    };
    if mapped == libc::MAP_FAILED { Err(CUDA_ERROR_OUT_OF_MEMORY) } else { Ok(mapped) }
}

/// Turns the pages of an allocation into a file that other processes can open.
fn share(start: u64, bytes: u64) -> Result<(i32, u64), CUresult> {
    let mut shared = lock(&SHARED);
    let shared = shared.get_or_insert_default();
    let id = range_of(start).map_or(0, |(_, range)| range.id);
    if let Some(&(file, known)) = shared.get(&start)
        && known == id
    {
        return Ok((file, id));
    }
    let (first, length) = machine()?.arena.pages(start, bytes);
    let file = memory_file(length)?;
    let aside = map(&file, length, 0, null_mut())?;
    let pages: *mut c_void = with_exposed_provenance_mut(first as usize);
    // SAFETY: both are mapped with this length; the context's work is done, so nobody
    // writes the pages meanwhile.
    unsafe {
        aside.cast::<u8>().copy_from_nonoverlapping(pages.cast(), length as usize);
        libc::munmap(aside, length as usize);
    }
    map(&file, length, 0, pages)?;
    // Open for as long as the process: a handle may be opened at any time.
    let file = file.into_raw_fd();
    shared.insert(start, (file, id));
    Ok((file, id))
}

/// Gives up the mapping of another process's memory.
pub(crate) fn unmap(address: u64, range: &Range) {
    let start = with_exposed_provenance_mut((address - u64::from(range.flags)) as usize);
    // SAFETY: mapped with this length when the handle was opened, and just removed
    // from the map of ranges.
    unsafe { libc::munmap(start, range.physical as usize) };
}

/// The allocation is freed: its file goes.
pub(crate) fn forget(start: u64) {
    if let Some((file, _)) = lock(&SHARED).as_mut().and_then(|shared| shared.remove(&start)) {
        // SAFETY: the file was opened for the allocation alone.
        unsafe { libc::close(file) };
    }
}

fn open(handle: &Handle, magic: u64) -> Result<File, CUresult> {
    if handle.magic != magic {
        return Err(CUDA_ERROR_INVALID_HANDLE);
    }
    let path = format!("/proc/{}/fd/{}", handle.process, handle.file);
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.map_err(|_| CUDA_ERROR_INVALID_HANDLE)?;
    let length = file.metadata().map_err(|_| CUDA_ERROR_INVALID_HANDLE)?.len();
    if length == handle.file_bytes { Ok(file) } else { Err(CUDA_ERROR_INVALID_HANDLE) }
}

/// # Safety
///
/// `C` is one of the two handles of C.
unsafe fn as_c<C>(handle: Handle) -> C {
    const { assert!(size_of::<C>() == size_of::<Handle>()) };
    // SAFETY: both are as many bytes, and any bytes are a handle of C.
    unsafe { core::mem::transmute_copy(&handle) }
}

/// # Safety
///
/// As for [`as_c`].
unsafe fn from_c<C>(handle: &C) -> Handle {
    const { assert!(size_of::<C>() == size_of::<Handle>()) };
    // SAFETY: both are as many bytes, and any bytes are numbers.
    unsafe { core::mem::transmute_copy(handle) }
}

answers! {
    fn cuIpcGetMemHandle(out: *mut CUipcMemHandle, address: CUdeviceptr) {
        let context = current()?;
        let (start, range) = range_of(address).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        if range.place != Place::Device {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        context.domain.drain(context.spins())?;
        let (file, id) = share(start, range.length)?;
        let (first, file_bytes) = machine()?.arena.pages(start, range.length);
        put(out, as_c(Handle {
            magic: MEMORY_MAGIC,
            process: std::process::id(),
            file,
            offset: start - first,
            file_bytes,
            bytes: range.length,
            id,
            reserved: 0,
            unused: 0,
        }))
    }

    fn cuIpcOpenMemHandle_v2(out: *mut CUdeviceptr, handle: CUipcMemHandle, _flags: u32) {
        let context = current()?;
        let handle = from_c(&handle);
        // The maker has the memory already.
        if handle.process == std::process::id() || out.is_null() {
            return Err(if out.is_null() { CUDA_ERROR_INVALID_VALUE } else { CUDA_ERROR_INVALID_CONTEXT });
        }
        let file = open(&handle, MEMORY_MAGIC)?;
        if handle.offset.checked_add(handle.bytes).is_none_or(|end| end > handle.file_bytes) {
            return Err(CUDA_ERROR_INVALID_HANDLE);
        }
        let mapped = map(&file, handle.file_bytes, 0, null_mut())?;
        let address = mapped.expose_provenance() as u64 + handle.offset;
        ranges_to_change().insert(address, Range {
            length: handle.bytes,
            place: Place::Imported,
            context: context.handle(),
            device: context.device.ordinal,
            pool: null_mut(),
            physical: handle.file_bytes,
            flags: handle.offset as u32,
            id: next_id(),
            accessible: true,
        });
        put(out, address)
    }

    fn cuIpcCloseMemHandle(address: CUdeviceptr) {
        let context = current()?;
        context.domain.drain(context.spins())?;
        free(address, |range| range.place == Place::Imported)
    }

    fn cuIpcGetEventHandle(out: *mut CUipcEventHandle, event: CUevent) {
        current()?;
        let event: &Event = live(event)?;
        let shared = event.shared.as_ref().ok_or(CUDA_ERROR_INVALID_VALUE)?;
        put(out, as_c(Handle {
            magic: EVENT_MAGIC,
            process: std::process::id(),
            file: shared.file.as_raw_fd(),
            offset: 0,
            file_bytes: PAGE,
            bytes: PAGE,
            id: shared.id,
            reserved: 0,
            unused: 0,
        }))
    }

    fn cuIpcOpenEventHandle(out: *mut CUevent, handle: CUipcEventHandle) {
        let context = current()?;
        let handle = from_c(&handle);
        let file = open(&handle, EVENT_MAGIC)?;
        let shared = SharedEvent::over(file, handle.id)?;
        put(out, create(Event::new(context, SHARED_EVENT_FLAGS, Some(shared))))
    }
}

/// Shared between processes, and without a time.
const SHARED_EVENT_FLAGS: u32 = 6;

pub(crate) use self::cuIpcOpenMemHandle_v2 as cuIpcOpenMemHandle;
