//! The same bytes are uploaded to the same place again.
//!
//! Their digests are equal. Every upload but the first is saved: if a kernel has changed the destination
//! meanwhile, by a copy within the device, which is faster than any bus.

use super::Rule;
use crate::advise::{Basis, Evidence, Finding, Gain};
use crate::amounts::{bytes, count, counted, nanos};

pub(super) const RULE: Rule = Rule {
    name: "redundant-upload",
    sees: "at least 4 uploads of the same bytes to the same place (with `--mode advise`)",
    says: "upload once and keep it on the device; gains the time of all uploads but the first",
    find,
};

const LEAST: u64 = 4;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let again: Vec<_> = evidence.uploads.iter().filter(|all| all.all.count >= LEAST).collect();
    let host_ns: f64 = again.iter().map(|all| all.all.host_ns).sum();
    let uploads: u64 = again.iter().map(|all| all.all.count).sum();
    let volume: u64 = again.iter().map(|all| all.bytes.saturating_mul(all.all.count - 1)).sum();
    let saved: f64 =
        again.iter().map(|all| all.all.host_ns * (1.0 - 1.0 / all.all.count as f64)).sum();
    let Some(first) = again.first() else { return vec![] };
    let share = saved / host_ns.max(1.0);
    let looked = if again.iter().all(|all| all.whole) {
        "all bytes were compared by their digest"
    } else {
        "64 KiB of each, spread evenly, were compared by their digest"
    };
    // What was compared in part may differ elsewhere.
    let low = if again.iter().all(|all| all.whole) { share } else { 0.0 };
    vec![Finding::of(RULE.name, evidence.share(host_ns), Gain::between(low, share, Basis::Measured)).saying(
        format!(
            "{} uploads to {} brought what was brought before, {} of them {} each",
            count(uploads),
            counted(again.len() as u64, "place", "places"),
            count(first.all.count),
            bytes(first.bytes)
        ),
        format!("{} were sent again, {} on the host; {looked}", bytes(volume), nanos(saved)),
        "upload once and keep the data on the device, or restore it by a copy within the device".into(),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::{Calls, Upload};

    #[test]
    fn equal_uploads_are_counted_but_for_the_first() {
        let with = |count, whole| {
            let uploads = vec![Upload { bytes: 4096, all: Calls { count, host_ns: 4e5 }, whole }];
            find(&Evidence { program_ns: 1e6, uploads, ..Evidence::default() })
        };
        assert!((with(10, true)[0].saving() - 0.36).abs() < 1e-9);
        assert_eq!(with(10, false)[0].gain.low, 0.0);
        assert!(with(2, true).is_empty());
    }
}
