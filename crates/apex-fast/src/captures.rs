//! Whether a stream is being captured: then no layer does anything.
//!
//! What a capture forbids and what it records is the driver's to say, so every call goes down as it comes.

use crate::doors::Doors;
use apex_cuda::types::*;
use apex_cuda::{Driver, Function, driver_functions};
use core::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// What lies beneath.
static BENEATH: OnceLock<Driver> = OnceLock::new();
/// Captures that have begun and not ended.
static OPEN: AtomicU64 = AtomicU64::new(0);

/// Puts this layer upon all others.
///
/// # Safety
///
/// As for [`crate::raise`].
pub(crate) unsafe fn raise(addresses: &mut [*const c_void; Function::COUNT]) {
    // SAFETY: the caller's promise.
    let beneath = unsafe { Driver::from_addresses(|function| addresses[function as usize]) };
    if BENEATH.set(beneath).is_ok() {
        OWN.open(addresses);
    }
}

/// Whether any stream is being captured.
#[inline(always)]
pub(crate) fn any() -> bool {
    OPEN.load(Ordering::Relaxed) != 0
}

fn beneath() -> &'static Driver {
    match BENEATH.get() {
        Some(driver) => driver,
        None => unreachable!("doors are opened after what lies beneath is set"),
    }
}

fn ends() {
    let _ = OPEN.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |open| open.checked_sub(1));
}

/// Whether a stream is being captured, or was until the capture failed.
fn is_capturing(stream: CUstream) -> bool {
    let mut status = 0;
    // SAFETY: the program's own handle, and a valid place for the answer.
    let result = unsafe { (beneath().cuStreamIsCapturing)(stream, &raw mut status) };
    result == CUDA_SUCCESS && status != 0
}

macro_rules! door {
    (opens $name:ident($($argument:ident: $type:ty),*)) => {{
        unsafe extern "C" fn $name($($argument: $type),*) -> CUresult {
            OPEN.fetch_add(1, Ordering::SeqCst);
            // SAFETY: the program's own arguments, unchanged.
            let result = unsafe { (beneath().$name)($($argument),*) };
            if result != CUDA_SUCCESS {
                ends();
            }
            result
        }
        $name as *const c_void
    }};
    (closes $name:ident($stream:ident: $first:ty $(, $argument:ident: $type:ty)*)) => {{
        unsafe extern "C" fn $name($stream: $first $(, $argument: $type)*) -> CUresult {
            let before = is_capturing($stream);
            // SAFETY: the program's own arguments, unchanged.
            let result = unsafe { (beneath().$name)($stream $(, $argument)*) };
            if before && !is_capturing($stream) {
                ends();
            }
            result
        }
        $name as *const c_void
    }};
    ($order:ident $name:ident $arguments:tt) => { core::ptr::null() };
}

macro_rules! doors {
    ($($kind:ident $treatment:ident $(($module:ident))? $order:ident $since:literal
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        #[allow(non_snake_case, reason = "the functions bear the driver's own names")]
        mod own {
            use super::*;
            pub(super) static OWN: Doors = Doors([$(door!($order $name($($argument: $type),*))),*]);
        }
    };
}

driver_functions!(doors);
use own::OWN;
