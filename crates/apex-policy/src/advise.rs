//! Says what is wrong with a program's use of the GPU, why, what to change, and what that gains.
//!
//! The daemon makes [`Evidence`] of a session; every rule looks at it and answers with [`Finding`]s. A rule is one
//! file and one line in the list of [`RULES`]. A gain is never typed in: it is worked out from the session's own
//! times or from the arithmetic of the launch, and comes with the interval in which it must lie. What is not
//! known widens the interval; it does not move the middle.

pub mod block;
pub mod check;
mod evidence;
mod finding;
mod rules;
mod shapes;

pub use evidence::{
    Act, ActKind, Busy, Calls, Clocks, Copies, Device, Evidence, GraphMade, Growth, Kernel, Load,
    Pair, Sequence, Shape, Stall, Streams, Upload, Waits,
};
pub use finding::{Basis, Change, Finding, Gain, Severity};
pub use rules::{RULES, Rule};

use std::fmt::Write as _;

/// Everything that the rules find, what saves most first.
#[must_use]
pub fn advise(evidence: &Evidence) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| (rule.find)(evidence)).collect();
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
         [SESSION]` shows all of them, `--json` as a document. A session recorded without `--mode advise` can be \
         asked too; what needs the launches' pointers or the uploads' contents is then not seen.\n\n\
         Each finding names what was seen, the limiter and its number, what to do, the share of the program's \
         time that it concerns (weight), and the share of that which the change saves (gain) with its interval. \
         The basis of a gain is `exact` (arithmetic of the launch), `measured` (times of this session) or `model` \
         (an assumption that the text names). Findings are sorted by weight times gain.\n\n\
         The rules, from the list in `crates/apex-policy/src/advise/rules.rs`:\n\n\
         | rule | what it sees | what it says |\n|---|---|---|\n",
    );
    for rule in RULES {
        let _ = writeln!(page, "| `{}` | {} | {} |", rule.name, rule.sees, rule.says);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_a_name_of_its_own_and_a_line_in_the_docs() {
        let mut names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RULES.len());
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/advice.md");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(kept == page(), "docs/advice.md is stale: renew it with UPDATE_EXPECT=1");
    }

    #[test]
    fn no_evidence_gives_no_finding() {
        assert_eq!(advise(&Evidence::default()), []);
    }
}
