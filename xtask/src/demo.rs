//! The first five minutes: apex built, a CUDA program under it, its report.

use crate::run::{cargo, command, root, run, target};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Builds apex and runs a CUDA program under it: on the GPU where there is one, else on the stand-in
/// driver, which answers every call but runs no kernel.
///
/// What lives in the program is built in release; the command itself as the tests build it, which takes
/// half the time and is not on anyone's way here.
pub(crate) fn demo() -> Result<()> {
    run(&mut cargo(&["build", "--package", "apex-cli"]))?;
    let inside = ["--package", "apex-shim", "--package", "apex-standin"];
    run(cargo(&["build", "--release"]).args(inside))?;
    let folder = target().join("demo");
    std::fs::create_dir_all(&folder).context("target/demo cannot be made")?;
    let apex = place(&target().join("debug/apex"), &folder, "apex")?;
    let shim = target().join("release/libapex_shim.so");
    place(&shim, &folder, "libapex_shim.so")?;
    // The name under which every CUDA program asks for its driver.
    place(&shim, &folder, "libcuda.so.1")?;
    let mut apex = command(apex, &["run", "--"]);
    apex.arg(compile(&folder)?);
    if Path::new("/dev/nvidiactl").exists() {
        eprintln!("xtask: an NVIDIA device is there: the program runs on it");
    } else {
        eprintln!(
            "xtask: no GPU here: the program runs on the stand-in driver, kernels do not run"
        );
        apex.env("APEX_REAL_LIBCUDA", target().join("release/libapex_standin.so"));
    }
    run(&mut apex)
}

/// Puts a copy of a file into a folder. An old copy goes first: it may be mapped by a program.
fn place(file: &Path, folder: &Path, name: &str) -> Result<PathBuf> {
    let copy = folder.join(name);
    let _ = std::fs::remove_file(&copy);
    std::fs::copy(file, &copy).with_context(|| format!("{} is not copied", file.display()))?;
    Ok(copy)
}

/// The demo program, linked as any CUDA program is: it needs `libcuda.so.1`.
fn compile(folder: &Path) -> Result<PathBuf> {
    let program = folder.join("vector_add");
    run(command("gcc", &["-O2", "-o"])
        .arg(&program)
        .arg(root().join("tests/programs/vector_add.c"))
        .arg("-L")
        .arg(folder)
        .arg("-l:libcuda.so.1"))?;
    Ok(program)
}

/// What travels to a machine with a GPU and without Rust: stripped binaries and `tests/device`.
pub(crate) fn bundle() -> Result<()> {
    run(&mut cargo(&["build", "--release", "--workspace"]))?;
    run(&mut cargo(&["build", "--release", "--package", "apex-policy", "--examples"]))?;
    let built = target().join("release");
    let folder = root().join("device-bundle");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).context("device-bundle cannot be made")?;
    for file in ["apex", "libapex_shim.so", "libapex_standin.so", "examples/check_occupancy"] {
        let name = file.rsplit('/').next().unwrap_or(file);
        run(command("strip", &[]).arg(place(&built.join(file), &folder, name)?))?;
    }
    run(command("cp", &["-r"]).arg(root().join("tests/device")).arg(folder.join("device")))
}
