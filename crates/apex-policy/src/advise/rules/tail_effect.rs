//! The last wave is partly empty, and the grid has few waves.
//!
//! If all blocks take the same time, a kernel takes as many wave times as there are waves begun, and the part of
//! the last wave that is empty, over all waves, is lost: that is the most. A block that ends makes room at once
//! and a multiprocessor that is less full is faster, so mostly nothing is lost: of 128 pairs of launches measured on
//! an H200 that differ in little else, half gained nothing by a full last wave. So nothing is expected, and the
//! bound is given.

use super::Rule;
use crate::advise::shapes::concerned;
use crate::advise::{Basis, Evidence, Finding, Gain};
use crate::amounts::{count, percent};

pub(super) const RULE: Rule = Rule {
    name: "tail-effect",
    sees: "a partial last wave that is a large part of all waves",
    says: "fit the grid to whole waves, or let blocks loop over the work, if blocks take equally long; gains at most the empty part of the waves, mostly nothing",
    find,
};

/// Below this the tail is not worth a change.
const LEAST: f64 = 0.05;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let all = concerned(evidence, |_, _, facts| {
        let waves = f64::from(facts.waves);
        let lost = 1.0 - waves / waves.ceil();
        (waves > 1.0 && lost >= LEAST).then(|| Gain::about(0.0, 0.0, lost, Basis::Exact))
    });
    all.iter()
        .map(|all| {
            let sms = evidence.devices[all.shape.device].sms;
            let slots = u64::from(sms) * u64::from(all.facts.occupancy.blocks_per_sm);
            let waves = all.facts.full_waves;
            all.finding(
                RULE.name,
                &format!("{} make {:.2} waves", all.words(), all.facts.waves),
                format!(
                    "after {waves} full {} of {} blocks a last one runs {} empty",
                    if waves == 1 { "wave" } else { "waves" },
                    count(slots),
                    percent(f64::from(all.facts.tail_fraction))
                ),
                format!(
                    "if all blocks take equally long, launch a multiple of {} of them (a grid-stride loop takes any number)",
                    count(slots)
                ),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::shapes::tests::evidence;

    #[test]
    fn the_actual_partial_wave_counts() {
        let found = find(&evidence(1056 + 264, 256));
        assert!((found[0].gain.high - 0.375).abs() < 1e-6, "{found:?}");
        assert!(found[0].why.contains("75 % empty"), "{}", found[0].why);
        assert!(find(&evidence(2112, 256)).is_empty());
        assert!(find(&evidence(1056 * 40 + 1, 256)).is_empty(), "one of many waves is little");
        assert!(find(&evidence(264, 256)).is_empty());
    }
}
