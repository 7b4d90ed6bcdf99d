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
use crate::row::Row;
use apex_core::event::Event;
use apex_core::facts::read_all;
use apex_core::ring::{Counters, Reader, ReaderError};
use apex_core::time::{Anchor, Clock, Scale};
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
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
            let ended = check_liveness && has_ended(self.rings[place].reader.header().pid);
            self.rings[place].gone |= ended;
            self.drain(place, &mut look);
            self.hand_on(place, &mut look, &mut sink);
        }
        self.retire();
        look
    }

    /// Hands on the rows that still wait for a time, because their threads may make no further call.
    pub fn finish(&mut self, mut sink: impl FnMut(&Known, Row)) {
        for place in 0..self.rings.len() {
            self.batch.clear();
            self.rings[place].interpolator.finish(&mut self.batch);
            self.hand_on(place, &mut Look::default(), &mut sink);
        }
    }

    /// What is known of the processes.
    #[must_use]
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// All counters, ended processes included, with times still in ticks.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.rings.iter().fold(self.ended, |sum, rings| {
            rings.reader.counters().map_or(sum, |counters| add(sum, counters))
        })
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

    /// Processes that still run.
    #[must_use]
    pub fn running(&self) -> Vec<u32> {
        self.rings
            .iter()
            .map(|rings| rings.reader.header().pid)
            .filter(|&pid| !has_ended(pid))
            .collect()
    }

    fn find_new_files(&mut self) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        let mut paths: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|end| end == "ring"))
            .filter(|path| !self.seen.contains(path))
            .collect();
        paths.sort();
        for path in paths {
            match File::options().read(true).write(true).open(&path).map(Reader::open) {
                Ok(Err(ReaderError::NotReady)) => {}
                Ok(Ok(reader)) => {
                    let number = self.enlist(&path);
                    self.note_order(&path);
                    self.add(number, &path, reader);
                }
                Ok(Err(error)) => self.refuse(path, &error.to_string()),
                Err(error) => self.refuse(path, &error.to_string()),
            }
        }
    }

    fn refuse(&mut self, path: PathBuf, why: &str) {
        self.notes.push(format!("{} is passed over: {why}", path.display()));
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
            if let Ok(counters) = rings.reader.counters() {
                self.ended = add(self.ended, counters);
            }
            self.known.processes[rings.number as usize].ended_ns = Some(now);
            // If it stays it is removed with its directory.
            let _ = fs::remove_file(&rings.path);
        }
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

fn has_ended(pid: u32) -> bool {
    let Ok(pid) = i32::try_from(pid) else { return true };
    kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH)
}

fn is_plain_name(name: &str) -> bool {
    name.ends_with(".ring") && !name.contains('/')
}

fn add(sum: Counters, more: Counters) -> Counters {
    Counters {
        lost: sum.lost.saturating_add(more.lost),
        damaged: sum.damaged.saturating_add(more.damaged),
        failures: sum.failures.saturating_add(more.failures),
        facts_lost: sum.facts_lost.saturating_add(more.facts_lost),
        own_ticks: sum.own_ticks.saturating_add(more.own_ticks),
        own_calls: sum.own_calls.saturating_add(more.own_calls),
        sampling_ticks: sum.sampling_ticks.saturating_add(more.sampling_ticks),
        lookup_ticks: sum.lookup_ticks.saturating_add(more.lookup_ticks),
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
