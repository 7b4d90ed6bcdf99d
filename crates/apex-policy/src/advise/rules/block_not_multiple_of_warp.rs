//! Lanes without a thread: a block's last warp is not full.
//!
//! A warp takes its turn whether its lanes have threads or not. A kernel bound by instructions saves the empty
//! lanes' share; one bound by memory saves nothing: those are the bounds. What is expected between them comes from
//! the model of block sizes.

use super::Rule;
use crate::advise::shapes::{concerned, with_better_block};
use crate::advise::{Evidence, Finding};
use crate::amounts::percent;

pub(super) const RULE: Rule = Rule {
    name: "block-not-multiple-of-warp",
    sees: "blocks whose threads are not a multiple of 32",
    says: "round the block to whole warps; gains at most the share of empty lanes",
    find,
};

fn find(evidence: &Evidence) -> Vec<Finding> {
    let all = concerned(evidence, |kernel, shape, facts| {
        let high = 1.0 - f64::from(facts.block_efficiency);
        (facts.idle_lanes > 0 && !kernel.is_foreign())
            .then(|| with_better_block(evidence, kernel, shape, high).1)
    });
    all.iter()
        .map(|all| {
            let threads = all.shape.shape.threads_per_block();
            let (down, up) = (threads / 32 * 32, threads.div_ceil(32) * 32);
            let guess = if down == 0 { format!("{up}") } else { format!("{up} or {down}") };
            all.block_finding(
                evidence,
                RULE.name,
                &format!("{}: a block is not a multiple of 32 threads", all.words()),
                format!(
                    "{} of {up} lanes ({}) of every block's warps have no thread",
                    all.facts.idle_lanes,
                    percent(f64::from(all.facts.idle_lanes) / f64::from(up))
                ),
                &format!("launch blocks of {guess} threads"),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::shapes::tests::evidence;

    #[test]
    fn empty_lanes_are_seen_and_whole_warps_are_not() {
        let found = find(&evidence(13_200, 48));
        assert!(found[0].gain.high >= 0.25 && found[0].weight == 0.5, "{found:?}");
        assert_eq!(found[0].change.map(|change| change.better_threads), Some(256));
        assert!(found[0].gain.expected > 0.15, "{found:?}");
        assert!(find(&evidence(1000, 64)).is_empty());
        let mut flat = evidence(13_200, 48);
        flat.kernels[0].shapes[0].shape.block = [12, 4, 1];
        let found = find(&flat);
        assert!(found[0].gain.expected == 0.0 && found[0].change.is_none());
        assert!(found[0].action.contains("64 or 32 threads; what it gains"), "{}", found[0].action);
    }
}
