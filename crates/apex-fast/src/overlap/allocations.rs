//! The program's allocations of the device's memory.
//!
//! Only those are here that nobody but this device's kernels and the driver's copies can see: what is managed, mapped or
//! shown to another process is not, or not any more.

use apex_cuda::types::CUdeviceptr;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Begin and end of each.
static ALL: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());
/// Rises when an allocation ends: what was found of others still holds.
static ENDED: AtomicU64 = AtomicU64::new(0);

/// There is a new one.
pub(super) fn add(begin: CUdeviceptr, bytes: u64) {
    if begin != 0 && bytes > 0 && begin < 1 << 57 && bytes < 1 << 57 {
        all().insert(begin, begin + bytes);
    }
}

/// The one at this address ends, or somebody else may see it from now on.
pub(super) fn remove(at: CUdeviceptr) {
    let mut all = all();
    let begin = all.range(..=at).next_back().filter(|(_, end)| **end > at).map(|(&begin, _)| begin);
    if let Some(begin) = begin {
        all.remove(&begin);
        ENDED.fetch_add(1, Ordering::SeqCst);
    }
}

/// All of them end.
pub(super) fn clear() {
    all().clear();
    ENDED.fetch_add(1, Ordering::SeqCst);
}

/// How often one has ended.
pub(super) fn ended() -> u64 {
    ENDED.load(Ordering::SeqCst)
}

/// Allocations, looked at.
pub(super) struct Look(MutexGuard<'static, BTreeMap<u64, u64>>);

/// Looks at all of them; meanwhile none ends.
pub(super) fn look() -> Look {
    Look(all())
}

impl Look {
    /// The allocation that an address lies in.
    pub(super) fn at(&self, address: u64) -> Option<Range<u64>> {
        let (&begin, &end) = self.0.range(..=address).next_back()?;
        (address < end).then_some(begin..end)
    }
}

fn all() -> MutexGuard<'static, BTreeMap<u64, u64>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_in_its_allocation_until_that_ends() {
        let (one, other) = (0x7000_0000_u64, 0x7000_1000_u64);
        // One look at a time: each holds the lock until its answer is there.
        let found = |address: u64| look().at(address);
        add(one, 0x1000);
        add(other, 10);
        add(0, 10);
        assert_eq!(found(one + 0xfff), Some(one..other));
        assert_eq!(found(other + 9), Some(other..other + 10));
        assert_eq!((found(other + 10), found(one - 1), found(0)), (None, None, None));
        let before = ended();
        // By any address in it.
        remove(one + 5);
        assert_eq!((found(one), ended()), (None, before + 1));
        remove(one + 5);
        assert_eq!(ended(), before + 1);
        clear();
        assert_eq!(found(other), None);
    }
}
