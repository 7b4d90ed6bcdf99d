//! The GPU ran below its clock because of heat or power: not the program's fault.
//!
//! Work bound by the multiprocessors becomes faster as the clock does; work bound by memory does not: those are
//! the bounds.

use super::Rule;
use crate::advise::{Basis, Evidence, Finding, Gain};
use crate::amounts::percent;

pub(super) const RULE: Rule = Rule {
    name: "clock-throttling",
    sees: "clocks read while the program ran (with `--mode advise` on a GPU) below what the GPU can hold, for a named reason, in a tenth of the readings",
    says: "not the program's fault: name the reason; gains at most the clock's part",
    find,
};

const OFTEN: f64 = 0.1;
const LOWER: f64 = 0.03;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let Some(clocks) = &evidence.clocks else { return vec![] };
    let lower = 1.0 - clocks.mean_mhz / clocks.rated_mhz.max(1.0);
    if clocks.throttled < OFTEN || lower < LOWER || clocks.reason.is_empty() {
        return vec![];
    }
    let busy = evidence.busy.map_or(evidence.phase_ns, |busy| busy.ns);
    vec![Finding::of(RULE.name, evidence.share(busy), Gain::up_to(lower, Basis::Measured)).saying(
        format!(
            "the GPU ran at {:.0} of {:.0} MHz because of {}; that is not the program's fault",
            clocks.mean_mhz, clocks.rated_mhz, clocks.reason
        ),
        format!(
            "{} of the readings name it; the clock was {} lower than it could be",
            percent(clocks.throttled),
            percent(lower)
        ),
        "look at cooling, the power limit and what else runs on the machine; compare times only at equal clocks"
            .into(),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::Clocks;

    #[test]
    fn a_named_reason_and_a_lower_clock_are_needed() {
        let with = |mean_mhz, throttled| {
            let clocks = Clocks {
                rated_mhz: 1980.0,
                mean_mhz,
                throttled,
                reason: "the GPU's temperature".into(),
            };
            let clocks = Some(clocks);
            find(&Evidence { program_ns: 1e6, phase_ns: 1e6, clocks, ..Evidence::default() })
        };
        assert!((with(990.0, 0.9)[0].gain.high - 0.5).abs() < 1e-9);
        assert!(with(990.0, 0.9)[0].what.contains("temperature"));
        assert!(with(1975.0, 0.9).is_empty() && with(990.0, 0.0).is_empty());
    }
}
