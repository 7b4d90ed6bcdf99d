//! Reads and writes the JSON documents that sessions consist of; what is wrong with one is said with its path.

use crate::Error;
use crate::whole_file::write_whole;
use apex_core::small_file::{self, read_text};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::path::Path;

/// Reads a JSON document.
pub fn document<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text = read_text(path, small_file::MADE).map_err(Error::read(path))?;
    serde_json::from_str(&text).map_err(|error| Error::Damaged(path.to_owned(), error.to_string()))
}

/// Writes a document as JSON, complete or not at all.
pub fn write_document(path: &Path, document: &impl Serialize) -> Result<(), Error> {
    let bytes = serde_json::to_vec_pretty(document).map_err(io::Error::other);
    let mut bytes = bytes.map_err(Error::write(path))?;
    bytes.push(b'\n');
    write_whole(path, &bytes)
}
