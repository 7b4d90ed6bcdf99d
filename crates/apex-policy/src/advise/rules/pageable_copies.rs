//! Copies whose host side is not pinned.
//!
//! The driver copies such memory piece by piece through a buffer of its own, and the call returns only when that
//! is done. Where the session has copies of pinned memory in the same direction, their rate says what pinning
//! gains at least; at most the whole time of the call goes, because a copy of pinned memory runs beside the host.

use super::Rule;
use crate::advise::{Basis, Copies, Evidence, Finding, Gain};
use crate::amounts::{bytes, counted, nanos, percent};

pub(super) const RULE: Rule = Rule {
    name: "pageable-copies",
    sees: "copies of at least 1 MiB in all between pageable host memory and a device",
    says: "pin the host memory; gains from what pinned copies of the session are faster up to the whole call",
    find,
};

const LEAST_BYTES: u64 = 1 << 20;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let pageable = evidence.copies.iter().filter(|copies| copies.pageable == Some(true));
    pageable
        .filter(|copies| copies.bytes >= LEAST_BYTES)
        .map(|copies| {
            let rate = |of: &Copies| of.bytes as f64 / of.all.host_ns.max(1.0);
            let pinned = evidence.copies.iter().find(|other| {
                other.pageable == Some(false)
                    && other.direction == copies.direction
                    && other.bytes >= LEAST_BYTES
            });
            let faster = pinned.map_or(0.0, |pinned| 1.0 - rate(copies) / rate(pinned));
            let basis = if pinned.is_some() { Basis::Measured } else { Basis::Model };
            Finding::of(
                RULE.name,
                evidence.share(copies.all.host_ns),
                Gain::between(faster.max(0.0), 1.0, basis),
            )
            .saying(
                format!(
                    "{} in {} {} from or to pageable memory",
                    bytes(copies.bytes),
                    counted(copies.all.count, "copy", "copies"),
                    copies.direction
                ),
                format!(
                    "the calls take {} on the host, {} a second{}",
                    nanos(copies.all.host_ns),
                    bytes((rate(copies) * 1e9) as u64),
                    pinned.map_or(String::new(), |_| format!(
                        "; pinned copies of this session are {} faster",
                        percent(faster.max(0.0))
                    ))
                ),
                "pin the host memory (cuMemHostAlloc, cuMemHostRegister; pin_memory=True and non_blocking=True)"
                    .into(),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::Calls;

    fn copies(pageable: bool, bytes: u64, host_ns: f64) -> Copies {
        Copies {
            direction: "host-to-device".into(),
            pageable: Some(pageable),
            all: Calls { count: 10, host_ns },
            bytes,
            ..Copies::default()
        }
    }

    #[test]
    fn pinned_copies_of_the_session_set_the_least_gain() {
        let of = |copies| find(&Evidence { program_ns: 1e6, copies, ..Evidence::default() });
        let found = of(vec![copies(true, 10 << 20, 4e5), copies(false, 10 << 20, 1e5)]);
        assert!((found[0].gain.low - 0.75).abs() < 1e-9 && found[0].gain.high == 1.0);
        assert_eq!(of(vec![copies(true, 10 << 20, 4e5)])[0].gain.basis, Basis::Model);
        assert!(of(vec![copies(false, 10 << 20, 4e5), copies(true, 100, 1e5)]).is_empty());
    }
}
