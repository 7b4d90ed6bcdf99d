//! Finds the rings of every process of a session and turns what is in them into rows.
//!
//! Each process file may appear at any moment (a child forks, another program is executed), so every
//! look reads the directory again. Nothing here waits for a program, and nothing a program writes is
//! trusted beyond its check. A kernel's fact is written before the first event that names it, so
//! the facts are read after the rings: whatever a row names is known by then.
//!
//! When a process has ended its rings are drained once more and removed, because they take memory; its
//! facts file, which is small, stays until the session is finished.

use crate::interpolate::Interpolator;
use crate::known::{Known, KnownProcess};
use crate::resolve::Resolver;
use crate::row::{Row, call_name};
use crate::summary::UnderWay;
use apex_core::alive::is_taken;
use apex_core::event::{CallId, Event};
use apex_core::facts::read_all;
use apex_core::ring::{Counters, ProcessHeader, Reader, ReaderError};
use apex_core::time::{Anchor, Clock, Scale};
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Everything read from one ring directory.
#[derive(Debug)]
pub struct Collector {
    directory: PathBuf,
    origin: Anchor,
    scale: Scale,
    rings: Vec<Rings>,
    seen: HashSet<PathBuf>,
    known: Known,
    ended: Counters,
    under_way: Vec<UnderWay>,
    /// Rings that could not be opened at the last look, for want of descriptors or memory.
    shut: usize,
    said_shut: bool,
    /// Processes that still ran when their rings were closed.
    left: Vec<u32>,
    notes: Vec<String>,
    liveness_checked: Instant,
    batch: Vec<(u32, Event)>,
}

/// The rings of one running process.
#[derive(Debug)]
struct Rings {
    number: u32,
    path: PathBuf,
    reader: Reader<File>,
    facts: FactsTail,
    interpolator: Interpolator,
    resolver: Resolver,
    monotonic: bool,
    gone: bool,
}

/// A look at all rings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Look {
    /// How full the fullest ring was, from 0 to 1.
    pub fullest: f64,
    /// Rows handed on.
    pub rows: u64,
}

/// Name of the list of process files, in the order of their numbers.
pub const ORDER_FILE: &str = "order";

const LIVENESS_INTERVAL: Duration = Duration::from_millis(250);

impl Collector {
    /// Begins with the session's start: `origin` is the moment that rows count from.
    #[must_use]
    pub fn start(directory: &Path, origin: Anchor) -> Collector {
        Collector {
            directory: directory.to_owned(),
            origin,
            scale: Scale::between(origin, Anchor::take()),
            rings: Vec::new(),
            seen: HashSet::new(),
            known: Known::default(),
            ended: Counters::default(),
            under_way: Vec::new(),
            shut: 0,
            said_shut: false,
            left: Vec::new(),
            notes: Vec::new(),
            liveness_checked: Instant::now(),
            batch: Vec::new(),
        }
    }

    /// Goes on where a collector that died had stopped: processes keep the numbers it gave them.
    #[must_use]
    pub fn resume(directory: &Path, origin: Anchor) -> Collector {
        let mut collector = Collector::start(directory, origin);
        let order = fs::read_to_string(directory.join(ORDER_FILE)).unwrap_or_default();
        for name in order.lines().filter(|name| is_plain_name(name)) {
            let path = directory.join(name);
            let number = collector.enlist(&path);
            if !collector.open(number, &path) {
                // The rings went when the process ended; its facts are still there.
                let mut facts = FactsTail::beside(&path);
                facts.read(&mut collector.known.processes[number as usize]);
            }
        }
        collector
    }

    /// Reads every ring once and hands all new rows to `sink`, together with what is known so far.
    pub fn look(&mut self, mut sink: impl FnMut(&Known, Row)) -> Look {
        self.find_new_files();
        self.scale = Scale::between(self.origin, Anchor::take());
        let check_liveness = self.liveness_checked.elapsed() >= LIVENESS_INTERVAL;
        if check_liveness {
            self.liveness_checked = Instant::now();
        }
        let mut look = Look::default();
        for place in 0..self.rings.len() {
            // Asked before the drain: whatever a dead process wrote is then found by this drain.
            let ended = check_liveness && has_ended(&self.rings[place].reader);
            self.rings[place].gone |= ended;
            self.drain(place, &mut look);
            self.hand_on(place, &mut look, &mut sink);
        }
        self.retire();
        look
    }

    /// Ends every ring: hands on the rows that still wait for a time, because their threads may make no further
    /// call, and removes the file. Rings for which there was no descriptor so far are read now. Those that
    /// still cannot be opened stay, for a later collector.
    pub fn finish(&mut self, mut sink: impl FnMut(&Known, Row)) {
        loop {
            for place in 0..self.rings.len() {
                let reader = &self.rings[place].reader;
                let pid = reader.header().pid;
                self.left.extend((!has_ended(reader)).then_some(pid));
                self.rings[place].gone = true;
                self.drain(place, &mut Look::default());
                self.hand_on(place, &mut Look::default(), &mut sink);
            }
            self.retire();
            if self.shut > 0 {
                self.find_new_files();
            }
            if self.rings.is_empty() {
                return;
            }
        }
    }

    /// Whether rings were left unread by [`Collector::finish`].
    #[must_use]
    pub fn leaves_rings(&self) -> bool {
        self.shut > 0
    }

    /// What is known of the processes.
    #[must_use]
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// All counters, ended processes included, with times still in ticks.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let all = self.rings.iter().filter_map(|rings| rings.reader.counters().ok());
        let mut all = all.fold(self.ended.clone(), |sum, counters| add(sum, &counters));
        // Each holds one event at least: the birth of its thread.
        all.lost += self.shut as u64;
        all
    }

    /// Calls that had not returned when their process ended, the longest first.
    #[must_use]
    pub fn under_way(&self) -> Vec<UnderWay> {
        let ended = self.rings.iter().filter(|rings| has_ended(&rings.reader));
        let last = ended.flat_map(|rings| rings.calls_under_way(&self.scale));
        let mut calls: Vec<UnderWay> = self.under_way.iter().cloned().chain(last).collect();
        calls.sort_by_key(|call| (Reverse(call.host_ns), call.pid, call.tid));
        calls
    }

    /// Nanoseconds of one tick.
    #[must_use]
    pub fn nanos_per_tick(&self) -> f64 {
        self.scale.nanos_per_tick()
    }

    /// Nanoseconds of a number of ticks.
    #[must_use]
    pub fn span(&self, ticks: u64) -> u64 {
        self.scale.span(ticks)
    }

    /// Nanoseconds since the session's start.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        Anchor::take().nanos.saturating_sub(self.origin.nanos)
    }

    /// Sentences for the user, each once.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Processes that ran on when their rings were closed.
    #[must_use]
    pub fn running(&self) -> &[u32] {
        &self.left
    }

    fn find_new_files(&mut self) {
        let mut paths = match ring_files(&self.directory) {
            Ok(paths) => paths,
            Err(error) if passes(&error) => return self.shut(1, &self.directory.clone(), &error),
            Err(_) => return,
        };
        paths.retain(|path| !self.seen.contains(path));
        self.shut = 0;
        for path in paths {
            match File::options().read(true).write(true).open(&path).map(Reader::open) {
                Ok(Err(ReaderError::NotReady)) => {}
                Ok(Ok(reader)) => {
                    let number = self.enlist(&path);
                    self.note_order(&path);
                    self.add(number, &path, reader);
                }
                Ok(Err(error)) => self.refuse(path, &error.to_string()),
                Err(error) if passes(&error) => self.shut(self.shut + 1, &path, &error),
                Err(error) => self.refuse(path, &error.to_string()),
            }
        }
    }

    fn shut(&mut self, shut: usize, path: &Path, why: &io::Error) {
        self.shut = shut;
        if !std::mem::replace(&mut self.said_shut, true) {
            self.notes.push(format!("{} cannot be read for now: {why}", path.display()));
        }
    }

    fn refuse(&mut self, path: PathBuf, why: &str) {
        self.notes.push(format!("{} is passed over: {why}", path.display()));
        self.ended.damaged += 1;
        self.seen.insert(path);
    }

    fn enlist(&mut self, path: &Path) -> u32 {
        self.seen.insert(path.to_owned());
        let found_ns = self.now_ns();
        self.known.processes.push(KnownProcess { found_ns, ..KnownProcess::default() });
        u32::try_from(self.known.processes.len() - 1).unwrap_or(u32::MAX)
    }

    /// Lets a successor give the processes the same numbers.
    fn note_order(&self, path: &Path) {
        let Some(name) = path.file_name() else { return };
        let file = File::options()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(self.directory.join(ORDER_FILE));
        // Without the list a successor numbers the processes anew; nothing else depends on it.
        let _ = file.and_then(|mut file| writeln!(file, "{}", name.to_string_lossy()));
    }

    fn open(&mut self, number: u32, path: &Path) -> bool {
        let reader = File::options().read(true).write(true).open(path).map(Reader::open);
        let Ok(Ok(reader)) = reader else { return false };
        self.add(number, path, reader);
        true
    }

    fn add(&mut self, number: u32, path: &Path, reader: Reader<File>) {
        let pid = reader.header().pid;
        self.known.processes[number as usize].pid = pid;
        self.rings.push(Rings {
            number,
            path: path.to_owned(),
            monotonic: reader.header().clock == Clock::Monotonic.code(),
            reader,
            facts: FactsTail::beside(path),
            interpolator: Interpolator::default(),
            resolver: Resolver::of(number, pid),
            gone: false,
        });
    }

    /// Reads what is new in the rings of one process into the batch.
    fn drain(&mut self, place: usize, look: &mut Look) {
        let rings = &mut self.rings[place];
        let batch = &mut self.batch;
        batch.clear();
        let (resolver, interpolator) = (&mut rings.resolver, &mut rings.interpolator);
        let drained = rings.reader.drain(|ring, event| {
            interpolator.take(ring, resolver.owner(ring, &event), event, batch);
        });
        match drained {
            Ok(fullest) => look.fullest = look.fullest.max(fullest),
            Err(error) => {
                rings.gone = true;
                self.notes.push(format!("{} can no longer be read: {error}", rings.path.display()));
            }
        }
        if rings.gone {
            rings.interpolator.finish(batch);
        }
        rings.facts.read(&mut self.known.processes[rings.number as usize]);
    }

    /// Makes rows of the batch.
    fn hand_on(&mut self, place: usize, look: &mut Look, sink: &mut impl FnMut(&Known, Row)) {
        let nanoseconds =
            Scale::between(Anchor { ticks: 0, nanos: 0 }, Anchor { ticks: 1, nanos: 1 });
        let rings = &mut self.rings[place];
        let scale = if rings.monotonic { &nanoseconds } else { &self.scale };
        let known = &self.known;
        rings.resolver.resolve(&mut self.batch, scale, self.origin.nanos, |row| {
            look.rows += 1;
            sink(known, row);
        });
    }

    fn retire(&mut self) {
        let now = self.now_ns();
        for rings in self.rings.extract_if(.., |rings| rings.gone) {
            let calls = rings.calls_under_way(&self.scale);
            let Rings { reader, mut facts, number, path, .. } = rings;
            if let Ok(counters) = reader.counters() {
                self.ended = add(std::mem::take(&mut self.ended), &counters);
            }
            let known = &mut self.known.processes[number as usize];
            if has_ended(&reader) {
                self.under_way.extend(calls);
                known.ended_ns = Some(now);
            }
            // The facts may have waited for the descriptor of the rings.
            drop(reader);
            facts.read(known);
            // If it stays it is removed with its directory.
            let _ = fs::remove_file(&path);
        }
    }
}

impl Rings {
    /// The calls that threads of the process are in, with their lengths up to this moment.
    fn calls_under_way(&self, scale: &Scale) -> Vec<UnderWay> {
        let now = Anchor::take();
        let length = |since| match self.monotonic {
            true => now.nanos.saturating_sub(since),
            false => scale.span(now.ticks.saturating_sub(since)),
        };
        let calls = self.reader.calls_under_way().unwrap_or_default();
        let call = |(ring, call, since): (usize, CallId, u64)| {
            let (pid, tid) = (self.reader.header().pid, self.resolver.last_owner(ring));
            UnderWay { pid, tid, function: call_name(call).into(), host_ns: Some(length(since)) }
        };
        calls.into_iter().map(call).collect()
    }
}

/// How long to wait before the next look: so that a ring fills to a quarter by then, at most 20 ms.
#[must_use]
pub fn pace(since_last_look: Duration, last_wait: Duration, fullest: f64) -> Duration {
    const LONGEST: Duration = Duration::from_millis(20);
    const FIRST: Duration = Duration::from_millis(5);
    if fullest > 0.25 {
        return Duration::ZERO;
    }
    if fullest <= 0.0 {
        return (last_wait * 2).clamp(FIRST, LONGEST);
    }
    since_last_look.mul_f64((0.25 / fullest).min(1000.0)).min(LONGEST)
}

/// Files of rings in a directory, sorted.
pub(crate) fn ring_files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "ring")).collect();
    paths.sort();
    Ok(paths)
}

/// The machine is short of something that others may give back.
fn passes(error: &io::Error) -> bool {
    let passing = [Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM];
    error.raw_os_error().is_some_and(|code| passing.contains(&Errno::from_raw(code)))
}

/// Whether the process has ended that writes these rings: it has released its lock. One that could have none is
/// asked for by its process id, which is right in our own namespace and until the number comes back.
pub(crate) fn has_ended(reader: &Reader<File>) -> bool {
    let ProcessHeader { pid, locked, .. } = *reader.header();
    if locked && let Ok(taken) = is_taken(reader.source()) {
        return !taken;
    }
    let Ok(pid) = i32::try_from(pid) else { return true };
    kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH)
}

fn is_plain_name(name: &str) -> bool {
    name.ends_with(".ring") && !name.contains('/')
}

fn add(sum: Counters, more: &Counters) -> Counters {
    Counters {
        lost: sum.lost.saturating_add(more.lost),
        damaged: sum.damaged.saturating_add(more.damaged),
        failures: sum.failures.saturating_add(more.failures),
        facts_lost: sum.facts_lost.saturating_add(more.facts_lost),
        own: sum.own.plus(&more.own),
        sampling_ticks: sum.sampling_ticks.saturating_add(more.sampling_ticks),
        lookup_ticks: sum.lookup_ticks.saturating_add(more.lookup_ticks),
        queue: sum.queue.plus(&more.queue),
    }
}

/// Reads a facts file as it grows; a line counts once its newline is there.
#[derive(Debug)]
struct FactsTail {
    path: PathBuf,
    file: Option<File>,
    offset: u64,
}

/// A look takes at most so much of a facts file; the rest comes with the next.
const FACTS_PER_LOOK: u64 = 4 << 20;

impl FactsTail {
    fn beside(rings: &Path) -> FactsTail {
        FactsTail { path: rings.with_extension("facts"), file: None, offset: 0 }
    }

    fn read(&mut self, known: &mut KnownProcess) {
        if let Ok(bytes) = self.new_lines() {
            let (facts, refused) = read_all(&String::from_utf8_lossy(&bytes));
            known.refused += refused as u64;
            for fact in facts {
                known.learn(fact);
            }
        }
    }

    fn new_lines(&mut self) -> io::Result<Vec<u8>> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::open(&self.path)?),
        };
        if file.metadata()?.len() <= self.offset {
            return Ok(Vec::new());
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let mut bytes = Vec::new();
        file.take(FACTS_PER_LOOK).read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        bytes.truncate(whole);
        self.offset += whole as u64;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_follows_the_fullest_ring() {
        let ms = Duration::from_millis;
        assert_eq!(pace(ms(5), ms(5), 0.5), Duration::ZERO);
        assert_eq!(pace(ms(2), ms(2), 0.125), ms(4));
        assert_eq!(pace(ms(5), ms(5), 0.000_001), ms(20));
        assert_eq!(pace(ms(5), Duration::ZERO, 0.0), ms(5));
        assert_eq!(pace(ms(5), ms(8), 0.0), ms(16));
        assert_eq!(pace(ms(5), ms(20), 0.0), ms(20));
    }

    #[test]
    fn a_torn_facts_file_gives_its_whole_lines_and_then_the_rest() {
        let directory = tempfile::tempdir().unwrap();
        let rings = directory.path().join("7-0.ring");
        let facts = directory.path().join("7-0.facts");
        let mut tail = FactsTail::beside(&rings);
        let mut known = KnownProcess::default();
        tail.read(&mut known);
        fs::write(&facts, "kernel id=1 name=one\nrubbish\nkernel id=2 na").unwrap();
        tail.read(&mut known);
        assert_eq!((known.kernels.len(), known.refused), (1, 1));
        fs::write(&facts, "kernel id=1 name=one\nrubbish\nkernel id=2 name=two\n").unwrap();
        tail.read(&mut known);
        assert_eq!(known.kernels[&2].name, "two");
    }
}
