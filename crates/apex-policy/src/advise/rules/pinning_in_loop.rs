//! Host memory is pinned and let go while launches are under way.
//!
//! Pinning asks the operating system for every page. Pinned memory that is kept saves all of those calls.

use super::Rule;
use crate::advise::{ActKind, Basis, Evidence, Finding, Gain};
use crate::amounts::{count, nanos};

pub(super) const RULE: Rule = Rule {
    name: "pinning-in-loop",
    sees: "at least 8 calls in the steady phase that pin host memory or let it go",
    says: "pin once and keep the memory; gains the time of those calls",
    find,
};

const LEAST: u64 = 8;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let Some(act) = evidence.act(ActKind::Pin) else { return vec![] };
    let calls = act.steady;
    if calls.count < LEAST {
        return vec![];
    }
    let gain = Gain::between(1.0, 1.0, Basis::Measured);
    vec![Finding::of(RULE.name, evidence.share(calls.host_ns), gain).saying(
        format!("host memory is pinned or let go {} times in the loop", count(calls.count)),
        format!("each call takes {}, {} in all", nanos(calls.mean_ns()), nanos(calls.host_ns)),
        "pin the staging memory once before the loop and use it again".into(),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::{Act, Calls};

    #[test]
    fn pinning_again_and_again_is_seen() {
        let with = |count| {
            let steady = Calls { count, host_ns: 2e5 };
            let acts = vec![Act { kind: ActKind::Pin, all: steady, steady }];
            find(&Evidence { program_ns: 1e6, acts, ..Evidence::default() })
        };
        assert!((with(20)[0].saving() - 0.2).abs() < 1e-9);
        assert!(with(2).is_empty());
    }
}
