//! Processes that use the software GPU, and how busy its threads are in them.
//!
//! Such a process has threads that bear the software GPU's name; `/proc` tells them and the processor time they took.
//! Processes of other users may stay unseen, as the system allows. The share that is busy is taken between two looks,
//! at least [`SHORTEST_NANOS`] apart.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How the software GPU's threads are called.
const THREAD: &str = "apex-gpu-";

/// Two looks that lie closer tell nothing: processor time is counted in ticks of 10 ms.
const SHORTEST_NANOS: u64 = 100_000_000;

/// A process that uses the software GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) process: u32,
    /// Processor time that its threads of the software GPU took, in ticks.
    ticks: u64,
}

/// The processes below `/proc`, in ascending order.
pub(crate) fn users(proc: &Path) -> Vec<User> {
    let mut users: Vec<User> =
        numbers(proc).into_iter().filter_map(|process| user(proc, process)).collect();
    users.sort_by_key(|user| user.process);
    users
}

fn user(proc: &Path, process: u32) -> Option<User> {
    let tasks = proc.join(process.to_string()).join("task");
    let threads: Vec<u64> = numbers(&tasks)
        .into_iter()
        .filter_map(|thread| ticks(&tasks.join(thread.to_string())))
        .collect();
    (!threads.is_empty()).then(|| User { process, ticks: threads.iter().sum() })
}

/// Processor time of a thread of the software GPU; none for another thread.
fn ticks(thread: &Path) -> Option<u64> {
    let line = fs::read_to_string(thread.join("stat")).ok()?;
    // The name stands in brackets and may hold any letter.
    let (name, rest) = line.split_once('(')?.1.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11).map_while(|field| field.parse::<u64>().ok());
    name.starts_with(THREAD).then(|| Some(fields.next()? + fields.next()?))?
}

fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A look at all processes.
struct Look {
    at: Instant,
    ticks: u64,
    /// The share that was busy before it, in per cent.
    busy_percent: u32,
}

static LAST: Mutex<Option<Look>> = Mutex::new(None);

/// How busy the workers were since the last look, in per cent. The first time it waits for as long as a look takes.
pub(crate) fn busy_percent(workers: u32) -> u32 {
    let mut last = LAST.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let shortest = Duration::from_nanos(SHORTEST_NANOS);
    if last.is_none() {
        *last = Some(Look { at: Instant::now(), ticks: all_ticks(), busy_percent: 0 });
        std::thread::sleep(shortest);
    }
    let Some(before) = last.as_ref() else { return 0 };
    let passed = before.at.elapsed();
    if passed < shortest {
        return before.busy_percent;
    }
    let ticks = all_ticks();
    let busy_percent = share(ticks.saturating_sub(before.ticks), passed, workers);
    *last = Some(Look { at: Instant::now(), ticks, busy_percent });
    busy_percent
}

fn all_ticks() -> u64 {
    users(Path::new("/proc")).iter().map(|user| user.ticks).sum()
}

/// Ticks are hundredths of a second everywhere on Linux.
fn share(ticks: u64, passed: Duration, workers: u32) -> u32 {
    let possible = passed.as_secs_f64() * f64::from(workers.max(1));
    (ticks as f64 / possible).round().min(100.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_threads() {
        let own = std::process::id();
        let has_own = || users(Path::new("/proc")).iter().any(|user| user.process == own);
        assert!(!has_own());
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let named = std::thread::Builder::new().name("apex-gpu-0".into());
        let thread = named.spawn(move || wait.recv()).unwrap();
        while !has_own() {
            std::thread::yield_now();
        }
        drop(end);
        assert!(thread.join().unwrap().is_err());
    }

    #[test]
    fn the_share_is_of_all_workers_and_at_most_all() {
        let second = Duration::from_secs(1);
        assert_eq!(share(0, second, 2), 0);
        assert_eq!(share(50, second, 2), 25);
        assert_eq!(share(900, second, 2), 100);
    }
}
