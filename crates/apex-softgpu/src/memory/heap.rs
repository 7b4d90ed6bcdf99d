//! The memory that kernels of one context take by themselves.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::machine::device::Device;
use crate::memory::allocation::{allocate, free};
use crate::memory::range::MemoryKind;
use crate::object::lock;

/// The memory that kernels of one context took by themselves.
pub(crate) struct Heap {
    device: &'static Device,
    /// The most bytes kernels may hold; settable until the first kernel takes some.
    pub(crate) limit: AtomicU64,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    bytes: u64,
    blocks: BTreeMap<u64, u64>,
}

impl Heap {
    pub(crate) fn new(device: &'static Device, limit: u64) -> Heap {
        Heap { device, limit: AtomicU64::new(limit), taken: Mutex::default() }
    }

    /// Whether a kernel has taken memory.
    pub(crate) fn is_used(&self) -> bool {
        !lock(&self.taken).blocks.is_empty()
    }

    pub(crate) fn take(&self, bytes: u64) -> Option<u64> {
        let mut taken = lock(&self.taken);
        let sum = taken.bytes.checked_add(bytes)?;
        if bytes == 0 || sum > self.limit.load(Ordering::Relaxed) {
            return None;
        }
        let none = core::ptr::null_mut();
        let size = usize::try_from(bytes).ok()?;
        // Not the context's to free: the heap goes with the domain.
        let address =
            allocate(self.device, core::ptr::null_mut(), size, MemoryKind::Device, 0, none);
        let address = address.ok()?;
        taken.bytes = sum;
        taken.blocks.insert(address, bytes);
        Some(address)
    }

    pub(crate) fn give_back(&self, address: u64) {
        let mut taken = lock(&self.taken);
        if let Some(bytes) = taken.blocks.remove(&address) {
            taken.bytes -= bytes;
            let _ = free(address, |_| true);
        }
    }

    /// Frees what kernels left.
    pub(crate) fn clear(&self) {
        let blocks = core::mem::take(&mut *lock(&self.taken)).blocks;
        for address in blocks.into_keys() {
            let _ = free(address, |_| true);
        }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        self.clear();
    }
}
