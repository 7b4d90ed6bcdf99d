//! PTX that was brought down, kept on disk between processes.
//!
//! What lies there becomes code of the program. So the folder is the user's alone (0700), and links are not followed. A
//! file counts only if it is the user's own and holds the very text that it was made from. Files come whole, by
//! renaming. No failure of the disk fails anybody: the text is brought down again.

use crate::settings::knobs;
use apex_core::outputs::hash;
use std::fs::{self, DirBuilder, File};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// First word of a file; the number rises with the form, and with the table of features.
const MAGIC: &str = "apex-lowered-1";
/// What all files together may take; beyond it the oldest go.
const MOST_BYTES: u64 = 256 << 20;

/// What came out of a text, for a device and a driver.
pub(super) fn get(name: &str, text: &str) -> Option<String> {
    read(&folder()?, name, text)
}

/// Keeps what came out of a text.
pub(super) fn put(name: &str, text: &str, lowered: &str) {
    if let Some(folder) = folder() {
        // Without a disk it costs time, not the result.
        let _ = write(&folder, name, text, lowered);
    }
}

/// `apex/lowered` in the user's cache directory, or what the settings say.
fn folder() -> Option<PathBuf> {
    let knobs = knobs();
    let named = knobs.compatibility_cache.clone();
    let usual = || {
        let home = || Some(knobs.home.as_ref()?.join(".cache"));
        let cache = knobs.cache_home.clone().filter(|path| path.is_absolute()).or_else(home)?;
        Some(cache.join("apex/lowered"))
    };
    named.or_else(usual).filter(|path| path.is_absolute())
}

fn path(folder: &Path, name: &str, text: &str) -> PathBuf {
    folder.join(format!("{:016x}{:016x}.ptx", hash(text.as_bytes()), hash(name.as_bytes())))
}

fn head(name: &str, text: &str, lowered: &str) -> String {
    format!("{MAGIC} {name} {} {} {:016x}\n", text.len(), lowered.len(), hash(lowered.as_bytes()))
}

/// Whether nobody but this user can have written it.
fn is_ours(about: &fs::Metadata) -> bool {
    // SAFETY: a plain system call.
    let user = unsafe { libc::geteuid() };
    about.uid() == user && about.mode() & 0o022 == 0
}

fn read(folder: &Path, name: &str, text: &str) -> Option<String> {
    if !fs::symlink_metadata(folder).is_ok_and(|about| about.is_dir() && is_ours(&about)) {
        return None;
    }
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let path = path(folder, name, text);
    let mut file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().is_ok_and(|about| about.is_file() && is_ours(&about)) {
        return None;
    }
    let mut whole = String::new();
    Read::by_ref(&mut file).take(MOST_BYTES).read_to_string(&mut whole).ok()?;
    let (first, rest) = whole.split_once('\n')?;
    let lowered = rest.strip_prefix(text)?;
    (head(name, text, lowered).trim_end() == first).then(|| lowered.to_owned())
}

fn write(folder: &Path, name: &str, text: &str, lowered: &str) -> std::io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let about = fs::symlink_metadata(folder)?;
    if !about.is_dir() || !is_ours(&about) {
        return Err(std::io::Error::other("the folder is not the user's own"));
    }
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let part = folder.join(format!("{}-{number}.part", std::process::id()));
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let written = options.open(&part).and_then(|mut file| {
        file.write_all(head(name, text, lowered).as_bytes())?;
        file.write_all(text.as_bytes())?;
        file.write_all(lowered.as_bytes())
    });
    let kept = written.and_then(|()| fs::rename(&part, path(folder, name, text)));
    if kept.is_err() {
        let _ = fs::remove_file(&part);
    }
    shrink(folder);
    kept
}

/// Whether a file bears a name that [`path`] gives. The folder may be one that holds other files of the user's.
fn is_named_by_us(name: &std::ffi::OsStr) -> bool {
    let stem = name.to_str().and_then(|name| name.strip_suffix(".ptx")).unwrap_or_default();
    stem.len() == 32 && stem.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Removes the oldest until the rest is within the limit.
fn shrink(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
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
        if total <= MOST_BYTES {
            return;
        }
        if fs::remove_file(path).is_ok() {
            total -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("apex-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn what_is_kept_comes_back_for_its_own_text_alone() {
        let folder = scratch("lowered-kept");
        write(&folder, "sm_90 13000", "text", "lowered").unwrap();
        assert_eq!(read(&folder, "sm_90 13000", "text").as_deref(), Some("lowered"));
        assert_eq!(read(&folder, "sm_80 13000", "text"), None);
        assert_eq!(read(&folder, "sm_90 13000", "tex"), None);
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        let file = path(&folder, "sm_90 13000", "text");
        let whole = fs::read(&file).unwrap();
        for at in 0..whole.len() {
            let mut broken = whole.clone();
            broken[at] ^= 1;
            fs::write(&file, &broken).unwrap();
            assert_eq!(read(&folder, "sm_90 13000", "text"), None, "byte {at}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_of_the_user_s_own_is_none_of_ours() {
        let ours = path(Path::new("/folder"), "name", "text");
        assert!(is_named_by_us(ours.file_name().unwrap()));
        for other in ["kernel.ptx", "0123456789abcdef0123456789abcdeg.ptx", "notes.txt", "1-0.part"]
        {
            assert!(!is_named_by_us(other.as_ref()), "{other}");
        }
    }

    #[test]
    fn what_others_could_have_written_is_not_read() {
        let folder = scratch("lowered-others");
        write(&folder, "name", "text", "lowered").unwrap();
        let file = path(&folder, "name", "text");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(read(&folder, "name", "text"), None);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(read(&folder, "name", "text").is_some());
        // A link in its place, and a link in the folder's.
        let moved = folder.join("elsewhere");
        fs::rename(&file, &moved).unwrap();
        symlink(&moved, &file).unwrap();
        assert_eq!(read(&folder, "name", "text"), None);
        let link = scratch("lowered-link");
        let _ = fs::remove_file(&link);
        symlink(&folder, &link).unwrap();
        assert!(write(&link, "name", "text", "lowered").is_err());
        fs::remove_file(&link).unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }
}
