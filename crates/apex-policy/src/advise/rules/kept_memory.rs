//! Allocations ask for what was freed before, so `apex run --fast=memory` would serve them without the driver.
//!
//! Nothing in the program need be changed for that. How many it would serve is found by the same code that serves them, on
//! the session's own allocations. A wait that a free no longer does may come back at the program's next one: so the time
//! of the allocations alone is the least that is saved.

use super::Rule;
use crate::advise::{Basis, Evidence, Finding, Gain};
use crate::amounts::{counted, nanos, percent};

pub(super) const RULE: Rule = Rule {
    name: "kept-memory",
    sees: "plain allocations of a size that had been freed before, at least 16",
    says: "run it by apex run --fast=memory; gains the time of those allocations and frees",
    find,
};

const LEAST: u64 = 16;
/// What a call takes that the pool answers, as `apex bench memory` measures it.
const SERVED_NS: f64 = 150.0;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let reuse = &evidence.reuse;
    let (served, kept) = (reuse.served, reuse.kept);
    if served.count < LEAST {
        return vec![];
    }
    let host_ns = served.host_ns + kept.host_ns;
    let left = |calls: u64, of: f64| (of - calls as f64 * SERVED_NS).max(0.0) / host_ns;
    let (low, high) = (left(served.count, served.host_ns), left(served.count + kept.count, host_ns));
    vec![Finding::of(RULE.name, evidence.share(host_ns), Gain::between(low, high, Basis::Model)).saying(
        format!(
            "{} of {} ask for a size that had been freed before",
            percent(served.count as f64 / reuse.asked.max(1) as f64),
            counted(reuse.asked, "allocation", "allocations"),
        ),
        format!(
            "one takes {}, and its free {}; answered from freed memory about {} each",
            nanos(served.mean_ns()),
            nanos(kept.mean_ns()),
            nanos(SERVED_NS),
        ),
        "run it by apex run --fast=memory, which hands freed memory out again; the program stays as it is".into(),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::{Calls, Reuse};

    #[test]
    fn what_would_be_served_is_said_with_its_time() {
        let with = |count: u64| {
            let calls = Calls { count, host_ns: count as f64 * 2_000.0 };
            let reuse = Reuse { asked: count + 1, served: calls, kept: calls };
            find(&Evidence { program_ns: 1e6, reuse, ..Evidence::default() })
        };
        let found = &with(100)[0];
        assert!((found.weight - 0.4).abs() < 1e-9, "{found:?}");
        assert!((found.gain.high - 0.925).abs() < 1e-9, "{found:?}");
        assert!((found.gain.low - 0.4625).abs() < 1e-9, "{found:?}");
        assert!(with(15).is_empty());
        assert!(find(&Evidence::default()).is_empty());
    }
}
