//! Compiles the foreign programs, once for each content of their sources.
//!
//! Tests run at once, as many processes or threads, so a result is made under another name and renamed:
//! whoever comes second finds it whole.

use crate::tools::{scratch, sources, tools};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

const FLAGS: [&str; 8] =
    ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-rdynamic"];

const CPP_FLAGS: [&str; 6] = ["-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-Werror"];

/// A program that needs `libcuda.so.1` from its start.
pub fn linked(name: &str) -> PathBuf {
    compile(name, &[], Some(&tools().libcuda))
}

/// A program of `runtime/` that needs `libcudart.so.13` from its start.
pub fn with_runtime(name: &str) -> PathBuf {
    compile(&format!("runtime/{name}"), &["-DCUDART=13"], Some(&tools().cudart))
}

/// A program of `runtime/` with NVIDIA's runtime linked in.
pub fn with_static_runtime(name: &str) -> PathBuf {
    let archive = toolkit().join("lib/libcudart_static.a");
    compile(&format!("runtime/{name}"), &["-DCUDART=13", "-lrt", "-ldl"], Some(&archive))
}

/// What nvcc makes of `name.cu`; `options` are its own.
pub fn nvcc(name: &str, options: &[&str]) -> PathBuf {
    let (compiler, libraries) = (toolkit().join("bin/nvcc"), toolkit().join("lib"));
    let flags = ["-std=c++17", "-L", libraries.to_str().expect("a path of the tests is a text")];
    let compiler = compiler.to_str().expect("a path of the tests is a text");
    compile_by(compiler, &flags, &format!("{name}.cu"), options, None)
}

/// NVIDIA's compiler with its libraries, which comes from PyPI.
///
/// # Panics
///
/// If it is not there.
fn toolkit() -> PathBuf {
    let packages = std::env::var_os("PYTHONPATH").unwrap_or_default();
    let folders = std::env::split_paths(&packages).map(|packages| packages.join("nvidia/cu13"));
    let found = folders.filter(|folder| folder.join("bin/nvcc").exists()).last();
    found.expect("nvcc is in no folder of PYTHONPATH: run cargo xtask test")
}

/// A C++ program that needs `libcuda.so.1` from its start.
pub fn linked_cpp(name: &str) -> PathBuf {
    compile_by("g++", &CPP_FLAGS, &format!("{name}.cpp"), &[], Some(&tools().libcuda))
}

/// A program that is linked with nothing and looks for the driver itself.
pub fn alone(name: &str) -> PathBuf {
    compile(name, &[], None)
}

/// A library from `name.c`, as `directory/file`; `options` are the linker's.
pub fn library(name: &str, directory: &Path, file: &str, options: &[&str]) -> PathBuf {
    let made = compile(name, &[&["-shared", "-fPIC"], options].concat(), None);
    let path = directory.join(file);
    std::fs::create_dir_all(directory).expect("a test's own directory can be made");
    std::fs::copy(made, &path).expect("a library can be copied");
    path
}

fn compile(name: &str, options: &[&str], driver: Option<&Path>) -> PathBuf {
    compile_by("gcc", &FLAGS, &format!("{name}.c"), options, driver)
}

fn compile_by(
    compiler: &str,
    flags: &[&str],
    file: &str,
    options: &[&str],
    driver: Option<&Path>,
) -> PathBuf {
    let source = sources().join(file);
    let mut hash = DefaultHasher::new();
    for header in [
        "program.h",
        "cuda_driver.h",
        "runtime/runtime.h",
        "../../include/apex.h",
        "../../include/cuda_scheduler/scheduler.hpp",
    ] {
        let file = sources().join(header);
        let text = std::fs::read(&file)
            .unwrap_or_else(|error| panic!("{} is not read: {error}", file.display()));
        text.hash(&mut hash);
    }
    let text = std::fs::read(&source).expect("a program's source can be read");
    (text, flags, options, driver).hash(&mut hash);
    let name = file.replace(['/', '.'], "-");
    let made = scratch().join(format!("{name}-{:016x}", hash.finish()));
    if made.exists() {
        return made;
    }
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let nth = COUNT.fetch_add(1, Ordering::Relaxed);
    let part = made.with_extension(format!("{}-{nth}", std::process::id()));
    let mut gcc = Command::new(compiler);
    gcc.args(flags).arg(&source).arg("-o").arg(&part);
    if let Some(driver) = driver {
        // Named by its path, the driver is entered by its SONAME.
        gcc.arg(driver);
    }
    gcc.args(options);
    let output = gcc.output().expect("the compiler can be started");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{file} does not compile:\n{complaints}");
    std::fs::rename(&part, &made).expect("a program can be renamed");
    made
}
