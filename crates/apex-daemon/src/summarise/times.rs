//! Measured GPU times by how they were measured, and what follows from their sums.

use apex_core::event::TimeBasis;

/// Number and sum of the measured times, by basis.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    pub(super) by_basis: [(u64, u64); TimeBasis::ALL.len()],
}

/// A measured mean: nanoseconds, how many were timed, how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mean {
    pub(super) nanos: f64,
    pub(super) timed: u64,
    pub(super) basis: TimeBasis,
}

impl Times {
    pub(super) fn mean(&self) -> Option<Mean> {
        [TimeBasis::Cupti, TimeBasis::EventPair, TimeBasis::EventPairIdle].into_iter().find_map(
            |basis| {
                let (timed, sum) = self.by_basis[usize::from(basis.code())];
                (timed > 0).then(|| Mean { nanos: sum as f64 / timed as f64, timed, basis })
            },
        )
    }

    pub(super) fn of(&self, basis: TimeBasis) -> (u64, u64) {
        self.by_basis[usize::from(basis.code())]
    }

    pub(super) fn plus(mut self, other: &Times) -> Times {
        for (sum, more) in self.by_basis.iter_mut().zip(other.by_basis) {
            *sum = (sum.0 + more.0, sum.1.saturating_add(more.1));
        }
        self
    }
}

/// GPU time over all executions.
pub(super) fn total(mean: Mean, executed: u64) -> f64 {
    let executions = if mean.basis == TimeBasis::Cupti { mean.timed } else { executed };
    mean.nanos * executions as f64
}

/// A part as a share of the whole; none of nothing.
pub(super) fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
