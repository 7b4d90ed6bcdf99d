//! A multiprocessor's block slots run out before its warp slots, with blocks of more than one warp.
//!
//! The same as `critical-small-block`, in a milder form that only chips with few block slots know.

use super::Rule;
use super::occupancy_registers::ENOUGH;
use crate::Limiter;
use crate::advise::shapes::{best_size, concerned, with_better_block};
use crate::advise::{Evidence, Finding, Kernel, Shape};
use crate::amounts::percent;

pub(super) const RULE: Rule = Rule {
    name: "occupancy-block-slots",
    sees: "occupancy below three quarters because an SM keeps no more blocks, with blocks of 33 threads and more",
    says: "take larger blocks; gains at most what the empty warp slots hold",
    find,
};

fn find(evidence: &Evidence) -> Vec<Finding> {
    let all = concerned(evidence, |kernel, shape, facts| {
        let limited = facts.occupancy.limiter == Limiter::Blocks
            && facts.occupancy.fraction < ENOUGH
            && shape.shape.threads_per_block() > 32
            && !kernel.is_foreign();
        let (_, gain) = if limited { larger(evidence, kernel, shape)? } else { return None };
        Some(with_better_block(evidence, kernel, shape, gain).1)
    });
    all.iter()
        .filter_map(|all| {
            let (guess, _) = larger(evidence, all.kernel, all.shape)?;
            Some(all.block_finding(
                evidence,
                RULE.name,
                &format!("{}: occupancy {}", all.words(), percent(all.facts.occupancy.fraction.into())),
                format!(
                    "an SM keeps {} blocks, which have only {} warps",
                    all.facts.occupancy.blocks_per_sm, all.facts.occupancy.warps_per_sm
                ),
                &format!("launch blocks of {guess} threads"),
            ))
        })
        .collect()
}

/// Twice or four times as many threads, and what that saves at most.
fn larger(evidence: &Evidence, kernel: &Kernel, shape: &Shape) -> Option<(u32, f64)> {
    let threads = shape.shape.threads_per_block();
    best_size(evidence, kernel, shape, &[2 * threads, 4 * threads])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chip;
    use crate::advise::shapes::tests::evidence;

    #[test]
    fn few_block_slots_are_seen() {
        let mut found = evidence(5000, 64);
        assert!(find(&found).is_empty(), "32 blocks of two warps fill an H200");
        found.devices[0].chip = Chip::for_capability(8, 6);
        let found = find(&found);
        assert!(found[0].why.contains("16 blocks, which have only 32 warps"), "{}", found[0].why);
    }
}
