//! The two libraries as programs meet them: linked, with the right names and versions, under C
//! programs that bring their own declarations and kernels.
//!
//! The archive and the driver are those that Cargo built beside this test; the libraries are linked
//! from the archive once per build.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

const MAJORS: [u32; 2] = [12, 13];

/// The folder with what is under test: `APEX_TEST_BIN`, or where Cargo put this test.
fn built() -> PathBuf {
    if let Some(named) = std::env::var_os("APEX_TEST_BIN") {
        return named.into();
    }
    let test = std::env::current_exe().expect("a test knows its own file");
    test.ancestors().nth(2).expect("Cargo builds tests two folders deep").to_owned()
}

fn found(name: &str) -> PathBuf {
    let file = built().join(name);
    assert!(file.exists(), "{} is not there: run cargo build --workspace", file.display());
    file
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A folder of this build's own: its name changes with the archive.
fn scratch() -> PathBuf {
    let archive = found("libapex_cudart.a");
    let changed = archive.metadata().and_then(|facts| facts.modified());
    let changed = changed.expect("the archive has a time");
    let stamp = changed.duration_since(UNIX_EPOCH).map_or(0, |age| age.as_nanos());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cudart-{stamp}"));
    std::fs::create_dir_all(&folder).expect("a test's own folder can be made");
    folder
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} ended with {}:\n{said}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The folder with both libraries.
fn libraries() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = scratch().join("lib");
        std::fs::create_dir_all(&folder).expect("a test's own folder can be made");
        if !MAJORS.iter().all(|major| folder.join(format!("libcudart.so.{major}")).exists()) {
            let script = root().join("crates/apex-cudart/link/link.sh");
            let archive = found("libapex_cudart.a");
            output(Command::new("sh").arg(script).arg(archive).arg(&folder));
        }
        folder
    })
}

/// A folder in which apex has the name under which programs ask for the driver.
fn driver() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        // Tests of one build may run as many processes: each has a copy of its own.
        let folder = scratch().join(format!("driver-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a test's own folder can be made");
        let shim = found("libapex_shim.so");
        std::fs::copy(shim, folder.join("libcuda.so.1")).expect("the driver can be copied");
        folder
    })
}

/// Compiles `name.c` for both versions and runs it, with a driver or without.
fn run(name: &str, with_driver: bool) {
    let (libraries, folder) = (libraries(), scratch());
    let source = root().join(format!("tests/programs/runtime/{name}.c"));
    for major in MAJORS {
        let program = folder.join(format!("{name}-{major}"));
        output(
            Command::new("gcc")
                .args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"])
                .arg(format!("-DCUDART={major}"))
                .arg(&source)
                .arg("-o")
                .arg(&program)
                .arg(libraries.join(format!("libcudart.so.{major}"))),
        );
        let mut timed = Command::new("timeout");
        timed.arg("60").arg(&program);
        let mut search = libraries.to_owned().into_os_string();
        if with_driver {
            search.push(":");
            search.push(driver());
            let real = found("libapex_softgpu.so");
            timed.env("APEX_REAL_LIBCUDA", real);
        }
        output(timed.env("LD_LIBRARY_PATH", search));
    }
}

#[test]
fn registered_kernels_and_variables() {
    run("registered", true);
}

#[test]
fn relocatable_units() {
    run("relocatable", true);
}

#[test]
fn memory_and_copies() {
    run("copies", true);
}

#[test]
fn textures_and_surfaces() {
    run("textures", true);
}

#[test]
fn faults_stay() {
    run("faults", true);
}

#[test]
fn graphs() {
    run("graphs", true);
}

#[test]
fn devices_threads_and_streams() {
    run("devices", true);
}

// Under a search path without a driver, and on a machine that has none.
#[test]
fn without_a_driver() {
    if Path::new("/dev/nvidiactl").exists() {
        return;
    }
    run("no_driver", false);
}

/// The names of a list of exports.
fn listed(major: u32) -> Vec<String> {
    let list = root().join(format!("crates/apex-cudart/link/libcudart.so.{major}.exports"));
    let text = std::fs::read_to_string(list).expect("the list is in the repository");
    text.lines().map(|line| line.split(" = ").next().unwrap_or(line).to_owned()).collect()
}

#[test]
fn every_listed_name_is_exported_under_its_version_and_nothing_else() {
    let folder = libraries();
    for major in MAJORS {
        let library = format!("libcudart.so.{major}");
        let mut nm = Command::new("nm");
        let symbols = output(nm.args(["-D", "--defined-only"]).arg(folder.join(&library)));
        let mut names = BTreeMap::new();
        for line in symbols.lines() {
            let [_, kind, symbol] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("nm wrote {line:?}");
            };
            let (name, version) = symbol.split_once("@@").unwrap_or((symbol, ""));
            if kind != "A" {
                assert_eq!((kind, version), ("T", library.as_str()), "{name}");
                names.insert(name.to_owned(), version.to_owned());
            }
        }
        assert_eq!(names.into_keys().collect::<Vec<_>>(), {
            let mut listed = listed(major);
            listed.sort();
            listed
        });
    }
}

#[test]
fn both_lists_have_what_cuda_12_9_and_13_4_export() {
    let (twelve, thirteen) = (listed(12), listed(13));
    assert_eq!((twelve.len(), thirteen.len()), (435, 458));
    for name in ["cudaLaunchKernel", "__cudaLaunchKernel", "cudaGraphAddNode", "cudaMemcpy_ptds"] {
        assert!(twelve.iter().any(|listed| listed == name), "{name}");
        assert!(thirteen.iter().any(|listed| listed == name), "{name}");
    }
}

#[test]
fn a_library_needs_nothing_but_the_system() {
    for major in MAJORS {
        let library = libraries().join(format!("libcudart.so.{major}"));
        let needed = output(Command::new("readelf").arg("-d").arg(library));
        for line in needed.lines().filter(|line| line.contains("(NEEDED)")) {
            let is_known = ["libc.so", "libgcc_s.so", "libm.so", "ld-linux"];
            assert!(is_known.iter().any(|name| line.contains(name)), "{line}");
        }
        assert!(needed.contains(&format!("[libcudart.so.{major}]")), "the SONAME is missing");
    }
}
