//! Finds what is under test: apex, its shim, the software GPU as a driver, all built before.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The files under test.
#[derive(Debug)]
pub struct Tools {
    /// The command.
    pub apex: PathBuf,
    /// What stands where programs look for the driver.
    pub shim: PathBuf,
    /// The software GPU as a libcuda.
    pub libcuda: PathBuf,
    /// The runtime library of CUDA 13 on the software GPU.
    pub cudart: PathBuf,
    /// A driver that does nothing, for what must not be mixed with a driver's own doings.
    pub standin: PathBuf,
}

/// The files under test: in the directory that `APEX_TEST_BIN` names, or where Cargo put this test.
///
/// # Panics
///
/// If one of them is not there.
pub fn tools() -> &'static Tools {
    static TOOLS: OnceLock<Tools> = OnceLock::new();
    TOOLS.get_or_init(|| {
        let named = std::env::var_os("APEX_TEST_BIN").map(PathBuf::from);
        let directory = named.unwrap_or_else(|| built().to_owned());
        let file = |name: &str| {
            let path = directory.join(name);
            assert!(path.exists(), "{} is not there: run cargo xtask test", path.display());
            path
        };
        Tools {
            apex: file("apex"),
            shim: file("libapex_shim.so"),
            libcuda: file("libapex_libcuda.so"),
            cudart: file("cudart/libcudart.so.13"),
            standin: file("libapex_standin.so"),
        }
    })
}

/// Where Cargo puts what it builds, as this program's own place tells: `target/debug/deps/test-…` of a test,
/// `target/debug/name` of another program.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let program = std::env::current_exe().expect("a program knows where it lies");
        let folder = program.parent().expect("a program lies in a folder");
        let built = if folder.ends_with("deps") { folder.parent() } else { Some(folder) };
        built.expect("a test lies in target/debug/deps").to_owned()
    })
}

/// A directory for what tests make, beside what Cargo builds.
pub(crate) fn scratch() -> PathBuf {
    let directory = built().with_file_name("tmp").join("apex-e2e");
    std::fs::create_dir_all(&directory).expect("target/tmp can be made");
    directory
}

/// The directory of the foreign programs.
pub(crate) fn sources() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../programs"))
}
