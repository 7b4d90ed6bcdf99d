//! Brings a session out in other formats.
//!
//! Everything is written as it is read, so a session larger than memory can be exported. A damaged
//! file of the session is named among its complaints and the rest is written.

mod chrome;
mod csv;
mod json;
mod ndjson;
mod parquet;
mod perfetto;
mod trace;

use crate::progress::Progress;
use crate::read::Stored;
use std::io::{self, Write};

/// The formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One document: the session and its summary.
    Json,
    /// One event per line, each a JSON object.
    Ndjson,
    /// One event per line, with a heading.
    Csv,
    /// All events in one file.
    Parquet,
    /// A trace for Perfetto.
    Perfetto,
    /// A trace in Chrome's JSON form.
    Chrome,
}

impl Format {
    /// Whether the output is not text and should not go to a terminal.
    #[must_use]
    pub fn is_binary(self) -> bool {
        matches!(self, Format::Parquet | Format::Perfetto)
    }
}

/// Writes the session to `out`.
pub fn export(
    stored: &mut Stored,
    format: Format,
    out: &mut (dyn Write + Send),
    progress: &mut Progress,
) -> io::Result<()> {
    match format {
        Format::Json => json::write(stored, out, progress),
        Format::Ndjson => ndjson::write(stored, out, progress),
        Format::Csv => csv::write(stored, out, progress),
        Format::Parquet => parquet::write(stored, out, progress),
        Format::Perfetto => trace::write(stored, &mut perfetto::Perfetto::on(out), progress),
        Format::Chrome => trace::write(stored, &mut chrome::Chrome::on(out), progress),
    }
}

/// Keeps the first error of a write inside a loop that cannot return it.
#[derive(Default)]
struct Outcome(Option<io::Error>);

impl Outcome {
    fn run(&mut self, write: impl FnOnce() -> io::Result<()>) {
        if self.0.is_none() {
            self.0 = write().err();
        }
    }

    fn result(self) -> io::Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}
