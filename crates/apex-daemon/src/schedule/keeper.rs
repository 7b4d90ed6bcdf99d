//! Keeps a controller for every page that nobody else controls, on a thread of its own.
//!
//! Every `apex run` of a scheduled program has one, and a daemon. Whoever is first leads; the others look now
//! and then whether the lead has become free. Where there is a daemon they leave it to the daemon, even while
//! it stands still: two that write are worse than none. What goes wrong is told once, and the gates are open
//! then.

use super::controller::{Controller, IDLE_STEP};
use super::grants::Grants;
use apex_core::gate_page::Files;
use apex_core::time::monotonic_nanos;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two looks for pages without a controller.
const SEARCH: Duration = Duration::from_millis(20);

/// What a keeper is told.
#[derive(Clone, Debug)]
pub struct Order {
    /// Where the pages lie.
    pub directory: PathBuf,
    /// Name of the policy.
    pub policy: String,
    /// Who may be what.
    pub grants: Grants,
    /// Programs run under MPS.
    pub mps: bool,
    /// It is the daemon of the directory.
    pub is_daemon: bool,
    /// Where what the policy sees and believes is written.
    pub log: Option<PathBuf>,
}

/// The file whose lock the daemon of a directory holds.
#[must_use]
pub fn daemon_lock(directory: &Path) -> PathBuf {
    directory.join("daemon")
}

fn has_daemon(directory: &Path) -> bool {
    File::open(daemon_lock(directory)).is_ok_and(|lock| lock.try_lock_shared().is_err())
}

/// A thread that keeps controllers.
#[derive(Debug)]
pub struct Keeper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    notes: Receiver<String>,
}

impl Keeper {
    /// Starts keeping.
    #[must_use]
    pub fn start(order: Order) -> Keeper {
        let stop = Arc::new(AtomicBool::new(false));
        let (say, notes) = channel();
        let seen = stop.clone();
        let thread = std::thread::Builder::new()
            .name("apex-keeper".into())
            .spawn(move || {
                keep(&order, &seen, |sentence| {
                    let _ = say.send(sentence);
                });
            })
            .ok();
        Keeper { stop, thread, notes }
    }

    /// Sentences that came up since the last time.
    pub fn take_notes(&mut self) -> Vec<String> {
        self.notes.try_iter().collect()
    }

    /// Stops, and gives the lead away.
    pub fn stop(mut self) -> Vec<String> {
        self.end();
        self.take_notes()
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.end();
    }
}

/// Keeps until `stop` is set.
pub fn keep(order: &Order, stop: &AtomicBool, mut say: impl FnMut(String)) {
    let mut leading: Vec<Controller> = Vec::new();
    let mut searched: Option<Instant> = None;
    let mut failed = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        if searched.is_none_or(|then| then.elapsed() >= SEARCH) {
            searched = Some(Instant::now());
            leading.retain(Controller::is_current);
            let mut pages = Files::all(&order.directory);
            if !order.is_daemon && has_daemon(&order.directory) {
                leading.clear();
                pages.clear();
            }
            for files in pages {
                if leading.iter().any(|one| one.gpu() == files.gpu()) {
                    continue;
                }
                match Controller::lead(&files, &order.policy, &order.grants, order.mps) {
                    Ok(Some(controller)) => leading.push(match &order.log {
                        Some(path) => controller.logged(path),
                        None => controller,
                    }),
                    Ok(None) => {}
                    Err(error) => complain(&mut failed, &order.directory, &error, &mut say),
                }
            }
        }
        let mut wait = if leading.is_empty() { SEARCH } else { IDLE_STEP };
        leading.retain_mut(|controller| match controller.step(monotonic_nanos()) {
            Ok(next) => {
                wait = wait.min(next);
                if let Some(sentence) = controller.log_ended() {
                    say_once(&mut failed, sentence, &mut say);
                }
                true
            }
            Err(error) => {
                complain(&mut failed, &order.directory, &error, &mut say);
                false
            }
        });
        std::thread::sleep(wait);
    }
}

fn complain(
    failed: &mut Vec<String>,
    directory: &Path,
    error: &std::io::Error,
    say: &mut impl FnMut(String),
) {
    let sentence = format!(
        "programs in {} are not scheduled against each other: {error}",
        directory.display()
    );
    say_once(failed, &sentence, say);
}

fn say_once(said: &mut Vec<String>, sentence: &str, say: &mut impl FnMut(String)) {
    if !said.iter().any(|it| it == sentence) {
        said.push(sentence.into());
        say(sentence.into());
    }
}
