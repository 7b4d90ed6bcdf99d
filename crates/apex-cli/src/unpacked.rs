//! Puts the libraries and models that this command carries where every part of apex looks for them.
//!
//! Only an apex that `cargo install` made carries any (`build/main.rs`). It lies in `PREFIX/bin`, and its parts go into
//! `PREFIX/lib/apex` the first time it runs, or when it is another build than the one that put them there. The
//! folder is made under another name and renamed, so that whoever looks meanwhile finds all or nothing; a program that runs
//! with the old libraries keeps them. A folder that no apex made is left alone.

use anyhow::{Context, Result, bail};
use apex_daemon::find::SHIM;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
}

/// In the folder: which build put it there.
const STAMP: &str = "build";

/// Puts the parts in place unless they are.
pub(crate) fn unpack(executable: &Path) -> Result<()> {
    let Some(bin) = executable.parent() else { return Ok(()) };
    // Where Cargo builds the command, it builds the libraries beside it.
    if embedded::FILES.is_empty() || bin.join(SHIM).exists() {
        return Ok(());
    }
    let prefix = match bin.parent() {
        Some(prefix) if bin.ends_with("bin") => prefix,
        _ => bail!(
            "apex puts its libraries beside the folder bin that it lies in, and lies in {}",
            bin.display()
        ),
    };
    place(embedded::FILES, embedded::BUILD, &prefix.join(embedded::FOLDER))
}

fn place(files: &[(&str, &[u8])], build: &str, folder: &Path) -> Result<()> {
    if folder.exists() {
        match std::fs::read_to_string(folder.join(STAMP)) {
            Ok(stamp) if stamp != build => {}
            // Ours as it is, or a package's.
            _ => return Ok(()),
        }
    }
    let context = || {
        format!(
            "the libraries of apex are not put into {}; run apex once as the owner of that place",
            folder.display()
        )
    };
    let part = folder.with_file_name(format!(".apex-{}", std::process::id()));
    let placed = write(files, build, &part).and_then(|()| exchange(&part, folder));
    let _ = std::fs::remove_dir_all(&part);
    placed.with_context(context)
}

fn write(files: &[(&str, &[u8])], build: &str, folder: &Path) -> Result<()> {
    for (name, content) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(folder))?;
        std::fs::write(&path, content)?;
        // Beside the libraries lies a program.
        if !name.contains('/') {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        }
    }
    Ok(std::fs::write(folder.join(STAMP), build)?)
}

/// Gives the new folder the old one's name, and the old one the new one's.
fn exchange(new: &Path, folder: &Path) -> Result<()> {
    let away = new.with_extension("old");
    let had_one = std::fs::rename(folder, &away).is_ok();
    let renamed = std::fs::rename(new, folder);
    if had_one {
        let _ = std::fs::remove_dir_all(&away);
    }
    match renamed {
        // Another apex was first.
        Err(_) if folder.join(STAMP).exists() => Ok(()),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::{STAMP, place};
    use std::fs;

    #[test]
    fn parts_are_placed_once_and_replaced_by_another_build() {
        let prefix = tempfile::tempdir().unwrap();
        let folder = prefix.path().join("lib/apex");
        let files: &[(&str, &[u8])] = &[("a.so", b"one"), ("models/m", b"model")];
        place(files, "1", &folder).unwrap();
        assert_eq!(fs::read(folder.join("models/m")).unwrap(), b"model");
        fs::write(folder.join("a.so"), "kept").unwrap();
        place(files, "1", &folder).unwrap();
        assert_eq!(
            fs::read(folder.join("a.so")).unwrap(),
            b"kept",
            "the same build writes nothing"
        );
        place(&[("a.so", b"two")], "2", &folder).unwrap();
        assert_eq!(fs::read(folder.join("a.so")).unwrap(), b"two");
        assert!(!folder.join("models").exists(), "nothing of the old build is left");
        let names: Vec<_> = fs::read_dir(prefix.path().join("lib")).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }

    #[test]
    fn a_folder_of_somebody_else_is_left_alone() {
        let prefix = tempfile::tempdir().unwrap();
        let folder = prefix.path().join("lib/apex");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("a.so"), "package").unwrap();
        place(&[("a.so", b"one")], "1", &folder).unwrap();
        assert_eq!(fs::read(folder.join("a.so")).unwrap(), b"package");
        assert!(!folder.join(STAMP).exists());
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let prefix = tempfile::tempdir().unwrap();
        fs::write(prefix.path().join("lib"), "a file").unwrap();
        let folder = prefix.path().join("lib/apex");
        let said = format!("{:#}", place(&[("a.so", b"one")], "1", &folder).unwrap_err());
        assert!(said.contains("lib/apex") && said.contains("owner"), "{said}");
    }
}
