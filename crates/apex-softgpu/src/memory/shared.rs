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
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::sync::{Arc, Mutex};

use apex_cuda::types::*;

use crate::machine::device::machine;
use crate::memory::range::{Range, next_id, range_of};
use crate::object::lock;

pub(crate) const PAGE: u64 = 4096;

/// The files that allocations of this process became, by their first page.
static SHARED: Mutex<Option<HashMap<u64, (i32, u64)>>> = Mutex::new(None);

/// The counters of an event that several processes see.
pub(crate) struct SharedEvent {
    pub(crate) file: File,
    /// How often it was recorded, and the last record that was reached.
    counters: *mut [AtomicU64; 2],
    pub(crate) id: u64,
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

    pub(crate) fn over(file: File, id: u64) -> Result<Arc<SharedEvent>, CUresult> {
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
pub(crate) fn map(
    file: &File,
    bytes: u64,
    offset: u64,
    place: *mut c_void,
) -> Result<*mut c_void, CUresult> {
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
pub(crate) fn share(start: u64, bytes: u64) -> Result<(i32, u64), CUresult> {
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
    if let Ok(machine) = machine() {
        let start = address - u64::from(range.flags);
        machine.arena.give_back_addresses(start, range.physical.next_multiple_of(PAGE));
    }
}

/// The allocation is freed: its file goes.
pub(crate) fn forget(start: u64) {
    if let Some((file, _)) = lock(&SHARED).as_mut().and_then(|shared| shared.remove(&start)) {
        // SAFETY: the file was opened for the allocation alone.
        unsafe { libc::close(file) };
    }
}
