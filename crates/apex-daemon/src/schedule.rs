//! Lets programs share a GPU: who may what is decided here, every two milliseconds.
//!
//! Programs meet on the pages of `apex_core::gate_page`; one [`controller`] for each page asks the policy and
//! writes its answer there. It leads while it holds the page's lock file, which the kernel takes from a dead
//! process, so among all `apex run` of a user, or a daemon, there is always one and never two. Nothing a
//! program writes is believed as it stands: [`grants`] say who may be what, numbers are clamped, and a program
//! that died or was stopped counts for nothing. If the controller itself is gone, every gate is open within
//! 20 ms. [`counts`] is what a program's own apex tells of it in the end, [`propose`] what it might be told
//! next time, [`view`] what anybody may see of a page, and [`mps`] the one other thing that is started and stopped for all.

pub mod controller;
pub mod counts;
pub mod grants;
pub mod keeper;
pub mod mps;
pub mod propose;
pub mod view;

use crate::session::create_private_directory;
use apex_core::gate_page;
use nix::unistd::Uid;
use std::io;
use std::path::PathBuf;

/// Where the pages of this user lie: named by the user, or beside the rings of running sessions.
#[must_use]
pub fn place(named: Option<PathBuf>, lookup: impl Fn(&str) -> Option<PathBuf>) -> PathBuf {
    let runtime = lookup("XDG_RUNTIME_DIR").filter(|path| path.is_absolute());
    let shared = || PathBuf::from(format!("/dev/shm/apex-gate-{}", Uid::effective()));
    named.or_else(|| runtime.map(|path| path.join("apex-gate"))).unwrap_or_else(shared)
}

/// Makes the place if it is not there, and refuses one that others may enter.
pub fn prepare(place: &std::path::Path) -> io::Result<()> {
    if !place.exists() {
        create_private_directory(place)?;
    }
    gate_page::check_directory(place)
}
