//! Writing inside a loop that cannot return an error.

use std::io;

/// Keeps the first error of a write inside a loop that cannot return it.
#[derive(Default)]
pub(super) struct Outcome(Option<io::Error>);

impl Outcome {
    pub(super) fn run(&mut self, write: impl FnOnce() -> io::Result<()>) {
        if self.0.is_none() {
            self.0 = write().err();
        }
    }

    pub(super) fn result(self) -> io::Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}
