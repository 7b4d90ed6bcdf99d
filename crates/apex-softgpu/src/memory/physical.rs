//! Address ranges and physical memory, mapped by hand.
//!
//! A reservation is address space that nothing lies behind; physical memory is a
//! file in memory, so that it can be mapped at two places at once; a mapping puts
//! one over the other and can be touched when access has been set. A touch too early
//! or too late faults, as on a device.

use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Mutex;

use apex_cuda::types::*;

use crate::border::Answer;
use crate::machine::device::Device;
use crate::memory::range::{MemoryKind, Range};
use crate::object::{create, destroy, live, lock, object};

/// Physical memory that can be mapped.
pub(crate) struct Physical {
    pub(crate) bytes: u64,
    pub(crate) device: &'static Device,
    pub(crate) file: File,
    /// The handle itself and every mapping hold it.
    pub(crate) held: AtomicU32,
}
object!(Physical, b"physical");

impl Drop for Physical {
    fn drop(&mut self) {
        self.device.give_back_bytes(self.bytes);
    }
}

pub(crate) static RESERVED: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

pub(crate) const GRANULARITY: usize = 2 << 20;
pub(crate) const ACCESS_NONE: u32 = 0;
pub(crate) const ACCESS_READ: u32 = 1;
pub(crate) const ACCESS_READ_WRITE: u32 = 3;

pub(crate) fn pointer(address: u64) -> *mut c_void {
    with_exposed_provenance_mut(address as usize)
}

pub(crate) fn aligned(address: u64, bytes: usize) -> bool {
    bytes != 0 && bytes.is_multiple_of(GRANULARITY) && address.is_multiple_of(GRANULARITY as u64)
}

/// Whether the bytes lie in one reservation.
pub(crate) fn is_reserved(address: u64, bytes: usize) -> bool {
    let reserved = lock(&RESERVED);
    let around = reserved.range(..=address).next_back();
    around.is_some_and(|(start, length)| {
        address.checked_add(bytes as u64).is_some_and(|end| end <= start + length)
    })
}

pub(crate) fn make(bytes: u64, device: &'static Device, file: File) -> u64 {
    let handle: *mut c_void = create(Physical { bytes, device, file, held: AtomicU32::new(1) });
    handle.expose_provenance() as u64
}

pub(crate) fn physical<'a>(handle: u64) -> Result<&'a Physical, CUresult> {
    // SAFETY: the caller's handle, as C demands of it.
    unsafe { live::<Physical, c_void>(pointer(handle)) }
}

pub(crate) fn let_go(handle: u64) -> Answer {
    if physical(handle)?.held.fetch_sub(1, Ordering::AcqRel) == 1 {
        // SAFETY: nothing holds it any more.
        return unsafe { destroy::<Physical, c_void>(pointer(handle)) };
    }
    Ok(())
}

/// The starts of the mappings that make up exactly these bytes.
pub(crate) fn mappings(
    ranges: &BTreeMap<u64, Range>,
    address: u64,
    bytes: usize,
) -> Result<Vec<u64>, CUresult> {
    let end = address.checked_add(bytes as u64).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let mut at = address;
    let mut starts = Vec::new();
    while at < end {
        let range = ranges.get(&at).filter(|range| range.kind == MemoryKind::Mapped);
        starts.push(at);
        at += range.ok_or(CUDA_ERROR_INVALID_VALUE)?.length;
    }
    if at == end { Ok(starts) } else { Err(CUDA_ERROR_INVALID_VALUE) }
}
