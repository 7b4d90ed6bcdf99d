//! The driver's own functions, its profiler and its log, through the runtime.

use core::ffi::{c_char, c_void};
use core::ptr::null_mut;

use apex_cuda::types::{
    CUdriverProcAddressQueryResult, CUlogIterator, CUlogsCallback, CUlogsCallbackHandle,
};

use crate::border::{Answer, check, put, put_if_wanted, wanted};
use crate::context::current;
use crate::driver::driver;
use crate::errors::{cudaErrorInvalidValue, cudaErrorSymbolNotFound};
use crate::version::version;

const FOUND: CUdriverProcAddressQueryResult = 0;
/// Functions whose NULL stream is the calling thread's own.
const PER_THREAD: u64 = 2;

/// # Safety
///
/// `symbol` ends with a NUL; the others are null or can be written.
unsafe fn find(
    symbol: *const c_char,
    out: *mut *mut c_void,
    version: i32,
    flags: u64,
    status: *mut CUdriverProcAddressQueryResult,
) -> Answer {
    wanted(symbol.cast_mut())?;
    let driver = driver()?;
    let (mut address, mut result) = (null_mut(), FOUND);
    // SAFETY: the caller vouches for the name, the rest is ours.
    unsafe {
        let find = driver.cuGetProcAddress_v2;
        check(find(symbol, &raw mut address, version, flags, &raw mut result))?;
        put(out, address)?;
        put_if_wanted(status, result);
    }
    // Who asks for the status is told by it; others by an error.
    if result != FOUND && status.is_null() { Err(cudaErrorSymbolNotFound) } else { Ok(()) }
}

/// In a twin, no choice of streams means the thread's own.
fn own(flags: u64) -> u64 {
    if flags == 0 { PER_THREAD } else { flags }
}

fn number(version: u32) -> Result<i32, crate::errors::Error> {
    i32::try_from(version).map_err(|_| cudaErrorInvalidValue)
}

runtime! {
    fn cudaGetDriverEntryPoint(
        symbol: *const c_char,
        out: *mut *mut c_void,
        flags: u64,
        status: *mut CUdriverProcAddressQueryResult,
    ) {
        find(symbol, out, version(), flags, status)
    }

    fn cudaGetDriverEntryPoint_ptsz(
        symbol: *const c_char,
        out: *mut *mut c_void,
        flags: u64,
        status: *mut CUdriverProcAddressQueryResult,
    ) {
        find(symbol, out, version(), own(flags), status)
    }

    fn cudaGetDriverEntryPointByVersion(
        symbol: *const c_char,
        out: *mut *mut c_void,
        wanted_version: u32,
        flags: u64,
        status: *mut CUdriverProcAddressQueryResult,
    ) {
        find(symbol, out, number(wanted_version)?, flags, status)
    }

    fn cudaGetDriverEntryPointByVersion_ptsz(
        symbol: *const c_char,
        out: *mut *mut c_void,
        wanted_version: u32,
        flags: u64,
        status: *mut CUdriverProcAddressQueryResult,
    ) {
        find(symbol, out, number(wanted_version)?, own(flags), status)
    }

    fn cudaProfilerStart() {
        check((current()?.cuProfilerStart)())
    }

    fn cudaProfilerStop() {
        check((current()?.cuProfilerStop)())
    }

    fn cudaLogsCurrent(out: *mut CUlogIterator, flags: u32) {
        check((driver()?.cuLogsCurrent)(wanted(out)?, flags))
    }

    fn cudaLogsDumpToFile(iterator: *mut CUlogIterator, path: *const c_char, flags: u32) {
        check((driver()?.cuLogsDumpToFile)(iterator, path, flags))
    }

    fn cudaLogsDumpToMemory(
        iterator: *mut CUlogIterator,
        buffer: *mut c_char,
        bytes: *mut usize,
        flags: u32,
    ) {
        check((driver()?.cuLogsDumpToMemory)(iterator, buffer, bytes, flags))
    }

    fn cudaLogsRegisterCallback(
        callback: CUlogsCallback,
        data: *mut c_void,
        out: *mut CUlogsCallbackHandle,
    ) {
        check((driver()?.cuLogsRegisterCallback)(callback, data, out))
    }

    fn cudaLogsUnregisterCallback(callback: CUlogsCallbackHandle) {
        check((driver()?.cuLogsUnregisterCallback)(callback))
    }
}
