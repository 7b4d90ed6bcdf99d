//! Writes Parquet files of a session: each whole, and its digest entered before it.

use super::digest;
use crate::Error;
use crate::whole_file::write_whole;
use arrow_array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::WriterProperties;
use std::io;
use std::path::Path;

/// Makes a Parquet file in memory.
pub(super) fn writer(batch: &RecordBatch) -> parquet::errors::Result<ArrowWriter<Vec<u8>>> {
    ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties()))
}

/// Writes a whole table as one Parquet file.
pub(crate) fn write_table(path: &Path, batch: &RecordBatch) -> Result<(), Error> {
    let bytes = writer(batch).and_then(|mut writer| {
        writer.write(batch)?;
        writer.into_inner()
    });
    write_parquet(path, &bytes.map_err(io::Error::other).map_err(Error::write(path))?)
}

/// Writes a Parquet file, and before it its digest.
pub(crate) fn write_parquet(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    digest::enter(path, bytes)?;
    write_whole(path, bytes)
}

/// How all our Parquet files are written.
pub(crate) fn properties() -> WriterProperties {
    WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(65_536))
        // Hardly a time comes twice: the differences are short, a dictionary of them would be long.
        .set_column_dictionary_enabled("time_ns".into(), false)
        .set_column_encoding("time_ns".into(), Encoding::DELTA_BINARY_PACKED)
        .build()
}
