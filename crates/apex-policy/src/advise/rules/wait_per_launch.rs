//! The program waits after nearly every launch, so the GPU runs dry each time.
//!
//! From the end of a wait to the end of the next launch call the GPU has nothing to do: that time is measured.
//! Without the waits at least the launch calls would be hidden behind the kernels, at most all of it.

use super::Rule;
use crate::advise::{Basis, Evidence, Finding, Gain};
use crate::amounts::{count, nanos};

pub(super) const RULE: Rule = Rule {
    name: "wait-per-launch",
    sees: "waits that empty the GPU, at least one for every 4 launches",
    says: "wait only where a result is needed; gains the time from each wait to the next launch",
    find,
};

const LAUNCHES_EACH: u64 = 4;
const LEAST: u64 = 16;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let waits = evidence.waits;
    if waits.drains < LEAST || waits.drains * LAUNCHES_EACH < evidence.launch_count() {
        return vec![];
    }
    let low = waits.drained_launch_ns / waits.drained_ns.max(1.0);
    let gain = Gain::between(low, 1.0, Basis::Measured);
    vec![Finding::of(RULE.name, evidence.share(waits.drained_ns), gain).saying(
        format!(
            "{} of {} launches come right after a wait that emptied the GPU",
            count(waits.drains),
            count(evidence.launch_count())
        ),
        format!(
            "it then has nothing to do for {} each time, {} in all",
            nanos(waits.drained_ns / waits.drains as f64),
            nanos(waits.drained_ns)
        ),
        "launch ahead and wait once where a result is needed".into(),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::{Calls, Waits};

    #[test]
    fn a_wait_after_every_launch_is_seen() {
        let with = |drains| {
            let waits =
                Waits { drains, drained_ns: 4e5, drained_launch_ns: 1e5, ..Waits::default() };
            let launches = Calls { count: 100, host_ns: 2e5 };
            find(&Evidence { program_ns: 1e6, waits, launches, ..Evidence::default() })
        };
        assert!((with(100)[0].saving() - 0.25).abs() < 1e-9);
        assert!(with(2).is_empty() && with(20).is_empty());
    }
}
