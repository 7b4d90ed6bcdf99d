//! The project's own files: found here for every chore that looks at all of them.

use crate::run::root;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// Folders of no file that is kept.
pub(crate) const LEFT_OUT: [&str; 4] = ["target", "device-bundle", ".git", "node_modules"];

/// All files of the project that `wanted` takes, in order; what Git ignores is left out.
pub(crate) fn files(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !LEFT_OUT.contains(&&*name) {
                found.extend(files(&path, wanted)?);
            }
        } else if wanted(&path) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// A path as it is written in the project: from the root.
pub(crate) fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}
