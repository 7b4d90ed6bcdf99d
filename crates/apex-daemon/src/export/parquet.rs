//! All events in one Parquet file.

use super::outcome::Outcome;
use crate::columns;
use crate::progress::Progress;
use crate::read::Stored;
use crate::store::properties;
use parquet::arrow::ArrowWriter;
use std::io::{self, Write};

pub(super) fn write(
    stored: &mut Stored,
    out: &mut (dyn Write + Send),
    progress: &mut Progress,
) -> io::Result<()> {
    let schema = columns::batch(&[]).map_err(io::Error::other)?.schema();
    let mut writer = ArrowWriter::try_new(out, schema.clone(), Some(properties()))?;
    let mut outcome = Outcome::default();
    stored.batches(progress, |batch| {
        outcome.run(|| {
            // A segment of another apex may have other columns: its rows are brought into ours.
            if batch.schema().fields() == schema.fields() {
                return writer.write(batch).map_err(io::Error::other);
            }
            let mut flat = Vec::with_capacity(batch.num_rows());
            columns::each(batch, |row| flat.push(row));
            let batch = columns::batch(&flat).map_err(io::Error::other)?;
            writer.write(&batch).map_err(io::Error::other)
        });
    });
    outcome.result()?;
    writer.close().map(drop).map_err(io::Error::other)
}
