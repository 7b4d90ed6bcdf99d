//! A kept session, of which one file is broken, shown in every form that apex has.

use super::{Examples, JSON_WORDS, Read, Reader, no_variables};
use anyhow::Result;
use apex_core::knobs::Knobs;
use apex_daemon::advice;
use apex_daemon::diff;
use apex_daemon::export::{Format, export};
use apex_daemon::progress::Progress;
use apex_daemon::read::Stored;
use apex_daemon::session::KeptSessions;
use apex_daemon::show::{Layout, report};
use apex_e2e::{Place, linked};
use std::fs;
use std::path::Path;

pub(crate) const READER: Reader = Reader {
    name: "session",
    gather,
    variables: no_variables,
    open,
    words: JSON_WORDS,
    cases: u64::MAX,
};

/// The list of a state folder, which lies beside its sessions.
const INDEX_FILE: &str = "index.json";

fn gather(folder: &Path) -> Result<()> {
    let place = Place::new();
    let watched = place.watch(&linked("launch_forms"), &[]);
    Examples::read(&watched.session)?.write(folder)?;
    // Unlisted, a file is read without being compared with its hash: else no broken one would be read at all.
    fs::remove_file(folder.join("files.json"))?;
    let index = place.state().join(INDEX_FILE);
    Ok(fs::copy(index, folder.join(INDEX_FILE)).map(drop)?)
}

fn open(examples: &Examples, place: &Path) -> Result<Read> {
    let state = place.join("state");
    let session = state.join("session");
    examples.write(&session)?;
    fs::rename(session.join(INDEX_FILE), state.join(INDEX_FILE))?;
    let whole = examples.files.clone();
    let before = Stored::open(&session)?.summary(&mut Progress::silent());
    Ok(Box::new(move |name, bytes| {
        let path = if name == INDEX_FILE { state.join(name) } else { session.join(name) };
        if fs::write(&path, bytes).is_err() {
            return false;
        }
        let knobs = Knobs { state: Some(state.clone()), ..Knobs::default() };
        let sessions = KeptSessions::of(&knobs, |_| None);
        let listed = sessions.list();
        let read = Stored::open(&session).is_ok_and(|mut stored| {
            let mut progress = Progress::silent();
            let layout = Layout { width: 100, colour: false };
            let summary = stored.summary(&mut progress);
            std::hint::black_box(report(&summary, None, layout));
            std::hint::black_box(diff::compare(&before, &summary));
            let again = stored.summarise(&mut progress);
            std::hint::black_box(report(&again, None, layout));
            std::hint::black_box(advice::of_session(&mut stored, &mut progress));
            for format in
                [Format::Json, Format::Ndjson, Format::Csv, Format::Perfetto, Format::Chrome]
            {
                let _ = export(&mut stored, format, &mut std::io::sink(), &mut progress);
            }
            stored.complaints.is_empty()
        });
        let restored = whole.iter().find(|(file, _)| file == name);
        restored.is_some_and(|(_, bytes)| fs::write(&path, bytes).is_ok())
            && read
            && !listed.is_empty()
    }))
}
