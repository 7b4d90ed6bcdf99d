//! Reads the cheapest clock there is, and turns its ticks into nanoseconds afterwards.
//!
//! Inside the program only ticks are read (about 10 ns for the processor's counter against 25 to 50
//! for `clock_gettime`). The collector takes an [`Anchor`] (both clocks at once) now and then; two
//! anchors make a [`Scale`]. The counter is used only where the processor says that it runs at one
//! rate in all states; elsewhere the clock is the monotonic one and a tick is a nanosecond.

use std::sync::atomic::{AtomicU8, Ordering};

/// Which clock the ticks come from. All processes of one machine choose alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    Monotonic,
    /// The processor's time-stamp counter.
    Counter,
}

const UNDECIDED: u8 = 0;
const MONOTONIC: u8 = 1;
const COUNTER: u8 = 2;
const SLOW_COUNTER: u8 = 3;

/// A clock that takes this long to read is slow. Bare processors read their counter in about 8 ns; some
/// virtual machines take 40.
const SLOW_NANOS: u64 = 16;

static CHOSEN: AtomicU8 = AtomicU8::new(UNDECIDED);

impl Clock {
    /// The clock of this machine.
    #[inline]
    #[must_use]
    pub fn chosen() -> Clock {
        match CHOSEN.load(Ordering::Relaxed) {
            COUNTER | SLOW_COUNTER => Clock::Counter,
            MONOTONIC => Clock::Monotonic,
            _ => choose(),
        }
    }

    /// The clock's number in a ring file.
    #[must_use]
    pub fn code(self) -> u64 {
        match self {
            Clock::Monotonic => u64::from(MONOTONIC),
            Clock::Counter => u64::from(COUNTER),
        }
    }
}

#[cold]
fn choose() -> Clock {
    let code = match (counter_is_steady(), counter_nanos() < SLOW_NANOS) {
        (true, true) => COUNTER,
        (true, false) => SLOW_COUNTER,
        (false, _) => MONOTONIC,
    };
    CHOSEN.store(code, Ordering::Relaxed);
    if code == MONOTONIC { Clock::Monotonic } else { Clock::Counter }
}

/// What one reading of the counter takes.
fn counter_nanos() -> u64 {
    const READINGS: u64 = 256;
    let began = monotonic_nanos();
    for _ in 0..READINGS {
        std::hint::black_box(counter());
    }
    (monotonic_nanos() - began) / READINGS
}

/// Whether the clock is so cheap that it may be read twice on the way of a launch.
#[inline(always)]
#[must_use]
pub fn is_cheap() -> bool {
    CHOSEN.load(Ordering::Relaxed) == COUNTER
}

/// The current reading of the chosen clock.
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    match Clock::chosen() {
        Clock::Counter => counter(),
        Clock::Monotonic => monotonic_nanos(),
    }
}

/// `CLOCK_MONOTONIC` in nanoseconds.
#[must_use]
pub fn monotonic_nanos() -> u64 {
    clock_nanos(libc::CLOCK_MONOTONIC)
}

/// The wall clock, in nanoseconds since 1970.
#[must_use]
pub fn wall_nanos() -> u64 {
    clock_nanos(libc::CLOCK_REALTIME)
}

fn clock_nanos(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for the answer, and both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn counter() -> u64 {
    monotonic_nanos()
}

/// The processor promises a counter of constant rate that does not stop ("invariant TSC").
#[cfg(target_arch = "x86_64")]
fn counter_is_steady() -> bool {
    let leaf = |number| core::arch::x86_64::__cpuid(number);
    leaf(0x8000_0000).eax >= 0x8000_0007 && leaf(0x8000_0007).edx & (1 << 8) != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn counter_is_steady() -> bool {
    false
}

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Reading of the chosen clock.
    pub ticks: u64,
    /// `CLOCK_MONOTONIC`.
    pub nanos: u64,
}

impl Anchor {
    /// Reads both clocks, of several tries the one least disturbed.
    #[must_use]
    pub fn take() -> Anchor {
        let once = || {
            let before = ticks();
            let nanos = monotonic_nanos();
            let width = ticks().saturating_sub(before);
            (width, Anchor { ticks: before + width / 2, nanos })
        };
        let tries = [once(), once(), once(), once(), once()];
        tries.into_iter().min_by_key(|(width, _)| *width).map_or(once().1, |(_, anchor)| anchor)
    }
}

/// Turns ticks into nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    origin: Anchor,
    nanos_per_tick: f64,
}

impl Scale {
    /// From two anchors; the further apart, the better.
    #[must_use]
    pub fn between(first: Anchor, last: Anchor) -> Scale {
        let ticks = last.ticks.saturating_sub(first.ticks);
        let nanos = last.nanos.saturating_sub(first.nanos);
        #[expect(clippy::cast_precision_loss, reason = "a rate; differences stay far below 2^53")]
        let rate = if ticks == 0 || nanos == 0 { 1.0 } else { nanos as f64 / ticks as f64 };
        Scale { origin: first, nanos_per_tick: rate }
    }

    /// A moment, on the monotonic clock.
    #[must_use]
    pub fn moment(&self, ticks: u64) -> u64 {
        if ticks >= self.origin.ticks {
            self.origin.nanos.saturating_add(self.span(ticks - self.origin.ticks))
        } else {
            self.origin.nanos.saturating_sub(self.span(self.origin.ticks - ticks))
        }
    }

    /// The clock reading at a moment of the monotonic clock.
    #[must_use]
    pub fn reading(&self, moment: u64) -> u64 {
        let span = |nanos: u64| {
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "lengths of time are far below 2^53; a float above u64 saturates"
            )]
            let ticks = (nanos as f64 / self.nanos_per_tick) as u64;
            ticks
        };
        if moment >= self.origin.nanos {
            self.origin.ticks.saturating_add(span(moment - self.origin.nanos))
        } else {
            self.origin.ticks.saturating_sub(span(self.origin.nanos - moment))
        }
    }

    /// A length of time in nanoseconds.
    #[must_use]
    pub fn span(&self, ticks: u64) -> u64 {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "lengths of time are far below 2^53 ticks; a float above u64 saturates"
        )]
        let nanos = (ticks as f64 * self.nanos_per_tick) as u64;
        nanos
    }

    /// Nanoseconds of one tick.
    #[must_use]
    pub fn nanos_per_tick(&self) -> f64 {
        self.nanos_per_tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_follow_the_monotonic_clock() {
        let first = Anchor::take();
        std::thread::sleep(std::time::Duration::from_millis(30));
        let last = Anchor::take();
        let scale = Scale::between(first, last);
        let middle = scale.moment(first.ticks + (last.ticks - first.ticks) / 2);
        let expected = first.nanos + (last.nanos - first.nanos) / 2;
        assert!(middle.abs_diff(expected) < 1_000, "{middle} against {expected}");
        assert!(scale.moment(first.ticks - 1) <= first.nanos);
        let there_and_back = scale.moment(scale.reading(last.nanos + 1_000_000));
        assert!(there_and_back.abs_diff(last.nanos + 1_000_000) < 10);
    }

    #[test]
    fn two_equal_anchors_do_not_divide_by_zero() {
        let anchor = Anchor { ticks: 5, nanos: 9 };
        assert_eq!(Scale::between(anchor, anchor).moment(7), 11);
    }
}
