//! The runtime's functions that ask for versions.

use apex_cuda::types::CUresult;

use crate::border::{check, put};
use crate::driver::opened;
use crate::version::version;

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
