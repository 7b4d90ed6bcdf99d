//! Measured launches as rows: raw, on disk as Parquet.
//!
//! One list gives the record, its Arrow columns and its reader. Nothing derived is kept but what was counted or
//! measured: features are made from rows when a model is trained. A collection is written in pieces, each whole
//! under its final name or not there, so that an interruption costs at most one piece.

mod facts;

pub use facts::Facts;

use crate::Error;
use apex_core::small_file;
use apex_policy::LaunchShape;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float32Array, Float64Array, Int32Array, RecordBatch,
    StringArray, UInt32Array, UInt64Array,
};
use arrow_schema::ArrowError;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

macro_rules! columns {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)+) => {
        /// One measured launch.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Row { $($(#[$doc])* pub $name: $type),+ }

        /// Names of the columns in their order.
        pub const COLUMNS: &[&str] = &[$(stringify!($name)),+];

        fn batch(rows: &[Row]) -> Result<RecordBatch, ArrowError> {
            RecordBatch::try_from_iter_with_nullable([
                $((stringify!($name), <$type>::array(rows.iter().map(|row| row.$name.clone())), true)),+
            ])
        }

        fn take(batch: &RecordBatch, rows: &mut Vec<Row>) -> Result<(), String> {
            $(let $name = batch.column_by_name(stringify!($name));)+
            for place in 0..batch.num_rows() {
                rows.push(Row { $($name: match $name {
                    Some(column) => <$type>::read(column, place)
                        .ok_or_else(|| format!("column {} has another type", stringify!($name)))?,
                    None => Default::default(),
                }),+ });
            }
            Ok(())
        }
    };
}

columns! {
    /// What was measured: `zoo`, or the program of a session by the name of the session's folder.
    source: String;
    /// The program's name of the kernel, the same for all its variants; what a split by kernel goes by.
    kernel: String;
    /// The entry of the kernel in its module.
    entry: String;
    /// Hash of its code and entry.
    identity: u64;
    /// The device's name.
    device: String;
    /// The driver's version number.
    driver: u32;
    /// Compute capability, major.
    major: u32;
    /// Compute capability, minor.
    minor: u32;
    /// Multiprocessors.
    multiprocessors: u32;
    /// Bytes of second-level cache.
    l2_bytes: u64;
    /// Seconds since 1970 when it was measured; 0 if not known.
    unix_seconds: u64;
    /// Clock of the multiprocessors in MHz while it was measured; 0 if not known.
    sm_mhz: u32;
    /// Clock of the memory in MHz while it was measured; 0 if not known.
    memory_mhz: u32;
    /// Degrees Celsius while it was measured; 0 if not known.
    celsius: u32;
    /// Blocks of the grid in x.
    grid_x: u32;
    /// Blocks of the grid in y.
    grid_y: u32;
    /// Blocks of the grid in z.
    grid_z: u32;
    /// Threads of a block in x.
    block_x: u32;
    /// Threads of a block in y.
    block_y: u32;
    /// Threads of a block in z.
    block_z: u32;
    /// Dynamic shared memory in bytes.
    dynamic_shared: u32;
    /// Registers of one thread.
    registers: u32;
    /// Static shared memory in bytes.
    static_shared: u32;
    /// The most dynamic shared memory a launch may ask for.
    max_dynamic_shared: u32;
    /// Local memory of one thread in bytes.
    local_bytes: u32;
    /// Preferred carve-out in per cent; -1 for none.
    carveout: i32;
    /// Counts of the instruction mix, in the order of its names, with commas.
    mix: String;
    /// The operations of its machine code, as `apex_ptx::machine` writes them; empty where it was not read.
    machine: String;
    /// Counts of what one of its warps does, in the order of their names, with commas; empty where nobody walked.
    walked: String;
    /// What the configuration was asked for by name, for people.
    parameters: String;
    /// Integer arguments in their order, with commas.
    integers: String;
    /// Bytes of the allocations that pointer arguments fall in, in their order, with commas.
    allocations: String;
    /// Sizes of its parameters in bytes, with commas; empty where nobody asked.
    sizes: String;
    /// The words of parameters that are longer than eight bytes, with commas; `@` and its bytes for what points to an
    /// allocation.
    inside: String;
    /// Whether the work is known.
    work_known: bool;
    /// Arithmetic operations.
    flops: f64;
    /// The units that do them: `single`, `double` or `tensor`.
    pipe: String;
    /// Distinct bytes read.
    bytes_read: f64;
    /// Distinct bytes written.
    bytes_written: f64;
    /// Blocks on one multiprocessor as the driver says; 0 if it was not asked.
    driver_blocks_per_sm: u32;
    /// How times were taken: `events` or `cupti`.
    basis: String;
    /// Its place among the configurations of its session, by their first times.
    order: u32;
    /// The first time in nanoseconds; 0 where only the median was kept.
    first_ns: f64;
    /// Runs that were timed.
    runs: u32;
    /// Median time in nanoseconds.
    median_ns: f64;
    /// Time between the quartiles in nanoseconds.
    quartiles_ns: f64;
    /// Median time when it was measured again, in nanoseconds; 0 if it was not.
    repeat_ns: f64;
    /// Warps active on average as a share of the slots, by counters.
    achieved_occupancy: Option<f32>;
    /// Throughput of the multiprocessors as a share of the peak, by counters.
    sm_throughput: Option<f32>;
    /// Throughput of device memory as a share of the peak, by counters.
    dram_throughput: Option<f32>;
    /// Time under the profiler in nanoseconds.
    profiled_ns: Option<f32>;
}

impl Row {
    /// What tells it from other configurations on other devices.
    #[must_use]
    pub fn configuration(&self) -> String {
        let Row { device, entry, parameters, integers, dynamic_shared, .. } = self;
        let LaunchShape { grid, block } = self.shape();
        format!("{device} {entry} {parameters} {integers} {grid:?} {block:?} {dynamic_shared}")
    }

    /// Whether it can be learned from: a time, and a launch that runs.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.median_ns.is_finite()
            && self.median_ns > 0.0
            && self.shape().blocks() > 0
            && self.shape().threads_per_block() > 0
    }
}

/// Numbers as one text with commas.
pub fn joined(numbers: impl IntoIterator<Item = u64>) -> String {
    joined_words(numbers)
}

/// Anything as one text with commas.
pub(crate) fn joined_words(words: impl IntoIterator<Item = impl ToString>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| word.to_string()).collect();
    words.join(",")
}

/// Reads a file of rows, and what stands in pieces beside it.
pub fn read(path: &Path) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    let pieces = pieces(path);
    // Of a collection that was interrupted there may be pieces alone.
    if path.exists() || pieces.is_empty() {
        read_file(path, &mut rows)?;
    }
    for piece in &pieces {
        read_file(piece, &mut rows)?;
    }
    Ok(rows)
}

fn read_file(path: &Path, rows: &mut Vec<Row>) -> Result<(), Error> {
    let wrong = |why: String| Error::Rows(path.to_owned(), why);
    let file = small_file::open(path).map_err(Error::read(path))?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)
        .and_then(ParquetRecordBatchReaderBuilder::build)
        .map_err(|error| wrong(error.to_string()))?;
    for batch in reader {
        let batch = batch.map_err(|error| wrong(error.to_string()))?;
        if batch.column_by_name("median_ns").is_none() {
            return Err(wrong("there is no column median_ns".into()));
        }
        take(&batch, rows).map_err(wrong)?;
    }
    Ok(())
}

/// Writes rows as one file; whole or not at all.
pub fn write(path: &Path, rows: &[Row]) -> Result<(), Error> {
    let wrong = |error: String| Error::Write(path.to_owned(), std::io::Error::other(error));
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(Error::write(folder))?;
    }
    let part = path.with_extension("part");
    let batch = batch(rows).map_err(|error| wrong(error.to_string()))?;
    let file = File::create(&part).map_err(Error::write(&part))?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties))
        .map_err(|error| wrong(error.to_string()))?;
    writer.write(&batch).map_err(|error| wrong(error.to_string()))?;
    writer.close().map_err(|error| wrong(error.to_string()))?;
    fs::rename(&part, path).map_err(Error::write(path))
}

/// Rows that are written in pieces while they are measured.
#[derive(Debug)]
pub struct Pieces {
    path: PathBuf,
    next: usize,
    waiting: Vec<Row>,
}

/// Rows of one piece.
const PIECE: usize = 256;

impl Pieces {
    /// Goes on after the pieces that are there.
    #[must_use]
    pub fn resume(path: &Path) -> Pieces {
        let last = pieces(path).last().and_then(|piece| number(piece));
        Pieces { path: path.to_owned(), next: last.map_or(0, |last| last + 1), waiting: Vec::new() }
    }

    /// Removes a collection that is to be made anew.
    pub fn restart(path: &Path) -> Result<Pieces, Error> {
        for old in pieces(path).into_iter().chain([path.to_owned()]) {
            if old.exists() {
                fs::remove_file(&old).map_err(Error::write(&old))?;
            }
        }
        Ok(Pieces::resume(path))
    }

    /// Keeps a row; every so often a piece goes to disk.
    pub fn push(&mut self, row: Row) -> Result<(), Error> {
        self.waiting.push(row);
        if self.waiting.len() < PIECE { Ok(()) } else { self.flush() }
    }

    /// Writes what waits.
    pub fn flush(&mut self) -> Result<(), Error> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        write(&piece(&self.path, self.next), &self.waiting)?;
        self.next += 1;
        self.waiting.clear();
        Ok(())
    }

    /// Makes one file of everything, and gives its rows.
    pub fn finish(mut self) -> Result<Vec<Row>, Error> {
        self.flush()?;
        let mut rows = read(&self.path)?;
        // Rows of one kernel beside each other pack best.
        rows.sort_by(|a, b| (&a.kernel, &a.entry).cmp(&(&b.kernel, &b.entry)));
        write(&self.path, &rows)?;
        for piece in pieces(&self.path) {
            fs::remove_file(&piece).map_err(Error::write(&piece))?;
        }
        Ok(rows)
    }
}

fn piece(path: &Path, number: usize) -> PathBuf {
    path.with_extension(format!("{number:05}.piece"))
}

fn number(piece: &Path) -> Option<usize> {
    piece.file_stem()?.to_str()?.rsplit('.').next()?.parse().ok()
}

/// The pieces beside a file, in order.
fn pieces(path: &Path) -> Vec<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned() + ".";
    let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&stem) && name.ends_with(".piece") && number(path).is_some()
        })
        .collect();
    found.sort();
    found
}

/// A type that a column can have.
trait Column: Sized {
    fn array(values: impl Iterator<Item = Self>) -> ArrayRef;
    fn read(column: &ArrayRef, place: usize) -> Option<Self>;
}

macro_rules! plain_column {
    ($($type:ty, $array:ty;)+) => {$(
        impl Column for $type {
            fn array(values: impl Iterator<Item = $type>) -> ArrayRef {
                Arc::new(values.map(Some).collect::<$array>())
            }
            fn read(column: &ArrayRef, place: usize) -> Option<$type> {
                let array = column.as_any().downcast_ref::<$array>()?;
                Some(if array.is_valid(place) { array.value(place).into() } else { Default::default() })
            }
        }
    )+};
}

plain_column! {
    u64, UInt64Array;
    u32, UInt32Array;
    i32, Int32Array;
    f64, Float64Array;
    bool, BooleanArray;
    String, StringArray;
}

impl Column for Option<f32> {
    fn array(values: impl Iterator<Item = Option<f32>>) -> ArrayRef {
        Arc::new(values.collect::<Float32Array>())
    }
    fn read(column: &ArrayRef, place: usize) -> Option<Option<f32>> {
        let array = column.as_any().downcast_ref::<Float32Array>()?;
        Some(array.is_valid(place).then(|| array.value(place)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(nth: u32) -> Row {
        Row {
            kernel: format!("k{}", nth % 3),
            grid_x: nth,
            block_x: 256,
            mix: "9,1".into(),
            integers: "5,6".into(),
            allocations: "1024".into(),
            median_ns: f64::from(nth) + 0.5,
            sm_throughput: nth.is_multiple_of(2).then_some(0.25),
            ..Row::default()
        }
    }

    #[test]
    fn rows_survive_their_file() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("deep/rows.parquet");
        let rows: Vec<Row> = (0..10).map(row).collect();
        write(&path, &rows).unwrap();
        assert_eq!(read(&path).unwrap(), rows);
        assert_eq!(rows[3].kernel_facts().mix.total, 9);
        assert_eq!(rows[3].arguments().integers[1], 6);
        assert_eq!(rows[3].arguments().count, 3);
    }

    #[test]
    fn a_collection_goes_on_after_an_interruption() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("rows.parquet");
        let mut pieces = Pieces::restart(&path).unwrap();
        (0..600).for_each(|nth| pieces.push(row(nth)).unwrap());
        // The process ends here: what waits is lost, the pieces are not.
        drop(pieces);
        assert_eq!(read(&path).unwrap().len(), 512);
        let mut pieces = Pieces::resume(&path);
        (512..700).for_each(|nth| pieces.push(row(nth)).unwrap());
        let rows = pieces.finish().unwrap();
        assert_eq!(rows.len(), 700);
        assert_eq!(read(&path).unwrap(), rows);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
        Pieces::restart(&path).unwrap();
        assert!(matches!(read(&path), Err(Error::Read(..))));
    }

    #[test]
    fn other_files_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("rows.parquet");
        fs::write(&path, "no parquet at all").unwrap();
        assert!(matches!(read(&path), Err(Error::Rows(..))));
    }
}
