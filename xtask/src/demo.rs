//! The first five minutes: apex built, a CUDA program under it, its report.

use crate::cudart;
use crate::run::{cargo, command, root, run, target};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Builds apex and runs a CUDA program under it: apex takes the GPU where there is one, else the software
/// GPU, and says so.
///
/// All is built as the tests build it: what is on the program's way is built for speed in that profile too,
/// so nothing is built twice.
pub(crate) fn demo() -> Result<()> {
    let parts = ["apex-cli", "apex-shim", "apex-softgpu", "apex-cudart", "apex-doors"];
    let packages: Vec<&str> = parts.iter().flat_map(|name| ["--package", name]).collect();
    let built = build(&packages)?;
    let program = compile(&built)?;
    let kernels = root().join("tests/programs/demo.ptx");
    run(command(built.join("apex"), &["run", "--"]).arg(program).arg(kernels))
}

/// Builds what `apex run` needs with the software GPU, and says where.
pub(crate) fn build(packages: &[&str]) -> Result<PathBuf> {
    run(cargo(&["build"]).args(packages))?;
    let built = target().join("debug");
    cudart::link(&built, &built)?;
    Ok(built)
}

/// The demo program, linked as any CUDA program is: it needs `libcuda.so.1`, which is the shim's own name.
fn compile(built: &Path) -> Result<PathBuf> {
    let folder = target().join("demo");
    std::fs::create_dir_all(&folder).context("target/demo cannot be made")?;
    let program = folder.join("demo");
    run(command("gcc", &["-O2", "-o"])
        .arg(&program)
        .arg(root().join("tests/programs/demo.c"))
        .arg(built.join("libapex_shim.so")))?;
    Ok(program)
}

/// What travels to a machine with a GPU and without Rust: stripped binaries, the models, and `tests/device`.
pub(crate) fn bundle() -> Result<()> {
    // The libraries travel beside the command.
    run(cargo(&["build", "--release", "--workspace"]).env("APEX_EMBED", "0"))?;
    run(&mut cargo(&["build", "--release", "--package", "apex-policy", "--examples"]))?;
    let built = target().join("release");
    let folder = root().join("device-bundle");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).context("device-bundle cannot be made")?;
    cudart::link(&built, &folder)?;
    let travel = |file: PathBuf, name: &str| {
        let copy = folder.join(name);
        std::fs::copy(&file, &copy).with_context(|| format!("{} is not copied", file.display()))?;
        run(command("strip", &[]).arg(copy))
    };
    let libraries = ["shim", "softgpu", "libcuda", "standin", "doors"];
    for name in libraries.map(|name| format!("libapex_{name}.so")) {
        travel(built.join(&name), &name)?;
    }
    travel(built.join("apex"), "apex")?;
    travel(built.join("examples/check_occupancy"), "check_occupancy")?;
    travel(operations_test()?, "operations")?;
    // What code for newer chips is when it is brought down, and what it must give.
    let lowering =
        ["run", "--release", "--package", "apex-engine", "--example", "lowering", "--", "--write"];
    run(cargo(&lowering).arg(folder.join("lowering")))?;
    run(command("cp", &["-r", "models"]).arg(&folder))?;
    run(command("cp", &["-r", "tests/device"]).arg(&folder))
}

/// The tests of the executor's operations, built for speed: Cargo says where they lie.
fn operations_test() -> Result<PathBuf> {
    let words = ["test", "--release", "--package", "apex-exec", "--test", "operations", "--no-run"];
    let output = cargo(&words).output().context("cargo cannot be started")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let path = said.lines().find_map(|line| {
        line.trim_start().strip_prefix("Executable")?.split_once('(')?.1.strip_suffix(')')
    });
    let path = path.with_context(|| format!("the operations' tests are not built:\n{said}"))?;
    Ok(root().join(path))
}
