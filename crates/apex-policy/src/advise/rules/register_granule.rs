//! A few registers fewer and another block would fit.
//!
//! Registers are given out in granules, so a kernel one register above a step pays for a whole one. This names
//! kernels within one granule (eight registers of a thread) of the next block; a compiler finds so few mostly
//! without spilling. The gain's bounds are those of `occupancy-registers`.

use super::Rule;
use crate::advise::shapes::{concerned, saved};
use crate::advise::{Basis, Evidence, Finding, Gain, Kernel, Shape};
use crate::amounts::{counted, percent};
use crate::{KernelNeeds, LaunchFacts, Limiter, occupancy};

pub(super) const RULE: Rule = Rule {
    name: "register-granule",
    sees: "kernels at most eight registers above the number that lets another block into an SM",
    says: "name the number of registers to compile for, and the occupancy it gives",
    find,
};

const NEAR: u32 = 8;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let all = concerned(evidence, |kernel, shape, facts| {
        let (_, then) = near(evidence, kernel, shape, facts)?;
        Some(Gain::up_to(saved(f64::from(facts.occupancy.fraction), then), Basis::Exact))
    });
    all.iter()
        .filter_map(|all| {
            let (fewer, then) = near(evidence, all.kernel, all.shape, &all.facts)?;
            let has = all.kernel.needs?.registers;
            Some(all.finding(
                RULE.name,
                &format!(
                    "{}: {} too many for another block",
                    all.words(),
                    counted((has - fewer).into(), "register", "registers")
                ),
                format!(
                    "{has} registers give {} occupancy, {fewer} would give {}",
                    percent(all.facts.occupancy.fraction.into()),
                    percent(then)
                ),
                format!("compile the kernel for {fewer} registers"),
            ))
        })
        .collect()
}

fn near(
    evidence: &Evidence,
    kernel: &Kernel,
    shape: &Shape,
    facts: &LaunchFacts,
) -> Option<(u32, f64)> {
    let limited = facts.occupancy.limiter == Limiter::Registers && facts.waves > 1.0;
    if !limited || kernel.is_foreign() {
        return None;
    }
    let chip = evidence.devices.get(shape.device)?.chip?;
    let needs = kernel.needs_with(shape.dynamic_shared)?;
    let threads = shape.shape.threads_per_block();
    let with = |registers| occupancy(&chip, &KernelNeeds { registers, ..needs }, threads);
    let within = needs.registers.saturating_sub(NEAR)..needs.registers;
    let better = |&registers: &u32| with(registers).blocks_per_sm > facts.occupancy.blocks_per_sm;
    let fewer = within.rev().find(better)?;
    Some((fewer, f64::from(with(fewer).fraction)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::shapes::tests::evidence;

    #[test]
    fn a_near_miss_is_seen_and_a_far_one_is_not() {
        let with = |registers| {
            let mut evidence = evidence(132 * 40, 256);
            evidence.kernels[0].needs.as_mut().unwrap().registers = registers;
            find(&evidence)
        };
        assert!(with(33)[0].why.contains("32 would give 100 %"), "{:?}", with(33));
        assert!(with(32).is_empty() && with(128).is_empty());
    }
}
