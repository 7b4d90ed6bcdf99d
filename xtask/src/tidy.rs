//! The rules no compiler knows.
//!
//! Which crate may use which, that every module begins by saying its rule, that generated pages are
//! not stale, and in which files `unsafe` may stand. A new arrow between crates is a change of design:
//! it is made here, in a commit that says so.

use crate::docs;
use crate::run::root;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// Which crates of ours each crate may use.
const ARROWS: &[(&str, &[&str])] = &[
    ("apex-core", &[]),
    ("apex-cuda", &[]),
    ("apex-policy", &[]),
    ("apex-ptx", &[]),
    ("apex-shim", &["apex-core", "apex-cuda", "apex-policy"]),
    ("apex-engine", &["apex-ptx"]),
    ("apex-softgpu", &["apex-core", "apex-cuda", "apex-engine", "apex-policy", "apex-ptx"]),
    ("apex-standin", &["apex-cuda"]),
    ("apex-libcuda", &["apex-cuda", "apex-softgpu"]),
    ("apex-cudart", &["apex-cuda"]),
    ("apex-daemon", &["apex-core", "apex-cuda", "apex-policy"]),
    ("apex-exec", &["apex-core", "apex-cuda", "apex-policy", "apex-ptx"]),
    ("apex-train", &["apex-core", "apex-exec", "apex-policy", "apex-ptx"]),
    (
        "apex-cli",
        &["apex-core", "apex-cuda", "apex-daemon", "apex-exec", "apex-policy", "apex-train"],
    ),
    ("apex-e2e", &["apex-core", "apex-daemon"]),
    ("xtask", &["apex-core", "apex-cuda"]),
];

/// Crates whose every file forbids `unsafe`.
const SAFE_CRATES: &[&str] =
    &["crates/apex-daemon", "crates/apex-ptx", "crates/apex-train", "xtask"];

/// Crates that deny it in all files but one.
const NEARLY_SAFE_CRATES: &[(&str, &str)] =
    &[("crates/apex-policy", "crates/apex-policy/src/predict/products.rs")];

/// Checks every rule and names every breach.
pub(crate) fn tidy() -> Result<()> {
    let mut breaches = Vec::new();
    arrows(&mut breaches)?;
    module_headers(&mut breaches)?;
    safe_crates(&mut breaches)?;
    generated_pages(&mut breaches);
    for breach in &breaches {
        eprintln!("tidy: {breach}");
    }
    if !breaches.is_empty() {
        bail!("{} rules are broken", breaches.len());
    }
    eprintln!("tidy: all rules hold");
    Ok(())
}

fn arrows(breaches: &mut Vec<String>) -> Result<()> {
    for manifest in files(&root(), &|path| path.ends_with("Cargo.toml"))? {
        let text = std::fs::read_to_string(&manifest)?;
        let parsed: toml::Table =
            text.parse().with_context(|| format!("{} is not TOML", manifest.display()))?;
        let Some(name) = parsed.get("package").and_then(|package| package.get("name")?.as_str())
        else {
            continue;
        };
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            breaches.push(format!("{name} is not in the list of crates in xtask/src/tidy.rs"));
            continue;
        };
        let used = parsed.get("dependencies").and_then(toml::Value::as_table).into_iter().flatten();
        for (used, _) in used.filter(|(used, _)| used.starts_with("apex-")) {
            if !allowed.contains(&used.as_str()) {
                breaches.push(format!("{name} may not use {used}: a new arrow changes the design"));
            }
        }
    }
    Ok(())
}

fn module_headers(breaches: &mut Vec<String>) -> Result<()> {
    for source in files(&root(), &|path| path.extension().is_some_and(|end| end == "rs"))? {
        let text = std::fs::read_to_string(&source)?;
        if !text.starts_with("//!") {
            breaches.push(format!("{} does not begin by saying its rule (//!)", shown(&source)));
        }
    }
    Ok(())
}

fn safe_crates(breaches: &mut Vec<String>) -> Result<()> {
    for folder in SAFE_CRATES {
        let roots = ["src/lib.rs", "src/main.rs"].map(|file| root().join(folder).join(file));
        let found = roots.iter().find(|file| file.exists());
        let text = found.map(std::fs::read_to_string).transpose()?.unwrap_or_default();
        if !text.contains("#![forbid(unsafe_code)]") {
            breaches.push(format!("{folder} does not forbid unsafe code"));
        }
    }
    for (folder, exception) in NEARLY_SAFE_CRATES {
        let text = std::fs::read_to_string(root().join(folder).join("src/lib.rs"))?;
        if !text.contains("#![deny(unsafe_code)]") {
            breaches.push(format!("{folder} does not deny unsafe code"));
        }
        let sources =
            files(&root().join(folder), &|path| path.extension().is_some_and(|end| end == "rs"))?;
        for source in sources.iter().filter(|source| !source.ends_with(exception)) {
            if std::fs::read_to_string(source)?.contains("allow(unsafe_code)") {
                breaches.push(format!("{} allows unsafe code", shown(source)));
            }
        }
    }
    Ok(())
}

fn generated_pages(breaches: &mut Vec<String>) {
    for (path, content) in docs::pages() {
        if std::fs::read_to_string(root().join(path)).unwrap_or_default() != content {
            breaches.push(format!("{path} is stale: run cargo xtask docs"));
        }
    }
}

/// All files of the project that `wanted` takes; what Git ignores is left out.
fn files(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    const LEFT_OUT: [&str; 4] = ["target", "device-bundle", ".git", "node_modules"];
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

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}
