//! The calls that wait, as bytes in a ring.
//!
//! An entry is a head of [`HEAD`] bytes with the arguments behind it, in whole lines of the cache; none wraps around. One
//! writes at a time and one reads at a time; each side has a lock of its own ([`super::enter`], [`super::send`]). `head`
//! is where the next entry will stand, `tail` how far the driver has been given everything. Both only grow.

use apex_cuda::Driver;
use apex_cuda::types::CUresult;
use core::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of the ring.
pub(super) const SIZE: u64 = 1 << 20;
/// Bytes of an entry's head.
pub(super) const HEAD: usize = 32;
/// Entries begin at multiples of this, so that writer and reader share no line but at the border.
const LINE: u64 = 64;

/// What stands before the arguments of a call that waits.
#[repr(C, align(32))]
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) what: What,
    /// Of a launch: its grid.
    pub(super) grid: [u32; 3],
    /// From here to the next entry.
    bytes: u32,
}

const _: () = assert!(size_of::<Entry>() == HEAD);

/// Makes a call of the driver with the arguments that stand at a place.
pub(super) type Make = unsafe fn(arguments: *const u8, driver: &Driver) -> CUresult;

/// What a call is.
#[derive(Clone, Copy)]
pub(super) enum What {
    /// No call: the rest of the ring, too short for the next one.
    Pad,
    /// A launch that is known. Its parameters follow.
    Launch(*const super::known::Launch),
    /// Any other call. Its arguments follow.
    Call(Make),
}

impl Entry {
    pub(super) fn new(what: What, grid: [u32; 3], follows: usize) -> Entry {
        let bytes = ((HEAD + follows) as u64).next_multiple_of(LINE) as u32;
        Entry { what, grid, bytes }
    }

    /// Where the arguments stand.
    pub(super) fn arguments(&self) -> *const u8 {
        (&raw const *self).cast::<u8>().wrapping_add(HEAD)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.into()
    }
}

#[repr(C, align(4096))]
struct Bytes(UnsafeCell<[u8; SIZE as usize]>);

// SAFETY: one writer writes before `head`'s store, one reader reads after its load and before `tail`'s store.
unsafe impl Sync for Bytes {}

/// What has a stretch of memory of its own: what the reader of the ring writes, the writer does not wait for.
#[repr(align(128))]
pub(super) struct Alone<T>(pub(super) T);

static BYTES: Bytes = Bytes(UnsafeCell::new([0; SIZE as usize]));
static HEAD_AT: Alone<AtomicU64> = Alone(AtomicU64::new(0));
static TAIL_AT: Alone<AtomicU64> = Alone(AtomicU64::new(0));

/// Where the next entry will stand.
#[inline(always)]
pub(super) fn head() -> u64 {
    HEAD_AT.0.load(Ordering::Acquire)
}

/// Up to here the driver has been given everything.
#[inline(always)]
pub(super) fn tail() -> u64 {
    TAIL_AT.0.load(Ordering::Acquire)
}

/// The reader is done with everything before `tail`.
pub(super) fn sent(tail: u64) {
    TAIL_AT.0.store(tail, Ordering::Release);
}

/// Writes an entry at `head`. `Err` has the tail to wait for where there is no room yet.
///
/// # Safety
///
/// The caller alone writes, and `follow` fills as many bytes as the entry was made for.
#[inline(always)]
pub(super) unsafe fn write(entry: &Entry, follow: impl FnOnce(*mut u8)) -> Result<(), u64> {
    let mut head = HEAD_AT.0.load(Ordering::Relaxed);
    let left = SIZE - head % SIZE;
    let pad = if entry.bytes() > left { left } else { 0 };
    let end = head + pad + entry.bytes();
    if end > tail() + SIZE {
        return Err(end - SIZE);
    }
    // SAFETY: the places between tail and head are the writer's, aligned for an entry; both entries end within the ring.
    unsafe {
        if pad > 0 {
            at(head).write(Entry { what: What::Pad, grid: [0; 3], bytes: pad as u32 });
            head += pad;
        }
        let place = at(head);
        place.write(*entry);
        follow(place.cast::<u8>().add(HEAD));
    }
    HEAD_AT.0.store(end, Ordering::Release);
    Ok(())
}

/// The entry at `tail`.
///
/// # Safety
///
/// The caller alone reads, and `tail` is before the head that it has seen. The entry is gone once [`sent`] passes it.
pub(super) unsafe fn read<'a>(tail: u64) -> &'a Entry {
    // SAFETY: the caller's promise: an entry that the writer has finished.
    unsafe { &*at(tail) }
}

fn at(position: u64) -> *mut Entry {
    BYTES.0.get().cast::<u8>().wrapping_add((position % SIZE) as usize).cast()
}
