//! Lets a program through whose launched work the device itself never starts.
//!
//! Where the blocks of latency-critical programs go first on the device, programs above that are never idle keep
//! work below from running at all, whatever the gate let go. So when a program has work on the device and nothing
//! of it ends for half a second, the classes above it launch nothing until something does, for a bounded time.
//! It happens only in overload: one idle moment above is enough to make it unnecessary.

use super::ledger::PATIENCE_NS;
use super::policy::{Device, Observed};
use crate::gate::Limits;
use std::collections::HashMap;

/// Nanoseconds: work that has not moved for so long is stuck. Half of the patience, and longer than any kernel measured.
const STUCK_NS: u64 = 500_000_000;
/// Nanoseconds that the classes above pause for at most, and not again for as long: with [`STUCK_NS`] that is less
/// than the patience.
const PAUSE_NS: u64 = 400_000_000;

/// What has moved, and who pauses.
#[derive(Debug, Default)]
pub(super) struct Rescue {
    /// Total known to have ended of each program, and since when it stands.
    moved: HashMap<u64, (u64, u64)>,
    /// Whom the others pause for, and since when.
    pause: Option<(u64, u64)>,
    not_before_ns: u64,
}

impl Rescue {
    /// Closes the gate of the programs above one that is stuck.
    pub(super) fn apply(
        &mut self,
        now_ns: u64,
        device: &Device,
        programs: &[Observed<'_>],
        limits: &mut [Limits],
    ) {
        self.moved.retain(|key, _| programs.iter().any(|program| program.key == *key));
        let mut stuck: Option<&Observed<'_>> = None;
        for program in programs {
            let ended = program.admitted_ns.saturating_sub(program.in_flight_ns);
            let entry = self.moved.entry(program.key).or_insert((ended, now_ns));
            if entry.0 != ended || program.in_flight_ns == 0 {
                *entry = (ended, now_ns);
            }
            // Of several the weakest: what pauses for it pauses for the others too.
            if now_ns.saturating_sub(entry.1) >= STUCK_NS
                && stuck.is_none_or(|other| program.class < other.class)
                && programs.iter().any(|other| other.class > program.class)
            {
                stuck = Some(program);
            }
        }
        if !device.prioritised {
            return;
        }
        if let Some((key, since)) = self.pause {
            let moved = self.moved.get(&key).is_none_or(|(_, stands)| *stands > since);
            if moved || now_ns.saturating_sub(since) > PAUSE_NS {
                self.pause = None;
                self.not_before_ns = now_ns + (now_ns - since);
            }
        }
        if self.pause.is_none() && now_ns >= self.not_before_ns {
            self.pause = stuck.map(|program| (program.key, now_ns));
        }
        let Some(class) = self.pause.and_then(|(key, _)| {
            programs.iter().find(|program| program.key == key).map(|program| program.class)
        }) else {
            return;
        };
        for (program, limits) in programs.iter().zip(limits) {
            if program.class > class {
                limits.open = false;
                limits.allowed_ns = program.admitted_ns;
                limits.patience_ns = PATIENCE_NS;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::program::Class;
    use super::*;

    #[test]
    fn those_above_pause_until_something_moves() {
        let device = Device { sms: 132, shared: true, prioritised: true };
        let program = |key, class, in_flight_ns| Observed {
            slot: 0,
            key,
            class,
            share: 1.0,
            sla: None,
            bursts: &[],
            open_since_ns: None,
            exclusive: false,
            in_flight_ns,
            admitted_ns: 1_000,
            waited_ns: 0,
            waiting: false,
        };
        let mut rescue = Rescue::default();
        let mut pauses = |now_ms: u64, in_flight_ns| {
            let programs =
                [program(1, Class::Latency, 500), program(2, Class::Batch, in_flight_ns)];
            let mut limits = [Limits::OPEN; 2];
            rescue.apply(now_ms * 1_000_000, &device, &programs, &mut limits);
            assert!(limits[1].open);
            !limits[0].open
        };
        assert!(!pauses(0, 100));
        assert!(!pauses(498, 100));
        assert!(pauses(500, 100));
        assert!(pauses(600, 100));
        assert!(!pauses(620, 50));
        assert!(!pauses(1_118, 50));
        assert!(pauses(1_130, 50));
        // Not for ever, and then not at once again.
        assert!(!pauses(1_540, 50));
        assert!(!pauses(1_900, 50));
        assert!(pauses(1_960, 50));
    }
}
