//! A table from handles to small numbers that is read without a lock.
//!
//! One word per entry holds handle and number together, so a reader sees both or neither. Entries
//! are added by whoever sees a handle first and dropped when their objects end, one by one or all
//! together, because the driver gives out old handles again. A handle that the table cannot hold (not a
//! multiple of eight, above 2^47, or the neighbourhood is full) is simply not found: its owner then
//! asks its own slower list.

use std::sync::atomic::{AtomicU64, Ordering};

/// Most numbers a table can hold.
pub(crate) const MOST_NUMBERS: u32 = 1 << NUMBER_BITS;

const NUMBER_BITS: u32 = 20;
const SLOTS: usize = 1 << 15;
const NEIGHBOURS: usize = 16;
/// A slot whose handle was dropped; no handle has the key 0.
const DROPPED: u64 = 1;

/// Handles and their numbers.
pub(crate) struct Handles {
    slots: [AtomicU64; SLOTS],
}

impl Handles {
    /// An empty table.
    pub(crate) const fn new() -> Handles {
        Handles { slots: [const { AtomicU64::new(0) }; SLOTS] }
    }

    /// The number of a handle.
    #[inline(always)]
    pub(crate) fn get(&self, handle: u64) -> Option<u32> {
        // A handle that the table cannot hold has bits up here that no entry has.
        let key = handle.rotate_right(3);
        let entry = self.slots[home(key)].load(Ordering::Relaxed);
        if entry >> NUMBER_BITS == key && key != 0 {
            Some(number(entry))
        } else {
            self.search(handle)
        }
    }

    /// Looks beside the place where the handle should be.
    #[cold]
    fn search(&self, handle: u64) -> Option<u32> {
        let key = key(handle)?;
        for slot in self.neighbourhood(key) {
            let entry = slot.load(Ordering::Relaxed);
            if entry >> NUMBER_BITS == key {
                return Some(number(entry));
            }
            if entry == 0 {
                return None;
            }
        }
        None
    }

    /// Keeps a number for a handle, if there is room for it.
    pub(crate) fn insert(&self, handle: u64, number: u32) {
        let Some(key) = key(handle).filter(|_| number < MOST_NUMBERS) else { return };
        let entry = key << NUMBER_BITS | u64::from(number);
        for slot in self.neighbourhood(key) {
            let there = slot.load(Ordering::Relaxed);
            let takes = there == 0 || there == DROPPED || there >> NUMBER_BITS == key;
            let put = |slot: &AtomicU64| {
                slot.compare_exchange(there, entry, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            };
            if takes && put(slot) {
                return;
            }
        }
    }

    /// Drops one handle.
    pub(crate) fn remove(&self, handle: u64) {
        let Some(key) = key(handle) else { return };
        for slot in self.neighbourhood(key) {
            let there = slot.load(Ordering::Relaxed);
            if there >> NUMBER_BITS == key {
                // Not empty: a search for a neighbour must go on past it.
                slot.compare_exchange(there, DROPPED, Ordering::Relaxed, Ordering::Relaxed).ok();
            }
        }
    }

    /// Drops all.
    pub(crate) fn clear(&self) {
        for slot in &self.slots {
            slot.store(0, Ordering::Relaxed);
        }
    }

    fn neighbourhood(&self, key: u64) -> impl Iterator<Item = &AtomicU64> {
        let start = home(key);
        (start..start + NEIGHBOURS).map(|nth| &self.slots[nth & (SLOTS - 1)])
    }
}

#[inline(always)]
fn home(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOTS.ilog2())) as usize
}

#[inline(always)]
fn number(entry: u64) -> u32 {
    (entry & u64::from(MOST_NUMBERS - 1)) as u32
}

#[inline(always)]
fn key(handle: u64) -> Option<u64> {
    (handle & 7 == 0 && handle != 0 && handle >> 47 == 0).then_some(handle >> 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_is_found_until_all_is_dropped() {
        let table = Box::new(Handles::new());
        let handles: Vec<u64> = (1..2000).map(|nth| 0x5555_0000_0000 + nth * 0x60).collect();
        for (nth, &handle) in (0_u32..).zip(&handles) {
            table.insert(handle, nth);
        }
        for (nth, &handle) in (0_u32..).zip(&handles) {
            assert_eq!(table.get(handle), Some(nth));
        }
        assert_eq!(table.get(0x5555_0000_0000), None);
        table.clear();
        assert_eq!(table.get(handles[7]), None);
    }

    #[test]
    fn handles_that_come_and_go_leave_room() {
        let table = Box::new(Handles::new());
        for nth in 1..200_000_u64 {
            table.insert(nth * 16, 5);
            assert_eq!(table.get(nth * 16), Some(5), "{nth}");
            table.remove(nth * 16);
            assert_eq!(table.get(nth * 16), None);
        }
    }

    #[test]
    fn an_odd_handle_is_not_kept() {
        let table = Box::new(Handles::new());
        table.insert(0x1001, 4);
        table.insert(1 << 50, 4);
        assert_eq!(table.get(0x1001), None);
        assert_eq!(table.get(1 << 50), None);
    }

    #[test]
    fn a_full_neighbourhood_forgets_and_never_confuses() {
        let table = Box::new(Handles::new());
        for nth in 1..100_000_u64 {
            table.insert(nth * 8, (nth & 0xffff) as u32);
        }
        for nth in 1..100_000_u64 {
            let found = table.get(nth * 8);
            assert!(found.is_none_or(|number| u64::from(number) == nth & 0xffff));
        }
    }
}
