//! Every multiprocessor has a block, but the grid is less than one wave: slots stay empty all the time.
//!
//! More resident warps hide more latency. The empty slots' share is the most that can be gained, nothing the
//! least: a kernel bound by bandwidth or with much parallelism in each thread needs no more warps.

use super::Rule;
use crate::advise::shapes::concerned;
use crate::advise::{Basis, Evidence, Finding, Gain};
use crate::amounts::{count, percent};

pub(super) const RULE: Rule = Rule {
    name: "under-utilisation",
    sees: "a grid of less than one wave that still reaches every multiprocessor",
    says: "under-utilised, with the device's number of multiprocessors and block slots: give each thread less work",
    find,
};

fn find(evidence: &Evidence) -> Vec<Finding> {
    let all = concerned(evidence, |_, shape, facts| {
        let sms = u64::from(evidence.devices.get(shape.device)?.sms);
        let waves = f64::from(facts.waves);
        (shape.shape.blocks() >= sms && waves < 1.0).then(|| Gain::up_to(1.0 - waves, Basis::Exact))
    });
    all.iter()
        .map(|all| {
            let device = &evidence.devices[all.shape.device];
            let slots = u64::from(device.sms) * u64::from(all.facts.occupancy.blocks_per_sm);
            let action = if all.kernel.is_foreign() {
                "give the operation more work at once (a larger batch)"
            } else {
                "launch more blocks with less work for each thread"
            };
            all.finding(
                RULE.name,
                &format!("{} under-utilise the device", all.words()),
                format!(
                    "its {} SMs hold {} such blocks at once; {} are launched, {} of a wave",
                    device.sms,
                    count(slots),
                    count(all.shape.shape.blocks()),
                    percent(f64::from(all.facts.waves))
                ),
                action.into(),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::shapes::tests::evidence;

    #[test]
    fn less_than_a_wave_is_seen() {
        let found = find(&evidence(264, 256));
        assert_eq!(found[0].gain.high, 0.75);
        assert!(found[0].why.contains("132 SMs hold 1,056 such blocks"), "{}", found[0].why);
        assert!(find(&evidence(1056, 256)).is_empty());
        assert!(find(&evidence(100, 256)).is_empty(), "a smaller grid has a rule of its own");
    }
}
