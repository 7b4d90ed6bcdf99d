//! The tuning of this process: which kernels get another shape, and which images other limits.
//!
//! Read once, by whoever asks first.

use crate::driver::driver;
use crate::settings::knobs;
use crate::state::process::tell;
use apex_core::facts::{Fact, Failure};
use apex_core::small_file::{MADE, read_text};
use apex_core::tuning::Tuning;
use apex_cuda::types::{CUDA_SUCCESS, CUdevice};
use core::ffi::CStr;
use std::sync::OnceLock;

static TUNING: OnceLock<Option<Tuning>> = OnceLock::new();

/// The tuning, read once.
#[cold]
pub(crate) fn tuning() -> Option<&'static Tuning> {
    let tuning = TUNING.get_or_init(|| {
        let path = knobs().tuning.as_deref().filter(|_| knobs().enabled)?;
        // A program may outlive the session and its files: then there is nothing to apply.
        let text = read_text(path, MADE).ok()?;
        let tuning = Tuning::read(&text);
        if tuning.is_none() {
            complain(&format!(
                "the tuning {} is not understood: nothing is changed",
                path.display()
            ));
        }
        tuning.filter(|tuning| !tuning.is_empty())
    });
    tuning.as_ref()
}

/// Something of the tuning cannot be done: a fact that the report shows.
pub(crate) fn complain(sentence: &str) {
    tell(&Fact::Failure(Failure { sentence: sentence.into() }));
}

/// Whether the current device has this name.
pub(crate) fn is_device(wanted: &str) -> bool {
    let mut device: CUdevice = 0;
    let mut name = [0; 256];
    // SAFETY: valid places of the sizes given; the last byte of `name` stays NUL.
    let name = unsafe {
        let result = (driver().cuCtxGetDevice)(&raw mut device);
        // A library may be loaded before there is a context: then the first device is meant.
        if result != CUDA_SUCCESS {
            (driver().cuDeviceGet)(&raw mut device, 0);
        }
        (driver().cuDeviceGetName)(name.as_mut_ptr(), 255, device);
        CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
    };
    name == wanted
}
