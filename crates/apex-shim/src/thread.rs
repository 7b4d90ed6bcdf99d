//! What each thread keeps: its ring, the context it last saw, how it reads the clock, its share of the
//! sampling.
//!
//! The thread's block is found through one word of static thread-local storage, read with two
//! instructions; the general way would call a function of the loader on every recorded call. Word 0
//! means "not started", 1 "not recorded", 2 "no ring was to be had"; else it is the block's address.

use crate::extras::{self, Extra, Extras};
use crate::gate::Tally;
use crate::process;
use crate::sample::Sampler;
use apex_core::event::{CallId, Event, Head, Life, ObjectKind, What};
use apex_core::pace::{Pace, READ_EVERY, Reads};
use apex_core::ring::{ProcessWord, Writer};
use apex_core::time;
use apex_cuda::types::CUcontext;
use core::arch::{asm, global_asm};
use std::sync::OnceLock;

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
    pub(crate) easy: u32,
    /// The same for a thread whose launches are counted one by one at an open gate.
    easy_at_gate: u32,
    /// Which of its launches are timed.
    pub(crate) sampler: Sampler,
    /// The context that was current at its last recorded call, with its number and device above.
    pub(crate) context: CUcontext,
    /// Itself at the gate of its GPU.
    pub(crate) tally: Tally,
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

    /// A launch was recorded: how many of the next ones are easy. One that gets another shape is not.
    #[inline(always)]
    pub(crate) fn foresee(&mut self) {
        if self.pace != Pace::Hurried {
            return;
        }
        let extras = Extras::now();
        let gate = extras.has(Extra::Gate);
        let unseen = if gate { self.tally.may_go_unseen() } else { u32::MAX };
        if unseen == 0 || extras.has(Extra::Tuning) {
            return;
        }
        let until_reading = READ_EVERY - 1 - self.writer.position() % READ_EVERY;
        let most = (until_reading as u32).min(self.context_good_for).min(unseen);
        let easy = self.sampler.look_away(most);
        self.context_good_for -= easy;
        if gate && self.tally.is_in_burst() {
            self.easy_at_gate = easy;
        } else {
            self.easy = easy;
            self.tally.passed(easy);
        }
    }

    /// No launch is easy any more: something has changed.
    #[inline(always)]
    pub(crate) fn look_closer(&mut self) {
        (self.easy, self.easy_at_gate) = (0, 0);
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

/// A launch that is only recorded ([`Thread::easy`]), counted by its thread already.
pub(crate) struct Easy(*mut Thread);

/// The next launch of this thread, if it is easy.
#[inline(always)]
pub(crate) fn easy() -> Option<Easy> {
    let thread = current_if_started()?;
    thread.easy = thread.easy.checked_sub(1)?;
    Some(Easy(thread))
}

/// The next launch of this thread, if it is easy once an open gate has counted it.
#[inline(always)]
pub(crate) fn easy_at_gate() -> Option<Easy> {
    let thread = current_if_started()?;
    thread.easy_at_gate = thread.easy_at_gate.checked_sub(1)?;
    Some(Easy(thread))
}

impl Easy {
    /// The thread, after the driver has answered.
    #[inline(always)]
    pub(crate) fn thread(&mut self) -> &mut Thread {
        // SAFETY: this thread's own block, which lives until the thread ends; nobody else borrows it
        // between two calls of the driver.
        unsafe { &mut *self.0 }
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
    let fault = process::knobs().fault.as_deref();
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
            process::log_line(&format!("a thread is not recorded: no ring for it: {error}"));
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
            // Detail is told of every launch, so every launch goes the full way.
            _ if extras::has(Extra::Detail) => Pace::Free,
            Some("slow-clock") => Pace::Calm,
            _ => Pace::of_this_clock(),
        },
        easy: 0,
        easy_at_gate: 0,
        sampler: Sampler::new(process.started),
        tally: Tally::default(),
        last_reading: (0, 0),
    }));
    thread.writer.push(&birth());
    at_thread_exit(&raw mut *thread);
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

fn at_thread_exit(thread: *mut Thread) {
    let key = *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: a valid place for the key; the destructor is never unloaded.
        unsafe { libc::pthread_key_create(&raw mut key, Some(release)) };
        key
    });
    // SAFETY: the key was made above.
    unsafe { libc::pthread_setspecific(key, thread.cast()) };
}

unsafe extern "C" fn release(thread: *mut libc::c_void) {
    set_word(0);
    // SAFETY: set by `start` from a leaked box and given here once, at the end of that thread.
    let mut thread = unsafe { Box::from_raw(thread.cast::<Thread>()) };
    thread.tally.end();
    thread.writer.release();
}
