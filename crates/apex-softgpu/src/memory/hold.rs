//! Memory that is being copied or filled, and therefore not given back meanwhile.
//!
//! A program that frees memory in one thread while another still copies it is wrong, but
//! not worth a crash.

use std::sync::{Condvar, Mutex, PoisonError};

use crate::memory::range::is_known;
use crate::object::lock;

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
