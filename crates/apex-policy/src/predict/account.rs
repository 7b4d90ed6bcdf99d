//! Costs that may be right for a kernel, with what they leave of its measured launches.
//!
//! What is left is a Gaussian process over the launches ([`Likeness`]). Its equations are kept solved as the lower
//! triangle of Cholesky's factor, so that one more launch adds one row and an answer takes microseconds.

use super::compared::Launch;
use super::likeness::{Coordinates, Likeness};
use super::own_costs::{OwnCosts, PRICE};
use super::question::Near;

/// One kind of costs with the equations of what it leaves, solved; a further launch adds one row.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) own: OwnCosts,
    /// What this kernel makes of the likeness of all.
    likeness: Likeness,
    coordinates: Vec<Coordinates>,
    /// The lower triangle of Cholesky's factor, row after row.
    factor: Vec<f64>,
    /// What each launch adds to an answer; empty until asked for.
    weights: Vec<f64>,
    /// The logarithm of how likely the launches are, less what is the same for all accounts.
    log_likelihood: f64,
}

impl Account {
    /// Without any launch.
    pub(super) fn new(likeness: Likeness, own: OwnCosts) -> Account {
        Account {
            own,
            likeness,
            coordinates: Vec::new(),
            factor: Vec::new(),
            weights: Vec::new(),
            log_likelihood: 0.0,
        }
    }

    /// Times have changed, but not the launches.
    pub(super) fn times_changed(&mut self) {
        self.weights.clear();
    }

    /// Drops what was solved, not what was learned.
    pub(super) fn forget(&mut self) {
        self.coordinates.clear();
        self.factor.clear();
        self.weights.clear();
    }

    /// How likely it is with what was measured and without.
    pub(super) fn likely(&self) -> f64 {
        self.log_likelihood - if self.own.turned.is_some() { PRICE } else { 0.0 }
    }

    /// Adds the launches that are not yet there.
    pub(super) fn extend(&mut self, entries: &[(Launch, f32)]) {
        for (launch, over_expected) in &entries[self.coordinates.len()..] {
            let at = self.likeness.coordinates(&launch.signature);
            let mut row = self.halfway(&self.with_all(&at));
            let (_, noise) = self.own.left(launch, *over_expected);
            let own = self.likeness.together(&at, &at) + noise * f64::from(self.likeness.noise);
            let left = own - row.iter().map(|value| value * value).sum::<f64>();
            row.push(left.max(f64::from(self.likeness.noise) * 0.1).sqrt());
            self.factor.extend(row);
            self.coordinates.push(at);
            self.weights.clear();
        }
        if self.weights.is_empty() {
            let times: Vec<f64> = entries
                .iter()
                .zip(&self.coordinates)
                .map(|((launch, time), at)| self.own.left(launch, *time).0 - f64::from(at.usual))
                .collect();
            let half = self.halfway(&times);
            let fit: f64 = half.iter().map(|value| value * value).sum();
            let logs: f64 =
                (1..=times.len()).map(|nth| self.factor[nth * (nth + 1) / 2 - 1].ln()).sum();
            self.log_likelihood = -0.5 * fit - logs;
            self.weights = self.back(half);
        }
    }

    fn with_all(&self, at: &Coordinates) -> Vec<f64> {
        self.coordinates.iter().map(|known| self.likeness.together(known, at)).collect()
    }

    /// Solves for the lower triangle.
    fn halfway(&self, right: &[f64]) -> Vec<f64> {
        let mut found = Vec::with_capacity(right.len() + 1);
        let mut start = 0;
        for (nth, value) in right.iter().enumerate() {
            let row = &self.factor[start..=start + nth];
            let sum: f64 = row.iter().zip(&found).map(|(a, b): (&f64, &f64)| a * b).sum();
            found.push((value - sum) / row[nth]);
            start += nth + 1;
        }
        found
    }

    /// Solves for the upper triangle.
    fn back(&self, mut right: Vec<f64>) -> Vec<f64> {
        for nth in (0..right.len()).rev() {
            let start = nth * (nth + 1) / 2;
            let row = &self.factor[start..=start + nth];
            right[nth] /= row[nth];
            let found = right[nth];
            right[..nth].iter_mut().zip(row).for_each(|(value, part)| *value -= part * found);
        }
        right
    }

    /// What launches like it took, by these costs.
    pub(super) fn near(&self, launch: &Launch) -> Near {
        let at = self.likeness.coordinates(&launch.signature);
        let with_all = self.with_all(&at);
        let mean: f64 = with_all.iter().zip(&self.weights).map(|(a, b)| a * b).sum();
        let known: f64 = self.halfway(&with_all).iter().map(|value| value * value).sum();
        let doubt = (self.likeness.together(&at, &at) - known).max(0.0).sqrt() as f32;
        let above = self.own.above_floor(launch) + at.usual + mean as f32;
        // Doubt of what is above a large floor is little doubt of the whole.
        let width = launch.with_floor(above + doubt) - launch.with_floor(above - doubt);
        Near {
            mean: launch.with_floor(above) - launch.log_expected,
            deviation: (0.25 * width * width + self.likeness.noise).sqrt(),
        }
    }
}
