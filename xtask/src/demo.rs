//! The first five minutes: apex built, a CUDA program under it, its report.

use crate::run::{cargo, command, root, run, target};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Builds apex in release and runs a CUDA program under it: on the GPU where there is one, else on the
/// stand-in driver, which answers every call but runs no kernel.
pub(crate) fn demo() -> Result<()> {
    run(&mut cargo(&["build", "--release", "--package", "apex-cli"]))?;
    run(&mut cargo(&[
        "build",
        "--release",
        "--package",
        "apex-shim",
        "--package",
        "apex-standin",
    ]))?;
    let built = target().join("release");
    let program = compile(&built)?;
    let mut apex = command(built.join("apex"), &["run", "--"]);
    apex.arg(program);
    if Path::new("/dev/nvidiactl").exists() {
        eprintln!("xtask: an NVIDIA device is there: the program runs on it");
    } else {
        eprintln!(
            "xtask: no GPU here: the program runs on the stand-in driver, kernels do not run"
        );
        apex.env("APEX_REAL_LIBCUDA", built.join("libapex_standin.so"));
    }
    run(&mut apex)
}

/// The demo program, linked as any CUDA program is: it needs `libcuda.so.1`.
fn compile(built: &Path) -> Result<PathBuf> {
    let folder = target().join("demo");
    std::fs::create_dir_all(&folder).context("target/demo cannot be made")?;
    let library = folder.join("libcuda.so.1");
    let _ = std::fs::remove_file(&library);
    std::fs::copy(built.join("libapex_shim.so"), &library).context("the shim is not copied")?;
    let program = folder.join("vector_add");
    run(command("gcc", &["-O2", "-o"])
        .arg(&program)
        .arg(root().join("tests/programs/vector_add.c"))
        .arg("-L")
        .arg(&folder)
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
        let copied = folder.join(Path::new(file).file_name().unwrap_or_default());
        std::fs::copy(built.join(file), &copied)
            .with_context(|| format!("{file} is not copied"))?;
        run(command("strip", &[]).arg(&copied))?;
    }
    run(command("cp", &["-r"]).arg(root().join("tests/device")).arg(folder.join("device")))
}
