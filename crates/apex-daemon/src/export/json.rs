//! One document: what is noted of the session, and its summary.

use crate::progress::Progress;
use crate::read::Stored;
use crate::session::Record;
use crate::summary::{SCHEMA, Summary};
use serde::Serialize;
use std::io::{self, Write};

#[derive(Serialize)]
struct Document<'a> {
    schema: u64,
    session: &'a Record,
    summary: &'a Summary,
}

pub(super) fn write(
    stored: &mut Stored,
    mut out: &mut (dyn Write + Send),
    progress: &mut Progress,
) -> io::Result<()> {
    let summary = stored.summary(progress);
    let document = Document { schema: SCHEMA, session: &stored.record, summary: &summary };
    serde_json::to_writer_pretty(&mut out, &document)?;
    out.write_all(b"\n")
}
