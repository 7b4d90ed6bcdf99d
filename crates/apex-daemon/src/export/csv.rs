//! One event per line, a heading first, as RFC 4180 has it. A column that does not apply is empty.

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
    write!(out, "{}\r\n", NAMES.join(","))?;
    let mut outcome = Outcome::default();
    stored.each(progress, |flat| outcome.run(|| line(&flat, out)));
    outcome.result()
}

fn line(flat: &Flat<'_>, out: &mut (dyn Write + Send)) -> io::Result<()> {
    for (nth, cell) in flat.cells().into_iter().enumerate() {
        if nth > 0 {
            out.write_all(b",")?;
        }
        match cell {
            Cell::None => {}
            Cell::Whole(number) => write!(out, "{number}")?,
            Cell::Signed(number) => write!(out, "{number}")?,
            Cell::Truth(truth) => write!(out, "{truth}")?,
            Cell::Text(text) if text.contains(['"', ',', '\n', '\r']) => {
                write!(out, "\"{}\"", text.replace('"', "\"\""))?;
            }
            Cell::Text(text) => out.write_all(text.as_bytes())?,
        }
    }
    out.write_all(b"\r\n")
}
