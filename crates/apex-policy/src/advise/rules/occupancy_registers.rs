//! The register file is used up before the warp slots.
//!
//! With fewer registers for each thread more blocks would fit, up to the next limit. How much of that becomes
//! time depends on how much latency is left to hide, and spilled registers cost some of it: from nothing to all.

use super::Rule;
use crate::advise::shapes::{concerned, saved};
use crate::advise::{Basis, Evidence, Finding, Gain, Kernel, Shape};
use crate::amounts::{counted, percent};
use crate::{Limiter, occupancy};

pub(super) const RULE: Rule = Rule {
    name: "occupancy-registers",
    sees: "occupancy below three quarters because of registers, with blocks waiting",
    says: "bound the registers (`__launch_bounds__`, `-maxrregcount`), with the number that lets another block in",
    find,
};

/// Above this more warps rarely hide more.
pub(super) const ENOUGH: f32 = 0.75;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let all = concerned(evidence, |kernel, shape, facts| {
        let limited = facts.occupancy.limiter == Limiter::Registers
            && facts.occupancy.fraction < ENOUGH
            && facts.waves > 1.0
            && !kernel.is_foreign();
        let (_, then) = if limited { next(evidence, kernel, shape)? } else { return None };
        let now = f64::from(facts.occupancy.fraction);
        Some(Gain::up_to(saved(now, then), Basis::Exact))
    });
    all.iter()
        .filter_map(|all| {
            let (registers, then) = next(evidence, all.kernel, all.shape)?;
            let has = all.kernel.needs?.registers;
            Some(all.finding(
                RULE.name,
                &format!("{}: occupancy {}", all.words(), percent(all.facts.occupancy.fraction.into())),
                format!(
                    "{has} registers a thread let {} into an SM; {registers} would give {}",
                    counted(all.facts.occupancy.blocks_per_sm.into(), "block", "blocks"),
                    percent(then)
                ),
                format!(
                    "bound the kernel to {registers} registers (__launch_bounds__ or -maxrregcount) and watch for \
                     spills, or split it"
                ),
            ))
        })
        .collect()
}

/// The most registers with which another block fits, and the occupancy then.
fn next(evidence: &Evidence, kernel: &Kernel, shape: &Shape) -> Option<(u32, f64)> {
    let chip = evidence.devices.get(shape.device)?.chip?;
    let needs = kernel.needs_with(shape.dynamic_shared)?;
    let threads = shape.shape.threads_per_block();
    let with = |registers| occupancy(&chip, &crate::KernelNeeds { registers, ..needs }, threads);
    let now = with(needs.registers).blocks_per_sm;
    let fewer = (16..needs.registers).rev().find(|&r| with(r).blocks_per_sm > now)?;
    Some((fewer, f64::from(with(fewer).fraction)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::shapes::tests::evidence;

    #[test]
    fn registers_are_named_with_the_number_that_helps() {
        let mut many = evidence(132 * 8, 256);
        many.kernels[0].needs.as_mut().unwrap().registers = 128;
        let found = find(&many);
        assert!(found[0].why.starts_with("128 registers a thread let 2 blocks"), "{}", found[0].why);
        assert!(found[0].action.contains("80 registers"), "{}", found[0].action);
        assert!((found[0].gain.high - (1.0 - 2.0 / 3.0)).abs() < 1e-6);
        assert!(find(&evidence(132 * 8 * 4, 256)).is_empty());
        many.kernels[0].name = "void cutlass::Kernel<gemm>".into();
        assert!(find(&many).is_empty(), "a library's registers are not the user's");
    }
}
