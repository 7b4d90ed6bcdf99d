//! Advice as a document and as text.
//!
//! The rules decide (`apex_policy::advise`); here their findings become what `apex report --advice` prints and
//! what the end of `apex run --mode advise` shows.

use crate::names::shorten;
use crate::progress::Progress;
use crate::read::Stored;
use crate::show::percent;
use crate::summary::SCHEMA;
use apex_policy::advise::{Finding, Severity, advise};
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
        better_block_threads: finding.change.map(|change| change.better_threads),
    }
}

/// All findings as text.
#[must_use]
pub fn show(advice: &Advice, width: usize) -> String {
    if advice.findings.is_empty() {
        return "no rule found anything to say\n".into();
    }
    let mut text = format!("{} findings, what saves most first\n", advice.findings.len());
    for (nth, finding) in advice.findings.iter().enumerate() {
        let _ = writeln!(text);
        lines(&mut text, nth + 1, finding, width);
    }
    text
}

/// The findings that save most, for the end of a run.
#[must_use]
pub fn show_top(advice: &Advice, session: &str, width: usize) -> String {
    let good = Severity::Good.word();
    let worth: Vec<&FindingDocument> =
        advice.findings.iter().filter(|finding| finding.severity != good).collect();
    if worth.is_empty() {
        return "advice: no rule found anything to change\n".into();
    }
    let mut text = String::from("advice, what saves most first:\n");
    for (nth, finding) in worth.iter().take(TOP).enumerate() {
        lines(&mut text, nth + 1, finding, width);
    }
    let more = advice.findings.len().saturating_sub(TOP.min(worth.len()));
    if more > 0 {
        let _ = writeln!(text, "  and {more} more: apex report --advice {session}");
    } else {
        let _ = writeln!(text, "  again: apex report --advice {session}");
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
    if finding.severity != Severity::Good.word() {
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
            ..FindingDocument::default()
        }
    }

    #[test]
    fn the_end_of_a_run_shows_five_and_no_praise() {
        let mut findings: Vec<FindingDocument> =
            (0..7).map(|_| finding("small-grid", "note", 0.01)).collect();
        findings.push(finding("excellent", "good", 0.0));
        let advice = Advice { findings, ..Advice::default() };
        let text = show_top(&advice, "here", 100);
        assert_eq!(text.matches("small-grid").count(), 5, "{text}");
        assert!(text.ends_with("and 3 more: apex report --advice here\n"), "{text}");
        assert!(show(&advice, 100).contains("8. excellent [good]"));
        let praise = Advice { findings: vec![finding("excellent", "good", 0.0)], ..advice };
        assert_eq!(show_top(&praise, "here", 100), "advice: no rule found anything to change\n");
    }
}
