//! One session while its program runs: drains, counts, keeps, and in the end sums up.
//!
//! Whatever fails here is told in one sentence and the rest goes on: without a directory nothing is
//! kept, but the report is still made from what was counted. What the directory does not take is put aside
//! ([`crate::store::destination`]); then, or when a ring could not be read, the directory of the rings stays, so that
//! a later apex command finishes the session ([`crate::recover`]).

use crate::code;
use crate::code_document::{self, CODE_FILE, CodeDocument};
use crate::collect::{Collector, pace, ring_files};
use crate::document::write_document;
use crate::fast;
use crate::history::{self, History};
use crate::known::Known;
use crate::learn::{AtHand, Learner};
use crate::live::{self, INTERVAL, LEAST_INTERVAL, LIVE_PROCESSES, LIVE_ROWS, Snapshot};
use crate::names::Demangled;
use crate::recent::Recent;
use crate::row::Row;
use crate::session::{KeptSessions, MOST_ROWS, Record};
use crate::store::destination::{Destination, Lies};
use crate::store::{BATCH_ROWS, EventStore, write_facts};
use crate::summarise::Tally;
use crate::summary::{Exit, FastSummary, Kept, OwnSummary, PredictionSummary, SCHEMA, Summary};
use crate::work;
use apex_core::facts::Lowered;
use apex_core::refusal::{Listener, Refusal};
use apex_core::time::{Anchor, wall_nanos};
use apex_policy::amounts::counted;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Who collects a ring directory, and for what session: the document `owner.json` in it. With it the next
/// apex can finish the session if this one is killed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Owner {
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

/// How long the end of a session reads the code of kernels, unless it is told otherwise.
const CODE_TIME: Duration = Duration::from_secs(10);
/// A cost of recording is told of so many measurements or more.
const LEAST_MEASURED: u64 = 30;

/// A running session.
#[derive(Debug)]
pub struct Recording {
    collector: Collector,
    tally: Tally,
    learner: Learner,
    /// Only while somebody watches.
    recent: Option<Recent>,
    store: Option<EventStore>,
    names: Demangled,
    rings: PathBuf,
    session: Option<PathBuf>,
    record: Record,
    refusals: Option<Listener>,
    /// What a collector before this one counted in rings that are gone.
    before: OwnSummary,
    batch: Vec<Row>,
    named: HashSet<(u32, u32)>,
    ended: HashSet<u32>,
    code_time: Duration,
    /// Folder of the history that this session is added to.
    history: Option<PathBuf>,
    looked: Instant,
    wait: Duration,
    shown: Instant,
    handed_on: Instant,
    said_lost: bool,
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
            session: session.map(Path::to_owned),
            origin_ticks: origin.ticks,
            origin_ns: origin.nanos,
            boot: boot_id(),
            record: record.clone(),
        };
        let collector = Collector::start(rings, origin);
        let mut recording = Recording::with(collector, rings, session, record, 1);
        // Where such a socket is refused, its reasons are only missing from the report.
        recording.refusals = Listener::of(rings).ok();
        if let Err(error) = write_document(&rings.join(OWNER_FILE), &owner) {
            recording.notes.push(error.to_string());
        }
        recording.write_record();
        recording
    }

    /// Takes up a session whose collector was killed, or left rings that it could not read.
    #[must_use]
    pub fn resume(rings: &Path, owner: &Owner, next_segment: u32) -> Recording {
        let origin = Anchor { ticks: owner.origin_ticks, nanos: owner.origin_ns };
        let collector = Collector::resume(rings, origin);
        let mut record = owner.record.clone();
        let shut = ring_files(rings).map_or(0, |files| files.len());
        // Rings that could not be read were counted as one lost event each; they are read now.
        record.own.lost = record.own.lost.saturating_sub(shut as u64);
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
            recent: None,
            store: session
                .map(|session| EventStore::start(Destination::of(session, rings), next_segment)),
            names: Demangled::default(),
            rings: rings.to_owned(),
            session: session.map(Path::to_owned),
            before: record.own.clone(),
            record,
            refusals: None,
            batch: Vec::new(),
            named: HashSet::new(),
            ended: HashSet::new(),
            code_time: CODE_TIME,
            history: None,
            looked: Instant::now(),
            wait: Duration::ZERO,
            shown: Instant::now(),
            handed_on: Instant::now(),
            said_lost: false,
            notes: Vec::new(),
        }
    }

    /// Predicts with these models from here on, and answers the programs of the session with them.
    pub fn predict_with(&mut self, models: AtHand) {
        self.learner = Learner::new(models);
        self.learner.read_code_beside(&self.rings);
        if let Err(error) = self.learner.answer_in(&self.rings) {
            self.notes.push(format!("programs predict without the trees: {error}"));
        }
    }

    /// Begins with what the history in `folder` knows, then with those of `shipped`; what this session measures is kept
    /// in `folder` when it ends.
    pub fn remember_in(&mut self, folder: &Path, shipped: Vec<History>) {
        let own = History::open(folder).unwrap_or_else(|why| {
            self.notes.push(why);
            History::default()
        });
        self.learner.recall_from(std::iter::once(own).chain(shipped).collect());
        self.history = Some(folder.to_owned());
    }

    /// Reads the code of kernels for so long at the end.
    pub fn read_code_for(&mut self, time: Duration) {
        self.code_time = time;
    }

    /// Looks at all rings once; says how long to wait until the next time.
    pub fn look(&mut self) -> Duration {
        let since = self.looked.elapsed();
        self.looked = Instant::now();
        let fullest = self.drain();
        self.hear_refusals();
        self.wait = pace(since, self.wait, fullest);
        if self.handed_on.elapsed() >= INTERVAL {
            self.handed_on = Instant::now();
            self.hand_on();
        }
        let shown = self.shown.elapsed();
        if shown >= LEAST_INTERVAL {
            let wanted = live::interval(&self.rings);
            if shown >= wanted {
                self.shown = Instant::now();
                self.show(wanted < INTERVAL);
            }
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
    /// short, and lasted until the last call that is known. If something could not be kept, the summary says
    /// so and where the rest lies.
    pub fn finish(mut self, exit: Option<Exit>) -> (Summary, Vec<String>) {
        let now_ns = self.collector.now_ns();
        let ended = self.record.ended_unix_ns;
        self.record.exit = exit.or(self.record.exit);
        // A program that runs on may write for ever.
        let deadline = Instant::now() + Duration::from_secs(1);
        while self.drain() > 0.0 && Instant::now() < deadline {}
        self.hear_refusals();
        let Recording { collector, tally, learner, batch, .. } = &mut self;
        collector.finish(|known, row| {
            tally.add(known, &row);
            learner.take(known, &row);
            batch.push(row);
        });
        let wall_ns = match ended {
            Some(ended) => ended.saturating_sub(self.record.started_unix_ns),
            None if exit.is_some() => now_ns,
            None => self.tally.last_call_ns(),
        };
        self.record.ended_unix_ns = Some(self.record.started_unix_ns.saturating_add(wall_ns));
        self.note_running();
        self.record.under_way = self.collector.under_way();
        if exit.is_none() {
            // The process ended unseen, some time ago.
            self.record.under_way.iter_mut().for_each(|call| call.host_ns = None);
        }
        let rows = self.keep_last();
        self.note_failures();
        self.note_lowered();
        self.note_foresight();
        let mut said = self.take_notes();
        self.record.notes.append(&mut said.clone());
        self.record.own = self.own();
        self.record.fast = self.fast();
        let mut summary = self.summary(wall_ns, MOST_ROWS);
        let code = self.read_code(&mut summary);
        self.record.own = summary.own.clone();
        self.record.devices = summary.devices.iter().map(|device| device.name.clone()).collect();
        self.record.driver.clone_from(&summary.driver);
        let lies = self.keep_documents(rows, &summary, code.as_ref(), &mut said);
        summary.own.kept = match lies {
            Lies::InPlace => Kept::InPlace,
            Lies::Aside => Kept::Waits(self.rings.clone()),
            Lies::Nowhere => Kept::Nowhere,
        };
        if lies != Lies::InPlace {
            summary.own.not_kept = summary.own.events;
        }
        if let Some(folder) = &self.history
            && let Err(error) = history::keep(folder, &self.learner.pasts(today()))
        {
            said.push(format!("what was measured is not remembered: {error}"));
        }
        self.remove_rings(lies, &mut said);
        (summary, said)
    }

    /// Removes the directory of the rings, unless something in it waits for a later command.
    fn remove_rings(&self, lies: Lies, said: &mut Vec<String>) {
        if lies == Lies::Aside || (self.collector.leaves_rings() && self.session.is_some()) {
            // It runs no more.
            let _ = fs::remove_file(self.rings.join(live::LIVE_FILE));
        } else if let Err(error) = fs::remove_dir_all(&self.rings) {
            said.push(format!("{} could not be removed: {error}", self.rings.display()));
        }
    }

    /// Hands the last rows to the store and waits for it; says where rows lie.
    fn keep_last(&mut self) -> Lies {
        let Some(mut store) = self.store.take() else { return Lies::Nowhere };
        name_kernels(&mut store, &mut self.named, self.collector.known());
        store.keep_last(std::mem::take(&mut self.batch));
        let outcome = store.finish();
        self.notes.extend(store.take_notes());
        self.before.not_kept += outcome.lost;
        if outcome.aside > 0 { Lies::Aside } else { Lies::InPlace }
    }

    /// Writes facts and documents, the documents last and where all of the session is: they make it one.
    /// Reads the code of kernels where launches were looked at closely, and adds to the summary what they do.
    fn read_code(&mut self, summary: &mut Summary) -> Option<CodeDocument> {
        let known = self.collector.known();
        if known.processes.iter().all(|process| process.passed.is_empty()) {
            return None;
        }
        let end = Instant::now() + self.code_time;
        let codes = code::read(known, &self.rings, end);
        work::complete(summary, known, &codes, &mut self.names);
        Some(code_document::of_session(known, &codes, end))
    }

    fn keep_documents(
        &self,
        rows: Lies,
        summary: &Summary,
        code: Option<&CodeDocument>,
        said: &mut Vec<String>,
    ) -> Lies {
        let Some(session) = &self.session else { return Lies::Nowhere };
        let destination = Destination::of(session, &self.rings);
        let (facts, facts_error) =
            destination.put(|folder| write_facts(folder, self.collector.known()));
        let write = |folder: &Path| {
            write_document(&folder.join("summary.json"), summary)?;
            if let Some(code) = code {
                write_document(&folder.join(CODE_FILE), code)?;
            }
            write_document(&folder.join("session.json"), &self.record)
        };
        let (documents, documents_error) = match rows.max(facts) {
            Lies::InPlace => destination.put(write),
            _ if destination.put_aside(write) => (Lies::Aside, None),
            _ => (Lies::Nowhere, None),
        };
        let error = facts_error.or(documents_error).map(|error| error.to_string());
        let news = error.filter(|error| !said.contains(error));
        said.extend(news);
        rows.max(facts).max(documents)
    }

    /// Enters the session in the index and throws away what retention no longer allows.
    pub fn enter(sessions: &KeptSessions, session: &Path) -> Result<(), crate::Error> {
        let record = crate::read::document::<Record>(&session.join("session.json"))?;
        sessions.enter(&record, session)?;
        sessions.retain().map(drop)
    }

    fn drain(&mut self) -> f64 {
        let Recording { collector, tally, learner, recent, batch, store, named, .. } = self;
        let look = collector.look(|known, row| {
            tally.add(known, &row);
            if let Some(recent) = recent {
                recent.add(&row, tally.usual_ns(&row));
            }
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

    /// Rows wait for a full batch, but not for long.
    fn hand_on(&mut self) {
        let Recording { collector, batch, store, named, .. } = self;
        keep(store.as_mut(), named, collector.known(), batch);
        if let Some(store) = &mut self.store {
            self.notes.extend(store.take_notes());
        }
    }

    fn show(&mut self, is_watched: bool) {
        let at_ns = self.collector.now_ns();
        self.record.own = self.own();
        self.record.fast = self.fast();
        if self.record.own.lost > 0 && !std::mem::replace(&mut self.said_lost, true) {
            self.notes.push(
                "events are lost: a ring was full or could not be had; all counts are lower bounds"
                    .into(),
            );
        }
        let summary = Summary { running: true, ..self.summary(at_ns, LIVE_ROWS) };
        let processes = self.tally.processes(self.collector.known(), LIVE_PROCESSES);
        let apex_pid = std::process::id();
        let watched = is_watched.then(|| self.recent.take().unwrap_or_default());
        let streams = watched.map(|mut recent| {
            let streams = recent.last_second(at_ns);
            self.recent = Some(recent);
            streams
        });
        let streams = streams.unwrap_or_default();
        let given_ns = self.tally.given_ns();
        let snapshot = Snapshot { at_ns, apex_pid, given_ns, summary, processes, streams };
        live::write(&self.rings, &snapshot);
    }

    fn summary(&mut self, wall_ns: u64, most_rows: usize) -> Summary {
        let mut frame = self.record.frame(Vec::new());
        frame.wall_ns = wall_ns;
        frame.most_rows = most_rows;
        let summary = self.tally.summary(self.collector.known(), &frame, &mut self.names);
        let foresight = self.known().processes.iter().filter_map(|one| one.foresight.as_ref());
        let taken = foresight.map(|foresight| foresight.answered).sum();
        let summary = self.learner.complete(summary);
        let predicted = summary.predicted.map(|one| PredictionSummary { taken, ..one });
        Summary { predicted, ..summary }
    }

    fn own(&self) -> OwnSummary {
        let counters = self.collector.counters();
        let refused: u64 = self.known().processes.iter().map(|process| process.refused).sum();
        let median = counters.own.median(LEAST_MEASURED);
        let before = &self.before;
        OwnSummary {
            median_ns: median
                .map(|ticks| ticks * self.collector.nanos_per_tick())
                .or(before.median_ns),
            sampling_ns: before.sampling_ns + self.collector.span(counters.sampling_ticks),
            lookup_ns: before.lookup_ns + self.collector.span(counters.lookup_ticks),
            lost: before.lost + counters.lost,
            damaged: before.damaged + counters.damaged,
            failures: before.failures + counters.failures,
            facts_lost: before.facts_lost + counters.facts_lost + refused,
            not_kept: before.not_kept + self.store.as_ref().map_or(0, EventStore::not_kept),
            ..OwnSummary::default()
        }
    }

    /// What `--fast` did so far. Counts of rings that a collector before this one has removed are not in it.
    fn fast(&self) -> Option<FastSummary> {
        let queue = self.collector.counters().queue;
        fast::summary(self.known(), &queue, self.collector.nanos_per_tick())
    }

    /// Processes that could have no ring leave no other trace. Anybody may say that he is one, so little is heard
    /// at once and little kept.
    fn hear_refusals(&mut self) {
        const MOST: usize = 8;
        let own = nix::unistd::Uid::effective().as_raw();
        let heard: Vec<Refusal> = self
            .refusals
            .iter()
            .flat_map(|one| std::iter::from_fn(|| one.hear()).take(64))
            .collect();
        for Refusal { pid, user, why } in heard {
            let sentence = if user == own {
                format!("process {pid} could have no ring: {why}")
            } else {
                format!(
                    "process {pid} had become user {user} before its first CUDA call, and the rings are \
                     user {own}'s: {why}"
                )
            };
            let unrecorded = &mut self.record.unrecorded;
            if unrecorded.len() < MOST && !unrecorded.contains(&sentence) {
                unrecorded.push(sentence);
            }
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

    /// Code for newer chips that was brought down, by chip, and what programs were told of their device.
    fn note_lowered(&mut self) {
        let known = self.collector.known();
        for one in known.processes.iter().filter_map(|process| process.claimed.as_ref()) {
            self.notes.push(format!(
                "a program was told, at least {}, that its device has compute capability {}; it has {}",
                counted(one.answers, "time", "times"),
                one.claimed,
                one.real
            ));
        }
        let mut of_chips: BTreeMap<(&str, &str), Vec<&Lowered>> = BTreeMap::new();
        for one in known.processes.iter().flat_map(|process| &process.lowered) {
            of_chips.entry((&one.was, &one.to)).or_default().push(one);
        }
        for ((was, to), images) in of_chips {
            let sum = |part: fn(&Lowered) -> u64| images.iter().map(|one| part(one)).sum::<u64>();
            let (kept, milliseconds) = (sum(|one| one.kept), sum(|one| one.micros) as f64 / 1e3);
            let many = match images.len() {
                1 => "an image".to_owned(),
                many => format!("{many} images"),
            };
            let from_disk = if kept > 0 { format!(", {kept} from disk") } else { String::new() };
            let features: BTreeSet<&str> =
                images.iter().flat_map(|one| one.features.iter().map(String::as_str)).collect();
            let what = match features.len() {
                0 => "nothing newer was in it".to_owned(),
                _ => features.into_iter().collect::<Vec<_>>().join("; "),
            };
            self.notes.push(format!(
                "{many} for {was} ran on {to}, brought down in {milliseconds:.1} ms{from_disk}: {what}"
            ));
        }
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
                "the trees answered {}, of which the program had guessed {answered}",
                counted(written, "configuration", "configurations")
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
    if !rows.is_empty() {
        name_kernels(store, named, known);
        store.keep(rows);
    }
}

fn name_kernels(store: &mut EventStore, named: &mut HashSet<(u32, u32)>, known: &Known) {
    for (number, process) in (0..).zip(&known.processes) {
        for (&kernel, facts) in &process.kernels {
            if named.insert((number, kernel)) {
                store.name_kernel(number, kernel, &facts.name);
            }
        }
    }
}

/// Id of the machine's boot.
pub(crate) fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}
/// Days since 1970.
fn today() -> u32 {
    u32::try_from(wall_nanos() / 1_000_000_000 / 86_400).unwrap_or(0)
}
