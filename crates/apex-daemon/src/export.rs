//! Brings a session out in other formats.
//!
//! Everything is written as it is read, so a session larger than memory can be exported. A damaged
//! file of the session is named among its complaints and the rest is written.

mod chrome;
mod csv;
mod json;
mod ndjson;
mod outcome;
mod parquet;
mod perfetto;
pub mod timeline;
mod trace;

use crate::progress::Progress;
use crate::read::Stored;
use std::io::{self, Write};

/// The formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One document: the session, its summary and every event.
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
