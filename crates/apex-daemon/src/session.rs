//! Where sessions lie, how they are named, found and thrown away.
//!
//! A session is a directory of its own, private to its owner. Those in the state directory are subject to
//! retention; one that was put elsewhere with `-o` belongs to the user, and so does whatever else lies in the state
//! directory: only what bears a session's name and says so itself is ever removed. The index names every session
//! that was made, so that those elsewhere are found by id too; it is a convenience: where it is
//! missing or damaged the directories themselves are read.

use crate::Error;
use crate::document::{document, write_document};
pub use crate::lease::create_private_directory;
use crate::lease::{LOCK_FILE, Lease, folders, is_had};
use crate::summarise::Frame;
use crate::summary::{Exit, FastSummary, OwnSummary, UnderWay};
use apex_core::knobs::Knobs;
use nix::unistd::{Uid, User};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The document `session.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`crate::summary::SCHEMA`].
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
    /// Calls that had not returned at the end of their process.
    #[serde(default)]
    pub under_way: Vec<UnderWay>,
    /// Our own cost and losses.
    pub own: OwnSummary,
    /// What `--fast` did; null where nothing was switched on.
    #[serde(default)]
    pub fast: Option<FastSummary>,
    /// Processes of which nothing is recorded, and why.
    #[serde(default)]
    pub unrecorded: Vec<String>,
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
            under_way: self.under_way.clone(),
            own: self.own.clone(),
            fast: self.fast.clone(),
            unrecorded: self.unrecorded.clone(),
            notes: self.notes.iter().cloned().chain(more_notes).collect(),
            most_rows: MOST_ROWS,
        }
    }
}

/// Rows of each table in a summary on disk.
pub const MOST_ROWS: usize = 10_000;

/// The place of the kept sessions.
#[derive(Clone, Debug)]
pub struct KeptSessions {
    /// None for a user without a home.
    directory: Option<PathBuf>,
    /// Where the user's own directories begin; none where the user named the place.
    base: Option<PathBuf>,
    kept: u64,
    bytes: u64,
}

/// The file of a session that retention leaves alone.
const PIN_FILE: &str = "pinned";
/// Names the newest session wherever a session is named.
const LATEST: &str = "latest";

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

/// A session as it is listed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Listed {
    /// Its line of the index.
    #[serde(flatten)]
    pub entry: Entry,
    /// It runs.
    pub running: bool,
    /// From its start to its end; null while it runs, or after apex was killed.
    pub duration_ns: Option<u64>,
    /// Bytes on disk.
    pub bytes: u64,
    /// Retention leaves it alone.
    pub pinned: bool,
}

impl KeptSessions {
    /// The place the knobs name, or the user's state directory. Without variables the password database knows the
    /// home.
    #[must_use]
    pub fn of(knobs: &Knobs, lookup: impl Fn(&str) -> Option<PathBuf>) -> KeptSessions {
        KeptSessions::in_home(knobs, lookup, || Some(User::from_uid(Uid::effective()).ok()??.dir))
    }

    fn in_home(
        knobs: &Knobs,
        lookup: impl Fn(&str) -> Option<PathBuf>,
        home_of_user: impl FnOnce() -> Option<PathBuf>,
    ) -> KeptSessions {
        let named = |name: &str| lookup(name).filter(|path| path.is_absolute());
        let below = |base: PathBuf, rest: &str| (base.join(rest), Some(base));
        let place = match &knobs.state {
            Some(directory) => Some((directory.clone(), None)),
            None => {
                named("XDG_STATE_HOME").map(|base| below(base, "apex/sessions")).or_else(|| {
                    let home =
                        named("HOME").or_else(home_of_user).filter(|path| path.is_absolute())?;
                    Some(below(home, ".local/state/apex/sessions"))
                })
            }
        };
        let (directory, base) = place.unzip();
        let base = base.flatten();
        KeptSessions { directory, base, kept: knobs.sessions_kept, bytes: knobs.sessions_bytes.0 }
    }

    /// Where the sessions lie; none for a user without a home.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// The same, made if it is not there; none where it cannot be, or is not this user's own.
    #[must_use]
    pub fn own_place(&self) -> Option<&Path> {
        self.own_directory().ok()
    }

    /// Makes the directory of a new session, `elsewhere` if the user chose one. It is had as long as the answer lives.
    pub fn create(&self, id: &str, elsewhere: Option<&Path>) -> Result<Lease, Error> {
        let directory = match elsewhere {
            Some(directory) => directory.to_owned(),
            None => self.own_directory()?.join(id),
        };
        if is_occupied(&directory) {
            return Err(Error::Occupied(directory));
        }
        // A directory that was there already may be open to others: the files in it are not.
        let lease = Lease::make(&directory).map_err(|error| match error.kind() {
            ErrorKind::ResourceBusy => Error::Occupied(directory.clone()),
            _ => Error::Write(directory.clone(), error),
        })?;
        if is_occupied(&directory) {
            lease.release();
            return Err(Error::Occupied(directory));
        }
        Ok(lease)
    }

    /// The state directory, made if it is not there. Below a home every part of its path must be this user's own:
    /// where anybody may write, another may have made it first.
    fn own_directory(&self) -> Result<&Path, Error> {
        let directory = self.directory.as_deref().ok_or(Error::Nowhere)?;
        let base = self.base.as_deref().unwrap_or(directory);
        let own = Uid::effective().as_raw();
        let is_own = |path: &Path| {
            let found = [fs::symlink_metadata(path), fs::metadata(path)];
            found.iter().all(|found| found.as_ref().is_ok_and(|found| found.uid() == own))
        };
        let parts: Vec<&Path> = directory.ancestors().take_while(|path| *path != base).collect();
        create_private_directory(base).map_err(Error::write(base))?;
        for path in parts.into_iter().rev() {
            create_private_directory(path).map_err(Error::write(path))?;
            if !is_own(path) {
                return Err(Error::NotOwn(path.to_owned()));
            }
        }
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

    /// All sessions with what their directories tell, oldest first.
    #[must_use]
    pub fn listed(&self) -> Vec<Listed> {
        let listed = |entry: Entry| {
            let record = document::<Record>(&entry.directory.join("session.json")).ok();
            let ended = record.and_then(|record| record.ended_unix_ns);
            Listed {
                duration_ns: ended.map(|ended| ended.saturating_sub(entry.started_unix_ns)),
                running: ended.is_none() && is_had(&entry.directory),
                bytes: size_of(&entry.directory),
                pinned: is_pinned(&entry.directory),
                entry,
            }
        };
        self.list().into_iter().map(listed).collect()
    }

    /// The directory of a session: a path, an id or its beginning; the newest for `latest` and for nothing.
    pub fn find(&self, name: Option<&str>) -> Result<PathBuf, Error> {
        let entries = self.list();
        let place = || self.directory.clone().ok_or(Error::Nowhere);
        let Some(name) = name.filter(|name| *name != LATEST) else {
            let latest = entries.last().map(|entry| entry.directory.clone());
            return latest.map_or_else(|| Err(Error::NoSessions(place()?)), Ok);
        };
        let path = Path::new(name);
        if path.join("session.json").exists() {
            return Ok(path.to_owned());
        }
        let found: Vec<&Entry> =
            entries.iter().filter(|entry| entry.id.starts_with(name)).collect();
        match found[..] {
            [] => Err(Error::NoSuchSession(name.into(), place()?)),
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

    /// Keeps retention away from a session, or no longer.
    pub fn pin(&self, name: &str, pinned: bool) -> Result<PathBuf, Error> {
        let session = self.find(Some(name))?;
        let path = session.join(PIN_FILE);
        let done = if pinned {
            File::options().create(true).append(true).mode(0o600).open(&path).map(drop)
        } else {
            fs::remove_file(&path).or_else(|error| match error.kind() {
                ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            })
        };
        done.map_err(Error::write(&path))?;
        Ok(session)
    }

    /// Enters a session in the index, where there is a place for one.
    pub fn enter(&self, record: &Record, directory: &Path) -> Result<(), Error> {
        let place = match self.own_directory() {
            Err(Error::Nowhere | Error::NotOwn(_)) => return Ok(()),
            other => other?,
        };
        let _lock = lock(place)?;
        let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
        let mut entries = self.index();
        entries.retain(|entry| entry.id != record.id && entry.directory.exists());
        entries.push(entry_of(record, &directory));
        write_document(&place.join(INDEX_FILE), &entries)
    }

    /// Throws the oldest sessions away until the rest is within the limits. Never the newest, none that is
    /// pinned, and none that is not finished: it may still be written. What is no session does not count.
    pub fn retain(&self) -> Result<Vec<String>, Error> {
        let place = match self.own_directory() {
            Err(Error::Nowhere | Error::NotOwn(_)) => return Ok(Vec::new()),
            other => other?,
        };
        let _lock = lock(place)?;
        let mut finished: Vec<(u64, String, u64)> = Vec::new();
        for directory in self.directories() {
            if let Some(record) = own_record(&directory)
                && record.ended_unix_ns.is_some()
                && !is_pinned(&directory)
            {
                finished.push((record.started_unix_ns, record.id, size_of(&directory)));
            }
        }
        finished.sort();
        let mut bytes: u64 = finished.iter().map(|(_, _, bytes)| bytes).sum();
        let mut removed = Vec::new();
        let count = finished.len() as u64;
        for (nth, (_, id, size)) in (0..).zip(finished) {
            let last = nth + 1 == count;
            if last || (count - nth <= self.kept.max(1) && bytes <= self.bytes) {
                break;
            }
            let directory = place.join(&id);
            fs::remove_dir_all(&directory).map_err(Error::write(&directory))?;
            bytes = bytes.saturating_sub(size);
            removed.push(id);
        }
        Ok(removed)
    }

    fn index(&self) -> Vec<Entry> {
        let place = self.directory.as_deref();
        place.and_then(|place| document(&place.join(INDEX_FILE)).ok()).unwrap_or_default()
    }

    /// Directories in the state directory, whatever they are.
    pub(crate) fn directories(&self) -> Vec<PathBuf> {
        let entries = self.directory.as_deref().and_then(|place| fs::read_dir(place).ok());
        let paths = entries.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        paths.filter(|path| path.is_dir()).collect()
    }
}

const INDEX_FILE: &str = "index.json";

/// Keeps other commands from changing the index, and from throwing sessions away.
fn lock(place: &Path) -> Result<File, Error> {
    let path = place.join("lock");
    let file = File::options().create(true).append(true).mode(0o600).open(&path);
    file.and_then(|file| file.lock().map(|()| file)).map_err(Error::write(&path))
}

/// A new id: the moment in UTC and the process, so that ids sort by time and never meet.
#[must_use]
pub fn new_id(unix_ns: u64, pid: u32) -> String {
    let (year, month, day, hour, minute, second) = calendar(unix_ns / 1_000_000_000);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}-{pid}")
}

/// Whether a name has the form of [`new_id`].
#[must_use]
pub fn is_id(name: &str) -> bool {
    let parts: Vec<&str> = name.split('-').collect();
    let lengths = matches!(parts[..], [date, time, pid] if date.len() == 8 && time.len() == 6 && !pid.is_empty());
    lengths && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether anything lies in a directory but our lock of a session that was killed before it began.
fn is_occupied(directory: &Path) -> bool {
    let is_ours = || {
        let lock = directory.join(LOCK_FILE);
        fs::metadata(&lock).is_ok_and(|found| found.len() == 0) || folders(directory).is_some()
    };
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.filter_map(Result::ok).any(|entry| entry.file_name() != LOCK_FILE || !is_ours())
}

/// The record of a session that bears its id, reached through no link.
fn own_record(directory: &Path) -> Option<Record> {
    let path = directory.join("session.json");
    let is_plain = fs::symlink_metadata(directory).is_ok_and(|found| found.is_dir())
        && fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
    let record: Record = document(&path).ok().filter(|_| is_plain)?;
    directory.file_name().is_some_and(|name| name == record.id.as_str()).then_some(record)
}

fn is_pinned(directory: &Path) -> bool {
    directory.join(PIN_FILE).exists()
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
    use crate::summary::SCHEMA;

    fn sessions(directory: &Path, kept: u64, bytes: u64) -> KeptSessions {
        KeptSessions { directory: Some(directory.to_owned()), base: None, kept, bytes }
    }

    fn make(sessions: &KeptSessions, id: &str, started: u64, ended: Option<u64>) -> PathBuf {
        let lease = sessions.create(id, None).unwrap();
        let directory = lease.folder().to_owned();
        lease.release();
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
    fn only_sessions_are_thrown_away() {
        let place = tempfile::tempdir().unwrap();
        let sessions = sessions(place.path(), 1, 1);
        let other = tempfile::tempdir().unwrap();
        let elsewhere = make(&self::sessions(other.path(), 1, 1), "a-elsewhere", 1, Some(2));
        // Folders of the user's own: empty, with files, with a damaged or a foreign document, with links to sessions.
        for name in ["a", "b/c", "d", "e", "20200101-000000-1"] {
            fs::create_dir_all(place.path().join(name)).unwrap();
        }
        fs::write(place.path().join("d/session.json"), "{ not json").unwrap();
        fs::copy(elsewhere.join("session.json"), place.path().join("e/session.json")).unwrap();
        let link = |to: &Path, name: &str| {
            std::os::unix::fs::symlink(to, place.path().join(name)).unwrap();
        };
        link(&elsewhere, "a-elsewhere");
        fs::create_dir(place.path().join("f")).unwrap();
        let record = Record { id: "f".into(), ended_unix_ns: Some(2), ..Record::default() };
        write_document(&other.path().join("f.json"), &record).unwrap();
        link(&other.path().join("f.json"), "f/session.json");
        for (nth, id) in ["x", "y", "z"].into_iter().enumerate() {
            make(&sessions, id, 10 + nth as u64, Some(100));
        }
        assert_eq!(sessions.retain().unwrap(), ["x", "y"]);
        for name in ["a", "b/c", "d", "e", "f", "a-elsewhere", "20200101-000000-1", "z"] {
            assert!(place.path().join(name).exists(), "{name} is not ours");
        }
        assert!(elsewhere.join("session.json").exists());
    }

    #[test]
    fn what_is_pinned_stays() {
        let place = tempfile::tempdir().unwrap();
        let sessions = sessions(place.path(), 1, 1 << 30);
        for (nth, id) in ["a", "b", "c"].into_iter().enumerate() {
            make(&sessions, id, 10 + nth as u64, Some(100));
        }
        sessions.pin("a", true).unwrap();
        assert_eq!(sessions.retain().unwrap(), ["b"]);
        let pinned: Vec<bool> = sessions.listed().iter().map(|listed| listed.pinned).collect();
        assert_eq!(pinned, [true, false]);
        sessions.pin("a", false).unwrap();
        sessions.pin("a", false).unwrap();
        assert_eq!(sessions.retain().unwrap(), ["a"]);
    }

    #[test]
    fn a_home_is_asked_for_and_must_be_the_users_own() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("home");
        fs::create_dir(&home).unwrap();
        let knobs = Knobs::default();
        let of = |variable: Option<(&'static str, &Path)>, home: Option<&Path>| {
            let lookup = |name: &str| {
                variable.filter(|(set, _)| *set == name).map(|(_, path)| path.to_owned())
            };
            KeptSessions::in_home(&knobs, lookup, || home.map(Path::to_owned))
        };
        let place = |sessions: KeptSessions| sessions.directory().map(Path::to_owned);
        let usual = Some(home.join(".local/state/apex/sessions"));
        assert_eq!(place(of(Some(("HOME", &home)), None)), usual);
        assert_eq!(place(of(None, Some(&home))), usual);
        assert_eq!(place(of(Some(("HOME", Path::new(""))), Some(&home))), usual);
        let state = Some(home.join("apex/sessions"));
        assert_eq!(place(of(Some(("XDG_STATE_HOME", &home)), None)), state);
        let nowhere = of(None, None);
        assert!(matches!(nowhere.create("a", None), Err(Error::Nowhere)));
        assert!(matches!(nowhere.find(None), Err(Error::Nowhere)));
        assert_eq!((nowhere.list(), nowhere.retain().unwrap()), (Vec::new(), Vec::new()));
        let sessions = of(None, Some(&home));
        sessions.create("a", None).unwrap();
        // Only root can give a folder away.
        let another = nix::unistd::chown(&home.join(".local"), Some(Uid::from_raw(65_534)), None);
        if another.is_ok() {
            assert!(matches!(sessions.create("b", None), Err(Error::NotOwn(_))));
            assert!(sessions.create("b", Some(&root.path().join("b"))).is_ok());
        }
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
        assert_eq!(sessions.find(Some("latest")).unwrap(), two);
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
        for path in [sessions.directory().unwrap(), &directory] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
        }
        let document = fs::metadata(directory.join("session.json")).unwrap();
        assert_eq!(document.permissions().mode() & 0o777, 0o600);
        assert!(matches!(sessions.create("a", None), Err(Error::Occupied(_))));
        let own = place.path().join("own");
        fs::create_dir(&own).unwrap();
        fs::write(own.join("lock"), "the user's").unwrap();
        assert!(matches!(sessions.create("b", Some(&own)), Err(Error::Occupied(_))));
        assert_eq!(fs::read(own.join("lock")).unwrap(), b"the user's");
        fs::write(own.join("lock"), "").unwrap();
        let lease = sessions.create("b", Some(&own)).unwrap();
        assert!(matches!(sessions.create("c", Some(&own)), Err(Error::Occupied(_))));
        drop(lease);
    }

    #[test]
    fn ids_are_dates() {
        assert_eq!(new_id(0, 7), "19700101-000000-7");
        assert!(is_id(&new_id(0, 7)));
        for name in
            ["", "a", "19700101-000000", "19700101-000000-", "1970-0-7", "19700101-000000-7-"]
        {
            assert!(!is_id(name), "{name}");
        }
        assert_eq!(new_id(951_782_400_000_000_000, 7), "20000229-000000-7");
        assert_eq!(new_id(1_794_711_845_000_000_000, 7), "20261115-030405-7");
    }
}
