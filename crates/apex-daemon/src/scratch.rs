//! Folders for what a command needs only while it runs; they go when it ends, also by Ctrl-C.
//!
//! The place of temporary files is everybody's: under a name that can be guessed another user makes the folder first,
//! and what is compiled there is his. So a name is left to chance, a folder that exists is never taken, and what is
//! made is its owner's alone. A signal drops nothing: a thread waits for it, removes what is listed, and lets it do what
//! it does. The list is locked while a folder is made or removed, so none is missed.

use crate::lease::Lease;
use crate::rings_place;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tempfile::TempDir;

/// What must be removed if a signal ends this process.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// How often a folder is removed into which a child may still write.
const REMOVALS: usize = 100;

/// A new folder of this user alone, for who looks after signals himself.
///
/// # Errors
///
/// When it cannot be made.
pub fn private_folder(place: &Path) -> io::Result<TempDir> {
    let mine = Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix("apex-").permissions(mine).tempdir_in(place)
}

/// A folder that goes with this, or with the process.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    /// Of rings: other commands leave a folder alone that somebody has.
    _lease: Option<Lease>,
}

impl Scratch {
    /// A new one among the temporary files.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn new() -> io::Result<Scratch> {
        Scratch::within(&std::env::temp_dir())
    }

    /// A new one in a folder.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn within(place: &Path) -> io::Result<Scratch> {
        Scratch::made(|| Ok((private_folder(place)?.keep(), None)))
    }

    /// One for the rings of a program: at one of the places, or else beside.
    ///
    /// # Errors
    ///
    /// When none of them can hold it.
    pub fn rings(places: &[PathBuf], beside: &Path, id: &str) -> io::Result<Scratch> {
        Scratch::made(|| {
            let lease = rings_place::create(places, Some(beside), id)?;
            Ok((lease.folder().to_owned(), Some(lease)))
        })
    }

    fn made(make: impl FnOnce() -> io::Result<(PathBuf, Option<Lease>)>) -> io::Result<Scratch> {
        watch()?;
        let mut folders = folders();
        let (folder, lease) = make()?;
        folders.push(folder.clone());
        Ok(Scratch { folder, _lease: lease })
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut folders = folders();
        folders.retain(|folder| *folder != self.folder);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn folders() -> MutexGuard<'static, Vec<PathBuf>> {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to wait for signals that end a process, but for those that it was told to ignore.
fn watch() -> io::Result<()> {
    static WATCHING: OnceLock<Result<(), String>> = OnceLock::new();
    let begin = || -> io::Result<()> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = ignored(&status);
        let heeded = [SIGHUP, SIGINT, SIGTERM].into_iter();
        let mut signals = Signals::new(heeded.filter(|signal| ignored >> (signal - 1) & 1 == 0))?;
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            if let Some(signal) = signals.forever().next() {
                // Held to the end: nothing is made any more.
                let folders = folders();
                folders.iter().for_each(|folder| remove(folder));
                let _ = emulate_default_handler(signal);
            }
        })?;
        Ok(())
    };
    let begun = WATCHING.get_or_init(|| begin().map_err(|error| error.to_string()));
    begun.clone().map_err(io::Error::other)
}

/// The signals that a process ignores, a bit each, from what the kernel says of it.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Children end after this process, and what they write meanwhile must go too.
fn remove(folder: &Path) {
    for _ in 0..REMOVALS {
        if std::fs::remove_dir_all(folder).is_ok() || !folder.exists() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_its_owners_alone_and_goes() {
        let (one, other) = (Scratch::new().unwrap(), Scratch::new().unwrap());
        assert_ne!(one.path(), other.path());
        let mode = std::fs::metadata(one.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        std::fs::write(one.path().join("file"), "text").unwrap();
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && other.path().exists());
    }

    #[test]
    fn what_the_kernel_says_of_ignored_signals_is_read() {
        assert_eq!(ignored("Name:\tapex\nSigIgn:\t0000000000001001\n") >> (SIGHUP - 1) & 1, 1);
        assert_eq!(ignored(""), 0);
    }
}
