//! What was worked out once, kept on disk between processes.
//!
//! What lies there may become code of a program. So the folder is the user's alone (0700), and links are not followed. A
//! file counts only if it is the user's own and holds the very text that it was made from. Files come whole, by
//! renaming. No failure of the disk fails anybody: it is worked out again.

use crate::knobs::Knobs;
use crate::outputs::hash;
use std::fs::{self, DirBuilder, File};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder of files that each hold what came out of a text.
#[derive(Clone, Debug)]
pub struct Kept {
    folder: PathBuf,
    /// First word of a file; to be another when the form of what is kept changes.
    magic: &'static str,
    /// What all files together may take; beyond it the oldest go.
    most_bytes: u64,
}

impl Kept {
    /// Files in the folder that a setting names, or in `usual` below the user's cache directory. None where neither is
    /// an absolute path.
    #[must_use]
    pub fn new(
        knobs: &Knobs,
        named: Option<&Path>,
        usual: &str,
        magic: &'static str,
        most_bytes: u64,
    ) -> Option<Kept> {
        let beside_home = || Some(knobs.home.as_ref()?.join(".cache"));
        let below = || {
            let cache = knobs.cache_home.clone().filter(|path| path.is_absolute());
            Some(cache.or_else(beside_home)?.join(usual))
        };
        let folder = named.map(Path::to_owned).or_else(below).filter(|path| path.is_absolute())?;
        Some(Kept { folder, magic, most_bytes })
    }

    /// What came out of a text under this name, which has no line end.
    #[must_use]
    pub fn get(&self, name: &str, text: &str) -> Option<String> {
        if !fs::symlink_metadata(&self.folder).is_ok_and(|about| about.is_dir() && is_ours(&about))
        {
            return None;
        }
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
        let path = self.path(name, text);
        let mut file = File::options().read(true).custom_flags(flags).open(path).ok()?;
        if !file.metadata().is_ok_and(|about| about.is_file() && is_ours(&about)) {
            return None;
        }
        let mut whole = String::new();
        Read::by_ref(&mut file).take(self.most_bytes).read_to_string(&mut whole).ok()?;
        let (first, rest) = whole.split_once('\n')?;
        let made = rest.strip_prefix(text)?;
        (self.head(name, text, made).trim_end() == first).then(|| made.to_owned())
    }

    /// Keeps what came out of a text.
    ///
    /// # Errors
    ///
    /// Why it is not kept; that costs time later, not the result.
    pub fn put(&self, name: &str, text: &str, made: &str) -> std::io::Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let about = fs::symlink_metadata(&self.folder)?;
        if !about.is_dir() || !is_ours(&about) {
            return Err(std::io::Error::other("the folder is not the user's own"));
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let part = self.folder.join(format!("{}-{number}.part", std::process::id()));
        let mut options = File::options();
        options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let written = options.open(&part).and_then(|mut file| {
            file.write_all(self.head(name, text, made).as_bytes())?;
            file.write_all(text.as_bytes())?;
            file.write_all(made.as_bytes())
        });
        let kept = written.and_then(|()| fs::rename(&part, self.path(name, text)));
        if kept.is_err() {
            let _ = fs::remove_file(&part);
        }
        self.shrink();
        kept
    }

    fn path(&self, name: &str, text: &str) -> PathBuf {
        let (of_text, of_name) = (hash(text.as_bytes()), hash(name.as_bytes()));
        self.folder.join(format!("{of_text:016x}{of_name:016x}.ptx"))
    }

    fn head(&self, name: &str, text: &str, made: &str) -> String {
        let (magic, digest) = (self.magic, hash(made.as_bytes()));
        format!("{magic} {name} {} {} {digest:016x}\n", text.len(), made.len())
    }

    /// Removes the oldest until the rest is within the limit.
    fn shrink(&self) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok);
        let mut files: Vec<_> = entries
            .filter(|entry| is_named_by_us(&entry.file_name()))
            .filter_map(|entry| {
                let about = entry.metadata().ok().filter(fs::Metadata::is_file)?;
                Some((about.modified().ok()?, about.len(), entry.path()))
            })
            .collect();
        let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        files.sort();
        for (_, bytes, path) in files {
            if total <= self.most_bytes {
                return;
            }
            if fs::remove_file(path).is_ok() {
                total -= bytes;
            }
        }
    }
}

/// Whether nobody but this user can have written it.
fn is_ours(about: &fs::Metadata) -> bool {
    // SAFETY: a plain system call.
    let user = unsafe { libc::geteuid() };
    about.uid() == user && about.mode() & 0o022 == 0
}

/// Whether a file bears a name that [`Kept`] gives. The folder may be one that holds other files of the user's.
fn is_named_by_us(name: &std::ffi::OsStr) -> bool {
    let stem = name.to_str().and_then(|name| name.strip_suffix(".ptx")).unwrap_or_default();
    stem.len() == 32 && stem.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn kept(folder: &Path) -> Kept {
        Kept { folder: folder.to_owned(), magic: "apex-test-1", most_bytes: 1 << 20 }
    }

    fn scratch() -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("kept");
        (place, folder)
    }

    #[test]
    fn what_is_kept_comes_back_for_its_own_text_alone() {
        let (_place, folder) = scratch();
        let kept = kept(&folder);
        kept.put("sm_90 13000", "text", "lowered").unwrap();
        assert_eq!(kept.get("sm_90 13000", "text").as_deref(), Some("lowered"));
        assert_eq!(kept.get("sm_80 13000", "text"), None);
        assert_eq!(kept.get("sm_90 13000", "tex"), None);
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        let other = Kept { magic: "apex-test-2", ..kept.clone() };
        assert_eq!(other.get("sm_90 13000", "text"), None);
        let file = kept.path("sm_90 13000", "text");
        let whole = fs::read(&file).unwrap();
        for at in 0..whole.len() {
            let mut broken = whole.clone();
            broken[at] ^= 1;
            fs::write(&file, &broken).unwrap();
            assert_eq!(kept.get("sm_90 13000", "text"), None, "byte {at}");
        }
    }

    #[test]
    fn the_oldest_go_first() {
        let (_place, folder) = scratch();
        let kept = Kept { most_bytes: 250, ..kept(&folder) };
        for (nth, name) in ["first", "second", "third"].into_iter().enumerate() {
            kept.put(name, "text", &"x".repeat(50)).unwrap();
            let file = File::open(kept.path(name, "text")).unwrap();
            let moment =
                std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(nth as u64);
            file.set_modified(moment).unwrap();
        }
        kept.put("fourth", "text", &"x".repeat(50)).unwrap();
        assert_eq!(kept.get("first", "text"), None);
        assert!(kept.get("fourth", "text").is_some());
    }

    #[test]
    fn a_file_of_the_user_s_own_is_none_of_ours() {
        let ours = kept(Path::new("/folder")).path("name", "text");
        assert!(is_named_by_us(ours.file_name().unwrap()));
        for other in ["kernel.ptx", "0123456789abcdef0123456789abcdeg.ptx", "notes.txt", "1-0.part"]
        {
            assert!(!is_named_by_us(other.as_ref()), "{other}");
        }
    }

    #[test]
    fn what_others_could_have_written_is_not_read() {
        let (place, folder) = scratch();
        let here = kept(&folder);
        here.put("name", "text", "lowered").unwrap();
        let file = here.path("name", "text");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(here.get("name", "text"), None);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(here.get("name", "text").is_some());
        // A link in its place, and a link in the folder's.
        let moved = folder.join("elsewhere");
        fs::rename(&file, &moved).unwrap();
        symlink(&moved, &file).unwrap();
        assert_eq!(here.get("name", "text"), None);
        let link = place.path().join("link");
        symlink(&folder, &link).unwrap();
        assert!(kept(&link).put("name", "text", "lowered").is_err());
    }
}
