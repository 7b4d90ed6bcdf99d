//! Memory that belongs to a graph.
//!
//! It is taken when the node is made and has the same address in every launch; it is
//! there until the last graph and executable that holds the node is gone. Freeing
//! it, by a node or by the program after a launch, only says that its bytes are used
//! no more: the next launch uses them again.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use apex_cuda::types::*;

use crate::machine::device::Device;
use crate::memory::allocation::{allocate, free, is_the_programs};
use crate::memory::range::MemoryKind;
use crate::object::lock;

/// The memory of one node.
pub(crate) struct GraphMemory {
    pub(crate) address: u64,
    pub(crate) bytes: usize,
}

static USED: AtomicU64 = AtomicU64::new(0);
static HIGHEST: AtomicU64 = AtomicU64::new(0);
static KNOWN: Mutex<Option<HashMap<u64, Weak<GraphMemory>>>> = Mutex::new(None);

impl GraphMemory {
    pub(crate) fn take(device: &Device, bytes: usize) -> Result<Arc<GraphMemory>, CUresult> {
        let none = core::ptr::null_mut();
        let address = allocate(device, core::ptr::null_mut(), bytes, MemoryKind::Device, 0, none)?;
        let used = USED.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        HIGHEST.fetch_max(used, Ordering::Relaxed);
        let memory = Arc::new(GraphMemory { address, bytes });
        let mut known = lock(&KNOWN);
        known.get_or_insert_default().insert(address, Arc::downgrade(&memory));
        Ok(memory)
    }
}

impl Drop for GraphMemory {
    fn drop(&mut self) {
        USED.fetch_sub(self.bytes as u64, Ordering::Relaxed);
        if let Some(known) = lock(&KNOWN).as_mut() {
            known.remove(&self.address);
        }
        // Memory that went with its context is no loss.
        let _ = free(self.address, |_| true);
    }
}

/// Whether an address is the memory of a graph's node; such memory stays when the
/// program frees it, for the next launch.
pub(crate) fn is_of_graph(address: u64) -> bool {
    lock(&KNOWN).as_ref().is_some_and(|known| known.contains_key(&address))
}

/// A graph needs the memory no more for this launch. Memory that no graph owns is freed.
pub(crate) fn note_free(address: u64) {
    if !is_of_graph(address) {
        let _ = free(address, is_the_programs);
    }
}

/// Bytes that graphs hold now and held at most.
pub(crate) fn used() -> (u64, u64) {
    (USED.load(Ordering::Relaxed), HIGHEST.load(Ordering::Relaxed))
}

/// Lets the highest count begin anew.
pub(crate) fn forget_highest() {
    HIGHEST.store(USED.load(Ordering::Relaxed), Ordering::Relaxed);
}
