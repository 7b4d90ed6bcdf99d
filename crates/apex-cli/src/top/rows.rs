//! Which sessions, processes and kernels are shown, and in which order: the filter and the sorting.
//!
//! The filter looks at everything a user may know something by: session id, command, process id, device and kernel
//! names. A session that matches itself is shown with all its processes; one of which only a part matches is
//! shown with that part.

use super::screen::{Order, Screen, Sort};
use apex_daemon::summary::KernelSummary;
use apex_daemon::watch::{WatchedProcess, WatchedSession};

/// A row of the tree.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entry<'a> {
    /// A session; whether its processes are shown below it.
    Session(&'a WatchedSession, bool),
    /// A process of it; whether it is the last.
    Process(&'a WatchedSession, &'a WatchedProcess, bool),
}

impl<'a> Entry<'a> {
    pub(super) fn session(&self) -> &'a WatchedSession {
        match self {
            Entry::Session(session, _) | Entry::Process(session, ..) => session,
        }
    }

    pub(super) fn process(&self) -> Option<&'a WatchedProcess> {
        match self {
            Entry::Session(..) => None,
            Entry::Process(_, process, _) => Some(process),
        }
    }
}

/// The rows of the tree.
pub(super) fn entries(screen: &Screen) -> Vec<Entry<'_>> {
    let wanted = screen.filter.to_lowercase();
    let mut sessions: Vec<&WatchedSession> = screen.sessions.iter().collect();
    sort_by(&mut sessions, |session| weight(screen.order, session));
    let mut rows = Vec::new();
    for session in sessions {
        let own = wanted.is_empty() || session_matches(session, &wanted);
        let by_process = |process: &&WatchedProcess| own || process_matches(process, &wanted);
        let mut processes: Vec<&WatchedProcess> =
            session.processes.iter().filter(by_process).collect();
        if !own && processes.is_empty() {
            // What a kernel's name matches is the session's: kernels are told apart by name alone.
            if !matching_kernels(session, &wanted).is_empty() {
                rows.push(Entry::Session(session, false));
            }
            continue;
        }
        let open = !wanted.is_empty() || !screen.folded.contains(session.id());
        rows.push(Entry::Session(session, open && !processes.is_empty()));
        if open {
            sort_by(&mut processes, |process| process_weight(screen.order, process));
            let last = processes.len().saturating_sub(1);
            let row = |(nth, process)| Entry::Process(session, process, nth == last);
            rows.extend(processes.into_iter().enumerate().map(row));
        }
    }
    rows
}

/// The chosen row.
pub(super) fn chosen(screen: &Screen) -> Option<Entry<'_>> {
    entries(screen).get(screen.tree.chosen).copied()
}

/// The kernels of a session that match; all of them where it is shown for another reason.
pub(super) fn kernels<'a>(screen: &Screen, session: &'a WatchedSession) -> Vec<&'a KernelSummary> {
    let mut kernels = matching_kernels(session, &screen.filter.to_lowercase());
    if kernels.is_empty() {
        kernels = session.now.summary.kernels.iter().collect();
    }
    let mean = |kernel: &KernelSummary| kernel.gpu.as_ref().map_or(-1.0, |gpu| gpu.mean_ns);
    match screen.sort {
        // They come by time.
        Sort::Time => {}
        Sort::Calls => kernels.sort_by_key(|kernel| u64::MAX - kernel.calls),
        Sort::Mean => kernels.sort_by(|a, b| mean(b).total_cmp(&mean(a))),
        Sort::Name => kernels.sort_by(|a, b| a.name.cmp(&b.name)),
    }
    kernels
}

fn matching_kernels<'a>(session: &'a WatchedSession, wanted: &str) -> Vec<&'a KernelSummary> {
    let has = |kernel: &&KernelSummary| kernel.name.to_lowercase().contains(wanted);
    session.now.summary.kernels.iter().filter(has).collect()
}

fn session_matches(session: &WatchedSession, wanted: &str) -> bool {
    let devices = session.now.summary.devices.iter().map(|device| device.name.as_str());
    let numbers = session.now.apex_pid.to_string();
    let command = session.command();
    let mut words = devices.chain([session.id(), &command, &numbers]);
    words.any(|word| word.to_lowercase().contains(wanted))
}

fn process_matches(process: &WatchedProcess, wanted: &str) -> bool {
    let words = [process.now.pid.to_string(), process.command(), process.now.executable.clone()];
    words.iter().any(|word| word.to_lowercase().contains(wanted))
}

/// The heaviest first; rows of one weight keep their order, which is that of their start.
fn sort_by<T>(rows: &mut [T], weight: impl Fn(&T) -> f64) {
    rows.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
}

fn weight(order: Order, session: &WatchedSession) -> f64 {
    let rates = session.rates.unwrap_or_default();
    match order {
        Order::Start => 0.0,
        Order::Gpu => rates.busy,
        Order::Launches => rates.launches,
        Order::Memory => session.now.summary.memory.device_live_bytes as f64,
        Order::Waiting => rates.waited,
    }
}

fn process_weight(order: Order, process: &WatchedProcess) -> f64 {
    let rates = process.rates.unwrap_or_default();
    match order {
        Order::Start => -f64::from(process.now.number),
        Order::Gpu => rates.busy,
        Order::Launches => rates.launches,
        Order::Memory => process.now.device_live_bytes as f64,
        Order::Waiting => rates.waited,
    }
}
