//! Device memory grows steadily: when will it run out?
//!
//! A straight line is fitted to the memory held over the launches of the steady phase: a round that leaks does so
//! however long it takes, and pauses bend nothing. Only growth that the line explains nearly whole, and that goes on
//! in each quarter of the launches, is called so: a cache that fills up bends. When memory is full is told by the
//! time that the growth took.

use super::Rule;
use crate::advise::{Basis, Evidence, Finding, Gain, Severity};
use crate::amounts::{bytes, nanos};

pub(super) const RULE: Rule = Rule {
    name: "memory-leak",
    sees: "device memory that grows along a straight line through the steady phase",
    says: "name the growth a second and when the device's memory will be full; gains no time",
    find,
};

const POINTS: usize = 16;
const EXPLAINED: f64 = 0.95;
const LEAST_BYTES: f64 = 65_536.0;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let points = &evidence.growth.points;
    let (Some(&(begin, first)), Some(&(end, last))) = (points.first(), points.last()) else {
        return vec![];
    };
    if points.len() < POINTS || last - first < LEAST_BYTES || end <= begin {
        return vec![];
    }
    let explained = explained(points);
    // Each quarter has its part: a single step, or a cache that fills up, is no leak.
    let quarter = |nth: usize| points[(points.len() - 1) * nth / 4].1;
    let steady = (0..4).all(|nth| quarter(nth + 1) - quarter(nth) > 0.1 * (last - first));
    if explained < EXPLAINED || !steady {
        return vec![];
    }
    let slope = (last - first) / (end - begin);
    let left = (evidence.growth.memory_bytes as f64 - last).max(0.0);
    let full_ns = left / slope;
    let finding = Finding::of(RULE.name, 0.0, Gain { basis: Basis::Measured, ..Gain::NONE }).saying(
        format!("device memory grows by {} a second", bytes((slope * 1e9) as u64)),
        format!(
            "from {} to {} along a line that explains {:.0} % of it; at this rate the device's {} are full in {}",
            bytes(first as u64),
            bytes(last as u64),
            explained * 100.0,
            bytes(evidence.growth.memory_bytes),
            nanos(full_ns)
        ),
        "free what each round allocates, or keep and use it again".into(),
    );
    vec![Finding { severity: Severity::Warning, ..finding }]
}

/// The share of the variance of the bytes held that a line over the launches explains.
fn explained(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean_launch = (count - 1.0) / 2.0;
    let mean_bytes = points.iter().map(|point| point.1).sum::<f64>() / count;
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (launch, (_, bytes)) in points.iter().enumerate() {
        let (x, y) = (launch as f64 - mean_launch, bytes - mean_bytes);
        xx += x * x;
        xy += x * y;
        yy += y * y;
    }
    if xx > 0.0 && yy > 0.0 { xy * xy / (xx * yy) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::Growth;

    fn with(held: impl Fn(f64) -> f64) -> Vec<Finding> {
        at(|nth| nth * 1e6, held)
    }

    fn at(time: impl Fn(f64) -> f64, held: impl Fn(f64) -> f64) -> Vec<Finding> {
        let points = (0..64).map(f64::from).map(|nth| (time(nth), held(nth))).collect();
        let growth = Growth { points, memory_bytes: 1 << 30 };
        find(&Evidence { program_ns: 1e6, growth, ..Evidence::default() })
    }

    #[test]
    fn a_straight_rise_is_a_leak_and_a_cache_is_not() {
        let found = with(|nth| nth * 65_536.0);
        assert!(found[0].why.contains("full in"), "{found:?}");
        // A pause of the machine in the middle is no bend.
        let paused = at(|nth| if nth < 30.0 { nth * 1e6 } else { nth * 1e6 + 1e9 }, |nth| nth * 65_536.0);
        assert_eq!(paused.len(), 1);
        assert!(with(|_| 1e9).is_empty());
        assert!(with(|nth| nth.min(20.0) * 65_536.0).is_empty());
        assert!(with(|nth| (nth % 8.0) * 65_536.0).is_empty());
        assert!(with(|nth| if nth < 50.0 { 0.0 } else { 1e6 }).is_empty());
    }
}
