//! Says what is wrong with a program's use of the GPU, why, what to change, and what that gains.
//!
//! The daemon makes [`Evidence`] of a session; every rule looks at it and answers with [`Finding`]s. A rule is one
//! file and one line in a list of `rules.rs`. A gain is never typed in: it is worked out from the session's own
//! times or from the arithmetic of the launch, and comes with the interval in which it must lie. What is not
//! known widens the interval; it does not move the middle. A finding that saves next to nothing is no advice
//! ([`Finding::is_worth_it`]); where none is left, [`bound`] says what the program's time goes to.

pub mod block;
mod bound;
pub mod check;
mod evidence;
mod finding;
mod rules;
mod shapes;

pub use bound::{Bound, bound};
pub use evidence::{
    Act, ActKind, Busy, Calls, Clocks, Copies, Device, Evidence, GraphMade, Growth, Kernel, Load,
    Pair, Reuse, Sequence, Shape, Stall, Streams, Upload, Waits,
};
pub use finding::{Basis, Change, Finding, Gain, LEAST_SAVING, Severity};
pub use rules::{HARDWARE_RULES, PROGRAM_RULES, Rule};

use std::fmt::Write as _;

/// Everything that the rules find, what saves most first.
#[must_use]
pub fn advise(evidence: &Evidence) -> Vec<Finding> {
    let find = |rule: &Rule| (rule.find)(evidence);
    let mut findings: Vec<Finding> = HARDWARE_RULES.iter().flat_map(find).collect();
    if let Some(gpu) = evidence.software_gpu() {
        findings = findings.into_iter().map(|finding| finding.only_for(gpu)).collect();
    }
    findings.extend(PROGRAM_RULES.iter().flat_map(find));
    findings.sort_by(|a, b| {
        let by_saving = b.saving().total_cmp(&a.saving());
        by_saving.then(b.weight.total_cmp(&a.weight)).then_with(|| a.rule.cmp(b.rule))
    });
    findings
}

/// The page `docs/advice.md`.
#[must_use]
pub fn page() -> String {
    let mut page = String::from(
        "# Advice\n\n\
         `apex run --mode advise -- CMD` ends with the findings that would save most; `apex report --advice \
         [SESSION]` shows all that are worth it, `--json` every one as a document. A session recorded without `--mode advise` can be \
         asked too; what needs the launches' pointers or the uploads' contents is then not seen.\n\n\
         Each finding names what was seen, the limiter and its number, and what to do. Its weight is the share of the \
         program's time that it concerns; its gain is the share of that which the change saves, with its interval. \
         The basis of a gain is `exact` (arithmetic of the launch), `measured` (times of this session) or `model` \
         (an assumption that the text names). Findings are sorted by weight times gain. One that saves less than 1 % \
         of the program's time is no advice: `--json` alone has it (`worth_it` is false). Where no other is left, the \
         advice says what bounds the program's time instead.\n\n\
         Rules marked * are about what a GPU is built of. On the software GPU they hold for the GPU whose name it bears \
         (`holds_for`), not for the times of this CPU: they save nothing there, and `--json` alone has them.\n\n\
         The rules, from the lists in `crates/apex-policy/src/advise/rules.rs`:\n\n\
         | rule | what it sees | what it says |\n|---|---|---|\n",
    );
    for (rules, mark) in [(HARDWARE_RULES, " *"), (PROGRAM_RULES, "")] {
        for rule in rules {
            let _ = writeln!(page, "| `{}`{mark} | {} | {} |", rule.name, rule.sees, rule.says);
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test renews a page, no rule does")]
    fn every_rule_has_a_name_of_its_own_and_a_line_in_the_docs() {
        let rules = || HARDWARE_RULES.iter().chain(PROGRAM_RULES);
        let mut names: Vec<&str> = rules().map(|rule| rule.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rules().count());
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/advice.md");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(kept == page(), "docs/advice.md is stale: renew it with UPDATE_EXPECT=1");
    }

    #[test]
    fn what_a_gpu_is_built_of_saves_nothing_on_the_software_gpu() {
        let mut evidence = shapes::tests::evidence(33, 256);
        let found = advise(&evidence);
        assert!(found[0].rule == "small-grid" && found[0].is_worth_it(), "{found:?}");
        evidence.soft = true;
        evidence.devices[0].name = "apex software GPU (H200)".into();
        let found = advise(&evidence);
        assert_eq!(found[0].holds_for.as_deref(), Some("H200"), "{found:?}");
        assert!(found.iter().all(|finding| !finding.is_worth_it() && finding.saving() == 0.0));
    }

    #[test]
    fn no_evidence_gives_no_finding() {
        assert_eq!(advise(&Evidence::default()), []);
    }
}
