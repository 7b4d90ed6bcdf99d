//! A running session as others may see it: `live.json` in its ring directory, twice a second.
//!
//! A session runs as long as its folder is had ([`crate::lease`]). The file is the summary so far with few rows, and
//! what each process did. Whoever shows rates takes the difference of two snapshots ([`crate::watch`]); whoever is not
//! looking costs nothing but the file. A watcher who wants news more often writes how often into the file `watched`
//! beside it, again and again: a wish that is older than three seconds counts no more, so nobody need take it back.

use crate::document::{document, write_document};
use crate::lease::{folders, is_had};
use crate::recent::RecentStream;
use crate::rings_place::is_private;
use crate::summary::{ProcessSummary, Summary};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Name of the file.
pub const LIVE_FILE: &str = "live.json";
/// How often it is written where nobody wants it more often.
pub const INTERVAL: Duration = Duration::from_millis(500);
/// How often it is written at most.
pub const LEAST_INTERVAL: Duration = Duration::from_millis(100);
/// Name of the file that says how often it is wanted, in milliseconds.
const WATCHED_FILE: &str = "watched";
/// How long a wish counts, and how old it is when its watcher says it again.
const WISH: Duration = Duration::from_secs(3);
const WISH_AGAIN: Duration = Duration::from_secs(1);
/// Rows of each table in it.
pub const LIVE_ROWS: usize = 50;
/// Processes in it: a machine runs more of them at once than a reader looks at kernels.
pub const LIVE_PROCESSES: usize = 256;

/// A running session at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Nanoseconds since the session's start.
    pub at_ns: u64,
    /// The `apex run` that collects it.
    pub apex_pid: u32,
    /// GPU time that its processes were given so far ([`ProcessSummary::given_ns`]).
    #[serde(default)]
    pub given_ns: u64,
    /// What was counted so far.
    pub summary: Summary,
    /// Its processes, those that run first.
    #[serde(default)]
    pub processes: Vec<ProcessSummary>,
    /// What each stream was given in the last second; nothing while nobody watches.
    #[serde(default)]
    pub streams: Vec<RecentStream>,
}

/// The snapshots of all sessions whose rings lie in these places, oldest first.
#[must_use]
pub fn snapshots(places: &[PathBuf]) -> Vec<Snapshot> {
    let mut found: Vec<Snapshot> = directories(places)
        .iter()
        .filter(|directory| is_had(directory))
        .filter_map(|directory| document(&directory.join(LIVE_FILE)).ok())
        .collect();
    found.sort_by_key(|snapshot: &Snapshot| snapshot.summary.started_unix_ns);
    found
}

/// The last snapshot of the session that is kept in a directory, if it runs.
#[must_use]
pub fn snapshot_of(session: &Path) -> Option<Snapshot> {
    let rings = is_had(session).then(|| folders(session)).flatten()?.rings;
    document(&rings.join(LIVE_FILE)).ok()
}

/// Ring directories in these places.
pub(crate) fn directories(places: &[PathBuf]) -> Vec<PathBuf> {
    let private = places.iter().filter(|place| is_private(place));
    let entries = private.filter_map(|place| fs::read_dir(place).ok()).flatten();
    let mut found: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    found.retain(|path: &PathBuf| is_private(path));
    found.sort();
    found
}

/// Writes the snapshot of a session.
pub(crate) fn write(directory: &Path, snapshot: &Snapshot) {
    // A snapshot that cannot be written is only missing from `apex top`.
    let _ = write_document(&directory.join(LIVE_FILE), snapshot);
}

/// Says to every session whose rings lie in these places that its snapshot is wanted so often.
pub fn watched(places: &[PathBuf], every: Duration) {
    if every >= INTERVAL {
        return;
    }
    for directory in directories(places).iter().filter(|directory| is_had(directory)) {
        if wish(directory).is_none_or(|(wanted, age)| wanted > every || age >= WISH_AGAIN) {
            // A session that cannot be told shows its news less often.
            let millis = u64::try_from(every.as_millis()).unwrap_or(u64::MAX);
            let _ = write_document(&directory.join(WATCHED_FILE), &millis);
        }
    }
}

/// How often the snapshot of a session is wanted now.
pub(crate) fn interval(directory: &Path) -> Duration {
    let wish = wish(directory).filter(|(_, age)| *age < WISH);
    wish.map_or(INTERVAL, |(wanted, _)| wanted.clamp(LEAST_INTERVAL, INTERVAL))
}

/// What was wished last, and how long ago.
fn wish(directory: &Path) -> Option<(Duration, Duration)> {
    let path = directory.join(WATCHED_FILE);
    let written = fs::symlink_metadata(&path).ok()?.modified().ok()?;
    // A clock that was set back makes it young for longer, which costs little.
    let age = SystemTime::now().duration_since(written).unwrap_or_default();
    Some((Duration::from_millis(document(&path).ok()?), age))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_counts_within_bounds_and_until_it_is_old() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        let path = folder.join(WATCHED_FILE);
        assert_eq!(interval(folder), INTERVAL);
        for (wanted, expected) in [(250, 250), (1, 100), (u64::MAX, 500)] {
            write_document(&path, &wanted).unwrap();
            assert_eq!(interval(folder), Duration::from_millis(expected), "{wanted}");
        }
        fs::write(&path, "soon").unwrap();
        assert_eq!(interval(folder), INTERVAL);
        write_document(&path, &100_u64).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - WISH).unwrap();
        assert_eq!(interval(folder), INTERVAL);
    }
}
