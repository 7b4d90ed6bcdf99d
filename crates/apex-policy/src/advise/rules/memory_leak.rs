//! Device memory grows steadily: when will it run out?
//!
//! A straight line is fitted to the memory held over the steady phase. Only growth that the line explains nearly
//! whole, and that goes on in each quarter of the launches, is called so: a cache that fills up bends.

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
    let Some((slope, explained)) = line(points) else { return vec![] };
    // Each quarter has its part: a single step, or a cache that fills up, is no leak.
    let quarter = |nth: usize| points[(points.len() - 1) * nth / 4].1;
    let steady = (0..4).all(|nth| quarter(nth + 1) - quarter(nth) > 0.1 * (last - first));
    if slope <= 0.0 || explained < EXPLAINED || !steady {
        return vec![];
    }
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

/// Slope in bytes a nanosecond, and the share of the points' variance that the line explains.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let (mean_x, mean_y) = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0, y + p.1));
    let (mean_x, mean_y) = (mean_x / count, mean_y / count);
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for &(x, y) in points {
        xx += (x - mean_x) * (x - mean_x);
        xy += (x - mean_x) * (y - mean_y);
        yy += (y - mean_y) * (y - mean_y);
    }
    (xx > 0.0 && yy > 0.0).then(|| (xy / xx, xy * xy / (xx * yy)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::Growth;

    fn with(held: impl Fn(f64) -> f64) -> Vec<Finding> {
        let points = (0..64).map(|nth| (f64::from(nth) * 1e6, held(f64::from(nth)))).collect();
        let growth = Growth { points, memory_bytes: 1 << 30 };
        find(&Evidence { program_ns: 1e6, growth, ..Evidence::default() })
    }

    #[test]
    fn a_straight_rise_is_a_leak_and_a_cache_is_not() {
        let found = with(|nth| nth * 65_536.0);
        assert!(found[0].why.contains("full in"), "{found:?}");
        assert!(with(|_| 1e9).is_empty());
        assert!(with(|nth| nth.min(20.0) * 65_536.0).is_empty());
        assert!(with(|nth| (nth % 8.0) * 65_536.0).is_empty());
        assert!(with(|nth| if nth < 50.0 { 0.0 } else { 1e6 }).is_empty());
    }
}
