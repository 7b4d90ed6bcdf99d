//! Which crate may use which. A new arrow is a change of design: it is made here, in a commit that says so.

use anyhow::{Context, Result};
use std::path::Path;

/// The crates of ours that each crate may use, in code and in tests.
const ARROWS: &[(&str, &[&str])] = &[
    ("apex-core", &[]),
    ("apex-cuda", &[]),
    ("apex-policy", &[]),
    ("apex-models", &["apex-policy"]),
    ("apex-ptx", &[]),
    ("apex-ptxas", &["apex-ptx"]),
    ("apex-cublas", &["apex-cuda"]),
    ("apex-cudnn", &["apex-cuda"]),
    ("apex-nvml", &["apex-core", "apex-cuda"]),
    ("apex-nvjitlink", &["apex-ptx", "apex-ptxas"]),
    ("apex-fast", &["apex-core", "apex-cuda", "apex-policy", "apex-ptx", "apex-softgpu"]),
    (
        "apex-shim",
        &["apex-core", "apex-cuda", "apex-fast", "apex-models", "apex-policy", "apex-ptx"],
    ),
    ("apex-engine", &["apex-ptx"]),
    ("apex-softgpu", &["apex-core", "apex-cuda", "apex-engine", "apex-policy", "apex-ptx"]),
    ("apex-standin", &["apex-cuda"]),
    ("apex-libcuda", &["apex-cuda", "apex-softgpu"]),
    ("apex-cudart", &["apex-cuda"]),
    ("apex-doors", &[]),
    ("apex-daemon", &["apex-core", "apex-cuda", "apex-models", "apex-policy", "apex-ptx"]),
    ("apex-dashboard", &["apex-daemon"]),
    ("apex-exec", &["apex-core", "apex-cuda", "apex-models", "apex-policy", "apex-ptx"]),
    ("apex-train", &["apex-core", "apex-exec", "apex-models", "apex-policy", "apex-ptx"]),
    (
        "apex-bench",
        &[
            "apex-core",
            "apex-cuda",
            "apex-daemon",
            "apex-exec",
            "apex-models",
            "apex-policy",
            "apex-train",
        ],
    ),
    (
        "apex-cli",
        &[
            "apex-bench",
            "apex-core",
            "apex-cuda",
            "apex-daemon",
            "apex-dashboard",
            "apex-exec",
            "apex-models",
            "apex-policy",
            "apex-ptx",
            "apex-train",
        ],
    ),
    ("apex-e2e", &["apex-core", "apex-daemon"]),
    (
        "apex-random-input",
        &[
            "apex-core",
            "apex-cuda",
            "apex-daemon",
            "apex-dashboard",
            "apex-e2e",
            "apex-engine",
            "apex-models",
            "apex-policy",
            "apex-ptx",
            "apex-train",
        ],
    ),
    (
        "apex-random-order",
        &[
            "apex-core",
            "apex-cuda",
            "apex-e2e",
            "apex-engine",
            "apex-fast",
            "apex-policy",
            "apex-ptx",
            "apex-softgpu",
        ],
    ),
    ("xtask", &["apex-core", "apex-cuda", "apex-ptx"]),
];

/// The tables of a manifest that name other crates. What tests and build scripts use counts as what code uses: a crate
/// that can be built only with another cannot be understood without it.
const KINDS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// Names every arrow of a manifest that is not in the list.
pub(super) fn check(manifest: &Path, breaches: &mut Vec<String>) -> Result<()> {
    let text = std::fs::read_to_string(manifest)?;
    let found =
        breaches_of(&text).with_context(|| format!("{} is not TOML", manifest.display()))?;
    breaches.extend(found);
    Ok(())
}

fn breaches_of(manifest: &str) -> Result<Vec<String>, toml::de::Error> {
    let parsed: toml::Table = manifest.parse()?;
    let Some(name) = parsed.get("package").and_then(|package| package.get("name")?.as_str()) else {
        return Ok(Vec::new());
    };
    let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
        return Ok(vec![format!(
            "{name} is not in the list of crates in xtask/src/tidy/arrows.rs"
        )]);
    };
    let for_targets = parsed.get("target").and_then(toml::Value::as_table);
    let for_targets = for_targets.into_iter().flatten().filter_map(|(_, table)| table.as_table());
    let mut breaches = Vec::new();
    for table in std::iter::once(&parsed).chain(for_targets) {
        for kind in KINDS {
            let used = table.get(kind).and_then(toml::Value::as_table).into_iter().flatten();
            for (key, how) in used {
                // A crate may be used under another name.
                let used = how.get("package").and_then(toml::Value::as_str).unwrap_or(key);
                let is_ours = used.starts_with("apex-") || used == "xtask";
                if is_ours && !allowed.contains(&used) {
                    breaches.push(format!(
                        "{name} may not use {used} ({kind}): a new arrow changes the design"
                    ));
                }
            }
        }
    }
    Ok(breaches)
}

#[cfg(test)]
mod tests {
    use super::breaches_of;

    fn check(manifest: &str, expected: &[&str]) {
        let found = breaches_of(manifest).unwrap();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn an_arrow_of_any_kind_is_found() {
        let core = "[package]\nname = \"apex-core\"\n";
        let ours = "apex-shim.workspace = true";
        check(core, &[]);
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let expected = format!("apex-core may not use apex-shim ({kind})");
            check(&format!("{core}[{kind}]\n{ours}\nserde = \"1\""), &[&expected]);
            check(&format!("{core}[target.'cfg(unix)'.{kind}]\n{ours}"), &[&expected]);
        }
        let renamed = "[dependencies]\nsome = { path = \"x\", package = \"apex-shim\" }";
        check(&format!("{core}{renamed}"), &["apex-core may not use apex-shim"]);
    }

    #[test]
    fn an_arrow_of_the_list_is_allowed() {
        check("[package]\nname = \"apex-shim\"\n[dependencies]\napex-core.workspace = true", &[]);
    }

    #[test]
    fn an_unknown_crate_is_named() {
        check("[package]\nname = \"apex-other\"", &["apex-other is not in the list"]);
        check("[workspace]\nmembers = []", &[]);
    }
}
