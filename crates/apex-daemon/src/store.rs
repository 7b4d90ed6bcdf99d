//! Keeps a session on disk: events as Parquet segments, facts as small Parquet tables, two documents.
//!
//! Every file is written under another name and renamed when it is complete, so whatever bears its final
//! name is whole, also after a crash or on a full disk. What damages it later is found by its digest in
//! `files.json`: a reader of Parquet trusts its file too much to be given a damaged one. Events go through a
//! thread of their own with a short queue: when it cannot follow, stretches of launches are left out on purpose,
//! and that is said at once. An event counts as kept when its segment lies in the session's directory. What that
//! directory does not take until the end is put aside ([`destination`]). Files are private to their owner.

use crate::Error;
use crate::row::Row;
use apex_core::event::What;
use destination::Destination;
use segments::{KernelName, Message, Segments, Written, lock};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

pub(crate) use digest::check;
pub(crate) use parquet_file::properties;
pub use segments::segment_name;
pub(crate) use tables::TABLES;
pub use tables::write_facts;
pub(crate) mod destination;
mod digest;
mod parquet_file;
mod segments;
mod tables;

/// Rows handed over at once.
pub const BATCH_ROWS: usize = 16_384;
const QUEUE: usize = 32;
/// The writing end of a session's events.
#[derive(Debug)]
pub struct EventStore {
    queue: Option<SyncSender<Message>>,
    writer: Option<JoinHandle<()>>,
    written: Arc<Mutex<Written>>,
    /// Rows that came, whether they could be handed on or not.
    given: u64,
    /// Launches that were left out because the writer did not follow, and other rows with a full queue.
    left_out: u64,
    said_left_out: bool,
    batches: u64,
    names: Vec<KernelName>,
}

/// What became of all rows in the end.
#[derive(Debug)]
pub struct Outcome {
    /// Rows that lie nowhere.
    pub lost: u64,
    /// Rows that were put aside.
    pub aside: u64,
}

impl EventStore {
    /// Begins to write segments, numbered from `first`.
    #[must_use]
    pub fn start(destination: Destination, first: u32) -> EventStore {
        let (queue, messages) = sync_channel(QUEUE);
        let written = Arc::new(Mutex::new(Written::default()));
        let segments = Segments::start(destination, first, Arc::clone(&written));
        let writer = std::thread::Builder::new()
            .name("apex-store".into())
            .spawn(move || segments.run(&messages))
            .ok();
        EventStore {
            queue: writer.is_some().then_some(queue),
            writer,
            written,
            given: 0,
            left_out: 0,
            said_left_out: false,
            batches: 0,
            names: Vec::new(),
        }
    }

    /// Keeps rows, or counts what cannot be kept. Never waits: while more than half of the queue is taken,
    /// launches are left out, one whole stretch after another, so that what is kept has its order. The other
    /// rows are few, and memory could not be followed without them.
    pub fn keep(&mut self, mut rows: Vec<Row>) {
        self.given += rows.len() as u64;
        let Some(queue) = &self.queue else { return };
        let waiting = self.batches.saturating_sub(lock(&self.written).batches);
        if waiting > QUEUE as u64 / 2 {
            let before = rows.len();
            rows.retain(|row| !matches!(row.what, What::Launch(_)));
            self.left_out += (before - rows.len()) as u64;
        }
        let names = std::mem::take(&mut self.names);
        match queue.try_send(Message { rows, names }) {
            Ok(()) => self.batches += 1,
            Err(TrySendError::Full(message)) => {
                self.left_out += message.rows.len() as u64;
                self.names = message.names;
            }
            Err(TrySendError::Disconnected(_)) => self.queue = None,
        }
    }

    /// Keeps the last rows: nobody waits any more but the writer.
    pub fn keep_last(&mut self, rows: Vec<Row>) {
        self.given += rows.len() as u64;
        if let Some(queue) = &self.queue {
            // A writer that is gone is told by what it has not written.
            let _ = queue.send(Message { rows, names: std::mem::take(&mut self.names) });
        }
    }

    /// Says a kernel's name; before the first row that has the kernel is kept.
    pub fn name_kernel(&mut self, process: u32, kernel: u32, name: &str) {
        self.names.push(KernelName { process, kernel, name: name.to_owned() });
    }

    /// Sentences about what could not be kept, each once.
    pub fn take_notes(&mut self) -> Vec<String> {
        let error = lock(&self.written).error.take();
        let mut notes: Vec<String> = error.iter().map(Error::to_string).collect();
        if self.left_out > 0 && !self.said_left_out {
            self.said_left_out = true;
            notes.push(
                "events come faster than they can be written: stretches of launches are left out of what \
                 is kept; they are counted all the same"
                    .into(),
            );
        }
        notes
    }

    /// Rows that will not be kept, as far as that is known.
    #[must_use]
    pub fn not_kept(&self) -> u64 {
        self.left_out + lock(&self.written).given_up
    }

    /// Writes what is left, beside the rings if the session's directory does not take it.
    pub fn finish(&mut self) -> Outcome {
        self.queue = None;
        if let Some(writer) = self.writer.take() {
            // If it fell over, what it has written says enough.
            let _ = writer.join();
        }
        let written = lock(&self.written);
        let lost = self.given.saturating_sub(written.in_place + written.aside);
        Outcome { lost, aside: written.aside }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::row;
    use apex_core::event::{KernelId, Launch, LaunchShape, SyncKind};

    fn rows() -> Vec<Row> {
        let (kernel, shape) = (KernelId(1), LaunchShape::default());
        let launch = Launch { kernel, shape, cooperative: false, captured: false };
        let sync = What::Sync { kind: SyncKind::Context, object: 0 };
        vec![row(1, What::Launch(launch)), row(2, sync), row(3, What::Launch(launch))]
    }

    #[test]
    fn a_writer_that_does_not_follow_gets_fewer_launches_and_that_is_said_once() {
        let (queue, messages) = sync_channel(QUEUE);
        let mut store = EventStore {
            queue: Some(queue),
            writer: None,
            written: Arc::default(),
            given: 0,
            left_out: 0,
            said_left_out: false,
            batches: 0,
            names: Vec::new(),
        };
        let most = QUEUE / 2 + 1;
        (0..most).for_each(|_| store.keep(rows()));
        assert_eq!((store.not_kept(), store.take_notes().len()), (0, 0));
        store.keep(rows());
        store.keep(rows());
        assert_eq!(store.not_kept(), 4);
        assert!(store.take_notes()[0].contains("left out"));
        assert_eq!(store.take_notes(), Vec::<String>::new());
        // The writer has caught up.
        lock(&store.written).batches = store.batches;
        store.keep(rows());
        assert_eq!(store.not_kept(), 4);
        let sizes: Vec<usize> = messages.try_iter().map(|message| message.rows.len()).collect();
        assert_eq!(sizes, [vec![3; most], vec![1, 1, 3]].concat());
    }

    #[test]
    fn what_is_kept_last_waits_for_the_writer() {
        let directory = tempfile::tempdir().unwrap();
        let destination = Destination::of(directory.path(), &directory.path().join("rings"));
        let mut store = EventStore::start(destination, 1);
        (0..4 * QUEUE).for_each(|_| store.keep_last(rows()));
        let outcome = store.finish();
        assert_eq!((outcome.lost, outcome.aside, store.not_kept()), (0, 0, 0));
        assert!(directory.path().join(segment_name(1)).exists());
    }
}
