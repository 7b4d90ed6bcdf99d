//! Which driver a program is given: the real one, or the software GPU.
//!
//! A driver named by the user is taken as it is. Else a GPU is taken if there is one, which its device
//! nodes tell: asking the driver itself would cost every start the time of `cuInit`. On the software GPU
//! the program also gets our runtime library, because NVIDIA's asks the driver for what only NVIDIA's has, and
//! what stands in for libraries and programs that make machine code or ask for hardware.

use crate::real_driver;
use apex_core::knobs::{DeviceChoice, Knobs};
use apex_daemon::find::{self, AskedLoader};
use std::path::{Path, PathBuf};

/// Files of ours by the name that a program asks for.
pub(crate) type Files = Vec<(&'static str, PathBuf)>;

/// The driver a program is given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    /// The real one, or the one the user named.
    Real(PathBuf),
    /// The software GPU, and whether it was asked for.
    Soft { library: PathBuf, runtimes: Files, stand_ins: Files, asked: bool },
    /// None: the program is told that there is no device.
    None { wanted: DeviceChoice },
}

/// A choice that is being made: what is slow about it goes on beside its maker.
pub(crate) struct Choosing {
    named: Option<PathBuf>,
    choice: DeviceChoice,
    gpu: bool,
    soft: Option<PathBuf>,
    asked: Option<AskedLoader>,
    executable: PathBuf,
}

/// Decides by what was asked for and what is here.
pub(crate) fn choose(knobs: &Knobs, choice: DeviceChoice, executable: &Path) -> Driver {
    begin(knobs, choice, executable).finish()
}

/// Begins to find out what is here.
pub(crate) fn begin(knobs: &Knobs, choice: DeviceChoice, executable: &Path) -> Choosing {
    let named = knobs.real_libcuda.clone();
    let gpu = choice == DeviceChoice::Gpu || find::gpu_nodes(Path::new("/"));
    let soft = find::library(executable, find::SOFTGPU);
    let is_soft =
        choice == DeviceChoice::Soft || choice == DeviceChoice::Auto && !gpu && soft.is_some();
    // To ask for the driver is to start a program, so it is asked for only where it is wanted.
    let asked = (named.is_none() && !is_soft).then(real_driver::ask).flatten();
    Choosing { named, choice, gpu, soft, asked, executable: executable.to_owned() }
}

impl Choosing {
    /// Waits for what is not known yet, and decides.
    pub(crate) fn finish(self) -> Driver {
        let Choosing { named, choice, gpu, soft, asked, executable } = self;
        if let Some(named) = named {
            return Driver::Real(named);
        }
        match (asked.and_then(AskedLoader::driver), soft) {
            (Some(driver), _) if gpu => Driver::Real(driver),
            (_, Some(library)) if choice != DeviceChoice::Gpu => {
                let ours = |table: &[(&'static str, &str)]| -> Files {
                    let file = |&(name, file)| Some((name, find::library(&executable, file)?));
                    table.iter().filter_map(file).collect()
                };
                let (runtimes, stand_ins) = (ours(&find::RUNTIMES), ours(find::STAND_INS));
                Driver::Soft { library, runtimes, stand_ins, asked: choice == DeviceChoice::Soft }
            }
            (Some(driver), None) if choice == DeviceChoice::Auto => Driver::Real(driver),
            _ => Driver::None { wanted: choice },
        }
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

    /// What else stands in for NVIDIA's libraries and programs, by the name a program asks for.
    pub(crate) fn stand_ins(&self) -> &[(&'static str, PathBuf)] {
        match self {
            Driver::Soft { stand_ins, .. } => stand_ins,
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
                "{} is not beside apex; {}; CUDA tells the program that there is no device",
                find::SOFTGPU,
                find::REMEDY
            )),
            Driver::None { .. } => Some(
                "no CUDA driver (libcuda.so.1) is found here; the program runs, and CUDA tells it \
                 that there is no device"
                    .into(),
            ),
        }
    }
}
