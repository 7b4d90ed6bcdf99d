//! Makes segments of the rows that come, on a thread of their own, and writes them.
//!
//! A segment is made in memory and written in one piece. While the disk takes none, whole segments are held and
//! tried again with the next; what is held at the end is put aside. A segment has its number when it is written,
//! so that numbers have no gaps.

use super::destination::Destination;
use super::parquet_file::{write_parquet, writer};
use crate::Error;
use crate::columns::{self, Flat};
use crate::row::Row;
use apex_core::event::What;
use parquet::arrow::ArrowWriter;
use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Events of one segment at most.
const SEGMENT_EVENTS: u64 = 262_144;
/// A segment that has not filled up is closed after this time, so that a crash of apex loses little.
const SEGMENT_TIME: Duration = Duration::from_secs(10);
/// Bytes of segments that are held while the disk takes none: some millions of events.
const MOST_HELD_BYTES: usize = 64 << 20;

/// What the writer has done so far.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) batches: u64,
    /// Rows of segments in the session's directory.
    pub(super) in_place: u64,
    /// Rows of segments that were put aside.
    pub(super) aside: u64,
    /// Rows of segments that were given up.
    pub(super) given_up: u64,
    /// Why the disk took nothing; taken when it is said.
    pub(super) error: Option<Error>,
    failed: bool,
}

/// Rows, and the names of kernels that they are the first to have.
pub(super) struct Message {
    pub(super) rows: Vec<Row>,
    pub(super) names: Vec<KernelName>,
}

#[derive(Debug)]
pub(super) struct KernelName {
    pub(super) process: u32,
    pub(super) kernel: u32,
    pub(super) name: String,
}

pub(super) fn lock(written: &Mutex<Written>) -> MutexGuard<'_, Written> {
    written.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) struct Segments {
    destination: Destination,
    next: u32,
    open: Option<Segment>,
    /// Whole segments that the disk did not take so far, with their rows.
    held: VecDeque<(u64, Vec<u8>)>,
    held_bytes: usize,
    names: HashMap<(u32, u32), String>,
    written: Arc<Mutex<Written>>,
}

struct Segment {
    writer: ArrowWriter<Vec<u8>>,
    rows: u64,
    since: Instant,
}

impl Segments {
    /// For segments from this number on.
    pub(super) fn start(
        destination: Destination,
        next: u32,
        written: Arc<Mutex<Written>>,
    ) -> Segments {
        let (held, names) = (VecDeque::new(), HashMap::new());
        Segments { destination, next, open: None, held, held_bytes: 0, names, written }
    }

    pub(super) fn run(mut self, messages: &Receiver<Message>) {
        loop {
            match messages.recv_timeout(Duration::from_secs(1)) {
                Ok(message) => {
                    for KernelName { process, kernel, name } in message.names {
                        self.names.insert((process, kernel), name);
                    }
                    if self.write(&message.rows).is_err() {
                        self.give_up();
                    }
                    lock(&self.written).batches += 1;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let full = |segment: &Segment| {
                segment.rows >= SEGMENT_EVENTS || segment.since.elapsed() >= SEGMENT_TIME
            };
            if self.open.as_ref().is_some_and(full) {
                self.close();
            }
        }
        self.close();
        self.put_aside();
    }

    fn write(&mut self, rows: &[Row]) -> parquet::errors::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
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
        let batch = columns::batch(&flat)?;
        let segment = match self.open.take() {
            Some(segment) => segment,
            None => Segment { writer: writer(&batch)?, rows: 0, since: Instant::now() },
        };
        let segment = self.open.insert(segment);
        segment.rows += batch.num_rows() as u64;
        segment.writer.write(&batch)
    }

    /// Ends the open segment and writes what is held, the oldest first.
    fn close(&mut self) {
        if let Some(segment) = self.open.take() {
            match segment.writer.into_inner() {
                Ok(bytes) if self.held_bytes + bytes.len() <= MOST_HELD_BYTES => {
                    self.held_bytes += bytes.len();
                    self.held.push_back((segment.rows, bytes));
                }
                _ => lock(&self.written).given_up += segment.rows,
            }
        }
        while let Some((rows, bytes)) = self.held.pop_front() {
            let path = self.destination.directory.join(segment_name(self.next));
            if let Err(error) = write_parquet(&path, &bytes) {
                self.held.push_front((rows, bytes));
                let mut written = lock(&self.written);
                if !std::mem::replace(&mut written.failed, true) {
                    written.error = Some(error);
                }
                return;
            }
            self.next += 1;
            self.held_bytes -= bytes.len();
            lock(&self.written).in_place += rows;
        }
    }

    /// What the disk did not take until the end.
    fn put_aside(&mut self) {
        for (rows, bytes) in self.held.drain(..) {
            let name = segment_name(self.next);
            if self.destination.put_aside(|folder| write_parquet(&folder.join(&name), &bytes)) {
                self.next += 1;
                lock(&self.written).aside += rows;
            }
        }
    }

    /// Rows that cannot be made a segment of take those before them along.
    fn give_up(&mut self) {
        if let Some(segment) = self.open.take() {
            lock(&self.written).given_up += segment.rows;
        }
    }
}

/// Name of a segment.
#[must_use]
pub fn segment_name(number: u32) -> String {
    format!("events-{number:05}.parquet")
}
