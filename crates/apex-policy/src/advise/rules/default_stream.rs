//! Work on the legacy default stream comes between work of other streams and holds them all up.
//!
//! Streams made without the non-blocking flag wait for the default stream, and it for them. Without it the
//! shorter of the two kinds of work could run beside the longer: that is the most to gain; where they share the
//! device's resources, nothing.

use super::Rule;
use crate::advise::{Basis, Evidence, Finding, Gain};
use crate::amounts::{count, nanos};

pub(super) const RULE: Rule = Rule {
    name: "default-stream",
    sees: "launches on the legacy default stream between launches on streams that wait for it, 8 times or more",
    says: "use non-blocking or per-thread default streams; gains at most the shorter kind's GPU time",
    find,
};

const LEAST: u64 = 8;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let streams = evidence.streams;
    if streams.interleaved < LEAST {
        return vec![];
    }
    let both = streams.default_ns + streams.blocking_ns;
    let beside = streams.default_ns.min(streams.blocking_ns) / both.max(1.0);
    let gain = Gain::up_to(beside, Basis::Measured);
    vec![Finding::of(RULE.name, evidence.share(both), gain).saying(
        format!(
            "{} launches on the default stream come {} times between {} on streams that wait for it",
            count(streams.default_launches),
            count(streams.interleaved),
            count(streams.blocking_launches)
        ),
        format!(
            "kernels of {} and of {} cannot run beside one another",
            nanos(streams.default_ns),
            nanos(streams.blocking_ns)
        ),
        "make the streams with CU_STREAM_NON_BLOCKING, move the default stream's work to one of its own, or \
         compile with --default-stream per-thread"
            .into(),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::Streams;

    #[test]
    fn interleaved_default_work_is_seen() {
        let with = |interleaved| {
            let streams = Streams {
                interleaved,
                default_launches: 50,
                default_ns: 2e5,
                blocking_launches: 50,
                blocking_ns: 6e5,
                used: 2,
            };
            find(&Evidence { program_ns: 1e6, streams, ..Evidence::default() })
        };
        assert!((with(50)[0].gain.high - 0.25).abs() < 1e-9);
        assert!(with(1).is_empty());
    }
}
