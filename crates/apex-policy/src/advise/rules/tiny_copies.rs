//! Many small copies, one after the other.
//!
//! A small copy costs its call, not its bytes. Copies that directly follow one another in the same direction can
//! be one; all calls but one of each run are saved, as far as the bytes themselves are quick.

use super::Rule;
use crate::advise::{Basis, Copies, Evidence, Finding, Gain};
use crate::amounts::{bytes, count, nanos};

pub(super) const RULE: Rule = Rule {
    name: "tiny-copies",
    sees: "at least 32 copies of at most 16 KiB that directly follow another in the same direction",
    says: "put them together in one copy; gains the time of all calls but the first of each run",
    find,
};

const LEAST: u64 = 32;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let small = evidence.copies.iter().filter(|copies| copies.small_runs >= LEAST);
    small
        .map(|copies| {
            let joined = copies.small_runs as f64 / copies.small.count.max(1) as f64;
            // The bytes of large copies of the same kind move at this rate; without any, as fast as can be.
            let large = copies.bytes - copies.small_bytes;
            let large_ns = copies.all.host_ns - copies.small.host_ns;
            let bytes_ns = if large > Copies::SMALL_BYTES {
                copies.small_bytes as f64 * large_ns / large as f64
            } else {
                0.0
            };
            let calls = (1.0 - bytes_ns / copies.small.host_ns.max(1.0)).clamp(0.0, 1.0);
            let gain = Gain::between(joined * calls, joined, Basis::Measured);
            Finding::of(RULE.name, evidence.share(copies.small.host_ns), gain).saying(
                format!(
                    "{} copies {} of {} on average, {} of them directly after another",
                    count(copies.small.count),
                    copies.direction,
                    bytes(copies.small_bytes / copies.small.count.max(1)),
                    count(copies.small_runs)
                ),
                format!("each call takes {} whatever it moves", nanos(copies.small.mean_ns())),
                "gather the pieces in one buffer and copy that, or use cuMemcpyBatchAsync".into(),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::Calls;

    #[test]
    fn runs_of_small_copies_are_seen() {
        let with = |small_runs| {
            let copies = Copies {
                direction: "host-to-device".into(),
                all: Calls { count: 100, host_ns: 5e5 },
                bytes: 6400,
                small: Calls { count: 100, host_ns: 5e5 },
                small_bytes: 6400,
                small_runs,
                ..Copies::default()
            };
            find(&Evidence { program_ns: 1e6, copies: vec![copies], ..Evidence::default() })
        };
        assert!((with(90)[0].saving() - 0.45).abs() < 1e-9);
        assert!(with(3).is_empty());
    }
}
