//! A folder of ours, and who has it: whoever holds the lock on the file `lock` in it.
//!
//! The rings of a session and the session itself lie in folders that belong to one `apex run` while it lives, and
//! then to the one command that finishes the session. Nothing else says who lives: see [`apex_core::alive`]. In the
//! file stands which folders belong together, and to which state folder, so that no command judges the sessions of
//! another.
//!
//! Who makes a folder can be killed, or be met by one who tidies, between any two steps. So a folder counts as had
//! only if the locked file still bears its name afterwards, and is made anew otherwise; and who tidies removes only
//! an empty folder (one step) or one that he has locked himself. Where a file system has no such locks nobody is
//! ever taken for dead, and what is left there stays.

use crate::document::document;
use apex_core::alive::{is_taken, take};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the locked file.
pub const LOCK_FILE: &str = "lock";

/// The folders of one session: the document in the locked file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Folders {
    /// Where its rings lie.
    pub rings: PathBuf,
    /// Where it is kept; null if it is not.
    pub session: Option<PathBuf>,
    /// The state folder whose commands look after it; null if it is not kept.
    pub state: Option<PathBuf>,
}

/// A folder that is ours for as long as this lives.
#[derive(Debug)]
pub struct Lease {
    folder: PathBuf,
    file: File,
    goes: bool,
}

impl Lease {
    /// Makes a folder, or takes one that is there.
    pub fn make(folder: &Path) -> io::Result<Lease> {
        // A second: one who tidies has the folder for two steps, on a busy machine for some hundredths of a second.
        const ATTEMPTS: u32 = 1000;
        for _ in 0..ATTEMPTS {
            let made = make_folder(folder)?;
            match Lease::of(folder, made, true) {
                Ok(Some(lease)) => return Ok(lease),
                // Somebody tidies here, or another session has the folder.
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::ResourceBusy.into())
    }

    /// Takes a folder whose owner is dead; none while anybody has it, or if it was never had.
    #[must_use]
    pub fn inherit(folder: &Path) -> Option<Lease> {
        Lease::of(folder, true, false).ok().flatten().filter(|lease| take(&lease.file).is_ok())
    }

    fn of(folder: &Path, goes: bool, anew: bool) -> io::Result<Option<Lease>> {
        let path = folder.join(LOCK_FILE);
        let mut how = File::options();
        how.read(true).write(true).create(anew).mode(0o600).custom_flags(nix::libc::O_NOFOLLOW);
        let file = how.open(&path)?;
        // Without locks on this file system it is had all the same: nobody can take it for dead.
        if !take(&file).unwrap_or(anew) {
            return Ok(None);
        }
        let is_there = fs::symlink_metadata(&path)?.ino() == file.metadata()?.ino();
        Ok(is_there.then(|| Lease { folder: folder.to_owned(), file, goes }))
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Says which folders belong together.
    pub fn note(&mut self, folders: &Folders) -> io::Result<()> {
        let text = serde_json::to_string(folders)?;
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(text.as_bytes())
    }

    /// Gives the folder back as it stands.
    pub fn release(self) {
        // A lock without its file says the same as no lock: nobody has the folder.
        let _ = fs::remove_file(self.folder.join(LOCK_FILE));
    }

    /// Removes what lies in the folder, and the folder unless it was there before it was made.
    pub fn discard(self) {
        for path in fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|it| it.path()) {
            if path.ends_with(LOCK_FILE) {
                continue;
            }
            let is_folder = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
            let _ = if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
        let _ = fs::remove_file(self.folder.join(LOCK_FILE));
        if self.goes {
            // Whoever has taken it since has put a lock there, and keeps it.
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

/// Whether somebody has a folder.
#[must_use]
pub fn is_had(folder: &Path) -> bool {
    match File::open(folder.join(LOCK_FILE)) {
        Ok(file) => is_taken(&file).unwrap_or(true),
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

/// The folders that belong together with this one.
#[must_use]
pub fn folders(folder: &Path) -> Option<Folders> {
    document(&folder.join(LOCK_FILE)).ok()
}

/// Makes a directory and its parents; what is made is private to its owner.
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Whether the folder is new.
fn make_folder(folder: &Path) -> io::Result<bool> {
    if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_private_directory(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_owner_and_then_one_heir() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("deep/er");
        let lease = Lease::make(&folder).unwrap();
        assert!(is_had(&folder));
        assert!(Lease::inherit(&folder).is_none());
        assert_eq!(Lease::make(&folder).unwrap_err().kind(), ErrorKind::ResourceBusy);
        drop(lease);
        assert!(!is_had(&folder));
        let heir = Lease::inherit(&folder).unwrap();
        assert!(is_had(&folder) && Lease::inherit(&folder).is_none());
        fs::write(folder.join("file"), "").unwrap();
        heir.discard();
        assert!(!folder.exists());
        fs::create_dir(&folder).unwrap();
        Lease::make(&folder).unwrap().discard();
        assert!(folder.exists(), "it was there before");
        Lease::make(&folder).unwrap().release();
        assert!(!is_had(&folder) && Lease::inherit(&folder).is_none());
    }

    #[test]
    fn a_folder_that_is_tidied_away_while_it_is_made_is_made_anew() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("folder");
        for _ in 0..300 {
            std::thread::scope(|scope| {
                // Each command tidies once. One that did it without end would win against every attempt: the kernel
                // hands it the folder above as soon as the new one is made.
                scope.spawn(|| {
                    let _ = fs::remove_dir(&folder);
                    Lease::inherit(&folder).into_iter().for_each(Lease::discard);
                });
                let lease = Lease::make(&folder).unwrap();
                assert!(is_had(&folder), "whoever has it has what bears its name");
                lease.release();
            });
        }
    }
}
