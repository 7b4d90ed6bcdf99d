//! Every reader of what apex did not write itself, or wrote to a place where others may write.

mod config;
mod dashboard;
mod image;
mod models;
mod ptx;
mod rings;
mod session;
mod tuning;

use anyhow::{Context, Result};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Reads one broken input, given the name of the example it was made of; whether it was taken for good.
pub(crate) type Read = Box<dyn FnMut(&str, &[u8]) -> bool>;

/// A reader and how it is fed.
pub(crate) struct Reader {
    pub(crate) name: &'static str,
    /// Puts good examples into a folder.
    pub(crate) gather: fn(&Path) -> Result<()>,
    /// Variables that its process needs from its start; the folder is its own.
    pub(crate) variables: fn(&Path) -> Vec<(&'static str, OsString)>,
    /// Makes the reader; the folder is for what it needs as files.
    pub(crate) open: fn(&Examples, &Path) -> Result<Read>,
    /// Pieces that mean something to it.
    pub(crate) words: &'static [&'static str],
    /// Cases of one process: some readers keep something of each.
    pub(crate) cases: u64,
}

pub(crate) const READERS: &[Reader] = &[
    image::READER,
    ptx::READER,
    session::READER,
    rings::READER,
    models::READER,
    config::READER,
    tuning::READER,
    dashboard::READER,
];

/// Good inputs by their names.
pub(crate) struct Examples {
    pub(crate) files: Vec<(String, Vec<u8>)>,
}

impl Examples {
    /// All files of a folder.
    pub(crate) fn read(folder: &Path) -> Result<Examples> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let name = entry.file_name().to_string_lossy().into_owned();
                files.push((name, fs::read(entry.path())?));
            }
        }
        files.sort();
        Ok(Examples { files })
    }

    /// Writes all of them into a folder.
    fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        for (name, bytes) in &self.files {
            fs::write(folder.join(name), bytes)?;
        }
        Ok(())
    }
}

/// What documents in JSON stumble over.
const JSON_WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "null",
    "true",
    "-1",
    "0",
    "1e308",
    "-1e308",
    "1e-400",
    "NaN",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775808",
    "4294967296",
    "{}",
    "[]",
    "\"\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\u{1b}[2J",
    "[[[[[[[[",
];

/// A file of the project.
fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Copies files of the project into a folder.
fn copy(folder: &Path, paths: &[&str]) -> Result<()> {
    for path in paths {
        let from = project(path);
        let name = from.file_name().unwrap_or_default();
        fs::copy(&from, folder.join(name)).with_context(|| from.display().to_string())?;
    }
    Ok(())
}

fn no_variables(_: &Path) -> Vec<(&'static str, OsString)> {
    Vec::new()
}
