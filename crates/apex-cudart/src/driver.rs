//! Finds the driver, once per process.
//!
//! By the name `libcuda.so.1` alone: under `apex run` that name is apex, and where a
//! GPU is it is NVIDIA's driver. A function that an older driver lacks answers that a
//! newer one is needed. The library stays open, because its functions are in use
//! until the process ends.

use std::sync::OnceLock;

use apex_cuda::types::CUDA_SUCCESS;
use apex_cuda::{Driver, Library};

use crate::errors::{Error, cudaErrorInsufficientDriver, from_driver};
use crate::version::version;

/// The driver, initialised.
pub(crate) fn driver() -> Result<&'static Driver, Error> {
    static INITIALISED: OnceLock<Result<(), Error>> = OnceLock::new();
    let driver = opened()?;
    INITIALISED.get_or_init(|| initialise(driver)).map(|()| driver)
}

/// The driver as it was found, initialised or not.
pub(crate) fn opened() -> Result<&'static Driver, Error> {
    static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
    DRIVER.get_or_init(Library::driver_of_programs).as_ref().ok_or(cudaErrorInsufficientDriver)
}

fn initialise(driver: &Driver) -> Result<(), Error> {
    let mut newest = 0;
    // SAFETY: `newest` can be written; both functions may be called at any time.
    let result = unsafe {
        match (driver.cuDriverGetVersion)(&raw mut newest) {
            CUDA_SUCCESS if newest / 1000 < version() / 1000 => {
                return Err(cudaErrorInsufficientDriver);
            }
            _ => (driver.cuInit)(0),
        }
    };
    if result == CUDA_SUCCESS { Ok(()) } else { Err(from_driver(result)) }
}
