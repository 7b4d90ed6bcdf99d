//! Whether the machine has a processor to spare for a thread that spins.
//!
//! The thread tells how long each short stretch of its spinning took. One that took far longer than it does had another
//! program on the processor in between. Where that is more than a tenth of the time, the thread takes what others need,
//! and waits for its turn just when a launch should go: it is to stay away for a while.

/// A stretch of spinning takes less than this, in nanoseconds, unless the processor was taken away.
const STRETCH_NS: u64 = 100_000;
/// How long is looked at before anything is said.
const WINDOW_NS: u64 = 20_000_000;
/// The share of the window that may be lost, as one in so many.
const MAY_LOSE: u64 = 10;
/// How long the thread stays away.
const AWAY_NS: u64 = 200_000_000;

/// What the thread has found while it spun.
#[derive(Clone, Copy, Debug, Default)]
pub struct Room {
    spun_ns: u64,
    lost_ns: u64,
}

impl Room {
    /// A stretch of spinning took so long. Says for how many nanoseconds the thread is to stay away: mostly none.
    pub fn spun(&mut self, took_ns: u64) -> u64 {
        self.spun_ns += took_ns;
        if took_ns > STRETCH_NS {
            self.lost_ns += took_ns;
        }
        if self.spun_ns < WINDOW_NS {
            return 0;
        }
        let is_busy = self.lost_ns * MAY_LOSE > self.spun_ns;
        *self = Room::default();
        if is_busy { AWAY_NS } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_let_run_stays() {
        let mut room = Room::default();
        assert!((0..1_000_000).all(|_| room.spun(1_000) == 0));
        // Now and then another program runs for a moment.
        assert!((0..1_000).all(|_| (0..20).all(|_| room.spun(5_000_000 / 20 / 3) == 0)));
    }

    #[test]
    fn a_thread_that_waits_for_its_turn_goes_away() {
        let mut room = Room::default();
        let away: Vec<u64> =
            (0..100).map(|nth| room.spun(if nth % 10 == 0 { 4_000_000 } else { 1_000 })).collect();
        assert!(away.contains(&AWAY_NS), "{away:?}");
    }
}
