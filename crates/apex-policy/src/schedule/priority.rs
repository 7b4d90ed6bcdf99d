//! Classes alone: who is below waits while anyone above is active, and a little longer.
//!
//! Nothing is learned and nothing runs beside a burst. It is what a gate can do without any prediction but the
//! length of a launch, and the measure for the policies that know more.

use super::ledger::Ledger;
use super::policy::{Device, Observed, Policy, Settings, above};
use super::rescue::Rescue;
use crate::gate::Limits;

const BUDGET_NS: u64 = 500_000;
const GUARD_NS: u64 = 100_000;

/// Strict classes.
#[derive(Debug, Default)]
pub(super) struct Priority {
    ledger: Ledger,
    rescue: Rescue,
}

impl Policy for Priority {
    fn name(&self) -> &'static str {
        "priority"
    }

    fn step(&mut self, now_ns: u64, device: &Device, programs: &[Observed<'_>]) -> Settings {
        let held =
            |program: &Observed<'_>| (above(program, programs) != 0).then_some(program.class as u8);
        let accounts = self.ledger.settle(now_ns, programs, held);
        let limits = programs.iter().zip(accounts).map(|(program, account)| {
            match above(program, programs) {
                0 => Limits::OPEN,
                yields_to => account.limit(strict(yields_to, BUDGET_NS, GUARD_NS)),
            }
        });
        let mut limits: Vec<Limits> = limits.collect();
        self.rescue.apply(now_ns, device, programs, &mut limits);
        Settings { programs: limits }
    }
}

/// Nothing beside a burst, a guard after it.
pub(super) fn strict(yields_to: u64, budget_ns: u64, guard_ns: u64) -> Limits {
    Limits { open: false, yields_to, budget_ns, guard_ns, ..Limits::OPEN }
}
