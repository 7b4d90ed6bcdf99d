//! Laxity: others wait only while a promise is in danger.
//!
//! An open burst has a deadline: its begin and its limit. What remains until then, less what it still needs, is
//! its laxity. While every open burst has plenty, nobody waits; when one has not, all that is less urgent
//! waits for it. Between two latency-critical programs the one with less laxity goes first. Without a promise
//! the limit is half as much again as a burst takes alone. It gives more away than `priority` where promises
//! are loose, and is as strict where they are tight.

use super::ledger::Ledger;
use super::policy::{Device, Observed, Policy, Settings, above, bit};
use super::priority::strict;
use super::program::Class;
use super::rescue::Rescue;
use crate::gate::Limits;
use std::collections::HashMap;

const BUDGET_NS: u64 = 500_000;
const GUARD_NS: u64 = 30_000;
/// Limit of a burst without a promise, over its length alone.
const USUAL_LIMIT: f64 = 1.5;
/// The part of the way that the usual length goes towards a burst, towards a shorter one and a longer one: so it stays
/// near that of the shorter ones, which are those that nothing ran beside.
const TOWARDS: [f64; 2] = [1.0 / 8.0, 1.0 / 64.0];
/// The decision stands until the next question, and then for what is in flight.
const MARGIN_NS: i64 = 3_000_000;

/// Least laxity first.
#[derive(Debug, Default)]
pub(super) struct Deadline {
    ledger: Ledger,
    rescue: Rescue,
    /// The usual length of a burst alone, of each latency-critical program.
    lengths_ns: HashMap<u64, f64>,
}

impl Policy for Deadline {
    fn name(&self) -> &'static str {
        "deadline"
    }

    fn step(&mut self, now_ns: u64, device: &Device, programs: &[Observed<'_>]) -> Settings {
        self.lengths_ns.retain(|key, _| programs.iter().any(|program| program.key == *key));
        let laxities: Vec<Option<i64>> =
            programs.iter().map(|program| self.laxity_ns(now_ns, program)).collect();
        let urgent = |than: Option<i64>| {
            let ahead = programs.iter().zip(&laxities).filter(|(_, laxity)| {
                laxity.is_some_and(|laxity| than.is_none_or(|than| laxity < than))
            });
            ahead.fold(0, |slots, (program, _)| slots | bit(program))
        };
        let held =
            |program: &Observed<'_>| (above(program, programs) != 0).then_some(program.class as u8);
        let accounts = self.ledger.settle(now_ns, programs, held);
        let each = programs.iter().zip(&laxities).zip(accounts);
        let limits = each.map(|((program, &laxity), account)| {
            let yields_to = if program.class == Class::Latency {
                // Whoever is in danger itself waits for nobody; the others for those that are.
                laxity.map_or(urgent(None), |_| 0)
            } else {
                above(program, programs) & (urgent(None) | without_deadline(program, programs))
            } & !bit(program);
            match (above(program, programs), yields_to) {
                (0, 0) => Limits::OPEN,
                _ => account.limit(strict(yields_to, BUDGET_NS, GUARD_NS)),
            }
        });
        let mut limits: Vec<Limits> = limits.collect();
        self.rescue.apply(now_ns, device, programs, &mut limits);
        Settings { programs: limits }
    }
}

impl Deadline {
    /// What the program's burst, open or to come, can still lose; none while that is plenty.
    fn laxity_ns(&mut self, now_ns: u64, program: &Observed<'_>) -> Option<i64> {
        if program.class != Class::Latency {
            return None;
        }
        for length_ns in program.bursts.iter().map(|burst| burst.length_ns() as f64) {
            let usual_ns = self.lengths_ns.entry(program.key).or_insert(length_ns);
            *usual_ns += (length_ns - *usual_ns) * TOWARDS[usize::from(length_ns > *usual_ns)];
        }
        let Some(&length) = self.lengths_ns.get(&program.key) else { return Some(0) };
        let length = length as u64;
        let limit = program.sla.map_or((length as f64 * USUAL_LIMIT) as u64, |sla| sla.limit_ns);
        let passed = program.open_since_ns.map_or(0, |since| now_ns.saturating_sub(since));
        // Beside others a burst may need twice as long for what remains.
        let remains = length.saturating_sub(passed).max(length / 8);
        let laxity = limit as i64 - passed as i64 - 2 * remains as i64;
        (laxity < MARGIN_NS).then_some(laxity)
    }
}

/// Programs above that promise nothing and have no bursts: normal ones, before which batch work waits.
fn without_deadline(program: &Observed<'_>, programs: &[Observed<'_>]) -> u64 {
    let normal = programs.iter().filter(|other| other.class == Class::Normal);
    let normal = normal.filter(|other| other.class > program.class);
    normal.fold(0, |slots, other| slots | bit(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Burst;

    const FIVE_MS: [Burst; 1] =
        [Burst { start_ns: 0, end_ns: 5_000_000, launches: 1, ahead_ns: 0, work_ns: 0 }];

    fn program(slot: u8, class: Class, sla: Option<&str>) -> Observed<'static> {
        Observed {
            slot,
            key: u64::from(slot),
            class,
            share: 1.0,
            sla: sla.map(|text| text.parse().unwrap()),
            bursts: &[],
            open_since_ns: None,
            exclusive: false,
            in_flight_ns: 0,
            admitted_ns: 0,
            waited_ns: 0,
            waiting: false,
        }
    }

    fn batch_yields(sla: Option<&str>, open_for_ms: Option<u64>) -> bool {
        let now_ns = 1_000_000_000;
        let device = Device { sms: 132, shared: true, prioritised: true };
        let latency = Observed {
            open_since_ns: open_for_ms.map(|millis| now_ns - millis * 1_000_000),
            bursts: &FIVE_MS,
            ..program(0, Class::Latency, sla)
        };
        let batch = program(1, Class::Batch, None);
        let settings = Deadline::default().step(now_ns, &device, &[latency, batch]);
        assert!(settings.programs[0].open);
        settings.programs[1].yields_to == 1
    }

    #[test]
    fn a_loose_promise_lets_others_go_until_it_is_tight() {
        assert!(!batch_yields(Some("p95=50ms"), None));
        assert!(!batch_yields(Some("p95=50ms"), Some(30)));
        assert!(batch_yields(Some("p95=50ms"), Some(47)));
        assert!(batch_yields(Some("p95=6ms"), None));
        assert!(batch_yields(None, None));
    }

    #[test]
    fn the_tight_one_goes_before_the_loose_one() {
        let device = Device { sms: 132, shared: true, prioritised: true };
        let programs = [
            Observed { bursts: &FIVE_MS, ..program(0, Class::Latency, Some("p95=100ms")) },
            Observed { bursts: &FIVE_MS, ..program(1, Class::Latency, Some("p95=6ms")) },
        ];
        let settings = Deadline::default().step(0, &device, &programs);
        assert_eq!(settings.programs[0].yields_to, 2);
        assert!(settings.programs[1].open);
    }
}
