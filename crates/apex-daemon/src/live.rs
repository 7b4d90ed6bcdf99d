//! A running session as others may see it: `live.json` in its ring directory, twice a second.
//!
//! The file is the summary so far with few rows. Whoever shows rates takes the difference of two
//! snapshots; whoever is not looking costs nothing but the file.

use crate::read::document;
use crate::rings_place::is_private;
use crate::summary::Summary;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the file.
pub const LIVE_FILE: &str = "live.json";
/// How often it is written.
pub const INTERVAL: Duration = Duration::from_millis(500);
/// Rows of each table in it.
pub const LIVE_ROWS: usize = 50;

/// A running session at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Nanoseconds since the session's start.
    pub at_ns: u64,
    /// The `apex run` that collects it.
    pub apex_pid: u32,
    /// What was counted so far.
    pub summary: Summary,
}

/// The snapshots of all sessions whose rings lie in these places, oldest first.
#[must_use]
pub fn snapshots(places: &[PathBuf]) -> Vec<Snapshot> {
    let mut found: Vec<Snapshot> = directories(places)
        .iter()
        .filter_map(|directory| document(&directory.join(LIVE_FILE)).ok())
        .collect();
    found.sort_by_key(|snapshot: &Snapshot| snapshot.summary.started_unix_ns);
    found
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
    let _ = crate::store::write_document(&directory.join(LIVE_FILE), snapshot);
}
