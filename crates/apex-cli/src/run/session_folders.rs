//! The folders of a session: where it is kept, and where its rings lie.
//!
//! A session that cannot be kept still has rings: in memory, or among temporary files. Others leave the folders alone
//! as long as this command holds their leases.

use super::no_session::NoSession;
use apex_daemon::lease::{Folders, Lease};
use apex_daemon::scratch::private_folder;
use apex_daemon::speech::say;
use apex_daemon::user_setup::UserSetup;
use apex_daemon::{Error, rings_place};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The folders of one session.
pub(super) struct SessionFolders {
    kept: Option<Lease>,
    rings: Lease,
    /// A place for the rings of a session that is not kept; it goes with this.
    _spare: Option<TempDir>,
}

impl SessionFolders {
    /// Makes them. `output` is where the user wants the session.
    pub(super) fn create(
        output: Option<&str>,
        setup: &UserSetup,
        id: &str,
    ) -> Result<SessionFolders, NoSession> {
        // Whoever finishes the session may do so from anywhere.
        let absolute = |path: String| std::path::absolute(&path).unwrap_or_else(|_| path.into());
        let elsewhere = output.map(|text| absolute(expand(text)));
        let kept = match setup.sessions.create(id, elsewhere.as_deref()) {
            Ok(lease) => Some(lease),
            Err(error @ Error::Occupied(_)) => {
                return Err(NoSession::CalledWrongly(error.to_string()));
            }
            Err(error) => {
                say(&format!("{error}; the session is not kept, the report is still made"));
                None
            }
        };
        let spare = || private_folder(&std::env::temp_dir()).ok();
        let spare = if kept.is_none() { spare() } else { None };
        let beside = kept.as_ref().map(Lease::folder).or(spare.as_ref().map(TempDir::path));
        let rings = match rings_place::create(&setup.rings_places, beside, id) {
            Ok(rings) => rings,
            Err(error) => {
                kept.into_iter().for_each(Lease::discard);
                return Err(NoSession::RunsUntouched(format!(
                    "there is no place for the rings ({error}); the program runs without apex"
                )));
            }
        };
        let mut folders = SessionFolders { kept, rings, _spare: spare };
        folders.note(setup.sessions.directory());
        Ok(folders)
    }

    /// Where the session is kept.
    pub(super) fn session(&self) -> Option<&Path> {
        self.kept.as_ref().map(Lease::folder)
    }

    /// Where the rings lie.
    pub(super) fn rings(&self) -> &Path {
        self.rings.folder()
    }

    /// Says in both folders which belong together. Where that cannot be written the session is finished by any
    /// command of this user.
    fn note(&mut self, state: Option<&Path>) {
        let session = self.session().map(Path::to_owned);
        let state = session.as_ref().and(state).and_then(|state| std::path::absolute(state).ok());
        let folders = Folders { rings: self.rings.folder().to_owned(), session, state };
        for lease in self.kept.iter_mut().chain([&mut self.rings]) {
            if let Err(error) = lease.note(&folders) {
                say(&format!("{} cannot be noted: {error}", lease.folder().display()));
            }
        }
    }

    /// The session is complete: anybody may take its folder. Where it lies, if it was kept.
    pub(super) fn release_session(&mut self) -> Option<PathBuf> {
        let lease = self.kept.take()?;
        let folder = lease.folder().to_owned();
        lease.release();
        Some(folder)
    }

    /// There is no session after all.
    pub(super) fn discard(self) {
        self.kept.into_iter().chain([self.rings]).for_each(Lease::discard);
    }
}

/// `%h` becomes the host's name, `%p` the process id, `%%` a per cent sign.
fn expand(text: &str) -> String {
    let mut expanded = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            expanded.push(letter);
            continue;
        }
        match letters.next() {
            Some('h') => {
                let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
                expanded.push_str(host.trim());
            }
            Some('p') => expanded.push_str(&std::process::id().to_string()),
            Some('%') => expanded.push('%'),
            Some(other) => expanded.extend(['%', other]),
            None => expanded.push('%'),
        }
    }
    expanded
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn macros_in_a_directory_are_expanded() {
        assert_eq!(expand("job-%p"), format!("job-{}", std::process::id()));
        assert_eq!(expand("100%%-%x%"), "100%-%x%");
    }
}
