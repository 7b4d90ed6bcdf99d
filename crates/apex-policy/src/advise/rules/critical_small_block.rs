//! Blocks so small that a multiprocessor's block slots run out before its warp slots.
//!
//! A multiprocessor keeps a fixed number of blocks, however small. Blocks of one warp then leave warp slots
//! empty, and with them the means to hide latency. A kernel that waits for latency becomes faster as more warps
//! are resident; one bound by bandwidth does not: those are the bounds, and the model of block sizes says what to
//! expect between them. Where the grid is too small to fill even
//! the slots it may have, the block size is not the limit and nothing is said.

use super::Rule;
use crate::advise::shapes::{all_threads, concerned, saved, use_of_slots, with_better_block};
use crate::advise::{Evidence, Finding, Kernel, Shape};
use crate::amounts::{counted, percent};
use crate::{LaunchFacts, Limiter};

pub(super) const RULE: Rule = Rule {
    name: "critical-small-block",
    sees: "blocks of at most one warp that leave warp slots empty",
    says: "critical: take 128 threads or more for a block; gains at most what the empty warp slots hold",
    find,
};

/// The smallest size that fills the warp slots of every chip with block slots to spare.
const BETTER: u32 = 128;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let bound = |kernel: &Kernel, shape: &Shape, facts: &LaunchFacts| -> Option<f64> {
        let device = evidence.devices.get(shape.device)?;
        let threads = shape.shape.threads_per_block();
        let small = threads <= 32 && facts.occupancy.limiter == Limiter::Blocks;
        if !small || kernel.is_foreign() || kernel.max_threads < BETTER {
            return None;
        }
        let (chip, needs) = (device.chip?, kernel.needs_with(shape.dynamic_shared)?);
        let of = |block| use_of_slots(&chip, device.sms, &needs, all_threads(&shape.shape), block);
        let gain = saved(of(threads), of(BETTER));
        (gain > 0.0).then_some(gain)
    };
    let all = concerned(evidence, |kernel, shape, facts| {
        let high = bound(kernel, shape, facts)?;
        Some(with_better_block(evidence, kernel, shape, high).1)
    });
    all.iter()
        .map(|all| {
            let occupancy = all.facts.occupancy;
            all.block_finding(
                evidence,
                RULE.name,
                &format!("critical: far too small: {}", all.words()),
                format!(
                    "an SM keeps {}, so {} ({} of its slots) at most",
                    counted(occupancy.blocks_per_sm.into(), "block", "blocks"),
                    counted(occupancy.warps_per_sm.into(), "warp", "warps"),
                    percent(f64::from(occupancy.fraction))
                ),
                &format!("launch blocks of {BETTER} to 256 threads"),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::shapes::tests::evidence;

    #[test]
    fn one_warp_is_critical_where_there_are_enough_blocks() {
        let found = find(&evidence(132 * 64, 32));
        assert!((found[0].gain.high - 0.5).abs() < 1e-6, "{found:?}");
        assert!(found[0].why.contains("32 warps (50 % of its slots)"), "{}", found[0].why);
        assert!(find(&evidence(132 * 64, 128)).is_empty());
        assert!(find(&evidence(132, 32)).is_empty(), "a small grid has another remedy");
    }
}
