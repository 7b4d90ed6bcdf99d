//! All tests, with everything they need installed first.
//!
//! Foreign readers of our exports (pyarrow, Perfetto's own schema, a JSON-schema checker) and NVIDIA's run-time
//! compiler with its headers come from PyPI into a folder under `target/`, with pip alone: a system Python often
//! lacks `venv`. The compiler has the version that the kept PTX was made with. The last thing printed is the
//! runner's own count.

use crate::cudart;
use crate::run::{cargo, command, run, target};
use crate::tidy;
use anyhow::{Context, Result};
use std::path::PathBuf;

const PYTHON_PACKAGES: [&str; 6] = [
    "pyarrow",
    "perfetto",
    "protobuf",
    "jsonschema",
    "nvidia-cuda-nvrtc==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
];

/// Checks form, rules and behaviour.
pub(crate) fn test() -> Result<()> {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    tidy::tidy()?;
    let packages = python_packages()?;
    run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    // The libraries under test are loaded by path: Cargo does not build them for a test by itself.
    run(&mut cargo(&["build", "--workspace"]))?;
    cudart::link(&target().join("debug"), &target().join("debug"))?;
    run(cargo(&["test", "--package", "apex-core", "--lib", "exhaustive"])
        .env("RUSTFLAGS", "--cfg loom")
        .env("CARGO_TARGET_DIR", target().join("loom")))?;
    // Examples in the documentation run from a folder of their own, where no library lies beside them.
    run(cargo(&["test", "--workspace", "--doc", "--quiet"])
        .env("PYTHONPATH", &packages)
        .env("APEX_KERNEL_CACHE", target().join("kernel-cache"))
        .env("APEX_SOFTGPU_LIBRARY", target().join("debug/libapex_softgpu.so")))?;
    run(cargo(&["nextest", "run", "--workspace", "--no-fail-fast"])
        .env("APEX_TEST_PYTHON", "python3")
        .env("PYTHONPATH", packages)
        .env("APEX_KERNEL_CACHE", target().join("kernel-cache"))
        .env("APEX_TEST_BIN", target().join("debug")))
}

/// A folder with the foreign readers, for Python to look in.
fn python_packages() -> Result<PathBuf> {
    let folder = target().join("python-packages");
    let installed = folder.join("installed");
    let wanted = PYTHON_PACKAGES.join("\n");
    if std::fs::read_to_string(&installed).is_ok_and(|packages| packages == wanted) {
        return Ok(folder);
    }
    let _ = std::fs::remove_dir_all(&folder);
    run(command("python3", &["-m", "pip", "install", "--quiet", "--target"])
        .arg(&folder)
        .args(PYTHON_PACKAGES))?;
    std::fs::write(&installed, wanted).context("the list of installed packages is not written")?;
    Ok(folder)
}
