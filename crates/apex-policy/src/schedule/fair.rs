//! Shares of GPU time by weight, without classes: every program gets its part, and nobody goes first.
//!
//! A program that uses less than its part leaves the rest to the others. What is in flight stays short, so
//! that who had too much gives way within milliseconds.

use super::ledger::Ledger;
use super::policy::{Device, Observed, Policy, Settings};
use super::priority::strict;
use crate::gate::Limits;

const BUDGET_NS: u64 = 1_000_000;

/// Weighted shares.
#[derive(Debug, Default)]
pub(super) struct Fair {
    ledger: Ledger,
}

impl Policy for Fair {
    fn name(&self) -> &'static str {
        "fair"
    }

    fn step(&mut self, now_ns: u64, _device: &Device, programs: &[Observed<'_>]) -> Settings {
        let accounts = self.ledger.settle(now_ns, programs, |_| Some(0));
        if programs.len() < 2 {
            return Settings { programs: vec![Limits::OPEN; programs.len()] };
        }
        let limits = accounts.into_iter().map(|account| account.limit(strict(0, BUDGET_NS, 0)));
        Settings { programs: limits.collect() }
    }
}
