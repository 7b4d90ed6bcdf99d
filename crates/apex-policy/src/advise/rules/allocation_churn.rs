//! Device memory is allocated and freed while launches are under way.
//!
//! The calls themselves take host time, and a plain free waits for the GPU. Memory that is kept and used again
//! saves the time of all such calls of the steady phase; at least the time of the allocations themselves, which
//! wait for nothing.

use super::Rule;
use crate::advise::{ActKind, Basis, Evidence, Finding, Gain};
use crate::amounts::{counted, nanos};

pub(super) const RULE: Rule = Rule {
    name: "allocation-churn",
    sees: "plain allocations and frees in the steady phase, at least one for every 20 launches",
    says: "keep memory and use it again, or allocate in stream order; gains the time of those calls",
    find,
};

const LAUNCHES_EACH: u64 = 20;
const LEAST: u64 = 16;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let steady = |kind| evidence.act(kind).map(|act| act.steady).unwrap_or_default();
    let (made, freed) = (steady(ActKind::Allocate), steady(ActKind::Free));
    let (calls, host_ns) = (made.count + freed.count, made.host_ns + freed.host_ns);
    // Three quarters of the launches belong to the steady phase.
    let launches = evidence.launch_count() * 3 / 4;
    if calls < LEAST || calls * LAUNCHES_EACH < launches {
        return vec![];
    }
    let gain = Gain::between(made.host_ns / host_ns, 1.0, Basis::Measured);
    vec![Finding::of(RULE.name, evidence.share(host_ns), gain).saying(
        format!(
            "{} and {} of device memory among {}",
            counted(made.count, "allocation", "allocations"),
            counted(freed.count, "free", "frees"),
            counted(launches, "launch", "launches")
        ),
        format!(
            "an allocation takes {}, a free {} (it waits for the GPU)",
            nanos(made.mean_ns()),
            nanos(freed.mean_ns())
        ),
        "allocate once before the loop, or use cuMemAllocAsync with a pool that keeps its memory".into(),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::{Act, Calls};

    #[test]
    fn churn_is_seen_and_memory_that_stays_is_not() {
        let with = |count| {
            let steady = Calls { count, host_ns: 2e5 };
            let acts = [ActKind::Allocate, ActKind::Free].map(|kind| Act { kind, all: steady, steady });
            let launches = Calls { count: 400, host_ns: 1e5 };
            find(&Evidence { program_ns: 1e6, acts: acts.into(), launches, ..Evidence::default() })
        };
        assert!((with(100)[0].saving() - 0.3).abs() < 1e-9);
        assert!(with(2).is_empty());
    }
}
