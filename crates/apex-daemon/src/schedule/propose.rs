//! Sees whether a program answers requests: bursts that it waits for, and pauses that are not its own doing.
//!
//! A program that trains waits for the GPU too, but goes on at once; one that answers requests stands idle
//! until the next comes. So what counts is how much of the time lies between the end of a wait and the next
//! input copy or launch, and that it is made of many pauses, not of one.

use crate::row::Row;
use apex_core::event::{Direction, What};

/// Fewest bursts that say anything.
const LEAST_BURSTS: usize = 20;
/// A pause is shorter than this only because of the program's own work.
const LEAST_PAUSE_NS: u64 = 300_000;
/// Part of the time that pauses must take.
const LEAST_IDLE: f64 = 0.25;

/// The bursts of a session, row by row.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    began: Option<u64>,
    waited: Option<u64>,
    first: Option<u64>,
    last: u64,
    lengths: Vec<u64>,
    pauses: Vec<u64>,
}

/// A program that works in bursts.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// Bursts.
    pub bursts: usize,
    /// The usual burst in nanoseconds.
    pub burst_ns: u64,
    /// Part of the time in which it was idle.
    pub idle: f64,
}

impl Rows {
    /// Looks at one row of the process that began first; rows come in the order of time.
    pub fn add(&mut self, row: &Row) {
        if row.process != 0 || row.result != 0 {
            return;
        }
        match row.what {
            What::Launch(_) | What::GraphLaunch { .. } => self.work(row),
            What::Copy(copy) => match (copy.direction, copy.asynchronous) {
                // A copy out belongs to a burst; one that the program waited for ends it.
                (Direction::DeviceToHost, true) => {}
                (Direction::DeviceToHost, false) => self.wait(row),
                _ => self.work(row),
            },
            What::Sync { .. } => self.wait(row),
            _ => {}
        }
    }

    fn work(&mut self, row: &Row) {
        self.first.get_or_insert(row.time_ns);
        self.last = row.end_ns();
        if self.began.is_none() {
            if let Some(waited) = self.waited.take() {
                self.pauses.push(row.time_ns.saturating_sub(waited));
            }
            self.began = Some(row.time_ns);
        }
    }

    fn wait(&mut self, row: &Row) {
        self.last = row.end_ns();
        if let Some(began) = self.began.take() {
            self.lengths.push(row.end_ns().saturating_sub(began));
        }
        self.waited = Some(row.end_ns());
    }

    /// Whether the program is one that answers requests.
    #[must_use]
    pub fn proposal(mut self) -> Option<Proposal> {
        let span = self.last.saturating_sub(self.first?);
        let long: Vec<u64> =
            self.pauses.iter().copied().filter(|&pause| pause >= LEAST_PAUSE_NS).collect();
        let idle = long.iter().sum::<u64>() as f64 / span.max(1) as f64;
        // One long pause, such as a user who has gone away, says nothing.
        let longest = long.iter().copied().max().unwrap_or(0) as f64 / span.max(1) as f64;
        if long.len() < LEAST_BURSTS || idle - longest < LEAST_IDLE {
            return None;
        }
        self.lengths.sort_unstable();
        let burst_ns = self.lengths.get(self.lengths.len() / 2).copied()?;
        Some(Proposal { bursts: long.len(), burst_ns, idle })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apex_core::KernelId;
    use apex_core::event::{Launch, LaunchShape, SyncKind};

    fn row(time_ns: u64, host_ns: u64, what: What) -> Row {
        Row { host_ns, ..crate::row::tests::row(time_ns, what) }
    }

    /// Bursts of a millisecond with pauses between them.
    fn bursts(count: u64, pause_ns: u64) -> Option<Proposal> {
        let mut rows = Rows::default();
        let shape = LaunchShape::default();
        let launch = Launch { kernel: KernelId(1), shape, cooperative: false, captured: false };
        for nth in 0..count {
            let start = nth * (1_000_000 + pause_ns);
            rows.add(&row(start, 1_000, What::Launch(launch)));
            let sync = What::Sync { kind: SyncKind::Stream, object: 0 };
            rows.add(&row(start + 2_000, 998_000, sync));
        }
        rows.proposal()
    }

    #[test]
    fn pauses_make_the_difference() {
        let found = bursts(100, 4_000_000).expect("it works in bursts");
        assert_eq!((found.bursts, found.burst_ns), (99, 1_000_000));
        assert!((0.7..0.9).contains(&found.idle), "{}", found.idle);
        assert_eq!(bursts(100, 50_000), None, "a training loop goes on at once");
        assert_eq!(bursts(10, 4_000_000), None, "ten bursts say little");
    }
}
