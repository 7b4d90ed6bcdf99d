//! Start of the driver and the search for its functions.
//!
//! `cuGetProcAddress` is asked unchanged and its answer translated: versions, flags and names newer
//! than ours are the driver's business. `cuGetExportTable` is not in here on purpose: the runtime checks
//! the addresses of those tables, and none of them launches, copies or allocates.

use crate::aspects::{self, Note};
use crate::driver::{driver, load};
use apex_core::event::What;
use apex_core::time;
use apex_cuda::Function;
use apex_cuda::types::*;

pub(crate) unsafe fn cuInit(flags: u32) -> CUresult {
    let started = time::ticks();
    // SAFETY: the program's own argument.
    let result = unsafe { (driver().cuInit)(flags) };
    aspects::call(Function::cuInit, false, started, result, || {
        // Before this thread's block is made: whether CUPTI runs decides whether it samples.
        if result == CUDA_SUCCESS {
            aspects::driver_started();
        }
        Note::plain(What::Other)
    });
    result
}

pub(crate) unsafe fn cuGetProcAddress(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    cuda_version: i32,
    flags: u64,
) -> CUresult {
    // SAFETY: the program's own arguments.
    let result = unsafe { (driver().cuGetProcAddress)(symbol, pfn, cuda_version, flags) };
    // SAFETY: the place the program gave for the answer.
    unsafe { translate(result, pfn) };
    result
}

pub(crate) unsafe fn cuGetProcAddress_v2(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    cuda_version: i32,
    flags: u64,
    symbol_status: *mut CUdriverProcAddressQueryResult,
) -> CUresult {
    // SAFETY: the program's own arguments.
    let result =
        unsafe { (driver().cuGetProcAddress_v2)(symbol, pfn, cuda_version, flags, symbol_status) };
    // SAFETY: the place the program gave for the answer.
    unsafe { translate(result, pfn) };
    result
}

/// The probe with an empty name succeeds with a null address: it stays null.
unsafe fn translate(result: CUresult, pfn: *mut *mut c_void) {
    if result == CUDA_SUCCESS && !pfn.is_null() {
        // SAFETY: the driver succeeded, so it wrote here.
        unsafe { *pfn = load::translate(*pfn) };
    }
}
