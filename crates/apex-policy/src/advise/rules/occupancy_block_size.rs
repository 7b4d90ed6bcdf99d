//! The warp slots of a multiprocessor are not a multiple of a block's warps: another block does not fit.
//!
//! Blocks up to 512 threads; above, `very-large-block` speaks.

use super::Rule;
use super::occupancy_registers::ENOUGH;
use crate::Limiter;
use crate::advise::shapes::{best_size, concerned, with_better_block};
use crate::advise::{Evidence, Finding, Kernel, Shape};
use crate::amounts::{counted, percent};

pub(super) const RULE: Rule = Rule {
    name: "occupancy-block-size",
    sees: "occupancy below three quarters because blocks of this size do not fill the warp slots",
    says: "take a size that divides the warp slots; gains at most what the empty slots hold",
    find,
};

const SIZES: [u32; 3] = [128, 256, 512];

fn find(evidence: &Evidence) -> Vec<Finding> {
    let all = concerned(evidence, |kernel, shape, facts| {
        let limited = facts.occupancy.limiter == Limiter::Warps
            && facts.occupancy.fraction < ENOUGH
            && shape.shape.threads_per_block() <= 512
            && facts.waves > 1.0
            && !kernel.is_foreign();
        let (_, gain) = if limited { fitting(evidence, kernel, shape)? } else { return None };
        Some(with_better_block(evidence, kernel, shape, gain).1)
    });
    all.iter()
        .filter_map(|all| {
            let (guess, _) = fitting(evidence, all.kernel, all.shape)?;
            Some(all.block_finding(
                evidence,
                RULE.name,
                &format!("{}: occupancy {}", all.words(), percent(all.facts.occupancy.fraction.into())),
                format!(
                    "an SM holds {} in {} and not another one",
                    counted(all.facts.occupancy.blocks_per_sm.into(), "block", "blocks"),
                    counted(all.facts.occupancy.warps_per_sm.into(), "warp slot", "warp slots")
                ),
                &format!("launch blocks of {guess} threads"),
            ))
        })
        .collect()
}

fn fitting(evidence: &Evidence, kernel: &Kernel, shape: &Shape) -> Option<(u32, f64)> {
    best_size(evidence, kernel, shape, &SIZES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chip;
    use crate::advise::shapes::tests::evidence;

    #[test]
    fn a_size_that_does_not_divide_the_slots_is_seen() {
        let mut odd = evidence(132 * 40, 416);
        // 13 warps: four blocks take 52 of 64 slots, which is enough; on 48 slots three take 39.
        assert!(find(&odd).is_empty());
        odd.devices[0].chip = Chip::for_capability(7, 5);
        let found = find(&odd);
        assert!(found.is_empty(), "two blocks of 13 take 26 of 32: {found:?}");
        odd.kernels[0].shapes[0].shape.block = [352, 1, 1];
        let found = find(&odd);
        assert!(found[0].why.contains("2 blocks in 22 warp slots"), "{}", found[0].why);
    }
}
