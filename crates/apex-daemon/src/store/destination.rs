//! Where the files of a session go: into its directory or, where that takes none at the end, aside.
//!
//! Aside is a folder beside the rings, mostly in memory, which has room when a disk is full. What lies there is
//! a part of the session under its final names: the next apex command that finds room moves it
//! ([`crate::recover`]). Whoever moves may be killed at any moment: a file leaves the folder when it is whole in
//! the other, and `session.json`, which says that a session has ended, is the last to come and to go.

use super::parquet_file::write_parquet;
use crate::Error;
use crate::lease::create_private_directory;
use crate::whole_file::write_whole;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the folder beside the rings.
const ASIDE: &str = "unkept";
/// Bytes put aside at most: rings need the memory too.
const MOST_BYTES: u64 = 64 << 20;

/// Where the files of one session go.
#[derive(Clone, Debug)]
pub struct Destination {
    pub(crate) directory: PathBuf,
    aside: PathBuf,
}

/// Where something lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lies {
    InPlace,
    Aside,
    Nowhere,
}

impl Destination {
    /// For a session in `directory` whose rings lie in `rings`.
    #[must_use]
    pub fn of(directory: &Path, rings: &Path) -> Destination {
        Destination { directory: directory.to_owned(), aside: rings.join(ASIDE) }
    }

    /// Writes files into the session's directory, or else aside; says why not there.
    pub(crate) fn put(&self, write: impl Fn(&Path) -> Result<(), Error>) -> (Lies, Option<Error>) {
        match write(&self.directory) {
            Ok(()) => (Lies::InPlace, None),
            Err(error) if self.put_aside(write) => (Lies::Aside, Some(error)),
            Err(error) => (Lies::Nowhere, Some(error)),
        }
    }

    /// Writes files aside; says whether they lie there now.
    pub(crate) fn put_aside(&self, write: impl Fn(&Path) -> Result<(), Error>) -> bool {
        let made = create_private_directory(&self.aside).is_ok();
        made && bytes_in(&self.aside) <= MOST_BYTES && write(&self.aside).is_ok()
    }

    /// Moves what was put aside into the session's directory.
    pub(crate) fn settle(&self) -> Result<(), Error> {
        let Ok(entries) = fs::read_dir(&self.aside) else { return Ok(()) };
        let mut names: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
        names.sort_by_key(|name| (name == "session.json", name.clone()));
        create_private_directory(&self.directory).map_err(Error::write(&self.directory))?;
        for name in names {
            let (from, to) = (self.aside.join(&name), self.directory.join(&name));
            let end = from.extension().unwrap_or_default();
            let moved = || -> Result<(), Error> {
                let bytes = fs::read(&from).map_err(Error::read(&from))?;
                if end == "parquet" { write_parquet(&to, &bytes) } else { write_whole(&to, &bytes) }
            };
            // The digests are noted anew, and what was being written when apex was killed is no file.
            if end != "part" && name != "files.json" {
                moved()?;
            }
            fs::remove_file(&from).map_err(Error::write(&from))?;
        }
        fs::remove_dir(&self.aside).or_else(unless_gone).map_err(Error::write(&self.aside))
    }
}

fn unless_gone(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn bytes_in(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len())).sum()
}
