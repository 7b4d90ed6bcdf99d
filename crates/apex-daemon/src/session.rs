//! Where sessions lie, how they are named, found and thrown away.
//!
//! A session is a directory of its own, private to its owner. Those in the state directory are subject to
//! retention; one that was put elsewhere with `-o` belongs to the user. The index names every session
//! that was made, so that those elsewhere are found by id too; it is a convenience: where it is
//! missing or damaged the directories themselves are read.

use crate::Error;
use crate::read::document;
use crate::store::write_document;
use crate::summarise::Frame;
use crate::summary::{Exit, OwnSummary, SCHEMA};
use apex_core::knobs::Knobs;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The document `session.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: u64,
    /// Version of the apex that wrote it.
    pub apex: String,
    /// The session's id.
    pub id: String,
    /// The command that was run.
    pub command: Vec<String>,
    /// When it was started, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// When it ended; null while it runs, or after apex was killed.
    pub ended_unix_ns: Option<u64>,
    /// How the command ended.
    pub exit: Option<Exit>,
    /// Names of the devices.
    pub devices: Vec<String>,
    /// CUDA version of the driver.
    pub driver: Option<String>,
    /// Our own cost and losses.
    pub own: OwnSummary,
    /// Sentences for the user.
    pub notes: Vec<String>,
}

impl Record {
    /// What a summary made anew takes from here.
    #[must_use]
    pub fn frame(&self, more_notes: Vec<String>) -> Frame {
        let ended = self.ended_unix_ns.unwrap_or(self.started_unix_ns);
        Frame {
            session: self.id.clone(),
            command: self.command.clone(),
            started_unix_ns: self.started_unix_ns,
            wall_ns: ended.saturating_sub(self.started_unix_ns),
            exit: self.exit,
            own: self.own.clone(),
            notes: self.notes.iter().cloned().chain(more_notes).collect(),
            most_rows: MOST_ROWS,
        }
    }
}

/// Rows of each table in a summary on disk.
pub const MOST_ROWS: usize = 10_000;

/// The place of the kept sessions.
#[derive(Clone, Debug)]
pub struct Sessions {
    directory: PathBuf,
    kept: u64,
    bytes: u64,
}

/// One line of the index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The session's id.
    pub id: String,
    /// Where it lies.
    pub directory: PathBuf,
    /// The command.
    pub command: Vec<String>,
    /// When it was started, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// How it ended.
    pub exit: Option<Exit>,
}

impl Sessions {
    /// The place the knobs name, or the user's state directory.
    #[must_use]
    pub fn of(knobs: &Knobs, lookup: impl Fn(&str) -> Option<PathBuf>) -> Sessions {
        let directory = knobs.state.clone().unwrap_or_else(|| {
            let state = lookup("XDG_STATE_HOME").filter(|path| path.is_absolute());
            let home = || lookup("HOME").unwrap_or_else(|| PathBuf::from("/tmp"));
            state.unwrap_or_else(|| home().join(".local/state")).join("apex/sessions")
        });
        Sessions { directory, kept: knobs.sessions_kept, bytes: knobs.sessions_bytes }
    }

    /// Where the sessions lie.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes the directory of a new session: `elsewhere` if the user chose one.
    pub fn create(&self, id: &str, elsewhere: Option<&Path>) -> Result<PathBuf, Error> {
        let directory = elsewhere.map_or_else(|| self.directory.join(id), Path::to_owned);
        if fs::read_dir(&directory).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(Error::Occupied(directory));
        }
        create_private_directory(&directory).map_err(Error::write(&directory))?;
        // A directory that was there already may be open to others: the files in it are not.
        Ok(directory)
    }

    /// All sessions that can be found, oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<Entry> {
        let mut entries = self.index();
        for directory in self.directories() {
            if entries.iter().any(|entry| entry.directory == directory) {
                continue;
            }
            if let Ok(record) = document::<Record>(&directory.join("session.json")) {
                entries.push(entry_of(&record, &directory));
            }
        }
        entries.retain(|entry| entry.directory.join("session.json").exists());
        entries.sort_by(|a, b| (a.started_unix_ns, &a.id).cmp(&(b.started_unix_ns, &b.id)));
        entries
    }

    /// The directory of a session: a path, an id or its beginning; the latest for nothing.
    pub fn find(&self, name: Option<&str>) -> Result<PathBuf, Error> {
        let entries = self.list();
        let Some(name) = name else {
            let latest = entries.last().map(|entry| entry.directory.clone());
            return latest.ok_or_else(|| Error::NoSessions(self.directory.clone()));
        };
        let path = Path::new(name);
        if path.join("session.json").exists() {
            return Ok(path.to_owned());
        }
        let found: Vec<&Entry> =
            entries.iter().filter(|entry| entry.id.starts_with(name)).collect();
        match found[..] {
            [] => Err(Error::NoSuchSession(name.into(), self.directory.clone())),
            [entry] => Ok(entry.directory.clone()),
            _ => match found.iter().find(|entry| entry.id == name) {
                Some(entry) => Ok(entry.directory.clone()),
                None => {
                    let ids = found.iter().map(|entry| entry.id.clone()).collect();
                    Err(Error::Ambiguous(name.into(), ids))
                }
            },
        }
    }

    /// Enters a session in the index.
    pub fn enter(&self, record: &Record, directory: &Path) -> Result<(), Error> {
        create_private_directory(&self.directory).map_err(Error::write(&self.directory))?;
        let _lock = self.lock()?;
        let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
        let mut entries = self.index();
        entries.retain(|entry| entry.id != record.id && entry.directory.exists());
        entries.push(entry_of(record, &directory));
        write_document(&self.index_path(), &entries)
    }

    /// Throws the oldest sessions away until the rest is within the limits. Never the newest, and
    /// none that is not finished: it may still be written.
    pub fn retain(&self) -> Result<Vec<String>, Error> {
        let _lock = self.lock()?;
        let mut finished: Vec<(u64, PathBuf, u64)> = Vec::new();
        for directory in self.directories() {
            let record = document::<Record>(&directory.join("session.json")).unwrap_or_default();
            let readable = record.schema == SCHEMA;
            if readable && record.ended_unix_ns.is_none() {
                continue;
            }
            let started = if readable { record.started_unix_ns } else { changed_ns(&directory) };
            finished.push((started, directory.clone(), size_of(&directory)));
        }
        finished.sort();
        let mut bytes: u64 = finished.iter().map(|(_, _, bytes)| bytes).sum();
        let mut removed = Vec::new();
        let count = finished.len() as u64;
        for (nth, (_, directory, size)) in (0..).zip(&finished) {
            let last = nth + 1 == count;
            if last || (count - nth <= self.kept.max(1) && bytes <= self.bytes) {
                break;
            }
            fs::remove_dir_all(directory).map_err(Error::write(directory))?;
            bytes = bytes.saturating_sub(*size);
            removed.push(directory.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
        Ok(removed)
    }

    fn index(&self) -> Vec<Entry> {
        document(&self.index_path()).unwrap_or_default()
    }

    fn index_path(&self) -> PathBuf {
        self.directory.join("index.json")
    }

    fn lock(&self) -> Result<File, Error> {
        let path = self.directory.join("lock");
        let file = File::options().create(true).append(true).mode(0o600).open(&path);
        file.and_then(|file| file.lock().map(|()| file)).map_err(Error::write(&path))
    }

    fn directories(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten();
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        paths.filter(|path| path.is_dir()).collect()
    }
}

/// A new id: the moment in UTC and the process, so that ids sort by time and never meet.
#[must_use]
pub fn new_id(unix_ns: u64, pid: u32) -> String {
    let (year, month, day, hour, minute, second) = calendar(unix_ns / 1_000_000_000);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}-{pid}")
}

/// Makes a directory and its parents; what is made is private to its owner.
pub fn create_private_directory(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn entry_of(record: &Record, directory: &Path) -> Entry {
    Entry {
        id: record.id.clone(),
        directory: directory.to_owned(),
        command: record.command.clone(),
        started_unix_ns: record.started_unix_ns,
        exit: record.exit,
    }
}

fn size_of(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len())).sum()
}

fn changed_ns(path: &Path) -> u64 {
    let seconds = fs::metadata(path).map_or(0, |metadata| metadata.mtime());
    u64::try_from(seconds).unwrap_or(0) * 1_000_000_000
}

/// Year, month, day, hour, minute, second of a moment in UTC.
#[must_use]
pub fn calendar(unix_seconds: u64) -> (u64, u64, u64, u64, u64, u64) {
    let (days, rest) = (unix_seconds / 86_400, unix_seconds % 86_400);
    // Years begin in March here, so that the leap day is the last of its year; 719,468 days lie between
    // March of the year 0 and 1970, 146,097 in 400 years.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day, rest / 3_600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(directory: &Path, kept: u64, bytes: u64) -> Sessions {
        Sessions { directory: directory.to_owned(), kept, bytes }
    }

    fn make(sessions: &Sessions, id: &str, started: u64, ended: Option<u64>) -> PathBuf {
        let directory = sessions.create(id, None).unwrap();
        let record = Record {
            schema: SCHEMA,
            id: id.into(),
            started_unix_ns: started,
            ended_unix_ns: ended,
            ..Record::default()
        };
        write_document(&directory.join("session.json"), &record).unwrap();
        sessions.enter(&record, &directory).unwrap();
        directory
    }

    #[test]
    fn the_oldest_go_first_and_running_ones_stay() {
        let place = tempfile::tempdir().unwrap();
        let sessions = sessions(place.path(), 2, 1 << 30);
        make(&sessions, "a-running", 1, None);
        for (nth, id) in ["b", "c", "d", "e"].into_iter().enumerate() {
            make(&sessions, id, 10 + nth as u64, Some(100));
        }
        assert_eq!(sessions.retain().unwrap(), ["b", "c"]);
        let left: Vec<String> = sessions.list().into_iter().map(|entry| entry.id).collect();
        assert_eq!(left, ["a-running", "d", "e"]);
    }

    #[test]
    fn bytes_are_limited_but_the_newest_stays() {
        let place = tempfile::tempdir().unwrap();
        let sessions = sessions(place.path(), 50, 1);
        make(&sessions, "a", 1, Some(2));
        make(&sessions, "b", 3, Some(4));
        assert_eq!(sessions.retain().unwrap(), ["a"]);
    }

    #[test]
    fn a_session_is_found_by_id_prefix_and_path() {
        let place = tempfile::tempdir().unwrap();
        let sessions = sessions(place.path(), 50, 1 << 30);
        assert!(sessions.find(None).is_err());
        let one = make(&sessions, "20260101-one", 1, Some(2));
        let two = make(&sessions, "20260102-two", 3, Some(4));
        assert_eq!(sessions.find(None).unwrap(), two);
        assert_eq!(sessions.find(Some("20260101")).unwrap(), one);
        assert_eq!(sessions.find(one.to_str()).unwrap(), one);
        assert!(matches!(sessions.find(Some("2026")), Err(Error::Ambiguous(..))));
        assert!(matches!(sessions.find(Some("x")), Err(Error::NoSuchSession(..))));
        fs::write(place.path().join("index.json"), "{").unwrap();
        assert_eq!(sessions.list().len(), 2);
    }

    #[test]
    fn directories_are_private() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let sessions = sessions(&place.path().join("deep/er"), 50, 1 << 30);
        let directory = make(&sessions, "a", 1, Some(2));
        for path in [sessions.directory(), &directory] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
        }
        let document = fs::metadata(directory.join("session.json")).unwrap();
        assert_eq!(document.permissions().mode() & 0o777, 0o600);
        assert!(matches!(sessions.create("a", None), Err(Error::Occupied(_))));
    }

    #[test]
    fn ids_are_dates() {
        assert_eq!(new_id(0, 7), "19700101-000000-7");
        assert_eq!(new_id(951_782_400_000_000_000, 7), "20000229-000000-7");
        assert_eq!(new_id(1_794_711_845_000_000_000, 7), "20261115-030405-7");
    }
}
