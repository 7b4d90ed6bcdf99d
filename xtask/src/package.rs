//! What a user installs: a tarball and a Python wheel with the command, its libraries and the models.
//!
//! Both hold the same files at the same places below a prefix (`crates/apex-cli/build/parts.rs`), so an installed apex
//! finds them whichever way it came. Another folder than the release build's can be packed: the tests install what
//! they have built anyway.

use crate::run::{cargo, command, root, run, target};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

#[path = "../../crates/apex-cli/build/parts.rs"]
mod parts;

/// Packs what `--from DIR` holds, or a release build, into `--output DIR`.
pub(crate) fn package(words: &[String]) -> Result<()> {
    let (from, output) = options(words)?;
    let built = match from {
        Some(folder) => folder,
        None => {
            let parts = parts::CRATES.iter().flat_map(|name| ["--package", name]);
            // The command need not carry what lies beside it in the package.
            run(cargo(&["build", "--release", "--package", "apex-cli"])
                .args(parts)
                .env("APEX_EMBED", "0"))?;
            target().join("release")
        }
    };
    let output = output.unwrap_or_else(|| target().join("package"));
    let stage = output.join("stage");
    let _ = std::fs::remove_dir_all(&output);
    stage_all(&built, &stage).with_context(|| format!("{} is not packed", built.display()))?;
    let archives = output.join("archives");
    run(command("python3", &["xtask/package/archives.py"])
        .args([&stage, &root()])
        .arg(env!("CARGO_PKG_VERSION"))
        .arg(archives))
}

fn stage_all(built: &Path, stage: &Path) -> Result<()> {
    parts::stage(&root(), built, &stage.join(parts::FOLDER))?;
    std::fs::create_dir_all(stage.join("bin"))?;
    parts::strip(&built.join("apex"), &stage.join("bin/apex"))?;
    Ok(())
}

fn options(words: &[String]) -> Result<(Option<PathBuf>, Option<PathBuf>)> {
    let (mut from, mut output) = (None, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let place = match word.as_str() {
            "--from" => &mut from,
            "--output" => &mut output,
            other => bail!("cargo xtask package takes --from DIR and --output DIR, not {other}"),
        };
        let folder = words.next().with_context(|| format!("{word} needs a folder"))?;
        *place = Some(std::path::absolute(folder)?);
    }
    Ok((from, output))
}

#[cfg(test)]
mod tests {
    use super::options;

    #[test]
    fn a_wrong_word_is_named() {
        let said = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            options(&words).unwrap_err().to_string()
        };
        assert!(said(&["--form", "x"]).contains("--form"));
        assert!(said(&["--from"]).contains("needs a folder"));
    }
}
