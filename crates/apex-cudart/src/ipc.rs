//! Memory and events shared between processes.

use core::ffi::c_void;

use apex_cuda::types::{CUevent, CUipcEventHandle, CUipcMemHandle};

use crate::border::{check, wanted};
use crate::context::current;

runtime! {
    fn cudaIpcGetMemHandle(out: *mut CUipcMemHandle, address: *mut c_void) {
        let address = address.expose_provenance() as u64;
        check((current()?.cuIpcGetMemHandle)(wanted(out)?, address))
    }

    fn cudaIpcOpenMemHandle(out: *mut *mut c_void, handle: CUipcMemHandle, flags: u32) {
        check((current()?.cuIpcOpenMemHandle_v2)(wanted(out)?.cast(), handle, flags))
    }

    fn cudaIpcCloseMemHandle(address: *mut c_void) {
        check((current()?.cuIpcCloseMemHandle)(address.expose_provenance() as u64))
    }

    fn cudaIpcGetEventHandle(out: *mut CUipcEventHandle, event: CUevent) {
        check((current()?.cuIpcGetEventHandle)(wanted(out)?, event))
    }

    fn cudaIpcOpenEventHandle(out: *mut CUevent, handle: CUipcEventHandle) {
        check((current()?.cuIpcOpenEventHandle)(wanted(out)?, handle))
    }
}
