//! The thread that sends what waits.
//!
//! It is begun by the first program that launches fast, spins while work comes and sleeps after [`SPIN`] without. While it
//! sleeps nothing is queued: a single launch is soonest at the GPU by the caller's own call. Launches that follow each
//! other closely wake it. Where it finds that the machine's processors are busy with other things it stays away for a
//! while ([`Room`]), for a thread that spins takes one of them.

use super::send;
use apex_core::time::monotonic_nanos;
use apex_policy::submit::Room;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Nanoseconds that the thread spins without work before it sleeps.
const SPIN: u64 = 50_000;
/// Launches closer to each other than this wake it.
const CLOSE: u64 = 50_000;
/// Looks at the ring between two looks at the clock.
const LOOKS: u32 = 32;

/// What the thread does.
static STATE: AtomicU32 = AtomicU32::new(ABSENT);
const ABSENT: u32 = 0;
const ASLEEP: u32 = 1;
/// It was woken, and does not run yet.
const WAKING: u32 = 2;
const AWAKE: u32 = 3;
/// There is no thread and there will be none.
const GONE: u32 = 4;

/// When a launch last found it asleep.
static LAST: AtomicU64 = AtomicU64::new(0);
/// Until when it must not be woken.
static AWAY_UNTIL: AtomicU64 = AtomicU64::new(0);
/// Its number in the system.
static NUMBER: AtomicI32 = AtomicI32::new(0);

/// Whether what is put into the ring is sent soon.
#[inline(always)]
pub(super) fn is_awake() -> bool {
    STATE.load(Ordering::Relaxed) == AWAKE
}

/// The thread's number in the system; 0 before it runs.
#[must_use]
pub fn number() -> i32 {
    NUMBER.load(Ordering::Relaxed)
}

/// In a child of `fork` there is no thread.
pub(super) fn gone() {
    STATE.store(GONE, Ordering::SeqCst);
}

/// Processors that this process may run on.
pub(super) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// A launch goes down while the thread is not awake. If the one before was close, it is woken for those that follow.
pub(super) fn wake_if_busy() {
    let now = monotonic_nanos();
    let before = LAST.swap(now, Ordering::Relaxed);
    if now.saturating_sub(before) > CLOSE || now < AWAY_UNTIL.load(Ordering::Relaxed) {
        return;
    }
    let turn =
        |from, to| STATE.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok();
    if turn(ASLEEP, WAKING) {
        wake();
    } else if turn(ABSENT, WAKING) && !begin() {
        gone();
    }
}

#[cold]
fn begin() -> bool {
    crate::threads::begin("apex-submit", 256 << 10, run)
}

fn run() {
    // SAFETY: a plain system call.
    NUMBER.store(unsafe { libc::gettid() }, Ordering::Relaxed);
    let mut room = Room::default();
    loop {
        STATE.store(AWAKE, Ordering::SeqCst);
        let away = work(&mut room);
        AWAY_UNTIL.store(monotonic_nanos() + away, Ordering::Relaxed);
        STATE.store(ASLEEP, Ordering::SeqCst);
        // Who saw it awake may have put something into the ring. A writer looks at the ring's lock, and that orders both.
        send::send_all();
        while STATE.load(Ordering::SeqCst) == ASLEEP {
            sleep();
        }
    }
}

/// Sends until nothing has come for a while. Says for how many nanoseconds it is to stay away.
fn work(room: &mut Room) -> u64 {
    let mut idle_since = monotonic_nanos();
    let mut before = idle_since;
    loop {
        let mut has_sent = false;
        for _ in 0..LOOKS {
            has_sent |= send::send_all();
            core::hint::spin_loop();
        }
        let now = monotonic_nanos();
        if has_sent {
            (idle_since, before) = (now, now);
            continue;
        }
        let away = room.spun(now - before);
        before = now;
        if away > 0 || now - idle_since > SPIN {
            return away;
        }
    }
}

fn sleep() {
    // SAFETY: waits on a word of this process for as long as it says that the thread sleeps.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            STATE.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            ASLEEP,
            core::ptr::null::<libc::timespec>(),
        );
    }
}

fn wake() {
    // SAFETY: wakes who waits on that word.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            STATE.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        );
    }
}
