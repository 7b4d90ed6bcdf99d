//! The rules no compiler knows.
//!
//! Each has a file or a function of its own: arrows between crates, circles of modules, headers, files with `unsafe`,
//! stale pages, paths that pages name, measured results that are not cited. That a decision reads no clock is left to clippy,
//! by `crates/apex-policy/clippy.toml`.

mod arrows;
mod modules;
mod pages;
mod paths;
mod tokens;
mod unsafe_files;

use crate::run::root;
use crate::sources::{files, shown};
use crate::{docs, results};
use anyhow::{Result, bail};
use std::path::PathBuf;

/// Checks every rule and names every breach.
pub(crate) fn tidy() -> Result<()> {
    let mut breaches = Vec::new();
    let sources = files(&root(), &|path| path.extension().is_some_and(|end| end == "rs"))?;
    for manifest in files(&root(), &|path| path.ends_with("Cargo.toml"))? {
        arrows::check(&manifest, &mut breaches)?;
        if let Some(folder) = manifest.parent().filter(|folder| folder.join("src").is_dir()) {
            modules::check(&shown(folder), folder, &mut breaches)?;
        }
    }
    module_headers(&sources, &mut breaches)?;
    unsafe_files::check(&root(), &sources, &mut breaches)?;
    results::check(&mut breaches)?;
    generated_pages(&mut breaches)?;
    pages::check(&root(), &mut breaches)?;
    for breach in &breaches {
        eprintln!("tidy: {breach}");
    }
    if !breaches.is_empty() {
        bail!("{} rules are broken", breaches.len());
    }
    eprintln!("tidy: all rules hold");
    Ok(())
}

fn module_headers(sources: &[PathBuf], breaches: &mut Vec<String>) -> Result<()> {
    for source in sources {
        if !says_its_rule(&std::fs::read_to_string(source)?) {
            breaches.push(format!("{} does not begin by saying its rule (//!)", shown(source)));
        }
    }
    Ok(())
}

fn says_its_rule(source: &str) -> bool {
    source.starts_with("//!")
}

fn generated_pages(breaches: &mut Vec<String>) -> Result<()> {
    for page in docs::pages()? {
        if page.is_stale()? {
            breaches.push(format!("{} is stale: run cargo xtask docs", page.path));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::says_its_rule;
    use crate::run::{root, target};
    use std::process::Command;

    #[test]
    fn a_module_without_its_rule_is_found() {
        assert!(says_its_rule("//! Reads a clock.\n"));
        assert!(!says_its_rule("use std::fmt;\n//! Reads a clock.\n"));
    }

    /// What clippy says of a function in apex-policy.
    fn policy_check(body: &str) -> String {
        let folder = target().join("tidy-tests");
        std::fs::create_dir_all(&folder).unwrap();
        let source = folder.join("decision.rs");
        std::fs::write(&source, format!("//! A decision.\npub fn f() {{ {body} }}\n")).unwrap();
        let lints = ["disallowed_types", "disallowed_methods"];
        let output = Command::new("clippy-driver")
            .args(["--crate-type", "lib", "--edition", "2024", "--emit", "metadata", "-o"])
            .arg(folder.join("decision.rmeta"))
            .args(lints.iter().flat_map(|lint| ["-D".into(), format!("clippy::{lint}")]))
            .arg(source)
            .env("CLIPPY_CONF_DIR", root().join("crates/apex-policy"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), said.is_empty(), "{said}");
        said
    }

    /// The rule itself is clippy's: `crates/apex-policy/clippy.toml`.
    #[test]
    fn a_clock_a_file_or_a_thread_in_a_decision_is_found() {
        assert_eq!(policy_check("let _ = std::time::Duration::from_secs(1);"), "");
        for (body, path) in [
            ("let _ = std::time::Instant::now();", "std::time::Instant"),
            ("let _ = std::time::SystemTime::now();", "std::time::SystemTime"),
            ("let _ = std::fs::read(\"x\");", "std::fs::read"),
            ("let _ = std::fs::File::open(\"x\");", "std::fs::File"),
            ("let _ = std::env::var(\"X\");", "std::env::var"),
            ("let _ = std::thread::spawn(|| ());", "std::thread::spawn"),
            ("let _ = std::process::Command::new(\"x\");", "std::process::Command"),
        ] {
            let said = policy_check(body);
            assert!(said.contains("disallowed") && said.contains(path), "{body}: {said}");
        }
    }
}
