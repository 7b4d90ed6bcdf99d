//! Blocks so large that they fit a multiprocessor or the last wave badly.
//!
//! A block starts only where all of it fits and ends with its slowest warp, so large blocks leave slots empty at
//! both ends. What smaller blocks with the same threads would fill is arithmetic; how much of it becomes time
//! depends on the kernel: from nothing to all of it.

use super::Rule;
use crate::LaunchFacts;
use crate::advise::shapes::{all_threads, concerned, saved, use_of_slots, with_better_block};
use crate::advise::{Evidence, Finding, Kernel, Shape};
use crate::amounts::{counted, percent};

pub(super) const RULE: Rule = Rule {
    name: "very-large-block",
    sees: "blocks above 512 threads that leave slots empty which smaller blocks would fill",
    says: "take 256 or 512 threads; gains at most what smaller blocks fill",
    find,
};

const LARGE: u32 = 512;
const SMALLER: [u32; 3] = [512, 256, 128];
/// Less than this is lost in the noise of any measurement.
const LEAST: f64 = 0.02;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let all = concerned(evidence, |kernel, shape, facts| {
        let (_, gain) = smaller(evidence, kernel, shape, facts)?;
        Some(with_better_block(evidence, kernel, shape, gain).1)
    });
    all.iter()
        .filter_map(|all| {
            let (better, gain) = smaller(evidence, all.kernel, all.shape, &all.facts)?;
            Some(all.block_finding(
                evidence,
                RULE.name,
                &format!("very large: {}", all.words()),
                format!(
                    "an SM holds {} ({} of its warp slots) and {:.2} waves pass; blocks of {better} threads \
                     would leave {} fewer slots empty",
                    counted(all.facts.occupancy.blocks_per_sm.into(), "block", "blocks"),
                    percent(f64::from(all.facts.occupancy.fraction)),
                    all.facts.waves,
                    percent(gain)
                ),
                &format!("launch blocks of {better} threads"),
            ))
        })
        .collect()
}

/// The smaller size that fills most, and what it saves at most.
fn smaller(
    evidence: &Evidence,
    kernel: &Kernel,
    shape: &Shape,
    facts: &LaunchFacts,
) -> Option<(u32, f64)> {
    let threads = shape.shape.threads_per_block();
    // Shared memory is a block's own: a kernel that has some is written for its block size.
    let bound = kernel.needs?.static_shared > 0 || shape.dynamic_shared > 0;
    if threads <= LARGE || bound || kernel.is_foreign() || facts.waves <= 0.0 {
        return None;
    }
    let device = evidence.devices.get(shape.device)?;
    let (chip, needs) = (device.chip?, kernel.needs_with(shape.dynamic_shared)?);
    let of = |block| use_of_slots(&chip, device.sms, &needs, all_threads(&shape.shape), block);
    let best = SMALLER.into_iter().max_by(|&a, &b| of(a).total_cmp(&of(b)))?;
    let gain = saved(of(threads), of(best));
    (gain >= LEAST).then_some((best, gain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::shapes::tests::evidence;

    #[test]
    fn a_size_that_fits_badly_is_seen() {
        // 768 threads: two blocks of 24 warps on an SM of 64.
        let found = find(&evidence(132 * 2 * 4, 768));
        assert!(found[0].gain.high > 0.2, "{found:?}");
        assert!(find(&evidence(132 * 2 * 4, 1024)).is_empty(), "1024 fits twice and fills all waves");
        assert!(find(&evidence(132 * 8 * 4, 256)).is_empty());
    }
}
