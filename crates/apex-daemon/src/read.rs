//! Reads a stored session.
//!
//! A damaged file is named once and left out; everything else is still read. Rows come in the order
//! in which they were written.

use crate::Error;
use crate::columns::{self, Flat};
use crate::contain::contained;
pub use crate::document::document;
use crate::known::{Known, KnownProcess};
use crate::learn::Learner;
use crate::lease::is_had;
use crate::live::snapshot_of;
use crate::names::Demangled;
use crate::progress::Progress;
use crate::row::Row;
use crate::session::Record;
use crate::store::check;
use crate::summarise::Tally;
use crate::summary::{SCHEMA, Summary};
use apex_core::facts::Fact;
use apex_core::small_file;
use apex_core::time::wall_nanos;
use arrow_array::{Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs;
use std::path::{Path, PathBuf};

const STILL_RUNS: &str = "the session still runs: counts are of this moment, and events of its last ten \
                          seconds may not be written yet";

/// A session on disk.
#[derive(Debug)]
pub struct Stored {
    /// Where it lies.
    pub directory: PathBuf,
    /// What is noted of it.
    pub record: Record,
    /// Sentences about files that could not be read.
    pub complaints: Vec<String>,
}

impl Stored {
    /// Opens the session in `directory`.
    pub fn open(directory: &Path) -> Result<Stored, Error> {
        let record: Record = document(&directory.join("session.json"))?;
        if record.schema != SCHEMA {
            return Err(Error::OtherSchema(directory.join("session.json"), record.schema));
        }
        let mut stored = Stored { directory: directory.to_owned(), record, complaints: Vec::new() };
        if stored.is_running() {
            stored.complaints.push(STILL_RUNS.into());
        }
        Ok(stored)
    }

    /// Whether the session's program still runs, or what it left behind is being finished.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.record.ended_unix_ns.is_none() && is_had(&self.directory)
    }

    /// The summary as it was written, or made anew from the events if it is missing or damaged.
    pub fn summary(&mut self, progress: &mut Progress) -> Summary {
        if self.is_running() {
            return self.summary_so_far(progress);
        }
        let path = self.directory.join("summary.json");
        match document::<Summary>(&path) {
            Ok(summary) if summary.schema == SCHEMA => summary,
            Ok(other) => {
                self.complaints.push(Error::OtherSchema(path, other.schema).to_string());
                self.summarise(progress)
            }
            Err(error) => {
                let ran = self.record.ended_unix_ns.is_some();
                if ran {
                    self.complaints.push(format!("{error}; it is made anew from the events"));
                }
                self.summarise(progress)
            }
        }
    }

    /// What its `apex run` counted last; until it has told that, what is on disk.
    fn summary_so_far(&mut self, progress: &mut Progress) -> Summary {
        if let Some(snapshot) = snapshot_of(&self.directory) {
            return snapshot.summary;
        }
        let wall_ns = wall_nanos().saturating_sub(self.record.started_unix_ns);
        Summary { running: true, wall_ns, ..self.summarise(progress) }
    }

    /// Counts all rows again.
    pub fn summarise(&mut self, progress: &mut Progress) -> Summary {
        let mut learner = Learner::default();
        let (known, tally) = self.replay(progress, |known, row| drop(learner.take(known, row)));
        let frame = self.record.frame(self.complaints.clone());
        learner.complete(tally.summary(&known, &frame, &mut Demangled::default()))
    }

    /// Counts all rows again, and shows each to `also`.
    pub(crate) fn replay(
        &mut self,
        progress: &mut Progress,
        mut also: impl FnMut(&Known, &Row),
    ) -> (Known, Tally) {
        let known = self.known();
        let mut tally = Tally::default();
        let mut ends: Vec<(u64, u32)> = (0..)
            .zip(&known.processes)
            .filter_map(|(number, process)| Some((process.ended_ns?, number)))
            .collect();
        ends.sort_unstable_by(|a, b| b.cmp(a));
        self.each(progress, |flat| {
            let Some(row) = flat.row() else { return };
            while let Some(&(ended_ns, process)) = ends.last()
                && ended_ns < row.time_ns
            {
                tally.process_ended(process);
                ends.pop();
            }
            tally.add(&known, &row);
            also(&known, &row);
        });
        (known, tally)
    }

    /// Hands on every row.
    pub fn rows(&mut self, progress: &mut Progress, mut sink: impl FnMut(Row, Option<&str>)) {
        self.each(progress, |flat| {
            if let Some(row) = flat.row() {
                sink(row, flat.kernel_name);
            }
        });
    }

    /// The facts of all processes.
    pub fn known(&mut self) -> Known {
        let mut known = Known::default();
        for table in crate::store::TABLES {
            let path = self.directory.join(format!("{table}.parquet"));
            if !path.exists() && self.record.ended_unix_ns.is_none() {
                continue;
            }
            let read = each_batch(&path, |batch| take_facts(&mut known, batch));
            self.complain(read);
        }
        known
    }

    /// Files of events, in order.
    #[must_use]
    pub fn segments(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten();
        let mut paths: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with("events-") && name.ends_with(".parquet")
            })
            .collect();
        paths.sort();
        paths
    }

    /// Hands on every batch of events.
    pub(crate) fn batches(&mut self, progress: &mut Progress, mut sink: impl FnMut(&RecordBatch)) {
        let segments = self.segments();
        for (nth, path) in segments.iter().enumerate() {
            progress.step("reading segment", nth + 1, segments.len());
            let read = each_batch(path, &mut sink);
            self.complain(read);
        }
    }

    pub(crate) fn each(&mut self, progress: &mut Progress, mut sink: impl FnMut(Flat<'_>)) {
        self.batches(progress, |batch| columns::each(batch, &mut sink));
    }

    fn complain(&mut self, read: Result<(), Error>) {
        if let Err(error) = read {
            let sentence = error.to_string();
            if !self.complaints.contains(&sentence) {
                self.complaints.push(sentence);
            }
        }
    }
}

fn each_batch(path: &Path, mut sink: impl FnMut(&RecordBatch)) -> Result<(), Error> {
    let damaged = |why: String| Error::Damaged(path.to_owned(), why);
    if let Some(why) = check(path).map_err(Error::read(path))? {
        return Err(damaged(why));
    }
    let file = small_file::open(path).map_err(Error::read(path))?;
    let mut reader = contained(|| {
        ParquetRecordBatchReaderBuilder::try_new(file)
            .and_then(|builder| builder.with_batch_size(8_192).build())
            .map_err(|error| error.to_string())
    })
    .map_err(damaged)?;
    while let Some(batch) =
        contained(|| reader.next().transpose().map_err(|error| error.to_string()))
            .map_err(damaged)?
    {
        sink(&batch);
    }
    Ok(())
}

fn take_facts(known: &mut Known, batch: &RecordBatch) {
    let process =
        batch.column_by_name("process").and_then(|c| c.as_any().downcast_ref::<UInt32Array>());
    let line = batch.column_by_name("line").and_then(|c| c.as_any().downcast_ref::<StringArray>());
    let (Some(process), Some(line)) = (process, line) else { return };
    let times =
        |name| batch.column_by_name(name).and_then(|c| c.as_any().downcast_ref::<UInt64Array>());
    let (pid, found, ended) = (times("pid"), times("found_ns"), times("ended_ns"));
    for place in 0..batch.num_rows() {
        let number = process.value(place) as usize;
        // Process numbers count up from zero; a number far beyond is no process.
        if number > 1 << 20 {
            continue;
        }
        if known.processes.len() <= number {
            known.processes.resize(number + 1, KnownProcess::default());
        }
        let entry = &mut known.processes[number];
        let value = |column: Option<&UInt64Array>| {
            column.filter(|column| column.is_valid(place)).map(|column| column.value(place))
        };
        if let Some(pid) = value(pid) {
            entry.pid = u32::try_from(pid).unwrap_or(0);
            entry.found_ns = value(found).unwrap_or(0);
            entry.ended_ns = value(ended);
        }
        if let Some(fact) = Fact::parse(line.value(place).trim_end_matches('\n')) {
            entry.learn(fact);
        }
    }
}
