//! What is missing of a session, and what that does to the numbers that are shown.

use crate::summary::{OwnSummary, Summary};
use apex_policy::amounts::{count, counted};

/// What is missing, and what that does to the numbers.
pub(super) fn loss(own: &OwnSummary) -> Option<String> {
    let words_of = |number: u64, how: &str| {
        (number > 0).then(|| format!("{} {how}", counted(number, "event", "events")))
    };
    let missing = [words_of(own.lost, "lost"), words_of(own.damaged, "damaged")];
    let mut words: Vec<String> = missing.into_iter().flatten().collect();
    if !words.is_empty() {
        words.push("so every count is at least what is said".into());
    }
    words.extend(words_of(own.not_kept, "not kept on disk"));
    if own.facts_lost > 0 {
        let facts = counted(own.facts_lost, "fact", "facts");
        words.push(format!("{facts} lost, so kernels may lack their names"));
    }
    (!words.is_empty()).then(|| words.join(", "))
}

pub(super) fn is_lossy(summary: &Summary) -> bool {
    summary.own.missing() > 0
}

/// Stands before a number that events count, where some are missing.
pub(super) fn at_least(summary: &Summary) -> &'static str {
    if is_lossy(summary) { "at least " } else { "" }
}

/// The same for a column of a table.
pub(super) fn cell(summary: &Summary, number: u64) -> String {
    format!("{}{}", if is_lossy(summary) { "≥" } else { "" }, count(number))
}
