//! Compiles the foreign programs, once for each content of their sources.
//!
//! Tests run as many processes at once, so a result is made under another name and renamed: whoever
//! comes second finds it whole.

use crate::tools::{scratch, sources, tools};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

const FLAGS: [&str; 8] =
    ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-rdynamic"];

/// A program that needs `libcuda.so.1` from its start.
pub fn linked(name: &str) -> PathBuf {
    compile(name, &[], Some(&tools().standin))
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
    let source = sources().join(format!("{name}.c"));
    let mut hash = DefaultHasher::new();
    for file in [&source, &sources().join("program.h"), &sources().join("cuda_driver.h")] {
        let text = std::fs::read(file)
            .unwrap_or_else(|error| panic!("{} is not read: {error}", file.display()));
        text.hash(&mut hash);
    }
    (FLAGS, options, driver.is_some()).hash(&mut hash);
    let made = scratch().join(format!("{name}-{:016x}", hash.finish()));
    if made.exists() {
        return made;
    }
    let part = made.with_extension(std::process::id().to_string());
    let mut gcc = Command::new("gcc");
    gcc.args(FLAGS).arg(&source).arg("-o").arg(&part).args(options);
    if let Some(driver) = driver {
        // Named by its path, the driver is entered by its SONAME.
        gcc.arg(driver);
    }
    let output = gcc.output().expect("gcc can be started");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}.c does not compile:\n{complaints}");
    std::fs::rename(&part, &made).expect("a program can be renamed");
    made
}
