//! What the user reads in the end: the summary and the advice, as a page or as a document.

use crate::layout::layout;
use crate::pages::shown;
use apex_core::printable::printable;
use apex_daemon::advice::{Advice, show_top};
use apex_daemon::show::report;
use apex_daemon::summary::Summary;
use std::io;
use std::path::Path;

/// All that is reported of one session.
pub(super) struct ClosingReport<'a> {
    pub(super) summary: &'a Summary,
    pub(super) advice: Option<&'a Advice>,
    pub(super) session: Option<&'a Path>,
}

impl ClosingReport<'_> {
    /// The summary with the advice, and with what apex had to say beside it.
    pub(super) fn document(&self, said: Vec<String>) -> String {
        let mut document = serde_json::to_value(self.summary).unwrap_or_default();
        if let Some(fields) = document.as_object_mut() {
            if let Some(advice) = self.advice {
                let advice = serde_json::to_value(advice).unwrap_or_default();
                fields.insert("advice".into(), advice);
            }
            if !said.is_empty() {
                fields.insert("said".into(), said.into());
            }
        }
        serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
    }

    /// The page for people.
    pub(super) fn page(&self) -> String {
        let layout = layout(&io::stderr());
        let session = self.session.map(|path| path.display().to_string());
        let session = session.as_deref().map(printable);
        let session = session.as_deref();
        let top = |advice| show_top(&shown(advice), session.unwrap_or_default(), layout.width);
        report(&shown(self.summary), session, layout) + &self.advice.map(top).unwrap_or_default()
    }
}
