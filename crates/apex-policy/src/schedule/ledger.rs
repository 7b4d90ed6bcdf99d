//! Who had how much: shares among programs of one class, and what held programs are owed.
//!
//! Two sums for each program. One says how far it is ahead of its equals, by weight: who is a quantum ahead
//! of the one that had least waits, which also drains the device for a program whose single launch is longer
//! than every budget. The other grows while the program is held and shrinks with what it gets: what is left
//! goes even while bursts are open. So nobody starves, whatever the classes above do, and the price is known:
//! [`MINIMUM_SHARE`] of the device.

use super::policy::Observed;
use crate::gate::Limits;
use std::collections::HashMap;

/// The part of the device that all held programs together get at least, however busy the classes above are;
/// each has its part of it by weight. A choice: 5 % is what the classes above may lose so that nobody starves.
pub const MINIMUM_SHARE: f64 = 0.05;
/// Nanoseconds: a program is owed nothing for the time that it was held before this. A choice: half of the minimum
/// then holds in any two seconds, and a debt is worth 50 ms of the device at most.
const GRACE_NS: f64 = 1e9;
/// Nanoseconds: a launch that has waited so long goes in any case. A choice: nothing that fails holds anybody for longer.
pub(super) const PATIENCE_NS: u64 = 1_000_000_000;
/// Nanoseconds that a program may be ahead of its equals. Three times what all of them can do between two questions
/// (2 ms), so that one that runs alone never waits.
const QUANTUM_NS: f64 = 6e6;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    admitted_ns: u64,
    /// Time it had, by weight, as far as its equals are concerned.
    virtual_ns: f64,
    /// It runs or wants to, now and at the last question.
    hungry: bool,
    was_hungry: bool,
    /// What it is owed; below zero for what it had beyond its minimum.
    owed_ns: f64,
    seen_ns: u64,
}

/// The sums of all programs.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    entries: HashMap<u64, Entry>,
    last_ns: u64,
}

/// What one program may take, as totals of admitted time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) allowed_ns: u64,
    pub(super) owed_ns: u64,
}

impl Account {
    /// Limits with these two.
    pub(super) fn limit(self, limits: Limits) -> Limits {
        Limits {
            allowed_ns: self.allowed_ns,
            owed_ns: self.owed_ns,
            patience_ns: PATIENCE_NS,
            ..limits
        }
    }
}

impl Ledger {
    /// Brings the sums to this moment. `group` gives the programs that share with each other one number;
    /// programs without one are not held.
    pub(super) fn settle(
        &mut self,
        now_ns: u64,
        programs: &[Observed<'_>],
        group: impl Fn(&Observed<'_>) -> Option<u8>,
    ) -> Vec<Account> {
        let passed = now_ns.saturating_sub(self.last_ns).min(100_000_000) as f64;
        self.last_ns = now_ns;
        let mut floors: HashMap<u8, (f64, u32)> = HashMap::new();
        let mut held_weight = 0.0;
        for program in programs {
            let entry = self.entries.entry(program.key).or_insert_with(|| Entry {
                admitted_ns: program.admitted_ns,
                owed_ns: f64::NEG_INFINITY,
                ..Entry::default()
            });
            let took = program.admitted_ns.saturating_sub(entry.admitted_ns) as f64;
            entry.admitted_ns = program.admitted_ns;
            entry.virtual_ns += took / weight(program);
            entry.owed_ns -= took;
            entry.seen_ns = now_ns;
            entry.hungry = program.waiting || program.in_flight_ns > 0 || took > 0.0;
            let Some(group) = group(program) else { continue };
            if entry.hungry {
                held_weight += weight(program);
                // Who was away comes back beside the others, not with what it left unused.
                if entry.was_hungry {
                    let floor = floors.entry(group).or_insert((f64::INFINITY, 0));
                    *floor = (floor.0.min(entry.virtual_ns), floor.1 + 1);
                }
            }
        }
        let mut accounts = Vec::with_capacity(programs.len());
        for program in programs {
            let Some(entry) = self.entries.get_mut(&program.key) else { continue };
            let hungry = entry.hungry;
            let Some(group) = group(program) else {
                entry.was_hungry = false;
                accounts.push(Account { allowed_ns: u64::MAX, owed_ns: 0 });
                continue;
            };
            let (floor, count) = floors.get(&group).copied().unwrap_or((f64::INFINITY, 0));
            if hungry && !entry.was_hungry && floor.is_finite() {
                entry.virtual_ns = entry.virtual_ns.max(floor);
            }
            entry.was_hungry = hungry;
            let rate = MINIMUM_SHARE * weight(program) / held_weight.max(weight(program));
            if hungry {
                entry.owed_ns += passed * rate;
            }
            entry.owed_ns = entry.owed_ns.clamp(-GRACE_NS * rate, GRACE_NS * rate);
            let ahead = entry.virtual_ns - floor;
            let room = ((QUANTUM_NS - ahead) * weight(program)).max(0.0);
            let alone = count < 2 || !floor.is_finite();
            accounts.push(Account {
                allowed_ns: if alone {
                    u64::MAX
                } else {
                    program.admitted_ns.saturating_add(room as u64)
                },
                // Who is owed nothing goes by no total: what was admitted is known to a few milliseconds only.
                owed_ns: match entry.owed_ns as u64 {
                    0 => 0,
                    owed_ns => program.admitted_ns.saturating_add(owed_ns),
                },
            });
        }
        self.entries.retain(|_, entry| entry.seen_ns == now_ns);
        accounts
    }
}

fn weight(program: &Observed<'_>) -> f64 {
    f64::from(program.share).clamp(1e-3, 1e3)
}

#[cfg(test)]
mod tests {
    use super::super::program::Class;
    use super::*;

    fn program(key: u64, share: f32, admitted_ns: u64, waiting: bool) -> Observed<'static> {
        Observed {
            slot: 0,
            key,
            class: Class::Batch,
            share,
            sla: None,
            bursts: &[],
            open_since_ns: None,
            exclusive: false,
            in_flight_ns: 0,
            admitted_ns,
            waited_ns: 0,
            waiting,
        }
    }

    #[test]
    fn who_had_more_by_weight_waits() {
        let mut ledger = Ledger::default();
        let mut admitted = [0_u64; 2];
        for step in 0..2_000_u64 {
            let programs = [program(1, 1.0, admitted[0], true), program(2, 3.0, admitted[1], true)];
            let accounts = ledger.settle(step * 2_000_000, &programs, |_| Some(0));
            // Each takes all it may, up to what the device can do.
            for (total, account) in admitted.iter_mut().zip(accounts) {
                *total += account.allowed_ns.saturating_sub(*total).min(1_000_000);
            }
        }
        let part = admitted[1] as f64 / admitted[0] as f64;
        assert!((2.9..3.1).contains(&part), "{part}");
    }

    #[test]
    fn who_is_alone_has_no_limit() {
        let mut ledger = Ledger::default();
        for step in 0..10 {
            let programs = [program(1, 1.0, step * 1_000, true), program(2, 1.0, 0, false)];
            let accounts = ledger.settle(step * 2_000_000, &programs, |_| Some(0));
            assert_eq!(accounts[0].allowed_ns, u64::MAX);
        }
    }

    #[test]
    fn who_is_held_is_owed_its_minimum_after_a_while() {
        let mut ledger = Ledger::default();
        let mut owed = Vec::new();
        for step in 0..=1_000_u64 {
            let programs = [program(1, 1.0, 0, true)];
            owed.push(ledger.settle(step * 2_000_000, &programs, |_| Some(0))[0].owed_ns);
        }
        assert_eq!(owed[400], 0);
        // Nor is one that gets more than that, whatever it was given before.
        let programs = [program(2, 1.0, 7_000_000, true)];
        assert_eq!(ledger.settle(2_002_000_000, &programs, |_| Some(0))[0].owed_ns, 0);
        let expected = (MINIMUM_SHARE * 1e9) as u64;
        assert!(owed[1_000].abs_diff(expected) < expected / 50, "{}", owed[1_000]);
    }
}
