//! One document: what is noted of the session, its summary, and every event as NDJSON has it.
//!
//! Events are written one by one as they are read, so the document may be larger than memory.

use super::ndjson;
use super::outcome::Outcome;
use crate::progress::Progress;
use crate::read::Stored;
use crate::summary::SCHEMA;
use std::io::{self, Write};

pub(super) fn write(
    stored: &mut Stored,
    mut out: &mut (dyn Write + Send),
    progress: &mut Progress,
) -> io::Result<()> {
    let summary = stored.summary(progress);
    write!(out, "{{\"schema\":{SCHEMA},\n\"session\":")?;
    serde_json::to_writer(&mut out, &stored.record)?;
    out.write_all(b",\n\"summary\":")?;
    serde_json::to_writer(&mut out, &summary)?;
    out.write_all(b",\n\"events\":[")?;
    let mut outcome = Outcome::default();
    let mut between: &[u8] = b"\n";
    stored.each(progress, |flat| {
        outcome.run(|| {
            out.write_all(between)?;
            between = b",\n";
            ndjson::object(&flat, out)
        });
    });
    outcome.result()?;
    out.write_all(b"\n]}\n")
}
