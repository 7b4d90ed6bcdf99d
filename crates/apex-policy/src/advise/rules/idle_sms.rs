//! Launches that follow one another on a stream, share no memory, and would fit on the device together.
//!
//! On two streams the shorter would run beside the longer: that is the most to gain. Pointers within memory, or
//! a dependency through the host, are not seen, so at least nothing is.

use super::Rule;
use crate::advise::{Basis, Evidence, Finding, Gain, Pair};
use crate::amounts::{count, nanos, percent};

pub(super) const RULE: Rule = Rule {
    name: "idle-sms",
    sees: "launches on one stream that leave multiprocessors idle, followed by others that share no pointer with them and fit beside them (with `--mode advise`)",
    says: "run them on a second stream; gains at most the shorter kernel's time",
    find,
};

const LEAST: u64 = 16;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let free = |pair: &&Pair| {
        pair.sharing + pair.repeated == 0
            && pair.count >= LEAST
            && pair.sms_needed <= 1.0
            && pair.first_pointers > 0
            && pair.second_pointers > 0
    };
    let pairs: Vec<&Pair> = evidence.pairs.iter().filter(free).collect();
    let (mut both, mut beside, mut times) = (0.0, 0.0, 0);
    for pair in &pairs {
        let (first, second) = pair.gpu_ns.unwrap_or((0.0, 0.0));
        both += (first + second) * pair.count as f64;
        beside += first.min(second) * pair.count as f64;
        times += pair.count;
    }
    let Some(most) = pairs.first() else { return vec![] };
    let gain = Gain::up_to(beside / both.max(1.0), Basis::Measured);
    vec![Finding::of(RULE.name, evidence.share(both), gain).saying(
        format!("{} times a launch follows one that it does not depend on by its pointers", count(times)),
        format!(
            "for example {} after {}: together they need {} of the SMs, and take {} one after the other",
            most.second,
            most.first,
            percent(most.sms_needed),
            nanos(both)
        ),
        "launch them on two streams, or as parallel branches of a graph".into(),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_independent_launches_are_seen() {
        let with = |sharing, sms_needed| {
            let pair = Pair {
                first: "a".into(),
                second: "b".into(),
                count: 100,
                sharing,
                first_pointers: 1,
                second_pointers: 1,
                gpu_ns: Some((2e3, 2e3)),
                sms_needed,
                ..Pair::default()
            };
            find(&Evidence { program_ns: 1e6, pairs: vec![pair], ..Evidence::default() })
        };
        assert!((with(0, 0.5)[0].gain.high - 0.5).abs() < 1e-9);
        assert!(with(100, 0.5).is_empty() && with(0, 3.0).is_empty());
    }
}
