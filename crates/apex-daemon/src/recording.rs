//! One session while its program runs: drains, counts, keeps, and in the end sums up.
//!
//! Whatever fails here is told in one sentence and the rest goes on: without a directory nothing is
//! kept, but the report is still made from what was counted.

use crate::collect::{Collector, pace};
use crate::known::Known;
use crate::learn::{AtHand, Learner};
use crate::live::{self, INTERVAL, LIVE_ROWS, Snapshot};
use crate::names::Demangled;
use crate::row::Row;
use crate::session::{MOST_ROWS, Record, Sessions};
use crate::store::{BATCH_ROWS, EventStore, write_document, write_facts};
use crate::summarise::Tally;
use crate::summary::{Exit, OwnSummary, PredictionSummary, SCHEMA, Summary};
use apex_core::time::{Anchor, wall_nanos};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Who collects a ring directory, and for what session: the document `owner.json` in it. With it the next
/// apex can finish the session if this one is killed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Owner {
    /// The collecting process.
    pub pid: u32,
    /// Directory of the session; null if it could not be made.
    pub session: Option<PathBuf>,
    /// The session's start on the clock of the events.
    pub origin_ticks: u64,
    /// The session's start on the monotonic clock.
    pub origin_ns: u64,
    /// Id of the machine's boot: both clocks begin anew with it.
    pub boot: String,
    /// The session.
    pub record: Record,
}

/// Name of that document.
pub const OWNER_FILE: &str = "owner.json";

/// A running session.
#[derive(Debug)]
pub struct Recording {
    collector: Collector,
    tally: Tally,
    learner: Learner,
    store: Option<EventStore>,
    names: Demangled,
    rings: PathBuf,
    session: Option<PathBuf>,
    record: Record,
    batch: Vec<Row>,
    named: HashSet<(u32, u32)>,
    ended: HashSet<u32>,
    looked: Instant,
    wait: Duration,
    shown: Instant,
    notes: Vec<String>,
}

impl Recording {
    /// Begins to record into `session`, from rings in `rings`. What goes wrong is noted.
    #[must_use]
    pub fn start(rings: &Path, session: Option<&Path>, id: &str, command: &[String]) -> Recording {
        let origin = Anchor::take();
        let record = Record {
            schema: SCHEMA,
            apex: env!("CARGO_PKG_VERSION").into(),
            id: id.into(),
            command: command.to_vec(),
            started_unix_ns: wall_nanos(),
            ..Record::default()
        };
        let owner = Owner {
            pid: std::process::id(),
            session: session.map(Path::to_owned),
            origin_ticks: origin.ticks,
            origin_ns: origin.nanos,
            boot: boot_id(),
            record: record.clone(),
        };
        let collector = Collector::start(rings, origin);
        let mut recording = Recording::with(collector, rings, session, record, 1);
        if let Err(error) = write_document(&rings.join(OWNER_FILE), &owner) {
            recording.notes.push(error.to_string());
        }
        recording.write_record();
        recording
    }

    /// Takes up a session whose collector was killed.
    #[must_use]
    pub fn resume(rings: &Path, owner: &Owner, next_segment: u32) -> Recording {
        let origin = Anchor { ticks: owner.origin_ticks, nanos: owner.origin_ns };
        let collector = Collector::resume(rings, origin);
        let record = owner.record.clone();
        Recording::with(collector, rings, owner.session.as_deref(), record, next_segment)
    }

    fn with(
        collector: Collector,
        rings: &Path,
        session: Option<&Path>,
        record: Record,
        next_segment: u32,
    ) -> Recording {
        Recording {
            collector,
            tally: Tally::default(),
            learner: Learner::default(),
            store: session.map(|session| EventStore::start(session, next_segment)),
            names: Demangled::default(),
            rings: rings.to_owned(),
            session: session.map(Path::to_owned),
            record,
            batch: Vec::new(),
            named: HashSet::new(),
            ended: HashSet::new(),
            looked: Instant::now(),
            wait: Duration::ZERO,
            shown: Instant::now(),
            notes: Vec::new(),
        }
    }

    /// Predicts with these models from here on, and answers the programs of the session with them.
    pub fn predict_with(&mut self, models: AtHand) {
        self.learner = Learner::new(models);
        if let Err(error) = self.learner.answer_in(&self.rings) {
            self.notes.push(format!("programs predict without the trees: {error}"));
        }
    }

    /// Looks at all rings once; says how long to wait until the next time.
    pub fn look(&mut self) -> Duration {
        let since = self.looked.elapsed();
        self.looked = Instant::now();
        let fullest = self.drain();
        self.wait = pace(since, self.wait, fullest);
        if self.shown.elapsed() >= INTERVAL {
            self.shown = Instant::now();
            self.show();
        }
        self.wait
    }

    /// Sentences that came up since the last time.
    pub fn take_notes(&mut self) -> Vec<String> {
        self.notes.extend(self.collector.take_notes());
        std::mem::take(&mut self.notes)
    }

    /// Adds a sentence to the session.
    pub fn note(&mut self, sentence: String) {
        self.record.notes.push(sentence);
    }

    /// Counts rows that were stored before this recording began.
    pub fn recount(&mut self, known: &Known, row: &Row) {
        self.tally.add(known, row);
        self.learner.take(known, row);
    }

    /// What is known of the processes.
    #[must_use]
    pub fn known(&self) -> &Known {
        self.collector.known()
    }

    /// Drains for the last time, writes everything and removes the rings. Processes of the session that
    /// still run are named; what they do from here on is not seen. Without an exit the session was cut
    /// short, and lasted until the last call that is known.
    pub fn finish(mut self, exit: Option<Exit>) -> (Summary, Vec<String>) {
        let now_ns = self.collector.now_ns();
        self.record.exit = exit;
        // A program that runs on may write for ever.
        let deadline = Instant::now() + Duration::from_secs(1);
        while self.drain() > 0.0 && Instant::now() < deadline {}
        let Recording { collector, tally, learner, batch, .. } = &mut self;
        collector.finish(|known, row| {
            tally.add(known, &row);
            learner.take(known, &row);
            batch.push(row);
        });
        let wall_ns = if exit.is_some() { now_ns } else { self.tally.last_call_ns() };
        self.record.ended_unix_ns = Some(self.record.started_unix_ns.saturating_add(wall_ns));
        self.note_running();
        self.flush();
        if let Some(mut store) = self.store.take() {
            if let Err(error) = store.finish() {
                self.notes.push(error.to_string());
            }
            self.record.own.not_kept = store.not_kept();
        }
        self.note_failures();
        self.note_foresight();
        let mut said = self.take_notes();
        self.record.notes.append(&mut said.clone());
        self.record.own = self.own();
        let summary = self.summary(wall_ns, MOST_ROWS);
        self.record.own = summary.own.clone();
        self.record.devices = summary.devices.iter().map(|device| device.name.clone()).collect();
        self.record.driver.clone_from(&summary.driver);
        if let Some(session) = &self.session {
            let written = write_facts(session, self.collector.known())
                .and_then(|()| write_document(&session.join("summary.json"), &summary))
                .and_then(|()| write_document(&session.join("session.json"), &self.record));
            if let Err(error) = written {
                said.push(error.to_string());
            }
        }
        if let Err(error) = fs::remove_dir_all(&self.rings) {
            said.push(format!("{} could not be removed: {error}", self.rings.display()));
        }
        (summary, said)
    }

    /// Enters the session in the index and throws away what retention no longer allows.
    pub fn enter(sessions: &Sessions, session: &Path) -> Result<(), crate::Error> {
        let record = crate::read::document::<Record>(&session.join("session.json"))?;
        sessions.enter(&record, session)?;
        sessions.retain().map(drop)
    }

    fn drain(&mut self) -> f64 {
        let Recording { collector, tally, learner, batch, store, named, .. } = self;
        let look = collector.look(|known, row| {
            tally.add(known, &row);
            learner.take(known, &row);
            batch.push(row);
            if batch.len() >= BATCH_ROWS {
                keep(store.as_mut(), named, known, batch);
            }
        });
        for (number, process) in (0..).zip(&self.collector.known().processes) {
            if process.ended_ns.is_some() && self.ended.insert(number) {
                self.tally.process_ended(number);
            }
        }
        if look.fullest > 0.0 { look.fullest } else { 0.0 }
    }

    fn flush(&mut self) {
        let Recording { collector, batch, store, named, .. } = self;
        keep(store.as_mut(), named, collector.known(), batch);
    }

    /// Rows wait for a full batch, but not for long: a snapshot is a good moment to hand them on.
    fn show(&mut self) {
        self.flush();
        if let Some(store) = &mut self.store
            && store.has_failed()
        {
            let failed = store.finish().err().map_or_else(
                || "events are no longer kept on disk; the report is still made".into(),
                |error| format!("{error}; events are no longer kept, the report is still made"),
            );
            self.notes.push(failed);
        }
        let at_ns = self.collector.now_ns();
        self.record.own = self.own();
        let summary = self.summary(at_ns, LIVE_ROWS);
        live::write(&self.rings, &Snapshot { at_ns, apex_pid: std::process::id(), summary });
    }

    fn summary(&mut self, wall_ns: u64, most_rows: usize) -> Summary {
        let mut frame = self.record.frame(Vec::new());
        frame.wall_ns = wall_ns;
        frame.most_rows = most_rows;
        let summary = self.tally.summary(self.collector.known(), &frame, &mut self.names);
        let foresight = self.known().processes.iter().filter_map(|one| one.foresight.as_ref());
        let taken = foresight.map(|foresight| foresight.answered).sum();
        let predicted = self.learner.summary().map(|one| PredictionSummary { taken, ..one });
        Summary { predicted, ..summary }
    }

    fn own(&self) -> OwnSummary {
        let counters = self.collector.counters();
        let refused: u64 = self.known().processes.iter().map(|process| process.refused).sum();
        let mean = |ticks: u64, calls: u64| self.collector.span(ticks) as f64 / calls as f64;
        OwnSummary {
            mean_ns: (counters.own_calls > 0).then(|| mean(counters.own_ticks, counters.own_calls)),
            sampling_ns: self.collector.span(counters.sampling_ticks),
            lookup_ns: self.collector.span(counters.lookup_ticks),
            lost: counters.lost,
            damaged: counters.damaged,
            failures: counters.failures,
            facts_lost: counters.facts_lost + refused,
            not_kept: self.store.as_ref().map_or(self.record.own.not_kept, EventStore::not_kept),
            ..OwnSummary::default()
        }
    }

    fn note_running(&mut self) {
        let running = self.collector.running();
        if !running.is_empty() {
            let pids: Vec<String> = running.iter().map(u32::to_string).collect();
            self.notes.push(format!(
                "still running: {}; what happens there from now on is not recorded",
                pids.join(", ")
            ));
        }
    }

    fn note_failures(&mut self) {
        let known = self.collector.known();
        let mut sentences: Vec<String> =
            known.processes.iter().flat_map(|process| process.failures.iter().cloned()).collect();
        sentences.sort();
        sentences.dedup();
        self.notes.extend(sentences.into_iter().take(3).map(|s| format!("in the program: {s}")));
    }

    fn note_foresight(&mut self) {
        let known = self.collector.known();
        let all = known.processes.iter().filter_map(|process| process.foresight.as_ref());
        let (mut timed, mut near, mut answered) = (0, 0, 0);
        for one in all {
            (timed, near, answered) = (timed + one.timed, near + one.near, answered + one.answered);
        }
        if timed > 0 {
            self.notes.push(format!(
                "inside the program {near} of {timed} timed launches were predicted within 10 %"
            ));
        }
        if answered > 0 {
            let written = self.learner.summary().map_or(0, |predicted| predicted.written_back);
            self.notes.push(format!(
                "the trees answered {written} configurations, of which the program had guessed {answered}"
            ));
        }
    }

    fn write_record(&mut self) {
        if let Some(session) = &self.session
            && let Err(error) = write_document(&session.join("session.json"), &self.record)
        {
            self.notes.push(error.to_string());
        }
    }
}

fn keep(
    store: Option<&mut EventStore>,
    named: &mut HashSet<(u32, u32)>,
    known: &Known,
    batch: &mut Vec<Row>,
) {
    let rows = std::mem::take(batch);
    let Some(store) = store else { return };
    if rows.is_empty() {
        return;
    }
    for (number, process) in (0..).zip(&known.processes) {
        for (&kernel, facts) in &process.kernels {
            if named.insert((number, kernel)) {
                store.name_kernel(number, kernel, &facts.name);
            }
        }
    }
    store.keep(rows);
}

/// Id of the machine's boot.
pub(crate) fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}
