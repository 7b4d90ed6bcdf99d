//! The shared memory is used up before the warp slots.
//!
//! With less of it for each block another block would fit. From nothing to all of what the new warps could do is
//! gained: a smaller tile may have to read more.

use super::Rule;
use super::occupancy_registers::ENOUGH;
use crate::advise::shapes::{concerned, saved};
use crate::advise::{Basis, Evidence, Finding, Gain, Kernel, Shape};
use crate::amounts::{bytes, counted, percent};
use crate::{Carveout, KernelNeeds, Limiter, occupancy};

pub(super) const RULE: Rule = Rule {
    name: "occupancy-shared-memory",
    sees: "occupancy below three quarters because of shared memory, with blocks waiting",
    says: "take less shared memory for a block, with the bytes that let another in, or a larger carve-out",
    find,
};

/// Shared memory is given in steps of this many bytes on every chip we know, or in divisors of it.
const STEP: u32 = 256;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let all = concerned(evidence, |kernel, shape, facts| {
        let limited = facts.occupancy.limiter == Limiter::SharedMemory
            && facts.occupancy.fraction < ENOUGH
            && facts.waves > 1.0
            && !kernel.is_foreign();
        let (_, then) = if limited { next(evidence, kernel, shape)? } else { return None };
        Some(Gain::up_to(saved(f64::from(facts.occupancy.fraction), then), Basis::Exact))
    });
    all.iter()
        .filter_map(|all| {
            let (better, then) = next(evidence, all.kernel, all.shape)?;
            let needs = all.kernel.needs_with(all.shape.dynamic_shared)?;
            let has = needs.static_shared + needs.dynamic_shared;
            let carveout = match needs.carveout {
                Carveout::Unset => "",
                Carveout::Percent(_) => ", or lift the preferred carve-out that the kernel sets",
            };
            Some(all.finding(
                RULE.name,
                &format!("{}: occupancy {}", all.words(), percent(all.facts.occupancy.fraction.into())),
                format!(
                    "{} of shared memory let {} into an SM; {} would give {}",
                    bytes(has.into()),
                    counted(all.facts.occupancy.blocks_per_sm.into(), "block", "blocks"),
                    bytes(better.into()),
                    percent(then)
                ),
                format!("take at most {} for a block{carveout}", bytes(better.into())),
            ))
        })
        .collect()
}

/// The most shared memory with which another block fits, and the occupancy then.
fn next(evidence: &Evidence, kernel: &Kernel, shape: &Shape) -> Option<(u32, f64)> {
    let chip = evidence.devices.get(shape.device)?.chip?;
    let needs = kernel.needs_with(shape.dynamic_shared)?;
    let threads = shape.shape.threads_per_block();
    let has = needs.static_shared + needs.dynamic_shared;
    let with = |shared| {
        let needs = KernelNeeds { static_shared: shared, dynamic_shared: 0, ..needs };
        occupancy(&chip, &needs, threads)
    };
    let now = with(has).blocks_per_sm;
    let steps = (0..has.div_ceil(STEP)).rev().map(|step| step * STEP);
    let less = steps.into_iter().find(|&shared| with(shared).blocks_per_sm > now)?;
    Some((less, f64::from(with(less).fraction)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::shapes::tests::evidence;

    #[test]
    fn shared_memory_is_named_with_the_bytes_that_help() {
        let mut much = evidence(132 * 8, 256);
        much.kernels[0].shapes[0].dynamic_shared = 100 << 10;
        let found = find(&much);
        assert!(found[0].why.starts_with("100 KiB of shared memory let 2 blocks"), "{}", found[0].why);
        assert!(found[0].why.contains("75.0 KiB would give 38 %"), "{}", found[0].why);
        much.kernels[0].shapes[0].dynamic_shared = 8 << 10;
        assert!(find(&much).is_empty());
    }
}
