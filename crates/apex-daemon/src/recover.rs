//! Finishes sessions whose `apex run` was killed.
//!
//! The rings outlive their collector. The next apex command drains what is left in them, adds it to
//! what was kept before, and closes the session, saying so. Rings that a living program still writes
//! are left alone until it has ended.

use crate::live::directories;
use crate::progress::Progress;
use crate::read::{Stored, document};
use crate::recording::{OWNER_FILE, Owner, Recording, boot_id};
use crate::session::Sessions;
use std::fs;
use std::path::{Path, PathBuf};

/// Finishes every such session; one sentence each.
pub fn recover(places: &[PathBuf], sessions: &Sessions) -> Vec<String> {
    let mut candidates = directories(places);
    for entry in sessions.list() {
        candidates.push(entry.directory.join("rings"));
    }
    let kept = fs::read_dir(sessions.directory()).into_iter().flatten();
    candidates.extend(kept.filter_map(|entry| Some(entry.ok()?.path().join("rings"))));
    candidates.sort();
    candidates.dedup();
    candidates.iter().filter_map(|rings| recover_one(rings, sessions)).collect()
}

fn recover_one(rings: &Path, sessions: &Sessions) -> Option<String> {
    let owner: Owner = document(&rings.join(OWNER_FILE)).ok()?;
    if is_alive(owner.pid, "apex") || writers_live(rings) {
        return None;
    }
    let id = owner.record.id.clone();
    if owner.boot != boot_id() {
        // The clocks began anew: the moments in these rings mean nothing now.
        let _ = fs::remove_dir_all(rings);
        return Some(format!(
            "session {id} was cut short by a restart of the machine; its last events are lost"
        ));
    }
    let Some(session) = owner.session.clone().filter(|session| session.is_dir()) else {
        let _ = fs::remove_dir_all(rings);
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
    recording.note("apex was killed while this ran; its last seconds may be missing".into());
    let (_, notes) = recording.finish(None);
    let entered = Recording::enter(sessions, &session);
    let mut sentence =
        format!("session {id} was cut short when its apex was killed; it is finished now");
    for note in notes.into_iter().chain(entered.err().map(|error| error.to_string())) {
        sentence.push_str("; ");
        sentence.push_str(&note);
    }
    Some(sentence)
}

/// A process with this id runs and looks like what we started.
fn is_alive(pid: u32, name: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name)
}

/// Some process still has one of the rings mapped.
fn writers_live(rings: &Path) -> bool {
    let entries = fs::read_dir(rings).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.ends_with(".ring")).any(|name| {
        let Some((pid, _)) = name.split_once('-') else { return false };
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let path = rings.join(&name);
        maps.lines().any(|line| line.ends_with(&*path.to_string_lossy()))
    })
}

fn remove_parts(session: &Path) {
    let entries = fs::read_dir(session).into_iter().flatten();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.extension().is_some_and(|end| end == "part") {
            let _ = fs::remove_file(path);
        }
    }
}
