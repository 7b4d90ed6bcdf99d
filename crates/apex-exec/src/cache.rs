//! Compiled kernels kept on disk, between processes.
//!
//! An entry is a file that holds its whole key beside the PTX, so neither two keys with one name nor a damaged
//! file is ever mistaken for the answer: what does not match is not there. Files come whole, by renaming. No
//! failure of the disk fails the caller, who then compiles again. The cache has a size; the entries not used for
//! the longest time go first.

use crate::settings::knobs;
use apex_cuda::image;
use core::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Where entries lie and how many bytes they may take.
struct KernelFolder {
    folder: PathBuf,
    limit_bytes: u64,
}

/// The PTX kept for a key.
pub(crate) fn get(key: &str) -> Option<String> {
    place()?.get(key)
}

/// Where it lies; nowhere if nothing is kept.
pub(crate) fn folder() -> Option<&'static Path> {
    place().map(|place| place.folder.as_path())
}

/// Keeps the PTX for a key.
pub(crate) fn put(key: &str, ptx: &str) {
    if let Some(place) = place() {
        // The answer does not depend on it: a full or read-only disk costs time, not the result.
        let _ = place.put(key, ptx);
    }
}

/// Adds to a key what lies in a folder of headers, by name, size and time. None where there are too many files.
pub(crate) fn describe_folder(folder: &Path, key: &mut String) -> Option<()> {
    let mut folders = vec![folder.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).ok()?.filter_map(Result::ok) {
            let facts = entry.metadata().ok()?;
            if facts.is_dir() {
                folders.push(entry.path());
            } else {
                files.push((entry.path(), facts.len(), facts.modified().ok()?));
            }
            if files.len() + folders.len() > HEADERS {
                return None;
            }
        }
    }
    files.sort();
    for (path, bytes, time) in files {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let _ = writeln!(key, "{} {bytes} {since}", path.display());
    }
    Some(())
}

/// Headers beyond which a source is compiled anew each time.
const HEADERS: usize = 2000;

fn place() -> Option<&'static KernelFolder> {
    static PLACE: OnceLock<Option<KernelFolder>> = OnceLock::new();
    PLACE
        .get_or_init(|| {
            let knobs = knobs();
            let folder = knobs
                .kernel_cache
                .clone()
                .or_else(|| usual_folder(&|name| std::env::var(name).ok()))?;
            let limit_bytes = knobs.kernel_cache_bytes.0;
            (limit_bytes > 0).then_some(KernelFolder { folder, limit_bytes })
        })
        .as_ref()
}

/// `apex/kernels` in the user's cache directory.
fn usual_folder(lookup: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let named = lookup("XDG_CACHE_HOME").map(PathBuf::from).and_then(absolute);
    let home = || lookup("HOME").map(|home| Path::new(&home).join(".cache")).and_then(absolute);
    Some(named.or_else(home)?.join("apex/kernels"))
}

/// First word of an entry; the number rises with the form.
const MAGIC: &str = "apex-kernel-1";

impl KernelFolder {
    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{:016x}.ptx", image::hash(key.as_bytes())))
    }

    fn get(&self, key: &str) -> Option<String> {
        let path = self.path(key);
        let text = fs::read_to_string(&path).ok()?;
        let (head, rest) = text.split_once('\n')?;
        let kept = rest.strip_prefix(key)?;
        if head != header(key, kept) {
            return None;
        }
        // Used now: what is used last goes last.
        let _ = File::options()
            .append(true)
            .open(&path)
            .and_then(|file| file.set_modified(SystemTime::now()));
        Some(kept.to_owned())
    }

    fn put(&self, key: &str, ptx: &str) -> std::io::Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        fs::create_dir_all(&self.folder)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let part = self.folder.join(format!("{}-{number}.part", std::process::id()));
        let written = File::create(&part).and_then(|mut file| {
            file.write_all(header(key, ptx).as_bytes())?;
            file.write_all(b"\n")?;
            file.write_all(key.as_bytes())?;
            file.write_all(ptx.as_bytes())
        });
        let kept = written.and_then(|()| fs::rename(&part, self.path(key)));
        if kept.is_err() {
            let _ = fs::remove_file(&part);
        }
        self.shrink();
        kept
    }

    /// Removes what was not used for the longest time until the rest is within the limit.
    fn shrink(&self) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok);
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .filter_map(|entry| {
                let facts = entry.metadata().ok()?;
                Some((facts.modified().ok()?, facts.len(), entry.path()))
            })
            .filter(|(_, _, path)| {
                path.extension().is_some_and(|end| end == "ptx" || end == "part")
            })
            .collect();
        let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        files.sort();
        for (_, bytes, path) in files {
            if total <= self.limit_bytes {
                return;
            }
            if fs::remove_file(path).is_ok() {
                total -= bytes;
            }
        }
    }
}

/// The first line of an entry, which vouches for the rest.
fn header(key: &str, ptx: &str) -> String {
    let (key_hash, ptx_hash) = (image::hash(key.as_bytes()), image::hash(ptx.as_bytes()));
    format!("{MAGIC} {} {} {key_hash:016x} {ptx_hash:016x}", key.len(), ptx.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A place of its own, removed at the end.
    struct Scratch(KernelFolder);

    impl Scratch {
        fn new(name: &str, limit_bytes: u64) -> Scratch {
            let folder =
                std::env::temp_dir().join(format!("apex-exec-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            Scratch(KernelFolder { folder, limit_bytes })
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0.folder);
        }
    }

    #[test]
    fn what_is_put_is_got_by_its_key_alone() {
        let scratch = Scratch::new("got", 1 << 20);
        let place = &scratch.0;
        assert_eq!(place.get("key"), None);
        place.put("key", "ptx").unwrap();
        place.put("other", "else").unwrap();
        assert_eq!(place.get("key").as_deref(), Some("ptx"));
        assert_eq!(place.get("other").as_deref(), Some("else"));
        assert_eq!(place.get("ke"), None);
        assert!(fs::read_dir(&place.folder).unwrap().count() == 2, "no part is left");
    }

    #[test]
    fn a_damaged_entry_is_not_there_and_is_written_anew() {
        let scratch = Scratch::new("damaged", 1 << 20);
        let place = &scratch.0;
        let text = "x".repeat(1000);
        place.put("key", &text).unwrap();
        let path = place.path("key");
        let whole = fs::read(&path).unwrap();
        for damage in [0, 20, whole.len() / 2, whole.len() - 1] {
            let mut bytes = whole.clone();
            bytes[damage] ^= 1;
            fs::write(&path, &bytes).unwrap();
            assert_eq!(place.get("key"), None, "byte {damage}");
            fs::write(&path, &whole[..damage]).unwrap();
            assert_eq!(place.get("key"), None, "cut at {damage}");
        }
        fs::write(&path, [0xFF; 64]).unwrap();
        assert_eq!(place.get("key"), None);
        place.put("key", &text).unwrap();
        assert_eq!(place.get("key"), Some(text));
    }

    #[test]
    fn an_entry_of_another_key_with_the_same_name_is_not_there() {
        let scratch = Scratch::new("collision", 1 << 20);
        let place = &scratch.0;
        place.put("one", "ptx").unwrap();
        fs::rename(place.path("one"), place.path("two")).unwrap();
        assert_eq!(place.get("two"), None);
    }

    #[test]
    fn the_entries_not_used_for_the_longest_time_go_first() {
        let scratch = Scratch::new("bounded", 4000);
        let place = &scratch.0;
        let text = "x".repeat(1000);
        for key in ["a", "b", "c"] {
            place.put(key, &text).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert!(place.get("a").is_some());
        std::thread::sleep(std::time::Duration::from_millis(20));
        place.put("d", &text).unwrap();
        assert_eq!(place.get("b"), None);
        assert!(place.get("a").is_some() && place.get("c").is_some() && place.get("d").is_some());
    }

    #[test]
    fn a_folder_that_cannot_be_written_fails_nobody() {
        let place = KernelFolder { folder: "/proc/nonexistent/apex".into(), limit_bytes: 1 << 20 };
        assert!(place.put("key", "ptx").is_err());
        assert_eq!(place.get("key"), None);
    }

    #[test]
    fn many_threads_put_and_get() {
        let scratch = Scratch::new("threads", 1 << 20);
        let place = &scratch.0;
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || {
                    for round in 0..50 {
                        let key = format!("key {}", (thread + round) % 10);
                        place.put(&key, &key.repeat(100)).unwrap();
                        if let Some(kept) = place.get(&key) {
                            assert_eq!(kept, key.repeat(100));
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn the_usual_folder_is_the_users() {
        let named = |name: &str| (name == "XDG_CACHE_HOME").then(|| "/cache".to_owned());
        assert_eq!(usual_folder(&named), Some("/cache/apex/kernels".into()));
        let home = |name: &str| match name {
            "XDG_CACHE_HOME" => Some("relative".to_owned()),
            "HOME" => Some("/home/user".to_owned()),
            _ => None,
        };
        assert_eq!(usual_folder(&home), Some("/home/user/.cache/apex/kernels".into()));
        assert_eq!(usual_folder(&|_| None), None);
    }
}
