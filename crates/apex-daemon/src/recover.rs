//! Finishes sessions whose `apex run` was killed, or found no room for them.
//!
//! The rings outlive their collector. The next apex command moves what was put aside beside them to its place
//! ([`crate::store::destination`]). Then it drains the rings, adds that to what was kept before, and closes the session.
//! An event lies in one of these places at any moment, so none is counted twice. It leaves a ring when it is drained,
//! and the folder aside when its file is whole in the session's directory.
//!
//! Only what is dead for certain is touched: a folder that nobody has ([`crate::lease`]). This command has it from then
//! on, so exactly one finishes it. Sessions of another state folder are left alone. So are rings that a living
//! program still writes: its lock on them tells. A program that has not called CUDA by then finds the session over.
//!
//! A folder that was killed before its owner was noted had no program: it is removed.

use crate::collect::{has_ended, ring_files};
use crate::document::document;
use crate::lease::{LOCK_FILE, Lease, folders};
use crate::live::directories;
use crate::progress::Progress;
use crate::read::Stored;
use crate::recording::{OWNER_FILE, Owner, Recording, boot_id};
use crate::session::{KeptSessions, Record, is_id};
use crate::store::destination::Destination;
use apex_core::ring::Reader;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Finishes every such session; one sentence each.
pub fn recover(places: &[PathBuf], sessions: &KeptSessions) -> Vec<String> {
    let mut candidates = directories(places);
    candidates.extend(sessions.list().into_iter().map(|entry| entry.directory.join("rings")));
    candidates.extend(sessions.directories().into_iter().map(|session| session.join("rings")));
    candidates.sort();
    candidates.dedup();
    let sentences = candidates.iter().filter_map(|rings| recover_one(rings, sessions)).collect();
    sessions.directories().iter().for_each(|session| tidy(session));
    sentences
}

fn recover_one(rings: &Path, sessions: &KeptSessions) -> Option<String> {
    let state = folders(rings).and_then(|folders| folders.state);
    if state.is_some_and(|state| !is_place_of(&state, sessions)) {
        return None;
    }
    if !rings.join(OWNER_FILE).exists() {
        remove_unbegun(rings);
        return None;
    }
    let lease = Lease::inherit(rings).filter(|_| !writers_live(rings))?;
    let mut owner: Owner = document(&rings.join(OWNER_FILE)).ok()?;
    let id = owner.record.id.clone();
    if let Some(session) = &owner.session {
        if let Err(error) = Destination::of(session, rings).settle() {
            return Some(format!("session {id} waits in {}: {error}", rings.display()));
        }
        if let Ok(record) = document::<Record>(&session.join("session.json"))
            && record.ended_unix_ns.is_some()
        {
            owner.record = record;
        }
    }
    let ended = owner.record.ended_unix_ns.is_some();
    if let Some(session) = owner
        .session
        .as_deref()
        .filter(|_| ended && ring_files(rings).is_ok_and(|files| files.is_empty()))
    {
        lease.discard();
        let entered = Recording::enter(sessions, session);
        let sentence = format!("session {id} found room: it is kept in {}", session.display());
        return Some(with(sentence, entered.err().map(|error| error.to_string())));
    }
    let is_known = |boot: &str| !boot.is_empty();
    if is_known(&owner.boot) && is_known(&boot_id()) && owner.boot != boot_id() {
        // The clocks began anew: the moments in these rings mean nothing now.
        lease.discard();
        return Some(format!(
            "session {id} was cut short by a restart of the machine; its last events are lost"
        ));
    }
    let Some(session) = owner.session.clone().filter(|session| session.is_dir()) else {
        lease.discard();
        return Some(format!(
            "session {id} was cut short and had no directory; its rings are removed"
        ));
    };
    remove_parts(&session);
    let mut stored =
        Stored { directory: session.clone(), record: owner.record.clone(), complaints: Vec::new() };
    let segments = stored.segments();
    let next = u32::try_from(segments.len()).unwrap_or(u32::MAX - 1) + 1;
    let mut recording = Recording::resume(rings, &owner, next);
    let known = recording.known().clone();
    stored.rows(&mut Progress::on_stderr(), |row, _| recording.recount(&known, &row));
    let sentence = if ended {
        format!("session {id} had rings that could not be read; they are added now")
    } else {
        recording.note("apex was killed while this ran; its last seconds may be missing".into());
        format!("session {id} was cut short when its apex was killed; it is finished now")
    };
    let (_, notes) = recording.finish(None);
    // The lock of the killed one, which says nothing any more.
    let _ = fs::remove_file(session.join(LOCK_FILE));
    let entered = Recording::enter(sessions, &session);
    Some(with(sentence, notes.into_iter().chain(entered.err().map(|error| error.to_string()))))
}

fn with(mut sentence: String, notes: impl IntoIterator<Item = String>) -> String {
    for note in notes {
        sentence.push_str("; ");
        sentence.push_str(&note);
    }
    sentence
}

/// Whether these sessions lie there. The folder is made with the first of them, so it may not be there.
fn is_place_of(state: &Path, sessions: &KeptSessions) -> bool {
    let Some(own) = sessions.directory().and_then(|own| std::path::absolute(own).ok()) else {
        return false;
    };
    let same_folder = || fs::canonicalize(&own).ok() == fs::canonicalize(state).ok();
    own == state || (own.exists() && same_folder())
}

/// Some process still writes one of the rings. One that is still being made is nobody's yet: whoever makes it
/// finds the session over.
fn writers_live(rings: &Path) -> bool {
    ring_files(rings).unwrap_or_default().iter().any(|path| {
        let reader = File::open(path).map(Reader::open);
        reader.is_ok_and(|reader| reader.is_ok_and(|reader| !has_ended(&reader)))
    })
}

/// Removes what a killed apex has left of a session: all of one that had not begun, the lock of one that was finished.
fn tidy(session: &Path) {
    remove_unbegun(session);
    let is_finished = || {
        let record: Result<Record, _> = document(&session.join("session.json"));
        record.is_ok_and(|record| record.ended_unix_ns.is_some())
    };
    if folders(session).is_some() && is_finished() {
        Lease::inherit(session).into_iter().for_each(Lease::release);
    }
}

/// Whether a folder holds nothing but what is there before the program starts.
fn is_unbegun(folder: &Path) -> bool {
    const BEFORE: [&str; 3] = [LOCK_FILE, "lib", "tuning"];
    let id = if folder.ends_with("rings") { folder.parent() } else { Some(folder) };
    let is_id = id.and_then(|id| id.file_name()?.to_str()).is_some_and(is_id);
    let is_plain = fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir());
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let is_early = |name: &str| {
        let is_part = name.starts_with(OWNER_FILE) && name.ends_with(".part");
        is_part || BEFORE.contains(&name)
    };
    let mut names = entries.map(|entry| entry.ok()?.file_name().into_string().ok());
    is_id && is_plain && names.all(|name| name.is_some_and(|name| is_early(&name)))
}

/// Removes a folder of rings or of a session that was killed before its program started. The rings know whether
/// it did, so as long as they are there a session stays.
fn remove_unbegun(folder: &Path) {
    let rings = folders(folder).map(|folders| folders.rings);
    if !is_unbegun(folder) || rings.is_some_and(|rings| rings != folder && rings.exists()) {
        return;
    }
    // Its owner may have been killed before he had it; one who is about to have it makes it anew.
    if fs::remove_dir(folder).is_ok() {
        return;
    }
    if let Some(lease) = Lease::inherit(folder).filter(|_| is_unbegun(folder)) {
        lease.discard();
    }
}

fn remove_parts(session: &Path) {
    let entries = fs::read_dir(session).into_iter().flatten();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.extension().is_some_and(|end| end == "part") {
            let _ = fs::remove_file(path);
        }
    }
}
