//! How much work is still on the device, between the moments at which that is known.
//!
//! An end is learned from an event, and events are few. In between the clock drains what was launched: while
//! nothing else holds the device, a nanosecond does a nanosecond of work. A wrong prediction is put right by the
//! next event; a burst of another program stops the clock.

/// Work of one program in flight, in predicted time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Launched and not known to have ended.
    total_ns: u64,
    /// Time that has drained it since the last known end, and until when that was counted.
    drained_ns: u64,
    counted_ns: u64,
}

impl Backlog {
    /// A launch goes to the device.
    pub fn launched(&mut self, now_ns: u64, predicted_ns: u64) {
        if self.total_ns == 0 {
            (self.drained_ns, self.counted_ns) = (0, now_ns);
        }
        self.total_ns = self.total_ns.saturating_add(predicted_ns);
    }

    /// Launches of so much predicted time are known to have ended.
    pub fn ended(&mut self, now_ns: u64, predicted_ns: u64) {
        self.total_ns = self.total_ns.saturating_sub(predicted_ns);
        (self.drained_ns, self.counted_ns) = (0, now_ns);
    }

    /// Counts the time until now. It drains the backlog unless another program holds the device; time in which
    /// nothing was left drains nothing.
    pub fn count(&mut self, now_ns: u64, drains: bool) {
        let passed = now_ns.saturating_sub(self.counted_ns);
        self.counted_ns = self.counted_ns.max(now_ns);
        if drains {
            self.drained_ns = self.drained_ns.saturating_add(passed).min(self.total_ns);
        }
    }

    /// What is left on the device, as far as it was counted.
    #[must_use]
    pub fn left_ns(&self) -> u64 {
        self.total_ns.saturating_sub(self.drained_ns)
    }

    /// What is not known to have ended.
    #[must_use]
    pub fn unknown_ns(&self) -> u64 {
        self.total_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_drains_and_events_correct() {
        let mut backlog = Backlog::default();
        backlog.launched(1_000, 300);
        backlog.launched(1_010, 500);
        backlog.count(1_100, true);
        assert_eq!(backlog.left_ns(), 700);
        backlog.count(1_200, false);
        assert_eq!(backlog.left_ns(), 700);
        // The first took longer than predicted.
        backlog.ended(1_450, 300);
        assert_eq!((backlog.left_ns(), backlog.unknown_ns()), (500, 500));
        backlog.count(9_000, true);
        assert_eq!((backlog.left_ns(), backlog.unknown_ns()), (0, 500));
        backlog.launched(9_000, 700);
        assert_eq!(backlog.left_ns(), 700);
        backlog.ended(9_001, 1_200);
        backlog.launched(20_000, 50);
        backlog.count(20_010, true);
        assert_eq!(backlog.left_ns(), 40);
    }
}
