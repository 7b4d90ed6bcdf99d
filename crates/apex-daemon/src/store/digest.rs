//! Length and hash of every Parquet file of a session, in `files.json`.
//!
//! A file is entered before it gets its final name, so that every whole file has its entry. Where the list
//! itself is missing or damaged, files are read unchecked: the rest must still be shown.

use crate::Error;
use crate::document::{document, write_document};
use apex_core::small_file;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// What is noted of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    bytes: u64,
    hash: u64,
}

/// Hashes bytes piece by piece.
struct Digest(Entry);

impl Digest {
    fn new() -> Digest {
        Digest(Entry { bytes: 0, hash: FNV_OFFSET })
    }

    /// FNV-1a: it finds damage, it need not withstand intent.
    fn take(&mut self, bytes: &[u8]) {
        self.0.bytes += bytes.len() as u64;
        for byte in bytes {
            self.0.hash = (self.0.hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
        }
    }
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// Notes the content of a file under its final name.
pub(crate) fn enter(path: &Path, content: &[u8]) -> Result<(), Error> {
    let list = list_beside(path);
    let mut entries: BTreeMap<String, Entry> = document(&list).unwrap_or_default();
    let mut digest = Digest::new();
    digest.take(content);
    entries.insert(name_of(path), digest.0);
    write_document(&list, &entries)
}

/// Says what is wrong with a file, if anything is.
pub(crate) fn check(path: &Path) -> io::Result<Option<String>> {
    let entries: BTreeMap<String, Entry> = document(&list_beside(path)).unwrap_or_default();
    let Some(noted) = entries.get(&name_of(path)) else { return Ok(None) };
    let mut file = small_file::open(path)?;
    let length = file.metadata()?.len();
    if length != noted.bytes {
        return Ok(Some(format!("it has {length} bytes, {} were written", noted.bytes)));
    }
    let mut digest = Digest::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => digest.take(&buffer[..count]),
        }
    }
    Ok((digest.0 != *noted).then(|| "its content has changed since it was written".into()))
}

fn list_beside(path: &Path) -> PathBuf {
    path.with_file_name("files.json")
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
