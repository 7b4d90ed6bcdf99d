//! The rings and facts that a program leaves: it may write anything there.

use super::{Examples, Read, Reader, no_variables};
use anyhow::Result;
use apex_core::time::Anchor;
use apex_daemon::collect::Collector;
use apex_e2e::{Place, linked, until};
use std::fs;
use std::path::Path;

pub(crate) const READER: Reader = Reader {
    name: "rings",
    gather,
    variables: no_variables,
    open,
    words: &["kernel ", "id=", "name=", "\n", " ", "18446744073709551615", "-1", "%", "_Z", "\0"],
    cases: u64::MAX,
};

/// What a program under apex wrote, taken while it runs.
fn gather(folder: &Path) -> Result<()> {
    // Small rings: every case writes and reads all of them.
    let place = Place::new().with("APEX_RING_EVENTS", "64");
    let running = place.start_watched(&[], &linked("steady"), &[]);
    until("a program has rings with events in them", || {
        let sessions = fs::read_dir(place.rings()).into_iter().flatten().flatten();
        sessions.map(|session| session.path()).any(|rings| taken(&rings, folder).unwrap_or(false))
    });
    running.kill_all();
    Ok(())
}

/// Copies rings and facts of a session; whether there is something to read in them.
fn taken(rings: &Path, folder: &Path) -> Result<bool> {
    let mut found = Examples::read(rings)?;
    found.files.retain(|(name, _)| name.ends_with(".ring") || name.ends_with(".facts"));
    found.write(folder)?;
    // A collector may remove what it has read.
    let tried = tempfile::tempdir()?;
    found.write(tried.path())?;
    Ok(rows_of(tried.path()).0 > 0)
}

/// Rows of all rings in a folder, and complaints.
fn rows_of(folder: &Path) -> (u64, usize) {
    let mut collector = Collector::start(folder, Anchor::take());
    let mut rows = 0;
    collector.look(|_, _| rows += 1);
    collector.finish(|_, _| rows += 1);
    std::hint::black_box(collector.counters());
    (rows, collector.take_notes().len())
}

fn open(examples: &Examples, place: &Path) -> Result<Read> {
    let folder = place.join("rings");
    let whole = examples.files.clone();
    Ok(Box::new(move |name, bytes| {
        // A collector removes rings whose process has ended, so all are put back.
        for (file, good) in &whole {
            let bytes = if file == name { bytes } else { good };
            fs::create_dir_all(&folder).expect("the reader's own folder");
            fs::write(folder.join(file), bytes).expect("the reader's own file");
        }
        let (rows, complaints) = rows_of(&folder);
        rows > 0 && complaints == 0
    }))
}
