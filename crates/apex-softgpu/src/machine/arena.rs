//! Addresses for device, managed and pinned memory, all from one reserved range.
//!
//! The range is the [`Window`]: the engine holds the addresses of kernels against it. So everything that kernels may
//! touch takes its addresses here, also mappings made by hand and memory of other processes.
//!
//! The range is reserved once and costs nothing; pages become usable when they are
//! given out and go back to the system when they are freed. As on a GPU an allocation
//! has whole pages of two megabytes, and behind them a page that cannot be touched: a
//! kernel that runs far over the end is caught. One that reads a little too much is let
//! pass, as hardware does. Checked mode knows exact ends.
//! Each such allocation costs the system two mappings, of which a process has some
//! ten thousand; from [`GUARDED_AT_MOST`] on, small ones share chunks of slots of
//! equal size instead. Nothing here knows what the memory is for.

use core::ptr::{null_mut, with_exposed_provenance_mut};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use apex_engine::Window;

use crate::object::lock;

/// A reserved range of addresses.
pub(crate) struct Arena {
    window: Window,
    state: Mutex<State>,
}

struct State {
    /// Free addresses by their start, and the same by size.
    free: BTreeMap<u64, u64>,
    free_by_size: BTreeSet<(u64, u64)>,
    /// Allocations with pages of their own: address, then the pages.
    guarded: BTreeMap<u64, (u64, u64)>,
    chunks: BTreeMap<u64, Chunk>,
    /// For each class, the chunks that have a free slot.
    open: [BTreeSet<u64>; CLASSES],
}

/// Slots of one size; the chunk ends with a page that cannot be touched.
struct Chunk {
    class: usize,
    free: Vec<u32>,
    live: u32,
}

/// What memory is aligned to, at least.
const ALIGNMENT: u64 = 512;
const PAGE: u64 = 4096;
/// Allocations of this size begin where the system can use large pages.
const LARGE: u64 = 2 << 20;
/// Allocations up to this size can be slots.
const SMALL: u64 = 512 << 10;
const CLASSES: usize = 11;
const SLOTS_PER_CHUNK: u64 = 64;
const CHUNK_AT_LEAST: u64 = 256 << 10;
const GUARDED_AT_MOST: usize = 8192;
/// The size of the window where the process may have so many addresses, as a power of two: room for all memory of any
/// machine, several times over, and a margin that no index of 32 bits crosses.
const WINDOW_BITS: u32 = 43;
/// Less than this is no arena.
const SMALLEST_BITS: u32 = 30;

impl Arena {
    /// Reserves addresses: as many as there may be use for, or less where the process may not have so many.
    pub(crate) fn reserve() -> Option<Arena> {
        let window = (SMALLEST_BITS..=WINDOW_BITS).rev().find_map(reserve_window)?;
        let state = State::new(window.start(), 1 << window.bits());
        Some(Arena { window, state: Mutex::new(state) })
    }

    /// Where all its addresses lie.
    pub(crate) fn window(&self) -> Window {
        self.window
    }

    /// How many addresses there are to give out.
    pub(crate) fn room(&self) -> u64 {
        1 << self.window.bits()
    }

    /// Takes addresses with nothing behind them.
    pub(crate) fn take_addresses(&self, bytes: u64, alignment: u64) -> Option<u64> {
        lock(&self.state).take_addresses(bytes, alignment)
    }

    /// Gives addresses back, and what was mapped there.
    pub(crate) fn give_back_addresses(&self, start: u64, bytes: u64) {
        make_unusable(start, bytes);
        lock(&self.state).free(start, bytes);
    }

    /// Takes memory; it is zero unless it is a slot that was used before.
    pub(crate) fn take(&self, bytes: u64) -> Option<u64> {
        let mut state = lock(&self.state);
        if bytes <= SMALL && state.guarded.len() >= GUARDED_AT_MOST {
            state.take_slot(bytes)
        } else {
            state.take_guarded(bytes)
        }
    }

    /// Gives memory back that [`Arena::take`] gave.
    pub(crate) fn give_back(&self, address: u64) {
        let mut state = lock(&self.state);
        if let Some((start, bytes)) = state.guarded.remove(&address) {
            make_unusable(start, bytes);
            state.free(start, bytes);
        } else {
            state.give_back_slot(address);
        }
    }

    /// The pages around an allocation.
    pub(crate) fn pages(&self, address: u64, bytes: u64) -> (u64, u64) {
        let start = address / PAGE * PAGE;
        (start, (address + bytes).next_multiple_of(PAGE) - start)
    }
}

const UNUSED: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

impl State {
    fn new(start: u64, bytes: u64) -> State {
        State {
            free: BTreeMap::from([(start, bytes)]),
            free_by_size: BTreeSet::from([(bytes, start)]),
            guarded: BTreeMap::new(),
            chunks: BTreeMap::new(),
            open: [const { BTreeSet::new() }; CLASSES],
        }
    }

    fn take_guarded(&mut self, bytes: u64) -> Option<u64> {
        let used = bytes.checked_next_multiple_of(LARGE)?;
        let alignment = if bytes >= LARGE { LARGE } else { PAGE };
        let all = used.checked_add(PAGE)?;
        let start = self.take_addresses(all, alignment)?;
        if !make_usable(start, used, bytes >= LARGE) {
            self.free(start, all);
            return None;
        }
        self.guarded.insert(start, (start, all));
        Some(start)
    }

    fn take_slot(&mut self, bytes: u64) -> Option<u64> {
        let class = class_of(bytes);
        let size = slot_bytes(class);
        let start = match self.open[class].first() {
            Some(&start) => start,
            None => {
                let slots = (CHUNK_AT_LEAST / size).max(SLOTS_PER_CHUNK);
                let start = self.take_addresses(slots * size + PAGE, PAGE)?;
                if !make_usable(start, slots * size, false) {
                    self.free(start, slots * size + PAGE);
                    return None;
                }
                let free = (0..slots as u32).rev().collect();
                self.chunks.insert(start, Chunk { class, free, live: 0 });
                self.open[class].insert(start);
                start
            }
        };
        let chunk = self.chunks.get_mut(&start)?;
        let slot = chunk.free.pop()?;
        chunk.live += 1;
        if chunk.free.is_empty() {
            self.open[class].remove(&start);
        }
        Some(start + u64::from(slot) * size)
    }

    fn give_back_slot(&mut self, address: u64) {
        let Some((&start, chunk)) = self.chunks.range_mut(..=address).next_back() else { return };
        let class = chunk.class;
        let size = slot_bytes(class);
        chunk.free.push(((address - start) / size) as u32);
        chunk.live -= 1;
        self.open[class].insert(start);
        if chunk.live == 0 {
            let all = chunk.free.len() as u64 * size + PAGE;
            self.chunks.remove(&start);
            self.open[class].remove(&start);
            make_unusable(start, all);
            self.free(start, all);
        }
    }

    /// Addresses from the smallest free range that has room.
    fn take_addresses(&mut self, bytes: u64, alignment: u64) -> Option<u64> {
        let (range_bytes, range_start) = self
            .free_by_size
            .range((bytes, 0)..)
            .find(|(size, start)| start.next_multiple_of(alignment) - start + bytes <= *size)
            .copied()?;
        self.free_by_size.remove(&(range_bytes, range_start));
        self.free.remove(&range_start);
        let start = range_start.next_multiple_of(alignment);
        self.keep(range_start, start - range_start);
        self.keep(start + bytes, range_start + range_bytes - start - bytes);
        Some(start)
    }

    fn keep(&mut self, start: u64, bytes: u64) {
        if bytes > 0 {
            self.free.insert(start, bytes);
            self.free_by_size.insert((bytes, start));
        }
    }

    /// Makes addresses free again, one with the free ones beside them.
    fn free(&mut self, mut start: u64, mut bytes: u64) {
        if let Some((&before, &length)) = self.free.range(..start).next_back()
            && before + length == start
        {
            self.free.remove(&before);
            self.free_by_size.remove(&(length, before));
            start = before;
            bytes += length;
        }
        if let Some(length) = self.free.remove(&(start + bytes)) {
            self.free_by_size.remove(&(length, start + bytes));
            bytes += length;
        }
        self.keep(start, bytes);
    }
}

/// Addresses of which all but the lowest `bits` are the same, with their margins: out of twice as many.
fn reserve_window(bits: u32) -> Option<Window> {
    let (bytes, margin) = (1_usize << bits, Window::new(0, bits).margin() as usize);
    let all = 2 * (bytes + margin);
    // SAFETY: a plain request for new addresses; the answer is checked, and what is too much goes back.
    unsafe {
        let first = libc::mmap(null_mut(), all, libc::PROT_NONE, UNUSED, -1, 0);
        if first == libc::MAP_FAILED {
            return None;
        }
        let start = (first.expose_provenance() + margin).next_multiple_of(bytes);
        let (low, high) = (start - margin, start + bytes + margin);
        if low > first.addr() {
            libc::munmap(first, low - first.addr());
        }
        libc::munmap(with_exposed_provenance_mut(high), first.addr() + all - high);
        Some(Window::new(start as u64, bits))
    }
}

fn class_of(bytes: u64) -> usize {
    let slot = bytes.max(ALIGNMENT).next_power_of_two();
    (slot.trailing_zeros() - ALIGNMENT.trailing_zeros()) as usize
}

fn slot_bytes(class: usize) -> u64 {
    ALIGNMENT << class
}

/// Pages that can be touched; `large` asks for large ones, which small memory would waste.
fn make_usable(start: u64, bytes: u64, large: bool) -> bool {
    let pointer = with_exposed_provenance_mut(start as usize);
    let allowed = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the addresses are the arena's own and free.
    unsafe {
        let mapped = libc::mmap(pointer, bytes as usize, allowed, UNUSED | libc::MAP_FIXED, -1, 0);
        if mapped == libc::MAP_FAILED {
            return false;
        }
        if large {
            libc::madvise(pointer, bytes as usize, libc::MADV_HUGEPAGE);
        }
    }
    true
}

fn make_unusable(start: u64, bytes: u64) {
    let pointer = with_exposed_provenance_mut(start as usize);
    // SAFETY: the addresses are the arena's own, and what lay there was freed. Should
    // the system refuse, the pages stay as they are, which wastes them and no more.
    unsafe {
        libc::mmap(pointer, bytes as usize, libc::PROT_NONE, UNUSED | libc::MAP_FIXED, -1, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arena() -> Arena {
        Arena::reserve().unwrap()
    }

    fn touch(address: u64, bytes: u64) {
        let first: *mut u8 = with_exposed_provenance_mut(address as usize);
        // SAFETY: as many bytes were taken.
        unsafe {
            first.write(1);
            first.add(bytes as usize - 1).write(2);
        }
    }

    #[test]
    fn memory_is_aligned_and_has_whole_pages() {
        let arena = arena();
        for bytes in [1, 511, 512, 513, 4096, 5000, 1 << 20, (2 << 20) + 1] {
            let address = arena.take(bytes).unwrap();
            assert_eq!(address % ALIGNMENT, 0, "{bytes}");
            touch(address, bytes);
            touch(address, bytes.next_multiple_of(LARGE));
            arena.give_back(address);
        }
    }

    #[test]
    fn a_million_small_allocations_are_given() {
        let arena = arena();
        let all: Vec<u64> = (0..1_000_000).map(|_| arena.take(512).unwrap()).collect();
        touch(all[999_999], 512);
        let distinct: BTreeSet<u64> = all.iter().copied().collect();
        assert_eq!(distinct.len(), all.len());
        for address in all {
            arena.give_back(address);
        }
        let state = lock(&arena.state);
        assert_eq!(state.free.len(), 1, "all addresses are one free range again");
        assert!(state.chunks.is_empty());
    }

    #[test]
    fn sizes_fall_into_classes() {
        assert_eq!((class_of(1), class_of(512), class_of(513)), (0, 0, 1));
        assert_eq!(class_of(SMALL), CLASSES - 1);
        assert_eq!(slot_bytes(CLASSES - 1), SMALL);
    }

    #[test]
    fn more_than_there_is_is_refused() {
        assert!(arena().take(1 << 60).is_none());
        assert!(arena().take(u64::MAX).is_none());
    }
}
