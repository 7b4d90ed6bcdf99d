//! The running sessions with what each did lately: the one source of `apex top` and of the dashboard.
//!
//! A snapshot counts from the session's start; a rate is the difference of two of them over the time between, which is
//! at least [`RATE_SPAN_NS`]: a step of a program may take longer than the time between two looks. GPU times come from
//! sums that only rise ([`ProcessSummary::given_ns`]), because an estimate of all time that is corrected says nothing
//! of now. The same snapshot again is no news and changes nothing. Whoever watches says so where the rings lie
//! ([`crate::live::watched`]), and only then are snapshots written more often than for a report.

mod history;

pub use history::{History, Rates, SPAN_NS};

use crate::live::{self, Snapshot};
use crate::summary::{KernelSummary, ProcessSummary};
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Rates are taken over so long at least.
pub const RATE_SPAN_NS: u64 = 400_000_000;
/// After so long without news a session is said to be silent.
const SILENT: Duration = Duration::from_secs(3);

/// All running sessions of a user, as they are seen by one watcher.
#[derive(Debug)]
pub struct Watch {
    places: Vec<PathBuf>,
    looked: Option<Instant>,
    /// Oldest first.
    pub sessions: Vec<WatchedSession>,
    /// The session that ended last.
    pub ended: Option<String>,
}

impl Watch {
    /// Watches the sessions whose rings lie in these places.
    #[must_use]
    pub fn of(places: &[PathBuf]) -> Watch {
        Watch { places: places.to_vec(), looked: None, sessions: Vec::new(), ended: None }
    }

    /// Looks once, and asks for a snapshot every so often from here on.
    pub fn look(&mut self, every: Duration) {
        live::watched(&self.places, every);
        let since = self.looked.replace(Instant::now()).map_or(Duration::ZERO, |it| it.elapsed());
        let ended = follow(&mut self.sessions, live::snapshots(&self.places), since);
        self.ended = ended.or(self.ended.take());
    }
}

/// Takes in what the running sessions say now, so long after the time before; the last session that ended, if one did.
pub fn follow(
    sessions: &mut Vec<WatchedSession>,
    snapshots: Vec<Snapshot>,
    since: Duration,
) -> Option<String> {
    let mut before: HashMap<String, WatchedSession> =
        sessions.drain(..).map(|session| (session.id().to_owned(), session)).collect();
    for now in snapshots {
        let known = before.remove(&now.summary.session);
        sessions.push(WatchedSession::after(known, now, since));
    }
    before.into_keys().max()
}

/// A session that runs.
#[derive(Clone, Debug, Default)]
pub struct WatchedSession {
    /// Its last snapshot.
    pub now: Snapshot,
    /// What it does per second; none before the second snapshot.
    pub rates: Option<Rates>,
    /// What it did in the last minute.
    pub history: History,
    /// Those that run; one that has ended is only counted.
    pub processes: Vec<WatchedProcess>,
    /// How many have ended.
    pub ended: usize,
    kernels: HashMap<String, Trail<u64>>,
    trail: Trail<Sums>,
    without_news: Duration,
}

/// One of its processes.
#[derive(Clone, Debug, Default)]
pub struct WatchedProcess {
    /// What it did since its start.
    pub now: ProcessSummary,
    /// What it does per second; none before the second snapshot.
    pub rates: Option<Rates>,
    /// What it did in the last minute.
    pub history: History,
    trail: Trail<Sums>,
}

/// What a kernel does per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct KernelRates {
    /// Executions a second.
    pub calls: f64,
    /// Share of the time in which it ran, from 0 to 1; none where it was not timed.
    pub busy: Option<f64>,
}

impl WatchedSession {
    /// The session's next snapshot beside what is known of it, so long after the look before.
    #[must_use]
    pub fn after(before: Option<WatchedSession>, now: Snapshot, since: Duration) -> WatchedSession {
        let before = before.unwrap_or_default();
        if before.now.at_ns == now.at_ns && before.id() == now.summary.session {
            let without_news = before.without_news.saturating_add(since);
            return WatchedSession { without_news, ..before };
        }
        let at_ns = now.at_ns;
        let mut trail = before.trail;
        let rates = trail.next(at_ns, sums(&now));
        let mut history = before.history;
        remember(&mut history, before.now.at_ns, at_ns, rates);
        let mut kernels = before.kernels;
        kernels.retain(|name, _| now.summary.kernels.iter().any(|kernel| kernel.mangled == *name));
        for kernel in &now.summary.kernels {
            kernels.entry(kernel.mangled.clone()).or_default().push(at_ns, kernel.calls);
        }
        let mut known: HashMap<u32, WatchedProcess> =
            before.processes.into_iter().map(|process| (process.now.number, process)).collect();
        let (running, ended): (Vec<_>, Vec<_>) =
            now.processes.iter().cloned().partition(|process| process.ended_ns.is_none());
        let processes = running
            .into_iter()
            .map(|process| WatchedProcess::after(known.remove(&process.number), process, at_ns))
            .collect();
        let ended = ended.len();
        let without_news = Duration::ZERO;
        WatchedSession { now, rates, history, processes, ended, kernels, trail, without_news }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.now.summary.session
    }

    /// Its command in one line.
    #[must_use]
    pub fn command(&self) -> String {
        self.now.summary.command.join(" ")
    }

    /// Whether its `apex run` has written nothing for some time: it is stopped, or the machine is overloaded.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.without_news >= SILENT
    }

    /// What a kernel of it does per second; none where that is not known yet.
    #[must_use]
    pub fn kernel_rates(&self, kernel: &KernelSummary) -> Option<KernelRates> {
        let trail = self.kernels.get(&kernel.mangled)?;
        let (&(from_ns, first), &(to_ns, last)) = (trail.seen.front()?, trail.seen.back()?);
        let span_ns = to_ns.checked_sub(from_ns).filter(|&span| span > 0)? as f64;
        let calls = last.saturating_sub(first) as f64;
        let busy = kernel.gpu.as_ref().map(|gpu| (calls * gpu.mean_ns / span_ns).min(1.0));
        Some(KernelRates { calls: calls * 1e9 / span_ns, busy })
    }
}

impl WatchedProcess {
    fn after(before: Option<WatchedProcess>, now: ProcessSummary, at_ns: u64) -> WatchedProcess {
        let before = before.unwrap_or_default();
        let mut trail = before.trail;
        let from_ns = trail.last_ns();
        let rates = trail.next(at_ns, own_sums(&now));
        let mut history = before.history;
        remember(&mut history, from_ns, at_ns, rates);
        WatchedProcess { now, rates, history, trail }
    }

    /// Its command in one line.
    #[must_use]
    pub fn command(&self) -> String {
        match self.now.arguments.as_slice() {
            [] => self.now.executable.clone(),
            arguments => arguments.join(" "),
        }
    }
}

/// Sums at the last moments: as many as a rate needs.
#[derive(Clone, Debug)]
struct Trail<T> {
    seen: VecDeque<(u64, T)>,
}

impl<T> Default for Trail<T> {
    fn default() -> Trail<T> {
        Trail { seen: VecDeque::new() }
    }
}

impl<T: Copy> Trail<T> {
    fn push(&mut self, at_ns: u64, sums: T) {
        self.seen.push_back((at_ns, sums));
        while self.seen.get(1).is_some_and(|(next, _)| at_ns.saturating_sub(*next) >= RATE_SPAN_NS)
        {
            self.seen.pop_front();
        }
    }

    fn last_ns(&self) -> u64 {
        self.seen.back().map_or(0, |(at_ns, _)| *at_ns)
    }
}

impl Trail<Sums> {
    fn next(&mut self, at_ns: u64, sums: Sums) -> Option<Rates> {
        self.push(at_ns, sums);
        let &(from_ns, first) = self.seen.front()?;
        first.rates(sums, from_ns, at_ns)
    }
}

/// The sums that rates are differences of.
#[derive(Clone, Copy, Debug)]
struct Sums {
    launches: u64,
    given_ns: u64,
    waited_ns: u64,
    copied_bytes: u64,
}

impl Sums {
    fn rates(self, after: Sums, from_ns: u64, to_ns: u64) -> Option<Rates> {
        let span_ns = to_ns.checked_sub(from_ns).filter(|&span| span > 0)? as f64;
        let share = |after: u64, before: u64| after.saturating_sub(before) as f64 / span_ns;
        Some(Rates {
            launches: share(after.launches, self.launches) * 1e9,
            // What is given now may run later.
            busy: share(after.given_ns, self.given_ns).min(1.0),
            waited: share(after.waited_ns, self.waited_ns),
            copied_bytes: share(after.copied_bytes, self.copied_bytes) * 1e9,
        })
    }
}

fn remember(history: &mut History, from_ns: u64, to_ns: u64, rates: Option<Rates>) {
    if let Some(rates) = rates {
        history.add(from_ns, to_ns, rates);
    }
}

fn sums(snapshot: &Snapshot) -> Sums {
    let summary = &snapshot.summary;
    let copies = summary.copies.iter().map(|copies| copies.bytes);
    Sums {
        launches: summary.launches + summary.graph_launches,
        given_ns: snapshot.given_ns,
        waited_ns: summary.syncs.waited_ns,
        copied_bytes: copies.sum::<u64>() + summary.sets.bytes,
    }
}

fn own_sums(process: &ProcessSummary) -> Sums {
    Sums {
        launches: process.launches,
        given_ns: process.given_ns,
        waited_ns: process.waited_ns,
        copied_bytes: process.copied_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{GpuTime, Summary};

    /// A program that launches a thousand times a second and copies a byte at each launch.
    fn snapshot(at_ms: u64) -> Snapshot {
        let kernel = KernelSummary {
            mangled: "k".into(),
            calls: at_ms,
            gpu: Some(GpuTime { mean_ns: 5e5, ..GpuTime::default() }),
            ..KernelSummary::default()
        };
        let copied_bytes = at_ms;
        let process = ProcessSummary { launches: at_ms, copied_bytes, ..ProcessSummary::default() };
        let summary = Summary {
            session: "one".into(),
            launches: at_ms,
            kernels: vec![kernel],
            ..Summary::default()
        };
        let at_ns = at_ms * 1_000_000;
        Snapshot { at_ns, summary, processes: vec![process], ..Snapshot::default() }
    }

    #[test]
    fn rates_cover_the_same_time_however_often_one_looks() {
        for step_ms in [50, 100, 500] {
            let mut sessions = Vec::new();
            for nth in 1..30 {
                follow(&mut sessions, vec![snapshot(nth * step_ms)], Duration::ZERO);
            }
            let session = &sessions[0];
            assert_eq!(session.rates.unwrap().launches, 1_000.0, "{step_ms}");
            assert_eq!(session.processes[0].rates.unwrap().copied_bytes, 1_000.0);
            let kernel = session.kernel_rates(&session.now.summary.kernels[0]).unwrap();
            assert_eq!((kernel.calls, kernel.busy), (1_000.0, Some(0.5)));
            let (&(first, _), &(last, _)) =
                (session.trail.seen.front().unwrap(), session.trail.seen.back().unwrap());
            assert_eq!(last - first, RATE_SPAN_NS.max(step_ms * 1_000_000), "{step_ms}");
        }
    }

    #[test]
    fn silence_is_a_time_and_not_a_number_of_looks() {
        let mut sessions = Vec::new();
        let mut look = |since| {
            follow(&mut sessions, vec![snapshot(500)], since);
            sessions[0].is_silent()
        };
        look(Duration::ZERO);
        assert!((0..20).all(|_| !look(Duration::from_millis(100))));
        assert!(look(Duration::from_secs(1)));
    }

    #[test]
    fn a_session_that_is_gone_is_named() {
        let mut sessions = Vec::new();
        assert_eq!(follow(&mut sessions, vec![snapshot(500)], Duration::ZERO), None);
        assert_eq!(follow(&mut sessions, Vec::new(), Duration::ZERO), Some("one".into()));
        assert!(sessions.is_empty());
    }
}
