//! What kernels may call back for: output, assertions, the device's heap.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::device::Device;
use crate::memory::{Place, allocate, free, range_of};
use crate::object::lock;
use crate::print;
use crate::settings::say;

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

    fn take(&self, bytes: u64) -> Option<u64> {
        let mut taken = lock(&self.taken);
        let sum = taken.bytes.checked_add(bytes)?;
        if bytes == 0 || sum > self.limit.load(Ordering::Relaxed) {
            return None;
        }
        let none = core::ptr::null_mut();
        let size = usize::try_from(bytes).ok()?;
        // Not the context's to free: the heap goes with the domain.
        let address = allocate(self.device, core::ptr::null_mut(), size, Place::Device, 0, none);
        let address = address.ok()?;
        taken.bytes = sum;
        taken.blocks.insert(address, bytes);
        Some(address)
    }

    fn give_back(&self, address: u64) {
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

/// The services of one context.
pub(crate) struct Services {
    heap: Arc<Heap>,
}

impl Services {
    pub(crate) fn new(heap: Arc<Heap>) -> Services {
        Services { heap }
    }
}

impl apex_engine::Services for Services {
    fn print(&self, text: &[u8]) {
        print::keep(text);
    }

    fn assert_failed(&self, message: &str) {
        print::flush();
        // As the driver prints it, without a sign of ours: programs look for it.
        if message.ends_with('\n') { eprint!("{message}") } else { eprintln!("{message}") }
    }

    fn heap_alloc(&self, bytes: u64) -> u64 {
        self.heap.take(bytes).unwrap_or(0)
    }

    fn heap_free(&self, address: u64) {
        if address == 0 {
            return;
        }
        self.heap.give_back(address);
    }

    fn find(&self, address: u64) -> Option<(u64, u64)> {
        range_of(address).map(|(start, range)| (start, range.length))
    }
}

/// Names a kernel that cannot be run, and why.
pub(crate) fn say_unsupported(kernel: &str, reason: &str) {
    say(&format!("kernel {kernel} cannot run on the software GPU: {reason}"));
}
