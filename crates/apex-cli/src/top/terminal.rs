//! The terminal while `top` draws on it.
//!
//! However `top` ends, the terminal is as it was: by a key, by an error, by a panic (ratatui's hook comes before the
//! message), and by a signal, for which a thread waits. The thread, and not the loop that draws, because the loop may
//! itself wait for a terminal that no longer answers.

use nix::sys::signal::{SigSet, Signal};
use ratatui::DefaultTerminal;
use ratatui::Frame;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

const ENDING: [Signal; 4] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT];
/// How long a signal waits for a picture that is being drawn.
const PATIENCE: Duration = Duration::from_millis(500);

/// The terminal, taken until this is dropped.
pub(super) struct Stage {
    terminal: DefaultTerminal,
    drawing: Arc<Mutex<()>>,
}

impl Stage {
    pub(super) fn take() -> io::Result<Stage> {
        let drawing = Arc::new(Mutex::new(()));
        end_by_signals(Arc::clone(&drawing))?;
        match ratatui::try_init() {
            Ok(terminal) => Ok(Stage { terminal, drawing }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    pub(super) fn draw(&mut self, paint: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        let _drawing = self.drawing.lock().unwrap_or_else(PoisonError::into_inner);
        self.terminal.draw(paint).map(drop)
    }

    /// What the user does next, if it is before `until`.
    pub(super) fn next(until: Instant) -> io::Result<Option<Event>> {
        let left = until.saturating_duration_since(Instant::now());
        if event::poll(left)? { event::read().map(Some) } else { Ok(None) }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // The hook has done it, and what it wrote since must not be overwritten.
        if !std::thread::panicking() {
            give_back();
        }
    }
}

fn give_back() {
    // A terminal that is gone needs nothing.
    let _ = ratatui::try_restore();
    let _ = execute!(io::stdout(), Show);
}

/// Holds the signals back from every thread that is made from here on, and lets one wait for them.
fn end_by_signals(drawing: Arc<Mutex<()>>) -> io::Result<()> {
    let mut signals = SigSet::empty();
    for signal in ENDING {
        signals.add(signal);
    }
    signals.thread_block()?;
    let wait = move || {
        let Ok(signal) = signals.wait() else { return };
        let _drawing = quiet(&drawing);
        give_back();
        let _ = signal_hook::low_level::emulate_default_handler(signal as i32);
    };
    std::thread::Builder::new().name("apex-signals".into()).spawn(wait).map(drop)
}

/// Waits for the end of a picture, but not for ever: the terminal may have stopped taking it.
fn quiet(drawing: &Mutex<()>) -> Option<MutexGuard<'_, ()>> {
    let until = Instant::now() + PATIENCE;
    loop {
        match drawing.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(guard)) => return Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() > until => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

#[cfg(test)]
#[path = "../../tests/support/pty.rs"]
#[allow(dead_code, reason = "the tests of the whole command use all of it")]
mod pty;

#[cfg(test)]
mod tests {
    use super::pty::{OnTerminal, Streams};
    use super::*;
    use std::process::Command;

    const CHILD: &str = "TEST_TOP_PANICS";

    /// Run by the test below, on a terminal of its own.
    #[test]
    fn a_picture_that_panics() {
        if std::env::var_os(CHILD).is_some() {
            let mut stage = Stage::take().unwrap();
            stage.draw(|_| panic!("no such picture")).unwrap();
        }
    }

    #[test]
    fn the_terminal_is_given_back_before_a_panic_speaks() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let name = concat!(module_path!(), "::a_picture_that_panics");
        let name = name.split_once("::").map_or(name, |(_, name)| name);
        command.args(["--exact", name, "--nocapture"]).env(CHILD, "1");
        let left = OnTerminal::start(&mut command, Streams::All).left();
        assert!(left.restored && !left.status.success());
        let (picture, after) = left.shown.split_once("\x1b[?1049l").unwrap();
        assert!(picture.contains("\x1b[?1049h"), "{picture:?}");
        assert!(after.contains("no such picture") && !after.contains("\x1b[?1049"), "{after:?}");
    }
}
