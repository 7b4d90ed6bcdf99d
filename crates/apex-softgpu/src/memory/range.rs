//! One map of every range of memory that the driver knows.
//!
//! Device memory is host memory, so a device address can be copied with a plain
//! copy. The map says which addresses are device memory, which are pinned or
//! managed, how long they are and whose; copies and pointer questions ask it.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use apex_cuda::types::*;

/// What a range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryKind {
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
    pub(crate) kind: MemoryKind,
    pub(crate) context: CUcontext,
    pub(crate) device: i32,
    pub(crate) pool: CUmemoryPool,
    /// The physical memory mapped here, for [`MemoryKind::Mapped`].
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
        !matches!(self.kind, MemoryKind::Device | MemoryKind::Mapped)
    }
}

// SAFETY: the handles inside are addresses that any thread may use.
unsafe impl Send for Range {}
// SAFETY: as above.
unsafe impl Sync for Range {}

static RANGES: RwLock<BTreeMap<u64, Range>> = RwLock::new(BTreeMap::new());

const PAGE: u64 = 4096;

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

/// Whether kernels may touch the bytes. A device maps whole pages, so the rest of a range's last page counts.
pub(crate) fn is_mapped(address: u64, bytes: u64) -> bool {
    let Some(end) = address.checked_add(bytes) else { return false };
    let ranges = ranges();
    let first = address / PAGE * PAGE;
    (first..end).step_by(PAGE as usize).all(|page| {
        let last = ranges.range(..page.saturating_add(PAGE)).next_back();
        last.is_some_and(|(start, range)| range.accessible && start + range.length > page)
    })
}

pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
