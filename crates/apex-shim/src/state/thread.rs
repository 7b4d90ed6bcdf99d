//! What each thread keeps: its ring, the context it last saw, how it reads the clock, and a room for each aspect
//! that has something to keep.
//!
//! The thread's block is found through one word of static thread-local storage, read with two
//! instructions; the general way would call a function of the loader on every recorded call. Word 0
//! means "not started", 1 "not recorded", 2 "no ring was to be had"; else it is the block's address.

use crate::settings::{knobs, log_line};
use crate::state::{
    extras::{self, Extra},
    process,
};
use apex_core::event::{CallId, Event, Head, Life, ObjectKind, What};
use apex_core::pace::{Pace, Reads};
use apex_core::ring::{ProcessWord, Writer};
use apex_core::time;
use apex_cuda::types::CUcontext;
use core::arch::{asm, global_asm};
use core::ffi::c_void;
use core::mem::offset_of;
use std::sync::OnceLock;

/// So many words that what follows begins a cache line.
const SAMPLING_WORDS: usize = 1545;

/// Room for what one aspect keeps of a thread, all zeros at first. Its first words become zeros again when another
/// context is current.
#[repr(C)]
pub(crate) struct Room<const OF_CONTEXT: usize, const LASTING: usize> {
    of_context: [u64; OF_CONTEXT],
    lasting: [u64; LASTING],
}

impl<const OF_CONTEXT: usize, const LASTING: usize> Room<OF_CONTEXT, LASTING> {
    const EMPTY: Self = Room { of_context: [0; OF_CONTEXT], lasting: [0; LASTING] };

    /// Another context is current.
    fn leave_context(&mut self) {
        self.of_context = [0; OF_CONTEXT];
    }

    /// What the aspect keeps here.
    ///
    /// # Safety
    ///
    /// All zeros are a value of `T`, and so is `T` with zeros in the words of the context. The room is never asked for
    /// as another type.
    #[inline(always)]
    pub(crate) unsafe fn of<T>(&mut self) -> &mut T {
        const { assert!(size_of::<T>() <= size_of::<Self>() && align_of::<T>() <= 8) };
        // SAFETY: it is large enough and aligned, and the caller's promise.
        unsafe { &mut *(&raw mut *self).cast() }
    }
}

/// The room of sampling, which lasts.
pub(crate) type SamplingRoom = Room<0, SAMPLING_WORDS>;
/// The room of the gate: what it keeps of the thread in a context, and one word that lasts.
pub(crate) type GateRoom = Room<4, 1>;

const _: () = {
    assert!(offset_of!(Thread, sampling_room) == 56);
    assert!(offset_of!(Thread, gate_room).is_multiple_of(64));
};

/// One thread under observation. What every launch needs lies in its first cache line.
#[repr(C, align(64))]
pub(crate) struct Thread {
    /// Its ring.
    pub(crate) writer: Writer<'static>,
    /// Events for which the context is believed without asking.
    pub(crate) context_good_for: u32,
    /// Number of that context.
    pub(crate) context_id: u16,
    /// Device of that context.
    pub(crate) device: u8,
    /// How it reads the clock.
    pub(crate) pace: Pace,
    /// Coming launches that are recorded and nothing else: no clock is read, no context asked for, no
    /// sample considered. Their part of what counts launches is taken off when this is set.
    pub(crate) record_only: u32,
    /// The same for a thread whose launches are counted one by one at an open gate.
    pub(crate) record_only_at_gate: u32,
    /// What sampling keeps of it. Its first word is in the first cache line.
    pub(crate) sampling_room: SamplingRoom,
    /// What the gate keeps of it, in one cache line with the context.
    pub(crate) gate_room: GateRoom,
    /// The context that was current at its last recorded call, with its number and device above.
    pub(crate) context: CUcontext,
    /// The last clock reading of a launch, and its place in the ring.
    last_reading: (u64, u64),
}

impl Thread {
    /// What the next launch reads of the clock.
    #[inline(always)]
    pub(crate) fn reads(&self) -> Reads {
        self.pace.reads(self.writer.position())
    }

    /// A launch has read the clock before it goes down.
    #[inline(always)]
    pub(crate) fn launch_read(&mut self, started: u64) {
        if self.pace == Pace::Free {
            return;
        }
        let position = self.writer.position();
        let (before, place) = self.last_reading;
        self.last_reading = (started, position);
        self.pace = self.pace.after(position.wrapping_sub(place), started.wrapping_sub(before));
        self.look_closer();
    }

    /// No coming launch is only recorded: something has changed.
    #[inline(always)]
    pub(crate) fn look_closer(&mut self) {
        (self.record_only, self.record_only_at_gate) = (0, 0);
    }

    /// Another context is current, or may be: what was kept of the last one is empty.
    pub(crate) fn context_changes(&mut self) {
        self.gate_room.leave_context();
    }

    /// Another call than a launch was recorded: the next launch is read.
    #[inline(always)]
    pub(crate) fn interrupt(&mut self) {
        self.pace = self.pace.interrupted();
        self.look_closer();
    }
}

const NOT_RECORDED: usize = 1;
/// The last word that is no block's address.
pub(crate) const WITHOUT_RING: usize = 2;

global_asm!(
    ".pushsection .tbss.apex_thread,\"awT\",@nobits",
    ".hidden apex_thread",
    ".globl apex_thread",
    ".type apex_thread, @object",
    ".size apex_thread, 8",
    ".balign 8",
    "apex_thread:",
    ".zero 8",
    ".popsection",
);

#[inline(always)]
fn word() -> usize {
    let word;
    // SAFETY: reads this thread's own word; the loader has set up its place.
    unsafe {
        asm!(
            "mov {word}, qword ptr [rip + apex_thread@GOTTPOFF]",
            "mov {word}, qword ptr fs:[{word}]",
            word = out(reg) word,
            options(nostack, readonly, preserves_flags, pure),
        );
    }
    word
}

fn set_word(word: usize) {
    // SAFETY: writes this thread's own word.
    unsafe {
        asm!(
            "mov {place}, qword ptr [rip + apex_thread@GOTTPOFF]",
            "mov qword ptr fs:[{place}], {word}",
            place = out(reg) _,
            word = in(reg) word,
            options(nostack, preserves_flags),
        );
    }
}

/// This thread's block, if it is recorded. The caller keeps the borrow shorter than any call of the
/// driver: a call may come back into this library on the same thread.
#[inline(always)]
pub(crate) fn current() -> Option<&'static mut Thread> {
    match word() {
        0 => start(),
        NOT_RECORDED | WITHOUT_RING => None,
        // SAFETY: the word was set from a leaked box by this thread, and the caller holds no other
        // borrow of it.
        address => Some(unsafe { &mut *(address as *mut Thread) }),
    }
}

/// A launch that is only recorded ([`Thread::record_only`]), counted by its thread already.
pub(crate) struct RecordOnly(*mut Thread);

/// The next launch of this thread, if it is only recorded.
#[inline(always)]
pub(crate) fn record_only() -> Option<RecordOnly> {
    let thread = current_if_started()?;
    thread.record_only = thread.record_only.checked_sub(1)?;
    Some(RecordOnly(thread))
}

/// The next launch of this thread, if it is only recorded once an open gate has counted it.
#[inline(always)]
pub(crate) fn record_only_at_gate() -> Option<RecordOnly> {
    let thread = current_if_started()?;
    thread.record_only_at_gate = thread.record_only_at_gate.checked_sub(1)?;
    Some(RecordOnly(thread))
}

impl RecordOnly {
    /// The thread, after the driver has answered.
    #[inline(always)]
    pub(crate) fn thread(&mut self) -> &mut Thread {
        // SAFETY: this thread's own block, which lives until the thread ends; nobody else borrows it
        // between two calls of the driver.
        unsafe { &mut *self.0 }
    }
}

/// Switches an extra on or off, from the next launch of this thread on.
pub(crate) fn switch(extra: Extra, on: bool) {
    extras::set(extra, on);
    if on && let Some(thread) = current_if_started() {
        thread.look_closer();
    }
}

/// An event of this thread is not recorded: counted, if only a ring was missing.
#[cold]
pub(crate) fn count_loss() {
    if word() == WITHOUT_RING
        && let Some(process) = process::current()
    {
        process.map.add(ProcessWord::LostWithoutRing, 1);
    }
}

/// The calling thread by a number that no other living one has; small where it is not recorded.
#[inline(always)]
pub(crate) fn number() -> u64 {
    word() as u64
}

/// This thread's block, if it has one already.
#[inline(always)]
pub(crate) fn current_if_started() -> Option<&'static mut Thread> {
    if word() > WITHOUT_RING { current() } else { None }
}

/// Forgets this thread's block without touching it: it belongs to the parent of a fork.
pub(crate) fn forget() {
    set_word(0);
    if let Some(&key) = KEY.get() {
        // SAFETY: the key exists; without its value the ring is not released at the thread's end.
        unsafe { libc::pthread_setspecific(key, core::ptr::null()) };
    }
}

#[cold]
fn start() -> Option<&'static mut Thread> {
    process::guard(begin).flatten()
}

fn begin() -> Option<&'static mut Thread> {
    // Until this is done the thread is not recorded: what we call here may come back.
    set_word(NOT_RECORDED);
    let process = process::current()?;
    let fault = knobs().fault.as_deref();
    if fault == Some("panic-in-record") {
        set_word(0);
        panic!("asked for by APEX_FAULT");
    }
    let writer = match process.map.claim() {
        Ok(writer) => writer,
        Err(error) => {
            // The thread's birth, which would be its first event.
            process.map.add(ProcessWord::LostWithoutRing, 1);
            set_word(WITHOUT_RING);
            log_line(&format!("a thread is not recorded: no ring for it: {error}"));
            return None;
        }
    };
    let thread = Box::leak(Box::new(Thread {
        writer,
        context: core::ptr::null_mut(),
        context_good_for: 0,
        context_id: 0,
        device: u8::MAX,
        pace: match fault {
            // Detail is wanted of every launch, so every launch goes the full way.
            _ if extras::has(Extra::Detail) => Pace::Free,
            Some("slow-clock") => Pace::Calm,
            _ => Pace::of_this_clock(),
        },
        record_only: 0,
        record_only_at_gate: 0,
        sampling_room: Room::EMPTY,
        gate_room: Room::EMPTY,
        last_reading: (0, 0),
    }));
    thread.writer.push(&birth());
    end_is_wanted(&raw mut *thread);
    set_word(&raw mut *thread as usize);
    Some(thread)
}

/// The first event of each owner of a ring: whose it is from here on.
fn birth() -> Event {
    // SAFETY: a plain system call.
    let thread = unsafe { libc::gettid() };
    let life = Life {
        object: ObjectKind::Thread,
        begins: true,
        handle: u64::from(thread.cast_unsigned()),
        flags: 0,
        priority: 0,
    };
    let head = Head {
        call: CallId(u16::MAX),
        result: 0,
        start: time::ticks(),
        ticks: 0,
        device: u8::MAX,
        context: 0,
        stream: 0,
    };
    Event { head, what: What::Life(life) }
}

static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();

/// From here on `ends` is called with the block of each recorded thread that ends.
pub(crate) fn at_end(ends: unsafe extern "C" fn(*mut c_void)) {
    KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: a valid place for the key; the destructor is never unloaded.
        unsafe { libc::pthread_key_create(&raw mut key, Some(ends)) };
        key
    });
}

fn end_is_wanted(thread: *mut Thread) {
    if let Some(&key) = KEY.get() {
        // SAFETY: the key was made by `at_end`.
        unsafe { libc::pthread_setspecific(key, thread.cast()) };
    }
}

/// Gives the ring of a thread back at its end. `ends` sees the block before that.
///
/// # Safety
///
/// `block` is what the function of [`at_end`] was given.
pub(crate) unsafe fn release(block: *mut c_void, ends: impl FnOnce(&mut Thread)) {
    set_word(0);
    // SAFETY: set by `begin` from a leaked box and given here once, at the end of that thread.
    let mut thread = unsafe { Box::from_raw(block.cast::<Thread>()) };
    ends(&mut thread);
    thread.writer.release();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_is_empty_at_first_and_keeps_what_is_not_of_the_context() {
        #[repr(C)]
        struct Kept {
            of_context: u64,
            lasting: u64,
        }
        let mut room = Room::<1, 1>::EMPTY;
        // SAFETY: two numbers, the first in the words of the context; the room is never asked for as another type.
        let kept = unsafe { room.of::<Kept>() };
        assert_eq!((kept.of_context, kept.lasting), (0, 0));
        *kept = Kept { of_context: 7, lasting: 9 };
        room.leave_context();
        // SAFETY: as above.
        let kept = unsafe { room.of::<Kept>() };
        assert_eq!((kept.of_context, kept.lasting), (0, 9));
    }
}
