//! Which of the two libraries this is.
//!
//! One archive serves both, so the number is not known here: it stands in
//! `link/version.c`, which is compiled at the link.

use apex_cuda::types::CUresult;

use crate::border::{check, put};
use crate::driver::opened;

#[cfg(not(test))]
unsafe extern "C" {
    /// 12090 or 13000.
    static apex_cudart_version: i32;
}

/// The version of the interface that the program was linked with.
#[cfg(not(test))]
pub(crate) fn version() -> i32 {
    // SAFETY: the link gives the constant, and nothing writes it.
    unsafe { apex_cudart_version }
}

#[cfg(test)]
pub(crate) fn version() -> i32 {
    13_000
}

/// Whether the program was linked with CUDA 12.
pub(crate) fn is_12() -> bool {
    version() < 13_000
}

runtime! {
    fn cudaRuntimeGetVersion(out: *mut i32) {
        put(out, version())
    }

    fn cudaDriverGetVersion(out: *mut i32) {
        put(out, 0)?;
        // No driver at all has the version 0, which is not an error.
        let Ok(driver) = opened() else { return Ok(()) };
        let result: CUresult = (driver.cuDriverGetVersion)(out);
        check(result)
    }
}
