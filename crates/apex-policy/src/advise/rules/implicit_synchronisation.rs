//! Calls that wait for the GPU although the program did not ask for a wait.
//!
//! A copy that returns when it is done and a plain free wait for all work before them. What such a call takes
//! alone is known from the shortest one of its size; the rest is waiting. It is saved at most in full, if the
//! host has other work to do meanwhile; at least not at all, if the program needs the result at once.

use super::Rule;
use crate::advise::{Basis, Evidence, Finding, Gain};
use crate::amounts::{count, nanos, percent};

pub(super) const RULE: Rule = Rule {
    name: "implicit-synchronisation",
    sees: "synchronous copies, copies to pageable memory and frees that waited for launches, at least 8 times",
    says: "use the asynchronous forms with pinned memory; gains at most the time waited",
    find,
};

const LEAST: u64 = 8;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let mut waiting: Vec<_> =
        evidence.stalls.iter().filter(|stall| stall.calls.count >= LEAST).collect();
    waiting.sort_by(|a, b| b.calls.host_ns.total_cmp(&a.calls.host_ns));
    let calls: u64 = waiting.iter().map(|stall| stall.calls.count).sum();
    let host_ns: f64 = waiting.iter().map(|stall| stall.calls.host_ns).sum();
    let alone: f64 = waiting.iter().map(|stall| stall.unhindered_ns).sum();
    if calls == 0 || host_ns <= 0.0 {
        return vec![];
    }
    let waited = (host_ns - alone).max(0.0) / host_ns;
    let names: Vec<String> = waiting
        .iter()
        .take(3)
        .map(|stall| format!("{} × {}", stall.function, count(stall.calls.count)))
        .collect();
    let gain = Gain::up_to(waited, Basis::Measured);
    vec![Finding::of(RULE.name, evidence.share(host_ns), gain).saying(
        format!("{} calls waited for the GPU without being asked to: {}", count(calls), names.join(", ")),
        format!("{} of their {} is waiting", percent(waited), nanos(host_ns)),
        "copy with the asynchronous form from pinned memory and wait once; free in stream order \
         (cuMemFreeAsync) or after the loop"
            .into(),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::{Calls, Stall};

    #[test]
    fn waiting_is_what_exceeds_the_call_alone() {
        let with = |count| {
            let stall = Stall {
                function: "cuMemcpyDtoH_v2".into(),
                calls: Calls { count, host_ns: 4e5 },
                unhindered_ns: 1e5,
            };
            find(&Evidence { program_ns: 1e6, stalls: vec![stall], ..Evidence::default() })
        };
        assert!((with(100)[0].gain.high - 0.75).abs() < 1e-9);
        assert!(with(2).is_empty());
    }
}
