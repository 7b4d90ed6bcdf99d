//! One event per line, each a JSON object of the columns that apply to it.

use super::outcome::Outcome;
use crate::columns::{Cell, Flat, NAMES};
use crate::progress::Progress;
use crate::read::Stored;
use std::io::{self, Write};

pub(super) fn write(
    stored: &mut Stored,
    out: &mut (dyn Write + Send),
    progress: &mut Progress,
) -> io::Result<()> {
    let mut outcome = Outcome::default();
    stored.each(progress, |flat| {
        outcome.run(|| {
            object(&flat, out)?;
            out.write_all(b"\n")
        });
    });
    outcome.result()
}

/// Writes one event, without an end of line.
pub(super) fn object(flat: &Flat<'_>, out: &mut (dyn Write + Send)) -> io::Result<()> {
    let mut between = "{";
    for (name, cell) in NAMES.iter().zip(flat.cells()) {
        if cell == Cell::None {
            continue;
        }
        write!(out, "{between}\"{name}\":")?;
        match cell {
            Cell::None => {}
            Cell::Whole(number) => write!(out, "{number}")?,
            Cell::Signed(number) => write!(out, "{number}")?,
            Cell::Truth(truth) => write!(out, "{truth}")?,
            Cell::Text(text) => serde_json::to_writer(&mut *out, text)?,
        }
        between = ",";
    }
    out.write_all(b"}")
}
