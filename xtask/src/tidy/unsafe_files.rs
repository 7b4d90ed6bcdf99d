//! In which files `unsafe` may stand.
//!
//! It stays at the borders: to the driver's C functions, to shared memory, to compiled code. A crate that has no such
//! file forbids `unsafe` itself, so that the compiler says at once what this list would say later.

use super::tokens::{Token, tokens};
use anyhow::Result;
use std::path::Path;

/// Files and, with a stroke at the end, folders. What lies in none of them has no `unsafe`; what is listed has some.
const ALLOWED: &[&str] = &[
    // Shared memory, and the processor's clock.
    "crates/apex-core/src/alive.rs",
    "crates/apex-core/src/answer_page.rs",
    "crates/apex-core/src/fetch.rs",
    "crates/apex-core/src/gate_page.rs",
    "crates/apex-core/src/kept.rs",
    "crates/apex-core/src/ring.rs",
    "crates/apex-core/src/time.rs",
    // The driver's face, and the libraries and memory that are not ours.
    "crates/apex-cuda/src/driver.rs",
    "crates/apex-cuda/src/foreign.rs",
    "crates/apex-cuda/src/image.rs",
    "crates/apex-cuda/src/library.rs",
    "crates/apex-cuda/src/soft.rs",
    "crates/apex-cuda/src/stand_in.rs",
    "crates/apex-cuda/src/types.rs",
    // Exported C functions, which take a program's own pointers.
    "crates/apex-cudart/src/",
    "crates/apex-doors/src/entries.rs",
    "crates/apex-libcuda/src/lib.rs",
    "crates/apex-fast/src/",
    "crates/apex-cublas/src/handle.rs",
    "crates/apex-cublas/src/kernels.rs",
    "crates/apex-cublas/src/matmul.rs",
    "crates/apex-cublas/src/matrix.rs",
    "crates/apex-cublas/src/product.rs",
    "crates/apex-cublas/src/status.rs",
    "crates/apex-cublas/src/vector.rs",
    "crates/apex-cudnn/src/answers.rs",
    "crates/apex-nvjitlink/src/exports.rs",
    "crates/apex-nvml/src/answers.rs",
    "crates/apex-nvml/src/border.rs",
    "crates/apex-nvml/src/devices.rs",
    "crates/apex-shim/src/",
    "crates/apex-softgpu/src/",
    "crates/apex-softgpu/examples/",
    "crates/apex-softgpu/tests/",
    "crates/apex-standin/src/lib.rs",
    // The loader's list, a library of ours, and code that is not ours.
    "crates/apex-doors/src/objects.rs",
    "crates/apex-doors/src/ours.rs",
    "crates/apex-doors/src/place.rs",
    // Memory of kernels, and the code that they are compiled to.
    "crates/apex-engine/src/fault/",
    "crates/apex-engine/src/frame.rs",
    "crates/apex-engine/src/grid/unit.rs",
    "crates/apex-engine/src/interpret.rs",
    "crates/apex-engine/src/interpret/",
    "crates/apex-engine/src/jit/",
    "crates/apex-engine/src/module/image.rs",
    "crates/apex-engine/examples/kernels.rs",
    "crates/apex-engine/tests/",
    // Calls of the driver and of NVIDIA's libraries.
    "crates/apex-exec/src/calls.rs",
    "crates/apex-exec/src/code.rs",
    "crates/apex-exec/src/context.rs",
    "crates/apex-exec/src/driver.rs",
    "crates/apex-exec/src/launch.rs",
    "crates/apex-exec/src/libraries.rs",
    "crates/apex-exec/src/product/cublas.rs",
    "crates/apex-exec/src/product/tensor_map.rs",
    "crates/apex-exec/src/memory.rs",
    "crates/apex-exec/src/nvrtc.rs",
    "crates/apex-exec/src/pinned.rs",
    "crates/apex-exec/src/query.rs",
    "crates/apex-exec/src/zoo/clocks.rs",
    "crates/apex-bench/src/calls.rs",
    "crates/apex-bench/src/exec/launches.rs",
    "crates/apex-bench/src/launch/calls.rs",
    "crates/apex-bench/src/launch/graphs.rs",
    "crates/apex-bench/src/kernels.rs",
    "crates/apex-bench/src/memory/calls.rs",
    "crates/apex-bench/src/memory/peak.rs",
    "crates/apex-bench/src/libraries.rs",
    "crates/apex-bench/src/sched/utilisation.rs",
    "tests/random-input/src/readers/image.rs",
    "tests/random-order/src/perform.rs",
    "tests/random-order/src/perform/",
    "tests/random-order/src/side.rs",
    "tests/random-order/src/worker.rs",
    // Code between fork and exec.
    "crates/apex-bench/src/child.rs",
    // Vector instructions of the processor.
    "crates/apex-models/src/products.rs",
];

/// A source file with its path from the project's root.
pub(super) struct Source {
    pub(super) path: String,
    pub(super) text: String,
}

/// Names files with `unsafe` that are not in the list, entries of the list that are not needed, and safe crates that do
/// not forbid it.
pub(super) fn check(
    root: &Path,
    sources: &[std::path::PathBuf],
    breaches: &mut Vec<String>,
) -> Result<()> {
    let mut read = Vec::new();
    for path in sources {
        let text = std::fs::read_to_string(path)?;
        let path = path.strip_prefix(root).unwrap_or(path).display().to_string();
        read.push(Source { path, text });
    }
    breaches.extend(breaches_of(&read, ALLOWED));
    Ok(())
}

fn breaches_of(sources: &[Source], allowed: &[&str]) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut used = vec![false; allowed.len()];
    for source in sources.iter().filter(|source| has_unsafe(&source.text)) {
        let mut covered = false;
        for (entry, used) in allowed.iter().zip(&mut used) {
            let covers =
                source.path == *entry || (entry.ends_with('/') && source.path.starts_with(entry));
            *used |= covers;
            covered |= covers;
        }
        if !covered {
            breaches.push(format!(
                "{} has unsafe and is not in the list of xtask/src/tidy/unsafe_files.rs",
                source.path
            ));
        }
    }
    for (entry, _) in allowed.iter().zip(used).filter(|(_, used)| !used) {
        breaches.push(format!("{entry} has no unsafe any more: take it out of the list"));
    }
    for source in sources {
        let Some(folder) =
            source.path.strip_suffix("src/lib.rs").or(source.path.strip_suffix("src/main.rs"))
        else {
            continue;
        };
        let in_source = format!("{folder}src/");
        let is_safe = !allowed.iter().any(|entry| entry.starts_with(&in_source));
        if is_safe && !source.text.contains("#![forbid(unsafe_code)]") {
            breaches.push(format!("{} does not forbid unsafe code", source.path));
        }
    }
    breaches
}

fn has_unsafe(text: &str) -> bool {
    tokens(text).iter().any(|(token, _)| *token == Token::Word("unsafe".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], allowed: &[&str], expected: &[&str]) {
        let source = |&(path, text): &(&str, &str)| Source { path: path.into(), text: text.into() };
        let sources: Vec<Source> = files.iter().map(source).collect();
        let found = breaches_of(&sources, allowed);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found}");
        }
    }

    const USES: &str = "fn f() { unsafe { g() } }";

    #[test]
    fn a_file_with_unsafe_is_found() {
        check(&[("crates/a/src/b.rs", USES)], &[], &["crates/a/src/b.rs has unsafe"]);
        check(&[("crates/a/src/b.rs", USES)], &["crates/a/src/b.rs"], &[]);
        check(&[("crates/a/src/b/c.rs", USES)], &["crates/a/src/b/"], &[]);
        check(&[("crates/a/src/b.rs", "// unsafe\nfn f() { say(\"unsafe\") }")], &[], &[]);
    }

    #[test]
    fn an_entry_that_is_not_needed_is_found() {
        check(&[("crates/a/src/b.rs", "")], &["crates/a/src/b.rs"], &["no unsafe any more"]);
    }

    #[test]
    fn a_crate_without_any_forbids_it() {
        let root = "crates/a/src/lib.rs";
        check(&[(root, "")], &[], &["does not forbid"]);
        check(&[(root, "#![forbid(unsafe_code)]")], &[], &[]);
        check(&[(root, ""), ("crates/a/src/b.rs", USES)], &["crates/a/src/b.rs"], &[]);
    }
}
