//! Kernels that follow one another and use the same array, thread by thread.
//!
//! Both have the same threads, no shared memory, and a pointer in common, so one kernel may do both, and what
//! lies between them need not go through memory: it is written once and read once less. Which of them writes is
//! not known, so nothing may be gained at all. A kernel that is bound
//! by memory and passes m arrays of like size spends a share 1/m of its time on each; that part of both kernels
//! is the most to gain, besides the second launch. Where the array is used again later only the reading goes: half.

use super::Rule;
use crate::advise::{Basis, Evidence, Finding, Gain, Pair};
use crate::amounts::{bytes, count, nanos};

pub(super) const RULE: Rule = Rule {
    name: "fusion-candidate",
    sees: "kernels with equal threads and no shared memory that follow one another and share a pointer, at least 16 times (with `--mode advise`)",
    says: "fuse them, with the bytes that need not go through memory; gains those bytes' part of both kernels and a launch",
    find,
};

const LEAST: u64 = 16;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let mut found: Vec<Finding> = evidence
        .pairs
        .iter()
        .filter(|pair| pair.elementwise && pair.sharing >= LEAST && pair.first_pointers > 0)
        .map(|pair| fuse(evidence, pair))
        .collect();
    found.sort_by(|a, b| b.saving().total_cmp(&a.saving()));
    found.truncate(MOST);
    found
}

/// Chains that are told: the heaviest.
const MOST: usize = 5;

fn fuse(evidence: &Evidence, pair: &Pair) -> Finding {
    let (first, second) = pair.gpu_ns.unwrap_or((0.0, 0.0));
    let of = |ns: f64, pointers: u64| ns / pointers.max(1) as f64;
    let traffic = of(first, pair.first_pointers) + of(second, pair.second_pointers);
    let launch = evidence.launches.mean_ns();
    let idle = evidence.busy.map_or(0.0, |busy| busy.idle_launches);
    let both = (first + second + launch).max(1.0);
    let times = pair.sharing as f64;
    // A launch that finds the GPU idle is waited for; one that does not is hidden.
    let high = (traffic + launch) / both;
    let gain = Gain::about((traffic / 2.0 + launch * idle) / both, 0.0, high, Basis::Model);
    let share = evidence.share(both * times);
    let saved = pair.shared_bytes.saturating_mul(2);
    Finding::of(RULE.name, share, gain)
        .saying(
            format!(
                "{} and then {} use the same array with the same threads, {} times",
                pair.first,
                pair.second,
                count(pair.sharing)
            ),
            format!(
                "up to {} written and read again each time; the two take {} and {}",
                bytes(saved),
                nanos(first),
                nanos(second)
            ),
            "do both in one kernel (torch.compile, a fused operator), so that the value stays in a register"
                .into(),
        )
        .about(&pair.second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::Calls;

    #[test]
    fn a_producer_and_its_consumer_are_seen() {
        let with = |elementwise, sharing| {
            let pair = Pair {
                first: "add".into(),
                second: "scale".into(),
                count: 100,
                sharing,
                shared_bytes: 4096,
                first_pointers: 3,
                second_pointers: 1,
                gpu_ns: Some((3e3, 2e3)),
                elementwise,
                ..Pair::default()
            };
            let launches = Calls { count: 200, host_ns: 0.0 };
            find(&Evidence { program_ns: 1e6, pairs: vec![pair], launches, ..Evidence::default() })
        };
        // A third of the first and all of the second kernel's traffic.
        assert!((with(true, 100)[0].gain.high - 3.0 / 5.0).abs() < 1e-9);
        assert!(with(true, 100)[0].why.contains("8.00 KiB"), "{}", with(true, 100)[0].why);
        assert!(with(false, 100).is_empty() && with(true, 2).is_empty());
    }
}
