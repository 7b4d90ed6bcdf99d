//! Streams and events are made and ended while launches are under way.
//!
//! Both can be used again, so all their calls of the steady phase are saved.

use super::Rule;
use crate::advise::{ActKind, Basis, Evidence, Finding, Gain};
use crate::amounts::{counted, nanos};

pub(super) const RULE: Rule = Rule {
    name: "object-churn",
    sees: "streams or events made or ended in the steady phase, at least one for every 10 launches",
    says: "make them once and use them again; gains the time of those calls",
    find,
};

const LEAST: u64 = 16;
const LAUNCHES_EACH: u64 = 10;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let steady = |kind| evidence.act(kind).map(|act| act.steady).unwrap_or_default();
    let (streams, events) = (steady(ActKind::Stream), steady(ActKind::Event));
    let (calls, host_ns) = (streams.count + events.count, streams.host_ns + events.host_ns);
    if calls < LEAST || calls * LAUNCHES_EACH < evidence.launch_count() * 3 / 4 {
        return vec![];
    }
    let gain = Gain::between(1.0, 1.0, Basis::Measured);
    vec![Finding::of(RULE.name, evidence.share(host_ns), gain).saying(
        format!(
            "streams are made or ended {} in the loop, events {}",
            counted(streams.count, "time", "times"),
            counted(events.count, "time", "times")
        ),
        format!("a stream's call takes {}, an event's {}", nanos(streams.mean_ns()), nanos(events.mean_ns())),
        "make streams and events once and use them again".into(),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::{Act, Calls};

    #[test]
    fn objects_of_the_loop_are_seen() {
        let with = |count| {
            let steady = Calls { count, host_ns: 2e5 };
            let acts = vec![Act { kind: ActKind::Event, all: steady, steady }];
            let launches = Calls { count: 100, host_ns: 1e5 };
            find(&Evidence { program_ns: 1e6, acts, launches, ..Evidence::default() })
        };
        assert!((with(100)[0].saving() - 0.2).abs() < 1e-9);
        assert!(with(4).is_empty());
    }
}
