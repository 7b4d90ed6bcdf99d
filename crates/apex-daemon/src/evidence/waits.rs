//! Waits that the program asked for, and those it did not.
//!
//! Work is outstanding on a stream from a launch until something waits for that stream. A call that waits by its
//! nature (a copy that returns when it is done, a free) while work is outstanding takes longer than it would
//! alone; the shortest call of the same function and size tells what it takes alone.

use crate::row::Row;
use apex_core::event::{AllocKind, SyncKind, What};
use apex_policy::advise::{Calls, Stall, Waits as Asked};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Who launches nothing for longer after a wait is busy with something else, or sleeps: launching ahead would not save
/// that. Some hundred launch calls; assumed.
const HOST_BUSY_NS: u64 = 1_000_000;

/// The waits of a session.
#[derive(Default)]
pub(super) struct Waits {
    asked: Asked,
    outstanding: HashMap<u32, HashSet<u64>>,
    /// End of the last wait of each thread after which nothing was outstanding.
    drained: HashMap<(u32, u32), u64>,
    calls: BTreeMap<(&'static str, u32), Hindered>,
}

#[derive(Clone, Copy, Default)]
struct Hindered {
    hindered: Calls,
    shortest_hindered: Option<u64>,
    shortest_alone: Option<u64>,
}

impl Waits {
    pub(super) fn add(&mut self, row: &Row, launches: bool) {
        let outstanding = self.outstanding.entry(row.process).or_default();
        if launches {
            outstanding.insert(row.stream);
            if let Some(end_ns) = self.drained.remove(&(row.process, row.tid)) {
                self.asked.drains += 1;
                let idle_ns = row.end_ns().saturating_sub(end_ns);
                if idle_ns <= HOST_BUSY_NS {
                    self.asked.drained_ns += idle_ns as f64;
                    self.asked.drained_launch_ns += row.host_ns as f64;
                }
            }
            return;
        }
        if let What::Sync { kind, object } = row.what {
            match kind {
                SyncKind::Context => {
                    self.asked.context.add(row.host_ns);
                    if outstanding.len() > 1 {
                        self.asked.context_over_streams.add(row.host_ns);
                    }
                    outstanding.clear();
                }
                SyncKind::Stream => {
                    self.asked.single.add(row.host_ns);
                    outstanding.remove(&object);
                    // The default stream has waited for all that wait for it.
                    if object <= 1 {
                        outstanding.clear();
                    }
                }
                SyncKind::Event => self.asked.single.add(row.host_ns),
            }
            if outstanding.is_empty() {
                self.drained.insert((row.process, row.tid), row.end_ns());
            }
            return;
        }
        let Some(bytes) = waits_by_nature(row) else { return };
        let entry = self.calls.entry((row.function(), bytes.max(1).ilog2())).or_default();
        let shortest = if outstanding.is_empty() {
            &mut entry.shortest_alone
        } else {
            entry.hindered.add(row.host_ns);
            outstanding.clear();
            &mut entry.shortest_hindered
        };
        *shortest = Some(shortest.unwrap_or(u64::MAX).min(row.host_ns));
    }

    pub(super) fn finish(self) -> (Asked, Vec<Stall>) {
        let mut stalls: BTreeMap<&str, Stall> = BTreeMap::new();
        for ((function, _), calls) in self.calls {
            let alone = match (calls.shortest_alone, calls.shortest_hindered) {
                (Some(alone), Some(hindered)) => alone.min(hindered),
                (alone, hindered) => alone.or(hindered).unwrap_or(0),
            };
            let stall = stalls.entry(function).or_default();
            stall.function = function.into();
            stall.calls.count += calls.hindered.count;
            stall.calls.host_ns += calls.hindered.host_ns;
            stall.unhindered_ns += alone as f64 * calls.hindered.count as f64;
        }
        let stalls = stalls.into_values().filter(|stall| stall.calls.count > 0).collect();
        (self.asked, stalls)
    }
}

/// Bytes concerned, if the call returns only when the work before it is done.
fn waits_by_nature(row: &Row) -> Option<u64> {
    match row.what {
        What::Copy(copy) => row.is_blocking_copy().then_some(copy.bytes),
        What::Free {
            kind: AllocKind::Plain | AllocKind::Managed | AllocKind::Host, bytes, ..
        } => Some(bytes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::row;

    #[test]
    fn a_sleep_after_a_wait_is_not_time_that_launching_ahead_saves() {
        let mut waits = Waits::default();
        let wait = What::Sync { kind: SyncKind::Context, object: 0 };
        for at_ns in [1_000, 2_000] {
            waits.add(&row(at_ns, wait), false);
            waits.add(&Row { host_ns: 400, ..row(at_ns + 500, What::Other) }, true);
        }
        waits.add(&row(10_000, wait), false);
        waits.add(&row(3_000_000_000, What::Other), true);
        let (asked, _) = waits.finish();
        assert_eq!((asked.drains, asked.drained_ns, asked.drained_launch_ns), (3, 1_800.0, 800.0));
    }
}
