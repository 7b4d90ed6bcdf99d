//! Reads a file that a user or an environment names: settings, tunings, traces, models.
//!
//! Such a name may lead anywhere: to a pipe that nobody writes, to a device that never ends, to a file larger
//! than memory. So only regular files are read, and at most so many bytes. What was opened is what is asked, not
//! the name, because a name may lead elsewhere a moment later.

use std::fs::File;
use std::io::{Error, Read, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The most bytes of what a person writes: settings, tunings, traces, lists.
pub const WRITTEN: u64 = 1 << 20;
/// The most bytes of what a program writes: models, documents of sessions, PTX.
pub const MADE: u64 = 256 << 20;

/// Opens a regular file.
pub fn open(path: &Path) -> Result<File> {
    // Opening a pipe without this waits for its writer.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(Error::other("it is not a regular file"))
    }
}

/// The bytes of a regular file of at most `most` bytes.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // The length of a file is no promise: it may grow, and files of /proc have none.
    open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(Error::other(format!("it is larger than {} MiB", most >> 20)));
    }
    Ok(bytes)
}

/// The text of a regular file of at most `most` bytes.
pub fn read_text(path: &Path, most: u64) -> Result<String> {
    String::from_utf8(read(path, most)?).map_err(|_| Error::other("it is not text in UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn only_regular_files_of_a_bounded_size_are_read() {
        let place = tempfile::tempdir().unwrap();
        let said = |path: &Path| read_text(path, WRITTEN).unwrap_err().to_string();
        let file = place.path().join("file");
        std::fs::write(&file, vec![b'a'; WRITTEN as usize]).unwrap();
        assert_eq!(read(&file, WRITTEN).unwrap().len() as u64, WRITTEN);
        std::fs::write(&file, vec![b'a'; WRITTEN as usize + 1]).unwrap();
        assert_eq!(said(&file), "it is larger than 1 MiB");
        std::fs::write(&file, [0xff]).unwrap();
        assert_eq!(said(&file), "it is not text in UTF-8");

        let pipe = place.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [&pipe, Path::new("/dev/zero"), place.path()] {
            assert_eq!(said(path), "it is not a regular file", "{}", path.display());
        }
        assert!(said(&place.path().join("none")).starts_with("No such file"));
    }
}
