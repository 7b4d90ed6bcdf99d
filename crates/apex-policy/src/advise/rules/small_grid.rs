//! Fewer blocks than multiprocessors: some have nothing to do for the whole kernel.
//!
//! If the same work were spread over all of them it would take as much less time as there are idle ones; where
//! the few blocks saturate memory, or the work cannot be cut finer, nothing is gained: those are the bounds.

use super::Rule;
use crate::advise::shapes::concerned;
use crate::advise::{Basis, Evidence, Finding, Gain};
use crate::amounts::percent;

pub(super) const RULE: Rule = Rule {
    name: "small-grid",
    sees: "fewer blocks than the device has multiprocessors",
    says: "use more, smaller blocks, or more work in one launch; gains at most the share of idle multiprocessors",
    find,
};

fn find(evidence: &Evidence) -> Vec<Finding> {
    let all = concerned(evidence, |_, shape, _| {
        let sms = u64::from(evidence.devices.get(shape.device)?.sms);
        let blocks = shape.shape.blocks();
        (blocks < sms).then(|| Gain::up_to(1.0 - blocks as f64 / sms as f64, Basis::Exact))
    });
    all.iter()
        .map(|all| {
            let sms = u64::from(evidence.devices[all.shape.device].sms);
            let blocks = all.shape.shape.blocks();
            let idle = sms - blocks;
            let action = if all.kernel.is_foreign() {
                "give the operation more work at once (a larger batch), or run others beside it on a second stream"
            } else {
                "cut the work into more, smaller blocks, or run other kernels beside it on a second stream"
            };
            all.finding(
                RULE.name,
                &format!("{} on {sms} SMs", all.words()),
                format!("{idle} of {sms} SMs ({}) are idle", percent(idle as f64 / sms as f64)),
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
    fn idle_multiprocessors_are_counted() {
        let found = find(&evidence(33, 256));
        assert_eq!(found[0].gain.high, 0.75);
        assert_eq!(found[0].why, "99 of 132 SMs (75 %) are idle");
        assert!(find(&evidence(132, 256)).is_empty());
    }
}
