//! Writes what is new into the file: one writer at a time, the file whole or as it was.

use super::file::{History, buffer, decode, encode, front, is_of_other_version, path};
use super::{FILE, MOST_BYTES, MOST_KERNELS, MOST_SHAPES, Past};
use crate::Error;
use crate::whole_file::write_whole_pieces;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What became of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Kernels in it now.
    pub kernels: usize,
    /// Kernels that were dropped because it was full.
    pub dropped: usize,
    /// Whether anything was written: what is known already is not.
    pub is_written: bool,
}

/// Adds pasts to the file of a folder. What was measured now replaces what is there of the same shapes; other shapes of the
/// kernel stay while there is room.
pub fn keep(folder: &Path, news: &[Past]) -> Result<Outcome, Error> {
    change(folder, |kept| {
        let mut is_changed = false;
        for past in news.iter().filter(|past| !past.shapes.is_empty()) {
            let key = past.key();
            let known = kept.get(&key).and_then(|record| decode(record));
            let merged = known.as_ref().map_or_else(|| past.clone(), |known| merged(known, past));
            let merged = Past { shapes: most_measured(merged.shapes), ..merged };
            if known.as_ref() != Some(&merged) {
                kept.insert(key, encode(&merged));
                is_changed = true;
            }
        }
        is_changed
    })
}

/// Removes the pasts of kernels that are to be forgotten; says how many.
pub fn forget(folder: &Path, is_forgotten: impl Fn(&Past) -> bool) -> Result<usize, Error> {
    let mut removed = 0;
    change(folder, |kept| {
        kept.retain(|_, record| {
            let gone = decode(record).is_none_or(|past| is_forgotten(&past));
            removed += usize::from(gone);
            !gone
        });
        removed > 0
    })?;
    Ok(removed)
}

/// A kernel's past with what was measured now.
fn merged(known: &Past, now: &Past) -> Past {
    let old = known.shapes.iter().filter(|old| !now.shapes.iter().any(|new| new.is_like(old)));
    let shapes = now.shapes.iter().chain(old).copied().collect();
    Past { day: known.day.max(now.day), shapes, ..known.clone() }
}

/// Shapes that were measured most often, in an order that does not depend on how they came.
fn most_measured(mut shapes: Vec<super::Measured>) -> Vec<super::Measured> {
    let place = |one: &super::Measured| (one.grid, one.block, one.dynamic_shared, one.timed);
    shapes.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| place(a).cmp(&place(b))));
    shapes.truncate(MOST_SHAPES);
    shapes
}

/// Changes the records of the file under its lock.
fn change(
    folder: &Path,
    change: impl FnOnce(&mut BTreeMap<u64, Vec<u8>>) -> bool,
) -> Result<Outcome, Error> {
    let path = path(folder);
    let lock = folder.join("history.lock");
    let held = File::options().create(true).append(true).mode(0o600).open(&lock);
    let _held = held.and_then(|file| file.lock().map(|()| file)).map_err(Error::write(&lock))?;
    if is_of_other_version(&path) {
        return Err(Error::Damaged(path, "another version of apex has written it".into()));
    }
    remove_parts(folder);
    // A file that is damaged holds nothing that could be kept.
    let known = History::read(&path).unwrap_or_default();
    let mut kept = BTreeMap::new();
    for (place, key) in known.keys().enumerate() {
        if let Some(record) = known.record(place, &mut buffer()) {
            kept.insert(key, record.to_vec());
        }
    }
    if !change(&mut kept) {
        return Ok(Outcome { kernels: kept.len(), ..Outcome::default() });
    }
    let dropped = drop_oldest(&mut kept);
    let records: Vec<(u64, Vec<u8>)> = kept.into_iter().collect();
    let front = front(&records);
    let pieces = std::iter::once(&front[..]).chain(records.iter().map(|(_, record)| &record[..]));
    write_whole_pieces(&path, pieces)?;
    Ok(Outcome { kernels: records.len(), dropped, is_written: true })
}

/// Removes what killed writers left: nobody else writes while the lock is held.
fn remove_parts(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(FILE) && name.ends_with(".part") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Drops the kernels that were not seen for longest until the rest has room.
fn drop_oldest(kept: &mut BTreeMap<u64, Vec<u8>>) -> usize {
    let mut bytes: usize = kept.values().map(Vec::len).sum();
    if kept.len() <= MOST_KERNELS && bytes <= MOST_BYTES {
        return 0;
    }
    let day = |record: &[u8]| decode(record).map_or(0, |past| past.day);
    let mut oldest: Vec<(u32, u64)> =
        kept.iter().map(|(key, record)| (day(record), *key)).collect();
    oldest.sort_unstable();
    let mut dropped = 0;
    for (_, key) in oldest {
        if kept.len() <= MOST_KERNELS && bytes <= MOST_BYTES {
            break;
        }
        bytes -= kept.remove(&key).map_or(0, |record| record.len());
        dropped += 1;
    }
    dropped
}
