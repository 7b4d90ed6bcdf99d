//! Finds the libraries that a session needs: the shim, the real driver, CUPTI.
//!
//! Nothing is loaded here. The real driver is whatever the loader would give a program, so the loader
//! itself is asked: a helper process is started with the driver named for preloading, and reads from
//! its own memory map what was found. `LD_LIBRARY_PATH`, compat packages and containers are thereby
//! respected.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use std::process::{Child, Command, Stdio};

/// SONAME of the driver.
pub const DRIVER: &str = "libcuda.so.1";
/// File name of the shim.
pub const SHIM: &str = "libapex_shim.so";
/// File name of the software GPU.
pub const SOFTGPU: &str = "libapex_softgpu.so";
/// What to do where one of them is missing.
pub const REMEDY: &str =
    "install apex whole (README.md), or build it with `cargo build --workspace`";
/// Our runtime libraries, and what puts them in the place of a runtime that is linked into a program: the name a program
/// asks for, and the file.
pub const RUNTIMES: [(&str, &str); 3] = [
    ("libapex_doors.so", "libapex_doors.so"),
    ("libcudart.so.12", "cudart/libcudart.so.12"),
    ("libcudart.so.13", "cudart/libcudart.so.13"),
];
/// Further libraries and programs of ours for the software GPU: the name a program asks for, and the file.
pub const STAND_INS: &[(&str, &str)] = &[
    ("ptxas", "apex-ptxas"),
    ("ptxas-blackwell", "apex-ptxas"),
    ("libcublas.so.12", "libapex_cublas.so"),
    ("libcublas.so.13", "libapex_cublas.so"),
    ("libcublasLt.so.12", "libapex_cublas.so"),
    ("libcublasLt.so.13", "libapex_cublas.so"),
    ("libcudnn.so.9", "libapex_cudnn.so"),
    ("libnvidia-ml.so.1", "libapex_nvml.so"),
    ("libnvJitLink.so.12", "libapex_nvjitlink.so"),
    ("libnvJitLink.so.13", "libapex_nvjitlink.so"),
];

/// Whether a GPU has left device nodes below this root: NVIDIA's, or those of WSL and of a Tegra.
#[must_use]
pub fn gpu_nodes(root: &Path) -> bool {
    let device = root.join("dev");
    let numbered = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name["nvidia".len()..].parse::<u32>().is_ok()
    };
    children(&device, "nvidia").iter().any(numbered)
        || ["dxg", "nvhost-gpu", "nvgpu"].iter().any(|name| device.join(name).exists())
}

/// The loader is being asked for the driver, by a process of its own. Nothing is left of it in the end.
#[derive(Debug)]
pub struct AskedLoader(Child);

impl AskedLoader {
    /// Begins to ask. `helper` is the apex executable and its hidden argument, which prints [`mapped_driver`].
    #[must_use]
    pub fn ask(helper: &Path, argument: &str) -> Option<AskedLoader> {
        Command::new(helper)
            .arg(argument)
            .env("LD_PRELOAD", DRIVER)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()
            .map(AskedLoader)
    }

    /// The driver, once the loader has answered.
    #[must_use]
    pub fn driver(mut self) -> Option<PathBuf> {
        let mut answer = String::new();
        self.0.stdout.take()?.read_to_string(&mut answer).ok()?;
        let path = PathBuf::from(answer.trim_end_matches('\n'));
        path.is_absolute().then_some(path)
    }
}

impl Drop for AskedLoader {
    fn drop(&mut self) {
        // Whoever no longer wants the answer may become the program, which must find no child that it did not start.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The driver in a memory map as `/proc/PID/maps` has it.
#[must_use]
pub fn mapped_driver(maps: &str) -> Option<&str> {
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    paths.into_iter().find(|path| {
        Path::new(path)
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("libcuda.so"))
    })
}

/// The shim that belongs to this executable: beside it, or in `../lib/apex` when installed.
#[must_use]
pub fn shim(executable: &Path) -> Option<PathBuf> {
    library(executable, SHIM)
}

/// A library that belongs to this executable, by its file name.
#[must_use]
pub fn library(executable: &Path, name: &str) -> Option<PathBuf> {
    let directory = executable.parent()?;
    [
        directory.join(name),
        directory.join("../lib/apex").join(name),
        directory.join("deps").join(name),
    ]
    .into_iter()
    .find_map(|path| fs::canonicalize(path).ok())
}

/// The newest CUPTI in the usual places.
#[must_use]
pub fn cupti(lookup: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let mut places: Vec<PathBuf> = Vec::new();
    places.extend(lookup("LD_LIBRARY_PATH").iter().flat_map(|paths| std::env::split_paths(paths)));
    let homes = ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(|name| lookup(name));
    for home in homes.map(PathBuf::from).chain(children(Path::new("/usr/local"), "cuda")) {
        for below in ["extras/CUPTI/lib64", "targets/x86_64-linux/lib", "lib64"] {
            places.push(home.join(below));
        }
    }
    for packages in lookup("PATH").iter().flat_map(|path| site_packages(path)) {
        let nvidia = children(&packages.join("nvidia"), "");
        places.extend(nvidia.into_iter().map(|package| package.join("lib")));
    }
    let found = places.iter().filter(|place| place.is_absolute()).flat_map(|place| {
        let libraries = children(place, "libcupti.so");
        libraries.into_iter().filter_map(|path| fs::canonicalize(path).ok())
    });
    found.max_by_key(|path| version(path))
}

/// The CUDA plugin of JAX that a program would load: beside the program, if that is part of a Python environment, else
/// in the first Python on the path or where `PYTHONPATH` says.
#[must_use]
pub fn jax_plugin(program: &OsStr, lookup: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let path = lookup("PATH").unwrap_or_default();
    let own = match Path::new(program).parent() {
        Some(folder) if folder != Path::new("") => Some(folder.to_owned()),
        _ => std::env::split_paths(&path).find(|folder| folder.join(program).exists()),
    };
    let mut places = own.and_then(|bin| Some(packages_below(bin.parent()?))).unwrap_or_default();
    places.extend(site_packages(&path));
    places.extend(lookup("PYTHONPATH").iter().flat_map(|paths| std::env::split_paths(paths)));
    let plugin =
        |place: &PathBuf, name| place.join("jax_plugins").join(name).join("xla_cuda_plugin.so");
    let all = places
        .iter()
        .flat_map(|place| ["xla_cuda13", "xla_cuda12"].map(|name| plugin(place, name)));
    all.filter_map(|path| fs::canonicalize(path).ok()).next()
}

/// Package directories of the first Python on the path, as its layout gives them: no Python is started.
fn site_packages(path: &str) -> Vec<PathBuf> {
    let bin = std::env::split_paths(path)
        .find(|directory| directory.join("python3").exists() || directory.join("python").exists());
    bin.as_deref().and_then(Path::parent).map(packages_below).unwrap_or_default()
}

/// Package directories of a Python that is installed below this prefix.
fn packages_below(prefix: &Path) -> Vec<PathBuf> {
    let mut places = Vec::new();
    for lib in [prefix.join("lib"), prefix.join("local/lib"), prefix.join("lib64")] {
        for python in children(&lib, "python3") {
            places.extend([python.join("site-packages"), python.join("dist-packages")]);
        }
    }
    places
}

fn children(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// The numbers behind `.so.`.
fn version(path: &Path) -> Vec<u64> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let numbers = name.split_once(".so.").map_or("", |(_, numbers)| numbers);
    numbers.split('.').filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_known_by_its_device_nodes() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("dev")).unwrap();
        fs::write(root.path().join("dev/nvidiactl"), "").unwrap();
        assert!(!gpu_nodes(root.path()));
        fs::write(root.path().join("dev/nvidia3"), "").unwrap();
        assert!(gpu_nodes(root.path()));
    }

    #[test]
    fn the_driver_is_found_in_a_memory_map() {
        let maps = "7f00-7f01 r-xp 00000000 00:1 5   /usr/lib/libc.so.6\n\
                    7f02-7f03 r--p 00000000 00:1 6   /opt/a b/libcuda.so.580.1\n";
        assert_eq!(mapped_driver(maps), Some("/opt/a b/libcuda.so.580.1"));
        assert_eq!(mapped_driver("7f00-7f01 rw-p 00000000 00:00 0\n"), None);
    }

    #[test]
    fn a_plugin_of_jax_is_that_of_the_programs_python() {
        let root = tempfile::tempdir().unwrap();
        let mut plugins = Vec::new();
        for (name, version) in [("one", "xla_cuda13"), ("two", "xla_cuda12")] {
            let prefix = root.path().join(name);
            let packages = prefix.join("lib/python3.12/site-packages/jax_plugins").join(version);
            fs::create_dir_all(&packages).unwrap();
            fs::create_dir_all(prefix.join("bin")).unwrap();
            fs::write(prefix.join("bin/python3"), "").unwrap();
            fs::write(packages.join("xla_cuda_plugin.so"), "").unwrap();
            plugins.push(fs::canonicalize(packages.join("xla_cuda_plugin.so")).unwrap());
        }
        let two = root.path().join("two/bin").to_str().unwrap().to_owned();
        let lookup = |name: &str| (name == "PATH").then(|| two.clone());
        let found = |program: &Path| jax_plugin(program.as_os_str(), lookup);
        assert_eq!(found(&root.path().join("one/bin/python3")).as_ref(), Some(&plugins[0]));
        assert_eq!(found(Path::new("python3")).as_ref(), Some(&plugins[1]));
        assert_eq!(jax_plugin(OsStr::new("sh"), |_| None), None);
    }

    #[test]
    fn the_newest_cupti_is_taken_also_from_a_python_environment() {
        let root = tempfile::tempdir().unwrap();
        let old = root.path().join("cuda/lib64");
        let new = root.path().join("env/lib/python3.12/site-packages/nvidia/cuda_cupti/lib");
        fs::create_dir_all(&old).unwrap();
        fs::create_dir_all(&new).unwrap();
        fs::create_dir_all(root.path().join("env/bin")).unwrap();
        fs::write(root.path().join("env/bin/python3"), "").unwrap();
        fs::write(old.join("libcupti.so.12"), "").unwrap();
        fs::write(new.join("libcupti.so.13"), "").unwrap();
        let text = |path: PathBuf| Some(path.to_string_lossy().into_owned());
        let lookup = |name: &str| match name {
            "CUDA_HOME" => text(root.path().join("cuda")),
            "PATH" => text(root.path().join("env/bin")),
            _ => None,
        };
        assert!(cupti(lookup).unwrap().ends_with("lib/libcupti.so.13"));
        assert!(
            cupti(|name| lookup(name).filter(|_| name != "PATH"))
                .unwrap()
                .ends_with("libcupti.so.12")
        );
    }
}
