//! Pages and documents that were asked for, on standard output.

use apex_core::printable::printable;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::Write;
use std::process::ExitCode;

/// Prints a document, byte for byte.
pub(crate) fn print_page(page: &[u8]) -> anyhow::Result<ExitCode> {
    match std::io::stdout().write_all(page) {
        // Whoever reads may have seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(ExitCode::SUCCESS),
    }
}

/// Prints a page for people, which has no colours of its own.
pub(crate) fn print_text(page: &str) -> anyhow::Result<ExitCode> {
    print_page(printable(page).as_bytes())
}

/// The same document with every text in it made fit for a terminal, for a page that has colours of its own.
pub(crate) fn shown<T: Clone + Serialize + DeserializeOwned>(document: &T) -> T {
    let value = serde_json::to_value(document).map(texts_shown);
    value.and_then(serde_json::from_value).unwrap_or_else(|_| document.clone())
}

fn texts_shown(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(printable(&text).replace('\n', "\\n")),
        Value::Array(list) => list.into_iter().map(texts_shown).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name, texts_shown(value))).collect()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::shown;
    use apex_daemon::summary::{KernelSummary, Summary};

    #[test]
    fn a_foreign_name_in_a_summary_is_shown() {
        let name = "k\x1b[2J".to_owned();
        let kernel = KernelSummary { name, ..KernelSummary::default() };
        let command = vec!["a\nb".to_owned(), "plain".into()];
        let summary = Summary { kernels: vec![kernel], command, ..Summary::default() };
        let clean = shown(&summary);
        assert_eq!(clean.kernels[0].name, "k\\u{1b}[2J");
        assert_eq!(clean.command, ["a\\nb", "plain"]);
        assert_eq!(shown(&clean), clean);
    }
}
