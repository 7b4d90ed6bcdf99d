//! What stands in for NVIDIA's libraries and programs on the software GPU: it answers under `apex run --device soft`,
//! and nowhere else.

use apex_e2e::{Place, Watched, linked};
use std::path::PathBuf;

/// A place in which no driver is on the library path, and apex decides.
fn bare() -> Place {
    Place::new().without("APEX_DEVICE").without("LD_LIBRARY_PATH")
}

/// The Python that tests use; its packages are those of `PYTHONPATH`.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("APEX_TEST_PYTHON")?;
    let output = std::process::Command::new(named)
        .args(["-c", "import sys; print(sys.executable)"])
        .output();
    Some(PathBuf::from(String::from_utf8(output.ok()?.stdout).ok()?.trim_end()))
}

/// Runs a script of `tests/programs/stand_ins` and compares the lines that it says.
fn check(script: &str, expected: &[&str]) {
    let Some(python) = python() else {
        eprintln!("left out: APEX_TEST_PYTHON names no Python");
        return;
    };
    let path = format!("{}/../programs/stand_ins/{script}.py", env!("CARGO_MANIFEST_DIR"));
    let Watched { ended, .. } = bare().watch_with(&["--device", "soft"], &python, &[&path]);
    ended.check_success();
    assert_eq!(ended.stdout.lines().collect::<Vec<_>>(), expected, "{}", ended.stderr);
}

#[test]
fn an_assembler_that_a_program_starts_is_ours_once_it_has_called_the_driver() {
    let program = linked("starts_assembler");
    let watched = bare().watch_with(&["--device", "soft"], &program, &[]);
    watched.ended.check_success();
    assert_eq!(watched.ended.stdout, "before: 0 of 8\nafter: 8 of 8\n", "{}", watched.ended.stderr);
    let plain = Place::new().plain(&program, &[]);
    plain.check_success();
    assert_eq!(plain.stdout, "before: 0 of 8\nafter: 0 of 8\n");
}

#[test]
fn with_another_driver_nothing_stands_in() {
    // The software GPU as a libcuda that the user named: apex does not know what it is.
    let watched = Place::new().watch(&linked("starts_assembler"), &[]);
    watched.ended.check_success();
    assert_eq!(watched.ended.stdout, "before: 0 of 8\nafter: 0 of 8\n", "{}", watched.ended.stderr);
}

#[test]
fn nvml_tells_the_devices() {
    let expected = [
        "devices: 1",
        "name: apex software GPU (H200)",
        "capability: 9 0",
        "not supported: nvmlDeviceGetPowerUsage",
        "not supported: nvmlDeviceGetFanSpeed",
        "used: 64 MiB",
        "own process has: 64 MiB",
    ];
    check("nvml", &expected);
}

#[test]
fn nvrtc_answers_with_ptx() {
    let expected =
        ["without machine code: 0", "machine code begins with: //", "loaded: 0", "right: True"];
    check("nvrtc", &expected);
}

#[test]
fn nvjitlink_links_ptx_and_refuses_ltoir() {
    let expected = [
        "makes callers emit LTO-IR: False",
        "LTO-IR: 8 code.ltoir: is no PTX; code for link-time optimisation (LTO-IR) is not linked for the software GPU",
        "right: True",
    ];
    check("nvjitlink", &expected);
}

#[test]
fn cublas_computes() {
    let expected = [
        "products: right",
        "batches: right",
        "vectors: right",
        "an epilogue that is not done: 15 0",
        "cublasLt: right",
        "what is not done: 15",
    ];
    check("cublas", &expected);
}
