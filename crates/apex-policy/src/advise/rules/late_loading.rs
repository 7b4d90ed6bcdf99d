//! Code is loaded or compiled while launches are under way.
//!
//! The call's time is measured; loaded before the loop, or as machine code for this GPU instead of PTX, it costs
//! nothing there. Code that is loaded again and again need not be: that part is saved for certain.

use super::Rule;
use crate::advise::{Basis, Evidence, Finding, Gain};
use crate::amounts::{count, counted, nanos};

pub(super) const RULE: Rule = Rule {
    name: "late-loading",
    sees: "modules or libraries loaded between the first and the last launch, with the time that loading took",
    says: "load before the loop, keep modules, ship machine code; gains the time of those calls",
    find,
};

/// Below this share of the program's time a late load is nobody's concern.
const LEAST: f64 = 0.001;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let calls: u64 = evidence.late_loads.iter().map(|load| load.calls.count).sum();
    let host_ns: f64 = evidence.late_loads.iter().map(|load| load.calls.host_ns).sum();
    let again: u64 = evidence.late_loads.iter().map(|load| load.again).sum();
    if calls == 0 || evidence.share(host_ns) < LEAST {
        return vec![];
    }
    let compiled: u64 =
        evidence.late_loads.iter().filter(|load| load.kind == "ptx").map(|load| load.calls.count).sum();
    let jit = if compiled > 0 {
        format!("; {} of them PTX, compiled then and there", count(compiled))
    } else {
        String::new()
    };
    let gain = Gain::between(again as f64 / calls as f64, 1.0, Basis::Measured);
    vec![Finding::of(RULE.name, evidence.share(host_ns), gain).saying(
        format!(
            "code is loaded {} between launches, {} again",
            counted(calls, "time", "times"),
            counted(again, "time", "times")
        ),
        format!("that takes {}, {} each{jit}", nanos(host_ns), nanos(host_ns / calls as f64)),
        "load and warm up before the loop (CUDA_MODULE_LOADING=EAGER), keep modules loaded, build for this \
         architecture (-arch=native) instead of PTX"
            .into(),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::{Calls, Load};

    #[test]
    fn loads_between_launches_are_seen() {
        let with = |count, host_ns| {
            let load =
                Load { kind: "ptx".into(), calls: Calls { count, host_ns }, again: count / 2 };
            find(&Evidence { program_ns: 1e6, late_loads: vec![load], ..Evidence::default() })
        };
        assert!((with(10, 4e5)[0].saving() - 0.3).abs() < 1e-9);
        assert!(with(10, 4e5)[0].why.contains("10 of them PTX"));
        assert!(with(1, 100.0).is_empty() && find(&Evidence::default()).is_empty());
    }
}
