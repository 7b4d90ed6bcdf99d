//! Advice as a document and as text.
//!
//! The rules decide (`apex_policy::advise`); here their findings become what `apex report --advice` prints and
//! what the end of `apex run --mode advise` shows. Text has what is worth a change and what is well done; the rest
//! is in the document alone.

use crate::names::shorten;
use crate::progress::Progress;
use crate::read::Stored;
use crate::show::{counted, percent};
use crate::summary::SCHEMA;
use apex_policy::advise::{Bound, Finding, LEAST_SAVING, Severity, advise, bound};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The findings about one session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// [`SCHEMA`].
    pub schema: u64,
    /// The session's id.
    pub session: String,
    /// The command that was run.
    pub command: Vec<String>,
    /// It was recorded with `--mode advise`: pointers and uploads were looked at.
    pub detail: bool,
    /// What the rules found, what saves most first.
    pub findings: Vec<FindingDocument>,
    /// What the program's time goes to; null where nothing was launched.
    #[serde(default)]
    pub bound: Option<BoundDocument>,
}

/// What bounds a program's time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BoundDocument {
    /// `gpu`, `launching`, `copies`, `loading` or `host`.
    pub by: String,
    /// One sentence with the shares.
    pub sentence: String,
}

/// One finding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FindingDocument {
    /// The rule's name.
    pub rule: String,
    /// `critical`, `warning`, `note` or `good`.
    pub severity: String,
    /// The kernel concerned; null for the program as a whole.
    pub kernel: Option<String>,
    /// What was seen.
    pub what: String,
    /// The limiter and its number.
    pub why: String,
    /// What to do.
    pub action: String,
    /// What that saves of the time concerned.
    pub gain: GainDocument,
    /// The time concerned as a share of the program's, from 0 to 1.
    pub weight: f64,
    /// Weight times the expected gain: the share of the program's time that is saved.
    pub saving: f64,
    /// Whether it saves 1 % of the program's time or keeps the program from failing.
    #[serde(default)]
    pub worth_it: bool,
    /// The GPU that it is about, where the program ran on the software GPU; null where it holds for this run.
    #[serde(default)]
    pub holds_for: Option<String>,
    /// Threads of a block to take instead, where that is the advice.
    pub better_block_threads: Option<u32>,
}

/// A gain with its interval, as shares from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GainDocument {
    /// What to expect.
    pub expected: f64,
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
    /// `exact`, `model` or `measured`.
    pub basis: String,
}

/// Findings shown at the end of a run.
pub const TOP: usize = 5;

/// Asks the rules about a stored session.
pub fn of_session(stored: &mut Stored, progress: &mut Progress) -> Advice {
    let evidence = crate::evidence::evidence(stored, progress);
    Advice {
        schema: SCHEMA,
        session: stored.record.id.clone(),
        command: stored.record.command.clone(),
        detail: !evidence.pairs.is_empty() || !evidence.uploads.is_empty(),
        findings: advise(&evidence).iter().map(document).collect(),
        bound: bound(&evidence)
            .map(|Bound { by, sentence }| BoundDocument { by: by.into(), sentence }),
    }
}

fn document(finding: &Finding) -> FindingDocument {
    FindingDocument {
        rule: finding.rule.into(),
        severity: finding.severity.word().into(),
        kernel: finding.kernel.clone(),
        what: finding.what.clone(),
        why: finding.why.clone(),
        action: finding.action.clone(),
        gain: GainDocument {
            expected: finding.gain.expected,
            low: finding.gain.low,
            high: finding.gain.high,
            basis: finding.gain.basis.word().into(),
        },
        weight: finding.weight,
        saving: finding.saving(),
        worth_it: finding.is_worth_it(),
        holds_for: finding.holds_for.clone(),
        better_block_threads: finding.change.map(|change| change.better_threads),
    }
}

/// The findings as text: what is worth a change, then what is well done.
#[must_use]
pub fn show(advice: &Advice, width: usize) -> String {
    let mut text = match worth(advice).count() as u64 {
        0 => nothing(advice),
        worth => format!("{}, what saves most first\n", counted(worth, "finding", "findings")),
    };
    for (nth, finding) in worth(advice).chain(praise(advice)).enumerate() {
        let _ = writeln!(text);
        lines(&mut text, nth + 1, finding, width);
    }
    text + &left_out(advice)
}

/// The findings that save most, for the end of a run.
#[must_use]
pub fn show_top(advice: &Advice, session: &str, width: usize) -> String {
    let worth: Vec<&FindingDocument> = worth(advice).collect();
    if worth.is_empty() {
        return format!("advice: {}{}", nothing(advice), left_out(advice));
    }
    let mut text = String::from("advice, what saves most first:\n");
    for (nth, finding) in worth.iter().take(TOP).enumerate() {
        lines(&mut text, nth + 1, finding, width);
    }
    let more = worth.len().saturating_sub(TOP);
    if more > 0 {
        let _ = writeln!(text, "  and {more} more: apex report --advice {session}");
    } else {
        let _ = writeln!(text, "  again: apex report --advice {session}");
    }
    text
}

fn worth(advice: &Advice) -> impl Iterator<Item = &FindingDocument> {
    advice.findings.iter().filter(|finding| finding.worth_it)
}

/// What is well done, on the device that the program ran on.
fn praise(advice: &Advice) -> impl Iterator<Item = &FindingDocument> {
    let here = advice.findings.iter().filter(|finding| finding.holds_for.is_none());
    here.filter(|finding| finding.severity == Severity::Good.word())
}

/// What to say where no finding is worth a change.
fn nothing(advice: &Advice) -> String {
    let least = percent(LEAST_SAVING);
    let mut text =
        format!("nothing worth doing was found: no change saves {least} of the program's time\n");
    if let Some(bound) = &advice.bound {
        let _ = writeln!(text, "  what bounds it is {}", bound.sentence);
    }
    text
}

/// How many findings the document alone has.
fn left_out(advice: &Advice) -> String {
    let elsewhere = advice.findings.iter().find_map(|finding| finding.holds_for.as_deref());
    let about = advice.findings.iter().filter(|finding| finding.holds_for.is_some()).count();
    let hidden = advice.findings.len() - worth(advice).count() - praise(advice).count() - about;
    let mut text = String::new();
    if hidden > 0 {
        let words = counted(hidden as u64, "finding saves", "findings save");
        let _ = writeln!(text, "  {words} less; --json shows all");
    }
    if let Some(gpu) = elsewhere {
        let words = counted(about as u64, "finding", "findings");
        let _ = writeln!(
            text,
            "  {words} would hold for the {gpu}, not for this CPU; --json shows all"
        );
    }
    text
}

fn lines(text: &mut String, nth: usize, finding: &FindingDocument, width: usize) {
    let kernel = match &finding.kernel {
        Some(kernel) => format!(" {}:", shorten(kernel, width.saturating_sub(60).max(24))),
        None => String::new(),
    };
    let _ =
        writeln!(text, "  {nth}. {} [{}]{kernel} {}", finding.rule, finding.severity, finding.what);
    let _ = writeln!(text, "     why: {}", finding.why);
    let _ = writeln!(text, "     do: {}", finding.action);
    let gain = &finding.gain;
    if finding.saving > 0.0 {
        let _ = writeln!(
            text,
            "     saves about {} of the program's time: {} ({} to {}, {}) of the {} concerned",
            percent(finding.saving),
            percent(gain.expected),
            percent(gain.low),
            percent(gain.high),
            gain.basis,
            percent(finding.weight)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(rule: &str, severity: &str, saving: f64) -> FindingDocument {
        FindingDocument {
            rule: rule.into(),
            severity: severity.into(),
            what: "seen".into(),
            why: "because".into(),
            action: "change it".into(),
            saving,
            worth_it: saving >= LEAST_SAVING,
            ..FindingDocument::default()
        }
    }

    fn host_bound(findings: Vec<FindingDocument>) -> Advice {
        let sentence = "the host: kernels ran for 11 %".into();
        let bound = Some(BoundDocument { by: "host".into(), sentence });
        Advice { findings, bound, ..Advice::default() }
    }

    #[test]
    fn the_end_of_a_run_shows_five_and_no_praise() {
        let mut findings: Vec<FindingDocument> =
            (0..7).map(|_| finding("late-loading", "note", 0.01)).collect();
        findings.push(finding("excellent", "good", 0.0));
        let advice = host_bound(findings);
        let text = show_top(&advice, "here", 100);
        assert_eq!(text.matches("late-loading").count(), 5, "{text}");
        assert!(text.ends_with("and 2 more: apex report --advice here\n"), "{text}");
        assert!(show(&advice, 100).contains("8. excellent [good]"));
    }

    #[test]
    fn what_saves_next_to_nothing_is_no_advice() {
        let small = vec![finding("tiny-copies", "note", 0.006), finding("x", "note", 0.0)];
        let expected = "\
advice: nothing worth doing was found: no change saves 1.0 % of the program's time
  what bounds it is the host: kernels ran for 11 %
  2 findings save less; --json shows all
";
        assert_eq!(show_top(&host_bound(small.clone()), "here", 100), expected);
        let mut elsewhere = finding("small-grid", "note", 0.0);
        elsewhere.holds_for = Some("H200".into());
        let text = show(&host_bound(vec![elsewhere, small[0].clone()]), 100);
        assert!(text.ends_with(
            "  1 finding saves less; --json shows all\n  1 finding would hold for the H200, not for this CPU; \
             --json shows all\n"
        ), "{text}");
        assert!(!text.contains("small-grid"), "{text}");
    }

    #[test]
    fn what_makes_a_program_fail_is_said_without_a_saving() {
        let leak = FindingDocument { worth_it: true, ..finding("memory-leak", "warning", 0.0) };
        let text = show_top(&host_bound(vec![leak]), "here", 100);
        assert!(text.contains("memory-leak") && !text.contains("saves about"), "{text}");
    }
}
