//! Kernels whose launch shape leaves nothing to wish for.
//!
//! Said of the heaviest kernels only, so that a user knows where not to look.

use super::Rule;
use crate::advise::shapes::concerned;
use crate::advise::{Evidence, Finding, Gain, Severity};
use crate::amounts::percent;

pub(super) const RULE: Rule = Rule {
    name: "excellent",
    sees: "the heaviest kernels where full warps, high occupancy and full waves come together",
    says: "excellent: the launch shape needs no change",
    find,
};

const MOST: usize = 3;
const FULL: f64 = 0.9;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let mut all = concerned(evidence, |_, _, facts| {
        let waves = f64::from(facts.waves);
        let full = facts.idle_lanes == 0
            && f64::from(facts.occupancy.fraction) >= FULL
            && waves > 0.0
            && waves / waves.ceil() >= FULL;
        full.then_some(Gain::NONE)
    });
    all.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    all.iter()
        .take(MOST)
        .map(|all| {
            let finding = all.finding(
                RULE.name,
                &format!("excellent: {}", all.words()),
                format!(
                    "occupancy {}, {:.2} waves, no empty lanes",
                    percent(all.facts.occupancy.fraction.into()),
                    all.facts.waves
                ),
                "keep this launch shape".into(),
            );
            Finding { severity: Severity::Good, ..finding }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::shapes::tests::evidence;

    #[test]
    fn full_waves_of_full_warps_are_excellent() {
        assert_eq!(find(&evidence(1056 * 10, 256))[0].severity, Severity::Good);
        assert!(find(&evidence(1056 + 264, 256)).is_empty());
        assert!(find(&evidence(1056, 250)).is_empty());
    }
}
