//! Says on a terminal how far long work has come, and nothing anywhere else.
//!
//! One line of standard error is written over and in the end wiped out, so nothing of it stays before a result.
//! A thread renews the time in it: a step that takes minutes must not look like a hang. What else goes to standard
//! error meanwhile goes through [`aside`], which puts the line out of the way.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two looks of the line.
const TICK: Duration = Duration::from_millis(100);
const WIPE: &str = "\r\x1b[K";

/// The line that was begun last; sentences are written beside this one.
static LINE: Mutex<Weak<Shared>> = Mutex::new(Weak::new());

/// How far a piece of long work has come.
#[derive(Debug)]
pub struct Progress {
    line: Option<Arc<Shared>>,
    ticker: Option<JoinHandle<()>>,
}

struct Shared {
    line: Mutex<Line>,
    ends: Condvar,
}

struct Line {
    out: Box<dyn Write + Send>,
    began: Instant,
    words: String,
    /// What stands on the terminal, and since when.
    shown: Option<(String, Instant)>,
    over: bool,
}

impl Progress {
    /// Silent unless standard error is a terminal.
    #[must_use]
    pub fn on_stderr() -> Progress {
        let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        if !dumb && std::io::stderr().is_terminal() {
            Progress::on(Box::new(std::io::stderr()))
        } else {
            Progress::silent()
        }
    }

    /// Says nothing at all.
    #[must_use]
    pub fn silent() -> Progress {
        Progress { line: None, ticker: None }
    }

    fn on(out: Box<dyn Write + Send>) -> Progress {
        let line =
            Line { out, began: Instant::now(), words: String::new(), shown: None, over: false };
        let shared = Arc::new(Shared { line: Mutex::new(line), ends: Condvar::new() });
        *LINE.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&shared);
        Progress { line: Some(shared), ticker: None }
    }

    /// Says what is being done: the step `done` of `all`, counted from one. A single step is not counted.
    pub fn step(&mut self, what: &str, done: usize, all: usize) {
        let Some(shared) = &self.line else { return };
        let mut line = shared.lock();
        line.words = if all > 1 { format!("{what} {done} of {all}") } else { what.to_owned() };
        if line.shown.as_ref().is_none_or(|(_, since)| since.elapsed() >= TICK) {
            line.draw();
        }
        drop(line);
        if self.ticker.is_none() {
            let shared = Arc::clone(shared);
            let ticker = std::thread::Builder::new().name("apex-progress".into());
            // Without the thread the line is renewed by the steps alone.
            self.ticker = ticker.spawn(move || shared.tick()).ok();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let Some(shared) = self.line.take() else { return };
        let mut line = shared.lock();
        line.over = true;
        line.wipe();
        drop(line);
        shared.ends.notify_all();
        if let Some(ticker) = self.ticker.take() {
            let _ = ticker.join();
        }
    }
}

/// Writes something else to standard error: the line is wiped out before and comes back with its next look.
pub fn aside(write: impl FnOnce()) {
    let line = LINE.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
    match line {
        Some(shared) => {
            let mut line = shared.lock();
            line.wipe();
            write();
        }
        None => write(),
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tick(&self) {
        let mut line = self.lock();
        while !line.over {
            line.draw();
            let waited = self.ends.wait_timeout(line, TICK);
            line = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Line {
    fn draw(&mut self) {
        let words = format!("{}, {}", self.words, elapsed(self.began.elapsed()));
        if self.shown.as_ref().is_none_or(|(shown, _)| *shown != words) {
            // Without wrapping, a terminal narrower than the line cuts it, and one wipe still clears all of it.
            self.write(&format!("{WIPE}\x1b[?7l{words}\x1b[?7h"));
            self.shown = Some((words, Instant::now()));
        }
    }

    fn wipe(&mut self) {
        if self.shown.take().is_some() {
            self.write(WIPE);
        }
    }

    fn write(&mut self, text: &str) {
        // A terminal that went away is no reason to stop.
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Shared")
    }
}

/// Whole seconds: a tenth that runs would only catch the eye.
fn elapsed(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..60 => format!("{seconds} s"),
        seconds @ ..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A terminal that keeps what it was sent.
    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Paper {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn shown(words: &str) -> String {
        format!("{WIPE}\x1b[?7l{words}\x1b[?7h")
    }

    #[test]
    fn the_line_says_what_and_how_far_and_is_wiped_out() {
        let paper = Paper::default();
        let mut progress = Progress::on(Box::new(paper.clone()));
        progress.step("reading segment", 3, 10);
        assert_eq!(paper.text(), shown("reading segment 3 of 10, 0 s"));
        // The next step is shown at the next look, whenever that is.
        progress.step("reading segment", 4, 10);
        while !paper.text().contains("4 of 10") {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(progress);
        assert!(paper.text().ends_with(WIPE), "{:?}", paper.text());
    }

    #[test]
    fn a_single_step_is_not_counted_and_no_step_leaves_no_trace() {
        let paper = Paper::default();
        drop(Progress::on(Box::new(paper.clone())));
        assert_eq!(paper.text(), "");
        let mut progress = Progress::on(Box::new(paper.clone()));
        progress.step("judging", 1, 1);
        assert_eq!(paper.text(), shown("judging, 0 s"));
    }

    #[test]
    fn a_sentence_goes_where_the_line_stood() {
        let paper = Paper::default();
        let mut progress = Progress::on(Box::new(paper.clone()));
        progress.step("measuring", 1, 2);
        let mut other = paper.clone();
        // Another test may have begun a line of its own since: this is what `aside` does with the last one.
        let line = progress.line.as_ref().unwrap();
        *LINE.lock().unwrap() = Arc::downgrade(line);
        aside(|| other.write_all(b"a sentence\n").unwrap());
        let text = paper.text();
        assert!(text.contains(&format!("{WIPE}a sentence\n")), "{text:?}");
    }

    #[test]
    fn time_is_said_in_the_units_of_a_reader() {
        let of = |seconds| elapsed(Duration::from_secs(seconds));
        assert_eq!([of(0), of(59), of(200), of(7_260)], ["0 s", "59 s", "3 min 20 s", "2 h 1 min"]);
    }
}
