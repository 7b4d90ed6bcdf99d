//! Keeps a session on disk: events as Parquet segments, facts as small Parquet tables, two documents.
//!
//! Every file is written under another name and renamed when it is complete, so whatever bears its final
//! name is whole, also after a crash or on a full disk. What damages it later is found by its digest in
//! `files.json`: a reader of Parquet trusts its file too much to be given a damaged one. Events go through a thread of their own with a
//! short queue: when the disk cannot follow, events are still counted, but not kept, and that is said.
//! Files are private to their owner.

use crate::Error;
use crate::columns::{self, Flat};
use crate::row::Row;
use apex_core::event::What;
use arrow_array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use serde::Serialize;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) use digest::{Digest, check};
pub(crate) use tables::TABLES;
pub use tables::write_facts;
mod digest;
mod tables;

/// Events of one segment at most.
pub const SEGMENT_EVENTS: u64 = 262_144;
/// A segment that has not filled up is closed after this time, so that a crash of apex loses little.
const SEGMENT_TIME: Duration = Duration::from_secs(10);
/// Rows handed over at once.
pub const BATCH_ROWS: usize = 16_384;
const QUEUE: usize = 32;

/// The writing end of a session's events.
#[derive(Debug)]
pub struct EventStore {
    queue: Option<SyncSender<Message>>,
    writer: Option<JoinHandle<Result<(), Error>>>,
    not_kept: u64,
    names: Vec<KernelName>,
}

/// Rows, and the names of kernels that they are the first to have.
struct Message {
    rows: Vec<Row>,
    names: Vec<KernelName>,
}

#[derive(Debug)]
struct KernelName {
    process: u32,
    kernel: u32,
    name: String,
}

impl EventStore {
    /// Begins to write segments into `directory`, numbered from `first`.
    #[must_use]
    pub fn start(directory: &Path, first: u32) -> EventStore {
        let (queue, messages) = sync_channel(QUEUE);
        let segments = Segments {
            directory: directory.to_owned(),
            next: first,
            open: None,
            names: HashMap::new(),
        };
        let writer = std::thread::Builder::new()
            .name("apex-store".into())
            .spawn(move || segments.run(&messages))
            .ok();
        EventStore {
            queue: writer.is_some().then_some(queue),
            writer,
            not_kept: 0,
            names: Vec::new(),
        }
    }

    /// Keeps rows, or counts them if the disk cannot follow. Never waits.
    pub fn keep(&mut self, rows: Vec<Row>) {
        let Some(queue) = &self.queue else {
            self.not_kept += rows.len() as u64;
            return;
        };
        let names = std::mem::take(&mut self.names);
        match queue.try_send(Message { rows, names }) {
            Ok(()) => {}
            Err(TrySendError::Full(message)) => {
                self.not_kept += message.rows.len() as u64;
                self.names = message.names;
            }
            Err(TrySendError::Disconnected(message)) => {
                self.not_kept += message.rows.len() as u64;
                self.queue = None;
            }
        }
    }

    /// Says a kernel's name; before the first row that has the kernel is kept.
    pub fn name_kernel(&mut self, process: u32, kernel: u32, name: &str) {
        self.names.push(KernelName { process, kernel, name: name.to_owned() });
    }

    /// Whether the writer has given up; `finish` then says why.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.writer.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Rows that were not kept.
    #[must_use]
    pub fn not_kept(&self) -> u64 {
        self.not_kept
    }

    /// Writes what is left and says what went wrong, if anything did.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.queue = None;
        match self.writer.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            _ => Ok(()),
        }
    }
}

struct Segments {
    directory: PathBuf,
    next: u32,
    open: Option<Segment>,
    names: HashMap<(u32, u32), String>,
}

struct Segment {
    writer: ArrowWriter<Digest<File>>,
    part: PathBuf,
    path: PathBuf,
    rows: u64,
    since: Instant,
}

impl Segments {
    fn run(mut self, messages: &Receiver<Message>) -> Result<(), Error> {
        loop {
            match messages.recv_timeout(Duration::from_secs(1)) {
                Ok(message) => {
                    for KernelName { process, kernel, name } in message.names {
                        self.names.insert((process, kernel), name);
                    }
                    self.write(&message.rows)?;
                }
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return self.close(),
            }
            let full = |segment: &Segment| {
                segment.rows >= SEGMENT_EVENTS || segment.since.elapsed() >= SEGMENT_TIME
            };
            if self.open.as_ref().is_some_and(full) {
                self.close()?;
            }
        }
    }

    fn write(&mut self, rows: &[Row]) -> Result<(), Error> {
        let flat: Vec<Flat> = rows
            .iter()
            .map(|row| {
                let kernel = match row.what {
                    What::Launch(launch) => Some(launch.kernel.0),
                    What::GpuTime { kernel, .. } => Some(kernel.0),
                    _ => None,
                };
                let name = kernel.and_then(|kernel| self.names.get(&(row.process, kernel)));
                Flat::of(row, name.map(String::as_str))
            })
            .collect();
        let failed = |error: String| Error::write(&self.directory)(io::Error::other(error));
        let batch = columns::batch(&flat).map_err(|error| failed(error.to_string()))?;
        let segment = match self.open.take() {
            Some(segment) => segment,
            None => {
                let path = self.directory.join(segment_name(self.next));
                self.next += 1;
                Segment::create(path, &batch)?
            }
        };
        let segment = self.open.insert(segment);
        segment.rows += batch.num_rows() as u64;
        let written = segment.writer.write(&batch);
        written.map_err(|error| Error::Write(segment.path.clone(), io::Error::other(error)))
    }

    fn close(&mut self) -> Result<(), Error> {
        self.open.take().map_or(Ok(()), Segment::close)
    }
}

impl Segment {
    fn create(path: PathBuf, batch: &RecordBatch) -> Result<Segment, Error> {
        let part = part_name(&path);
        let file = create_private(&part).map_err(Error::write(&path))?;
        let writer = ArrowWriter::try_new(Digest::of(file), batch.schema(), Some(properties()))
            .map_err(|error| Error::Write(path.clone(), io::Error::other(error)))?;
        Ok(Segment { writer, part, path, rows: 0, since: Instant::now() })
    }

    fn close(self) -> Result<(), Error> {
        let written = self.writer.into_inner().map_err(io::Error::other);
        written
            .and_then(|written| digest::enter(&self.path, &written))
            .and_then(|()| fs::rename(&self.part, &self.path))
            .inspect_err(|_| {
                let _ = fs::remove_file(&self.part);
            })
            .map_err(Error::write(&self.path))
    }
}

/// Name of a segment.
#[must_use]
pub fn segment_name(number: u32) -> String {
    format!("events-{number:05}.parquet")
}

/// Writes a whole table as one Parquet file.
pub(crate) fn write_table(path: &Path, batch: &RecordBatch) -> Result<(), Error> {
    let mut segment = Segment::create(path.to_owned(), batch)?;
    segment
        .writer
        .write(batch)
        .map_err(|error| Error::Write(path.to_owned(), io::Error::other(error)))?;
    segment.close()
}

/// Writes a document as JSON, complete or not at all.
pub fn write_document(path: &Path, document: &impl Serialize) -> Result<(), Error> {
    let part = part_name(path);
    let write = || -> io::Result<()> {
        let mut file = io::BufWriter::new(create_private(&part)?);
        serde_json::to_writer_pretty(&mut file, document)?;
        file.write_all(b"\n")?;
        file.flush()?;
        fs::rename(&part, path)
    };
    write()
        .inspect_err(|_| {
            let _ = fs::remove_file(&part);
        })
        .map_err(Error::write(path))
}

pub(crate) fn properties() -> WriterProperties {
    WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(65_536))
        .build()
}

pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// The name a file has until it is complete.
fn part_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}
