//! How apex speaks: a sentence to the user on standard error, a page that was asked for on standard output.
//!
//! Names, commands and paths in them are foreign: a terminal shows them and never obeys them. Where a document is to
//! stand alone on standard error, sentences are held back until it takes them in; where none comes in the end, they
//! are said.

use crate::progress::aside;
use apex_core::printable::printable;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);

fn held() -> MutexGuard<'static, Option<Vec<String>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One sentence to the user.
pub fn say(sentence: &str) {
    match held().as_mut() {
        Some(sentences) => sentences.push(sentence.to_owned()),
        None => write(sentence),
    }
}

/// Holds back what is said from here on.
pub fn hold() {
    *held() = Some(Vec::new());
}

/// What was held back; nothing is held back any more.
pub fn take_held() -> Vec<String> {
    held().take().unwrap_or_default()
}

/// Says what was held back: no document comes.
pub fn release() {
    take_held().iter().for_each(|sentence| write(sentence));
}

fn write(sentence: &str) {
    aside(|| {
        // A closed standard error is no reason to fail.
        let _ = writeln!(std::io::stderr(), "apex: {}", printable(sentence));
    });
}
