//! What kernels may call back for: output, assertions, the heap of their context.

use std::io::Write;
use std::sync::Arc;

use crate::machine::clock;
use crate::memory::heap::Heap;
use crate::memory::range::{is_mapped, range_of};
use crate::print;

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
        let end = if message.ends_with('\n') { "" } else { "\n" };
        let _ = write!(std::io::stderr(), "{message}{end}");
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

    fn reaches(&self, address: u64, bytes: u64) -> bool {
        is_mapped(address, bytes)
    }

    fn counts_steps(&self) -> bool {
        clock::is_virtual()
    }

    fn dump(&self) -> Option<&apex_engine::Dump> {
        crate::settings::dump()
    }
}
