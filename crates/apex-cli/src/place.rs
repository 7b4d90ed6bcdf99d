//! Where things lie for this user: settings, sessions, rings. Unfinished sessions are finished first.

use crate::say;
use apex_core::knobs::Knobs;
use apex_daemon::recover::recover;
use apex_daemon::rings_place;
use apex_daemon::session::Sessions;
use std::path::PathBuf;

/// Settings and places of one command.
pub(crate) struct Place {
    pub(crate) knobs: Knobs,
    pub(crate) sessions: Sessions,
    pub(crate) rings: Vec<PathBuf>,
}

impl Place {
    pub(crate) fn of_this_user() -> Place {
        let knobs = Knobs::from_environment(|sentence| say(&sentence));
        let lookup = |name: &str| std::env::var_os(name).map(PathBuf::from);
        Place { sessions: Sessions::of(&knobs, lookup), rings: rings_place::places(lookup), knobs }
    }

    /// Finishes what a killed apex left behind, and says so.
    pub(crate) fn recover(&self) {
        for sentence in recover(&self.rings, &self.sessions) {
            say(&sentence);
        }
    }
}
