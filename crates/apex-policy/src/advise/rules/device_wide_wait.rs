//! Waits for the whole device while several streams have work.
//!
//! A wait for one stream or event returns as soon as what the program needs is there, and lets the others run on.
//! At most the whole wait is saved; where the program needs all of it, nothing.

use super::Rule;
use crate::advise::{Basis, Evidence, Finding, Gain};
use crate::amounts::{count, nanos};

pub(super) const RULE: Rule = Rule {
    name: "device-wide-wait",
    sees: "at least 8 waits for a whole context while work was outstanding on several streams",
    says: "wait for the stream or event that is needed; gains at most the time waited",
    find,
};

const LEAST: u64 = 8;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let waits = evidence.waits.context_over_streams;
    if waits.count < LEAST {
        return vec![];
    }
    // The ends of n streams' work are taken to be spread evenly and each as likely the one that is needed: of the
    // wait for the last one, (n - 1) / 2n comes after it.
    let streams = evidence.streams.used.max(2) as f64;
    let gain = Gain::about((streams - 1.0) / (2.0 * streams), 0.0, 1.0, Basis::Model);
    vec![Finding::of(RULE.name, evidence.share(waits.host_ns), gain).saying(
        format!("the whole device is waited for {} times while several streams have work", count(waits.count)),
        format!("{} are waited, {} each", nanos(waits.host_ns), nanos(waits.mean_ns())),
        "wait with cuStreamSynchronize or cuEventSynchronize for what is needed".into(),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::{Calls, Waits};

    #[test]
    fn waits_over_several_streams_are_seen() {
        let with = |count| {
            let context_over_streams = Calls { count, host_ns: 4e5 };
            let waits = Waits { context_over_streams, ..Waits::default() };
            find(&Evidence { program_ns: 1e6, waits, ..Evidence::default() })
        };
        assert!((with(20)[0].saving() - 0.1).abs() < 1e-9);
        assert!(with(2).is_empty());
    }
}
