//! What is wanted of calls beside their record: one word for all of it, read once on the way of a launch.
//!
//! Most programs are only recorded. Each thing more (a gate, a tuning, a capture under way) had to be asked for
//! at every launch, and each question was a line of memory that the driver had pushed out of the cache
//! meanwhile. So everything that holds for the whole process and is rarely on has a bit or a count in here, and
//! a launch that reads zero is recorded and nothing else. What always holds:
//!
//! 1. Undecided counts as set: the word begins, and begins again in a forked child, as "not asked yet". Whoever
//!    reads that asks the settings for all of them ([`Extras::now`]), so none is missed by being first.
//! 2. A switch (`thread::switch`) is behind the decision, never under it: what a program says later is not overwritten by
//!    what its environment said before.
//! 3. A capture is counted before the program can use it. A launch reads the word before it goes down, so every
//!    launch into a capture finds the count raised; one too high costs a question to the driver.
//!
//! Launches that a thread has been allowed to make unseen (`Thread::record_only`, at most fifteen) do not read the word:
//! whoever switches something on ends those of its own thread, and other threads come here at their next reading
//! of the clock.

use crate::settings::knobs;
use crate::state::tuning::tuning;
use std::sync::atomic::{AtomicU64, Ordering};

/// Something that is wanted of calls beside their record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Extra {
    /// Launches ask at the gate of their GPU.
    Gate = 1 << 1,
    /// There is a tuning, and launches may get another shape.
    Tuning = 1 << 2,
    /// The pointers of launches and what uploads contain are noted.
    Detail = 1 << 3,
    /// What is copied to the host is hashed.
    Outputs = 1 << 4,
    /// The times of launches are foretold.
    Predictions = 1 << 5,
}

/// Each extra, and whether the settings ask for it.
fn wanted() -> [(Extra, bool); 5] {
    let knobs = knobs();
    let is_scheduled = knobs.class.is_some();
    [
        (Extra::Gate, knobs.enabled && is_scheduled),
        (Extra::Tuning, tuning().is_some()),
        (Extra::Detail, knobs.detail),
        (Extra::Outputs, knobs.enabled && knobs.outputs.is_some()),
        (Extra::Predictions, knobs.enabled && knobs.predict.unwrap_or(is_scheduled)),
    ]
}

/// The settings were not asked yet.
const UNDECIDED: u64 = 1;
/// Captures under way are counted from this bit on.
const CAPTURE: u64 = 1 << 16;

/// Read by [`Extras::now`], and by the entries of launches, which are written out in instructions.
pub(crate) static WORD: Word = Word::new();

/// What is wanted at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extras(u64);

impl Extras {
    /// Nothing but the record.
    pub(crate) const NONE: Extras = Extras(0);

    /// What is wanted now. The first call decides.
    #[inline(always)]
    pub(crate) fn now() -> Extras {
        let word = WORD.load();
        if word & UNDECIDED == 0 { Extras(word) } else { decide() }
    }

    /// Whether this is wanted.
    #[inline(always)]
    pub(crate) fn has(self, extra: Extra) -> bool {
        self.0 & extra as u64 != 0
    }

    /// Whether launches ask at the gate, and nothing else is to be done on their way.
    #[inline(always)]
    pub(crate) fn is_gate_alone(self) -> bool {
        const ELSEWHERE: u64 = Extra::Outputs as u64 | Extra::Predictions as u64;
        self.0 & !ELSEWHERE == Extra::Gate as u64
    }

    /// Whether any capture may be under way.
    #[inline(always)]
    pub(crate) fn captures(self) -> bool {
        self.0 >= CAPTURE
    }
}

/// Whether nothing is wanted but the record: one load, one branch.
#[inline(always)]
pub(crate) fn none() -> bool {
    WORD.load() == 0
}

/// Whether this is wanted now.
#[inline(always)]
pub(crate) fn has(extra: Extra) -> bool {
    !none() && Extras::now().has(extra)
}

/// Whether any capture may be under way; decides nothing.
#[inline(always)]
pub(crate) fn captures() -> bool {
    Extras(WORD.load()).captures()
}

/// Switches something on or off. Threads see it when they next read the word: see `thread::switch`.
pub(super) fn set(extra: Extra, on: bool) {
    Extras::now();
    WORD.set(extra, on);
}

/// A capture began somewhere.
pub(crate) fn capture_began() {
    WORD.change(|word| Some(word + CAPTURE));
}

/// A capture ended.
pub(crate) fn capture_ended() {
    WORD.change(|word| word.checked_sub(CAPTURE));
}

/// In a forked child: what its parent's program switched is not its own.
pub(crate) fn forget() {
    WORD.forget();
}

#[cold]
fn decide() -> Extras {
    let bits = wanted().into_iter().filter(|(_, is_wanted)| *is_wanted);
    WORD.decide(bits.fold(0, |bits, (extra, _)| bits | extra as u64))
}

/// The word itself.
#[repr(transparent)]
pub(crate) struct Word(AtomicU64);

impl Word {
    const fn new() -> Word {
        Word(AtomicU64::new(UNDECIDED))
    }

    #[inline(always)]
    fn load(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn change(&self, change: impl FnMut(u64) -> Option<u64>) {
        self.0.fetch_update(Ordering::SeqCst, Ordering::Relaxed, change).ok();
    }

    fn set(&self, extra: Extra, on: bool) {
        let bit = extra as u64;
        self.change(|word| Some(if on { word | bit } else { word & !bit }));
    }

    /// The first decision stands.
    fn decide(&self, bits: u64) -> Extras {
        self.change(|word| (word & UNDECIDED != 0).then_some(word & !UNDECIDED | bits));
        Extras(self.load())
    }

    fn forget(&self) {
        self.change(|word| Some(word & !(CAPTURE - 1) | UNDECIDED));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DETAIL: u64 = Extra::Detail as u64;

    #[test]
    fn undecided_counts_as_set_and_the_first_decision_stands() {
        let word = Word::new();
        assert_ne!(word.load(), 0);
        assert_eq!(word.decide(0), Extras::NONE);
        word.set(Extra::Gate, true);
        // A thread that asked the settings at the same time comes late.
        let seen = word.decide(DETAIL);
        assert!(seen.has(Extra::Gate) && !seen.has(Extra::Detail));
        word.set(Extra::Gate, false);
        assert_eq!(word.load(), 0);
    }

    #[test]
    fn captures_are_counted_beside_the_bits() {
        let word = Word::new();
        let began = |word: &Word| word.change(|there| Some(there + CAPTURE));
        let ended = |word: &Word| word.change(|there| there.checked_sub(CAPTURE));
        began(&word);
        began(&word);
        ended(&word);
        let seen = word.decide(DETAIL);
        assert!(seen.captures() && seen.has(Extra::Detail));
        ended(&word);
        ended(&word);
        assert_eq!(word.load(), DETAIL, "an end too many takes nothing away");
    }

    #[test]
    fn a_child_asks_again_and_keeps_its_captures() {
        let word = Word::new();
        word.decide(DETAIL);
        word.set(Extra::Gate, true);
        word.change(|there| Some(there + CAPTURE));
        word.forget();
        assert_eq!(word.load(), CAPTURE | UNDECIDED);
    }

    #[test]
    fn no_two_extras_share_a_bit_and_none_is_a_count() {
        let bits = wanted().map(|(extra, _)| extra as u64);
        let all = bits.iter().fold(UNDECIDED, |all, bit| {
            assert_eq!(all & bit, 0);
            all | bit
        });
        assert!(all < CAPTURE);
        assert!(bits.iter().all(|bit| bit.is_power_of_two()));
    }
}
