//! What apex needs beside its command, and where it lies when installed: the one list for `cargo install`, the wheel
//! and the tarball.
//!
//! The command lies in `PREFIX/bin`, everything else in `PREFIX/lib/apex`: one folder, so that it can be replaced and
//! removed whole. The build script of the command and `cargo xtask package` both take this file in.

use std::io;
use std::path::Path;
use std::process::Command;

/// Below the prefix: the folder of everything but the command.
pub(crate) const FOLDER: &str = "lib/apex";

/// The crates that the libraries are built of, beside the command.
pub(crate) const CRATES: [&str; 10] = [
    "apex-shim",
    "apex-softgpu",
    "apex-libcuda",
    "apex-cudart",
    "apex-doors",
    "apex-ptxas",
    "apex-nvjitlink",
    "apex-nvml",
    "apex-cublas",
    "apex-cudnn",
];

/// What Cargo links: libraries, and a program that frameworks start.
const LINKED: [&str; 9] = [
    "libapex_shim.so",
    "libapex_softgpu.so",
    "libapex_libcuda.so",
    "libapex_doors.so",
    "apex-ptxas",
    "libapex_nvjitlink.so",
    "libapex_nvml.so",
    "libapex_cublas.so",
    "libapex_cudnn.so",
];

/// The trained models, what they were trained from, and their cards.
const MODELS: [&str; 12] = [
    "check-set.safetensors",
    "h200.md",
    "h200.parquet",
    "kernels-1.history",
    "large-network-int8.onnx",
    "large-network.onnx",
    "manifest.json",
    "models.md",
    "programs.md",
    "programs.safetensors",
    "small-network.safetensors",
    "trees.safetensors",
];

/// For programs that talk to apex.
const HEADERS: [&str; 2] = ["apex.h", "cuda_scheduler/scheduler.hpp"];

/// Puts every part into a folder: libraries from where Cargo built them, the rest from the source tree.
///
/// # Errors
///
/// When a part is not there, or cannot be written; the sentence names it.
pub(crate) fn stage(source: &Path, built: &Path, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder.join("models"))?;
    std::fs::create_dir_all(folder.join("cudart"))?;
    std::fs::create_dir_all(folder.join("include/cuda_scheduler"))?;
    for name in LINKED {
        strip(&built.join(name), &folder.join(name))?;
    }
    let link = source.join("crates/apex-cudart/link/link.sh");
    let archive = built.join("libapex_cudart.a");
    finish(Command::new("sh").arg(link).arg(archive).arg(folder.join("cudart")))?;
    for (below, names) in [("models", MODELS.as_slice()), ("include", &HEADERS)] {
        for name in names {
            copy(&source.join(below).join(name), &folder.join(below).join(name))?;
        }
    }
    Ok(())
}

/// A copy of a program or library without what only a debugger reads.
///
/// # Errors
///
/// When it is not there, or `strip` cannot be run.
pub(crate) fn strip(from: &Path, to: &Path) -> io::Result<()> {
    copy(from, to)?;
    finish(Command::new("strip").arg(to))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::copy(from, to).map(drop).map_err(|error| named(from, &error))
}

fn finish(command: &mut Command) -> io::Result<()> {
    let status =
        command.status().map_err(|error| named(Path::new(command.get_program()), &error))?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{command:?} ended with {status}")))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
