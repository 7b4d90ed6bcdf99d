//! Makes the PTX that is kept beside every source under `kernels/`; run it after changing one.
//!
//! It needs NVRTC, in the version that the test of the kept PTX names. A source that does not compile is told
//! with the compiler's log, and its PTX is left as it was.

use apex_exec::{CompileOptions, compile_to_ptx};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut failed = false;
    for source in kept_sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels")) {
        match keep(&source) {
            Ok(changed) => {
                println!(
                    "{}: {}",
                    source.display(),
                    if changed { "kept anew" } else { "as before" }
                );
            }
            Err(reason) => {
                eprintln!("{}: {reason}", source.display());
                failed = true;
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Whether the PTX of a source has changed.
fn keep(path: &Path) -> Result<bool, String> {
    let source = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let options = CompileOptions::of_source(&source).include(path.parent().unwrap_or(path));
    let ptx = compile_to_ptx(&source, &options).map_err(|error| error.to_string())?;
    let kept = path.with_extension("ptx");
    if std::fs::read_to_string(&kept).is_ok_and(|before| before == ptx) {
        return Ok(false);
    }
    std::fs::write(&kept, ptx).map_err(|error| error.to_string())?;
    Ok(true)
}

/// Every source whose PTX is kept.
fn kept_sources(folder: &Path) -> Vec<PathBuf> {
    let is_kept = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        !text.lines().any(|line| line.starts_with("// keep: nothing"))
    };
    sources(folder).into_iter().filter(is_kept).collect()
}

/// Every `.cu` file below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "cu") {
            found.push(path);
        }
    }
    found.sort();
    found
}
