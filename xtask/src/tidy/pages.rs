//! Paths that the pages name are there.
//!
//! A word in backticks is a path of the repository if it has a slash or ends in `.rs`, and nothing but letters, digits
//! and `_ - . /`. It must be the end of some path that is kept. A segment in capitals stands for any name; what builds
//! make is not looked for, nor is what begins outside of the repository.

use crate::sources::{LEFT_OUT, files, shown};
use anyhow::Result;
use std::collections::BTreeSet;
use std::path::Path;

/// Names every path of the pages that is not there.
pub(super) fn check(root: &Path, breaches: &mut Vec<String>) -> Result<()> {
    let known = endings(root)?;
    for page in files(root, &|path| path.extension().is_some_and(|end| end == "md"))? {
        let text = std::fs::read_to_string(&page)?;
        for (line, path) in named(&text) {
            if !known.contains(path.trim_end_matches('/')) {
                breaches.push(format!("{}:{line} names {path}, which is not there", shown(&page)));
            }
        }
    }
    Ok(())
}

/// The ends of all paths: of `a/b/c.rs` also `b/c.rs`, `a/b`, `b`.
fn endings(root: &Path) -> Result<BTreeSet<String>> {
    let mut known = BTreeSet::new();
    for path in files(root, &|_| true)? {
        let below = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        let segments: Vec<&str> = below.split('/').collect();
        for first in 0..segments.len() {
            known.extend((first + 1..=segments.len()).map(|end| segments[first..end].join("/")));
        }
    }
    Ok(known)
}

/// Every path of the repository that a page names, with its line; what stands between fences is no prose.
fn named(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_fenced = false;
    for (nth, line) in text.lines().enumerate() {
        is_fenced ^= line.trim_start().starts_with("```");
        if !is_fenced {
            let words = line.split('`').skip(1).step_by(2);
            found.extend(words.filter(|word| is_path(word)).map(|word| (nth + 1, word)));
        }
    }
    found
}

fn is_path(word: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
    let stands_for_any = |segment: &str| {
        let stem = segment.split('.').next().unwrap_or_default();
        !stem.is_empty() && stem.chars().all(|letter| letter.is_ascii_uppercase())
    };
    let first = word.split('/').next().unwrap_or_default();
    word.chars().all(is_plain)
        && (word.contains('/') || word.ends_with(".rs"))
        && first.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        && !LEFT_OUT.contains(&first)
        && !word.split('/').any(stands_for_any)
}

#[cfg(test)]
mod tests {
    use super::{endings, is_path, named};
    use crate::run::root;

    #[test]
    fn paths_of_the_repository_are_told_from_other_words() {
        for path in ["apex-shim/src/aspects/gate.rs", "docs/", "gate/flight.rs", "launch.rs"] {
            assert!(is_path(path), "{path}");
        }
        for word in [
            "/proc/self",
            "../lib",
            "a/*.rs",
            "cuda*/x",
            "hooks/FAMILY.rs",
            "target/debug",
            "--json",
            "f32",
        ] {
            assert!(!is_path(word), "{word}");
        }
    }

    #[test]
    fn a_path_that_is_not_there_is_found_with_its_line() {
        let text = "See `src/main.rs`.\n```\n`a/b.rs`\n```\nAnd `x/gone.rs` or `f()`.\n";
        assert_eq!(named(text), [(1, "src/main.rs"), (5, "x/gone.rs")]);
        let known = endings(&root().join("xtask")).unwrap();
        assert!(
            known.contains("src/main.rs")
                && known.contains("src/tidy")
                && !known.contains("x/gone.rs")
        );
    }
}
