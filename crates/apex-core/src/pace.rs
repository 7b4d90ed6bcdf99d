//! How often a launch reads the clock where reading it is slow.
//!
//! A launch takes the driver three or four microseconds. On some virtual machines one reading of the clock
//! takes 40 ns, a hundredth of that, so there a thread that launches in a hurry reads it at one launch in
//! [`READ_EVERY`], before and after the driver. The launches between are recorded with the start
//! [`UNREAD`], and the collector gives them their times afterwards, between the readings around them. A
//! launch is always read when the thread's last call was another than a launch, when it is timed on the
//! GPU, and while launches come further apart than [`HURRIED_TICKS`]: programs that do something between
//! their launches have the start of each.
//!
//! What error remains: the collector spreads the unread launches evenly between two readings that lie no
//! further apart than a hurry allows, so a pause of the program among them moves a launch by less than
//! the stretch, 16 × 2^14 ticks or about 100 µs. Of a longer stretch it knows that it holds a pause, but
//! not behind which launch: the pause then stands whole, right before the second reading, and the up to
//! fifteen launches that came after it are shown before it. Order and counts are exact in any case.
//!
//! The end is read at one launch in [`READ_EVERY`] whether there is hurry or not: times in the driver are
//! extrapolated from those that were read, and must not favour the slow ones.

use crate::time;

/// Where the clock is slow, one launch in so many is read before and after.
pub const READ_EVERY: u64 = 16;
/// A thread whose launches are closer together than this is in a hurry: five to eight microseconds.
pub const HURRIED_TICKS: u64 = 1 << 14;
/// The start of a launch that was not read. No clock stands at zero once a program runs.
pub const UNREAD: u64 = 0;

/// What a launch reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Neither start nor end.
    Nothing,
    /// The start.
    Start,
    /// Start and end.
    Both,
}

/// How one thread reads the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Pace {
    /// The clock is cheap: every launch reads it twice.
    Free,
    /// It is slow, but launches are far apart: the start of each is read.
    Calm,
    /// It is slow and launches are close together.
    Hurried,
}

impl Pace {
    /// How a thread begins on this machine.
    #[must_use]
    pub fn of_this_clock() -> Pace {
        if time::is_cheap() { Pace::Free } else { Pace::Calm }
    }

    /// What the launch at this position of its thread's ring reads.
    #[inline(always)]
    #[must_use]
    pub fn reads(self, position: u64) -> Reads {
        match self {
            Pace::Free => Reads::Both,
            _ if (position + 1).is_multiple_of(READ_EVERY) => Reads::Both,
            Pace::Calm => Reads::Start,
            Pace::Hurried => Reads::Nothing,
        }
    }

    /// The pace after `launches` launches in `ticks` ticks.
    #[inline(always)]
    #[must_use]
    pub fn after(self, launches: u64, ticks: u64) -> Pace {
        match self {
            Pace::Free => Pace::Free,
            _ if is_hurry(launches, ticks) => Pace::Hurried,
            _ => Pace::Calm,
        }
    }

    /// The pace after a call that was no launch: the next launch is read.
    #[inline(always)]
    #[must_use]
    pub fn interrupted(self) -> Pace {
        if self == Pace::Hurried { Pace::Calm } else { self }
    }
}

/// Whether so many launches in so many ticks came one right after the other.
#[inline(always)]
#[must_use]
pub fn is_hurry(launches: u64, ticks: u64) -> bool {
    ticks < launches.saturating_mul(HURRIED_TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_starts(pace: Pace) -> usize {
        (0..64).filter(|&position| pace.reads(position) != Reads::Nothing).count()
    }

    #[test]
    fn only_a_hurry_leaves_starts_unread_and_ends_are_read_alike() {
        assert_eq!(read_starts(Pace::Free), 64);
        assert_eq!(read_starts(Pace::Calm), 64);
        assert_eq!(read_starts(Pace::Hurried), 4);
        let ends = |pace: Pace| (0..64).filter(move |&nth| pace.reads(nth) == Reads::Both);
        assert!(ends(Pace::Calm).eq(ends(Pace::Hurried)));
        assert_eq!(ends(Pace::Free).count(), 64);
    }

    #[test]
    fn the_pace_follows_the_launches() {
        assert_eq!(Pace::Calm.after(8, 8 * HURRIED_TICKS - 1), Pace::Hurried);
        assert_eq!(Pace::Hurried.after(8, 8 * HURRIED_TICKS), Pace::Calm);
        assert_eq!(Pace::Free.after(8, 1), Pace::Free);
        assert_eq!(Pace::Hurried.interrupted(), Pace::Calm);
        assert_eq!(Pace::Free.interrupted(), Pace::Free);
    }
}
