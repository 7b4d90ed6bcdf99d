//! Where the rings of running sessions lie.
//!
//! Memory-backed places come first: a ring is written by every call. A place counts only if it is a
//! directory of this user that nobody else may enter (in a shared `/dev/shm` another user may have
//! taken the name) and has room; where none has, the session's own directory serves.

use crate::lease::{Lease, create_private_directory};
use nix::sys::statvfs::statvfs;
use nix::unistd::Uid;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Room for the rings of 128 threads at the default size.
const ROOM: u64 = 256 << 20;

/// The memory-backed places, best first, whether they exist or not.
#[must_use]
pub fn places(lookup: impl Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
    let runtime = lookup("XDG_RUNTIME_DIR").filter(|path| path.is_absolute());
    let shared = PathBuf::from(format!("/dev/shm/apex-{}", Uid::effective()));
    runtime.map(|path| path.join("apex")).into_iter().chain([shared]).collect()
}

/// Makes the ring directory of a session, which is then had: at one of the places, or in a folder that is there
/// for this session alone.
pub fn create(places: &[PathBuf], own: Option<&Path>, id: &str) -> std::io::Result<Lease> {
    let usable: Vec<(&PathBuf, u64)> = places
        .iter()
        .filter(|place| create_private_directory(place).is_ok() && is_private(place))
        .map(|place| (place, free_bytes(place)))
        .collect();
    let roomy = usable.iter().find(|(_, free)| *free >= ROOM).map(|(place, _)| place.join(id));
    let own = own.filter(|own| create_private_directory(own).is_ok());
    let roomy_own = || own.filter(|own| free_bytes(own) >= ROOM).map(|own| own.join("rings"));
    // Little room anywhere: the rings that fit are better than none.
    let largest = || usable.iter().max_by_key(|(_, free)| *free).map(|(place, _)| place.join(id));
    let directory = roomy.or_else(roomy_own).or_else(largest);
    let directory = directory.or_else(|| own.map(|own| own.join("rings")));
    Lease::make(&directory.ok_or(ErrorKind::NotFound)?)
}

/// A directory of this user that nobody else may enter.
#[must_use]
pub fn is_private(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| {
        metadata.is_dir()
            && metadata.uid() == Uid::effective().as_raw()
            && metadata.mode() & 0o077 == 0
    })
}

/// Bytes that may still be written at a place.
#[must_use]
pub fn free_bytes(path: &Path) -> u64 {
    statvfs(path).map_or(0, |place| place.blocks_available() * place.fragment_size())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_place_open_to_others_is_passed_over() {
        let root = tempfile::tempdir().unwrap();
        let open = root.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        let own = root.path().join("own");
        let session = root.path().join("session");
        let found = create(&[open.clone(), own.clone()], Some(&session), "id").unwrap();
        assert_eq!(found.folder(), own.join("id"));
        let beside = create(&[open], Some(&session), "id").unwrap();
        assert_eq!(beside.folder(), session.join("rings"));
    }

    #[test]
    fn an_absolute_runtime_directory_comes_first() {
        let lookup = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| PathBuf::from("/run/me"));
        assert_eq!(places(lookup)[0], Path::new("/run/me/apex"));
        assert_eq!(places(|_| None).len(), 1);
    }
}
