//! What a user has set and where his things lie: settings, sessions, rings. Unfinished sessions are finished first.

use crate::recover::recover;
use crate::rings_place;
use crate::session::KeptSessions;
use crate::speech::say;
use apex_core::knobs::Knobs;
use std::env;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

/// The settings of this command, read once: what is wrong with them is said once.
pub fn knobs() -> &'static Knobs {
    static KNOBS: OnceLock<Knobs> = OnceLock::new();
    KNOBS.get_or_init(|| Knobs::of_command(|sentence| say(&sentence)))
}

/// This command's own file. The kernel tells it by `/proc`; where that is hidden, the first word of the command line
/// does, as whoever started us has found it.
///
/// # Errors
///
/// When neither names a file.
pub fn own_executable() -> io::Result<PathBuf> {
    env::current_exe().or_else(|error| {
        let word = env::args_os().next().map(PathBuf::from).unwrap_or_default();
        let named = if word.components().count() > 1 {
            Some(word)
        } else {
            let folders = env::var_os("PATH").unwrap_or_default();
            env::split_paths(&folders).map(|folder| folder.join(&word)).find(|it| it.is_file())
        };
        named.and_then(|path| std::fs::canonicalize(path).ok()).ok_or(error)
    })
}

/// Settings and places of the user who gave this command.
#[derive(Debug)]
pub struct UserSetup {
    /// What the environment sets.
    pub knobs: Knobs,
    /// Where sessions are kept.
    pub sessions: KeptSessions,
    /// Where rings may lie, the best place first.
    pub rings_places: Vec<PathBuf>,
}

impl UserSetup {
    /// From the environment of this process.
    #[must_use]
    pub fn read() -> UserSetup {
        let knobs = knobs().clone();
        let lookup = |name: &str| env::var_os(name).map(PathBuf::from);
        UserSetup {
            sessions: KeptSessions::of(&knobs, lookup),
            rings_places: rings_place::places(lookup),
            knobs,
        }
    }

    /// Finishes what a killed apex left behind, and says so.
    pub fn recover(&self) {
        for sentence in recover(&self.rings_places, &self.sessions) {
            say(&sentence);
        }
    }
}
