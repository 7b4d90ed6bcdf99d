//! Puts the libraries and models of apex into its command, so that `cargo install --path crates/apex-cli` gives an apex
//! that needs nothing else.
//!
//! Cargo installs programs alone: no library that a program needs beside it. So a release build of the command
//! builds the libraries, in a folder of its own, and keeps them inside; `src/unpacked.rs` puts them in place. Other
//! builds find the libraries beside them, where `cargo build --workspace` leaves them, and keep nothing.
//! `APEX_EMBED=0` says so of a release build, `APEX_EMBED=1` the opposite of any other.

mod parts;

use std::env;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-env-changed=APEX_EMBED");
    let out = PathBuf::from(variable("OUT_DIR"));
    let is_wanted = match env::var("APEX_EMBED").as_deref() {
        Ok("0") => false,
        Ok(_) => true,
        Err(_) => variable("PROFILE") == "release",
    };
    let source = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../..");
    let files = if is_wanted { built(&source, &out)? } else { Vec::new() };
    std::fs::write(out.join("embedded.rs"), list(&files)?)
}

/// Builds every part into a folder; the files there, sorted.
fn built(source: &Path, out: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    for changed in ["crates", "include", "models", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", source.join(changed).display());
    }
    // Beside what is built now, whose folder Cargo holds a lock on: OUT_DIR is PROFILE/build/PACKAGE/out.
    let target = out.ancestors().nth(3).unwrap_or(out).join("embedded");
    let mut cargo = Command::new(variable("CARGO"));
    cargo.current_dir(source).args(["build", "--release", "--target-dir"]).arg(&target);
    cargo.args(parts::CRATES.iter().flat_map(|name| ["--package", name]));
    // What clippy puts before the compiler is for the build that it checks.
    cargo.env_remove("RUSTC_WORKSPACE_WRAPPER").env_remove("CARGO_BUILD_TARGET");
    let status = cargo.status()?;
    if !status.success() {
        return Err(io::Error::other(format!("the libraries of apex are not built: {status}")));
    }
    let folder = out.join("parts");
    let _ = std::fs::remove_dir_all(&folder);
    parts::stage(source, &target.join("release"), &folder)?;
    let mut files = Vec::new();
    find(&folder, "", &mut files)?;
    files.sort();
    Ok(files)
}

fn find(folder: &Path, below: &str, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = format!("{below}{}", path.file_name().unwrap_or_default().to_string_lossy());
        if path.is_dir() {
            find(&path, &format!("{name}/"), files)?;
        } else {
            files.push((name, path));
        }
    }
    Ok(())
}

/// The files as Rust: names, contents, and one word for all of them.
fn list(files: &[(String, PathBuf)]) -> io::Result<String> {
    let mut hash = DefaultHasher::new();
    let mut rows = String::new();
    for (name, path) in files {
        (name, std::fs::read(path)?).hash(&mut hash);
        let _ = writeln!(rows, "    ({name:?}, include_bytes!({:?})),", path.display().to_string());
    }
    Ok(format!(
        "/// Names and contents.\npub(super) const FILES: &[(&str, &[u8])] = &[\n{rows}];\n\
         /// Says which build they are of.\npub(super) const BUILD: &str = \"{:016x}\";\n\
         /// Below the prefix: where they lie.\npub(super) const FOLDER: &str = {:?};\n",
        hash.finish(),
        parts::FOLDER
    ))
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("Cargo sets {name} for build scripts"))
}
