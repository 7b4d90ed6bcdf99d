//! Which driver a program is given: the real one, or the software GPU.
//!
//! A driver named by the user is taken as it is. Else a GPU is taken if there is one, which its device
//! nodes tell: asking the driver itself would cost every start the time of `cuInit`. On the software GPU
//! the program also gets our runtime library, because NVIDIA's asks the driver for what only NVIDIA's has.

use crate::environment;
use apex_core::knobs::{DeviceChoice, Knobs};
use apex_daemon::find;
use std::path::{Path, PathBuf};

/// The driver a program is given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    /// The real one, or the one the user named.
    Real(PathBuf),
    /// The software GPU, and whether it was asked for.
    Soft { library: PathBuf, runtimes: Vec<(&'static str, PathBuf)>, asked: bool },
    /// None: the program is told that there is no device.
    None { wanted: DeviceChoice },
}

/// Decides by what was asked for and what is here.
pub(crate) fn choose(knobs: &Knobs, choice: DeviceChoice, executable: &Path) -> Driver {
    if let Some(named) = &knobs.real_libcuda {
        return Driver::Real(named.clone());
    }
    let real = (choice != DeviceChoice::Soft).then(environment::real_driver).flatten();
    let gpu = choice == DeviceChoice::Gpu || find::gpu_nodes(Path::new("/"));
    match (real, find::library(executable, find::SOFTGPU)) {
        (Some(driver), _) if gpu => Driver::Real(driver),
        (_, Some(library)) if choice != DeviceChoice::Gpu => {
            let runtime = |&(name, file)| Some((name, find::library(executable, file)?));
            let runtimes = find::RUNTIMES.iter().filter_map(runtime).collect();
            Driver::Soft { library, runtimes, asked: choice == DeviceChoice::Soft }
        }
        (Some(driver), None) if choice == DeviceChoice::Auto => Driver::Real(driver),
        _ => Driver::None { wanted: choice },
    }
}

impl Driver {
    /// The library that answers as the driver.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Driver::Real(path) | Driver::Soft { library: path, .. } => Some(path),
            Driver::None { .. } => None,
        }
    }

    /// Our runtime libraries, by the name a program asks for.
    pub(crate) fn runtimes(&self) -> &[(&'static str, PathBuf)] {
        match self {
            Driver::Soft { runtimes, .. } => runtimes,
            _ => &[],
        }
    }

    /// What the user should know before the program starts.
    pub(crate) fn sentence(&self) -> Option<String> {
        match self {
            Driver::Real(_) | Driver::Soft { asked: true, .. } => None,
            Driver::Soft { asked: false, .. } => Some(
                "no GPU is found here: the program runs on the software GPU (apex doctor says why)"
                    .into(),
            ),
            Driver::None { wanted: DeviceChoice::Soft } => Some(format!(
                "{} is not beside apex; build it with `cargo build --release -p apex-softgpu`; \
                 CUDA tells the program that there is no device",
                find::SOFTGPU
            )),
            Driver::None { .. } => Some(
                "no CUDA driver (libcuda.so.1) is found here; the program runs, and CUDA tells it \
                 that there is no device"
                    .into(),
            ),
        }
    }
}
