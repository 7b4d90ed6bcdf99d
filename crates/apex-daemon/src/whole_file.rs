//! Writes a file of ours so that whatever bears its final name is whole.
//!
//! The bytes go into a part beside it, which is renamed when it is complete: also after a crash or on a full disk no
//! reader meets half a file. Files are private to their owner.

use crate::Error;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Writes a file, complete or not at all.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    write_whole_pieces(path, std::iter::once(bytes))
}

/// Writes a file of several pieces, one after the other, complete or not at all.
pub(crate) fn write_whole_pieces<'a>(
    path: &Path,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> Result<(), Error> {
    let part = part_name(path);
    let written = create_private(&part)
        .and_then(|file| {
            let mut file = BufWriter::new(file);
            pieces.into_iter().try_for_each(|piece| file.write_all(piece))?;
            file.flush()
        })
        .and_then(|()| fs::rename(&part, path));
    written
        .inspect_err(|_| {
            let _ = fs::remove_file(&part);
        })
        .map_err(Error::write(path))
}

fn create_private(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// The name a file has until it is complete.
fn part_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}
