//! The functions that tell of memory and of code. Each goes down once; what it did is noted.

#![allow(non_snake_case, reason = "the functions bear the driver's own names")]

use super::{allocations, beneath, images, is_child, kernels};
use crate::doors::Doors;
use apex_cuda::types::*;
use apex_cuda::{Function, driver_functions};
use core::ffi::c_void;

/// Puts a function of ours in the place of each that tells something.
pub(super) fn open(addresses: &mut [*const c_void; Function::COUNT]) {
    OWN.open(addresses);
}

/// A number that the driver wrote for the program, if it wrote one.
///
/// # Safety
///
/// The place is the program's own, and the driver has just written it with success.
unsafe fn written<T: Copy>(result: CUresult, place: *const T) -> Option<T> {
    // SAFETY: the caller's promise.
    (result == CUDA_SUCCESS && !place.is_null() && !is_child()).then(|| unsafe { place.read() })
}

macro_rules! door {
    // Memory begins.
    (allocates $name:ident($place:ident: $first:ty, $bytes:ident: $second:ty $(, $argument:ident: $type:ty)*)) => {{
        unsafe extern "C" fn $name($place: $first, $bytes: $second $(, $argument: $type)*) -> CUresult {
            // SAFETY: the program's own arguments, unchanged; the driver writes the address with success.
            unsafe {
                let result = (beneath().$name)($place, $bytes $(, $argument)*);
                if let Some(begin) = written(result, $place) {
                    allocations::add(begin, $bytes as u64);
                }
                result
            }
        }
        $name as *const c_void
    }};
    // Memory ends, or is shown to somebody else.
    (ends $name:ident($at:ident: $first:ty $(, $argument:ident: $type:ty)*)) => {
        door!(gone $name, $at, ($at: $first $(, $argument: $type)*))
    };
    (ends_second $name:ident($before:ident: $first:ty, $at:ident: $second:ty)) => {
        door!(gone $name, $at, ($before: $first, $at: $second))
    };
    (ends_third $name:ident($a:ident: $first:ty, $b:ident: $second:ty, $at:ident: $third:ty)) => {
        door!(gone $name, $at, ($a: $first, $b: $second, $at: $third))
    };
    (gone $name:ident, $at:ident, ($($argument:ident: $type:ty),*)) => {{
        unsafe extern "C" fn $name($($argument: $type),*) -> CUresult {
            if !is_child() {
                allocations::remove($at);
            }
            // SAFETY: the program's own arguments, unchanged.
            unsafe { (beneath().$name)($($argument),*) }
        }
        $name as *const c_void
    }};
    // All memory ends, and all code.
    (clears $name:ident($($argument:ident: $type:ty),*)) => {{
        unsafe extern "C" fn $name($($argument: $type),*) -> CUresult {
            if !is_child() {
                allocations::clear();
                kernels::forget();
            }
            // SAFETY: the program's own arguments, unchanged.
            unsafe { (beneath().$name)($($argument),*) }
        }
        $name as *const c_void
    }};
    // Code is loaded.
    (loads $name:ident($place:ident: $first:ty, $image:ident: $second:ty $(, $argument:ident: $type:ty)*)) => {{
        unsafe extern "C" fn $name($place: $first, $image: $second $(, $argument: $type)*) -> CUresult {
            // SAFETY: the program's own arguments, unchanged; the driver writes the handle with success.
            unsafe {
                let result = (beneath().$name)($place, $image $(, $argument)*);
                if let Some(handle) = written(result, $place) {
                    images::loaded(handle as u64, $image);
                }
                result
            }
        }
        $name as *const c_void
    }};
    (opens $name:ident($place:ident: $first:ty, $path:ident: $second:ty $(, $argument:ident: $type:ty)*)) => {{
        unsafe extern "C" fn $name($place: $first, $path: $second $(, $argument: $type)*) -> CUresult {
            // SAFETY: as above; a path that the driver has read with success is a text.
            unsafe {
                let result = (beneath().$name)($place, $path $(, $argument)*);
                if let Some(handle) = written(result, $place)
                    && let Ok(path) = core::ffi::CStr::from_ptr($path).to_str()
                {
                    images::loaded_file(handle as u64, path.as_ref());
                }
                result
            }
        }
        $name as *const c_void
    }};
    (unloads $name:ident($handle:ident: $type:ty)) => {{
        unsafe extern "C" fn $name($handle: $type) -> CUresult {
            if !is_child() {
                images::unloaded($handle as u64);
                kernels::forget();
            }
            // SAFETY: the program's own arguments, unchanged.
            unsafe { (beneath().$name)($handle) }
        }
        $name as *const c_void
    }};
    // One handle is made of another.
    (makes $note:path => $name:ident($place:ident: $first:ty, $of:ident: $second:ty)) => {{
        unsafe extern "C" fn $name($place: $first, $of: $second) -> CUresult {
            // SAFETY: the program's own arguments, unchanged; the driver writes the handle with success.
            unsafe {
                let result = (beneath().$name)($place, $of);
                if let Some(handle) = written(result, $place) {
                    $note(handle as u64, $of as u64);
                }
                result
            }
        }
        $name as *const c_void
    }};
}

macro_rules! told {
    (cuMemAlloc_v2 $a:tt) => { door!(allocates cuMemAlloc_v2 $a) };
    (cuMemAllocAsync $a:tt) => { door!(allocates cuMemAllocAsync $a) };
    (cuMemAllocAsync_ptsz $a:tt) => { door!(allocates cuMemAllocAsync_ptsz $a) };
    (cuMemAllocPitch_v2 $a:tt) => { cuMemAllocPitch_v2 as *const c_void };
    (cuMemFree_v2 $a:tt) => { door!(ends cuMemFree_v2 $a) };
    (cuMemFreeAsync $a:tt) => { door!(ends cuMemFreeAsync $a) };
    (cuMemFreeAsync_ptsz $a:tt) => { door!(ends cuMemFreeAsync_ptsz $a) };
    (cuIpcGetMemHandle $a:tt) => { door!(ends_second cuIpcGetMemHandle $a) };
    (cuPointerSetAttribute $a:tt) => { door!(ends_third cuPointerSetAttribute $a) };
    (cuCtxDestroy $a:tt) => { door!(clears cuCtxDestroy $a) };
    (cuCtxDestroy_v2 $a:tt) => { door!(clears cuCtxDestroy_v2 $a) };
    (cuDevicePrimaryCtxRelease $a:tt) => { door!(clears cuDevicePrimaryCtxRelease $a) };
    (cuDevicePrimaryCtxRelease_v2 $a:tt) => { door!(clears cuDevicePrimaryCtxRelease_v2 $a) };
    (cuDevicePrimaryCtxReset $a:tt) => { door!(clears cuDevicePrimaryCtxReset $a) };
    (cuDevicePrimaryCtxReset_v2 $a:tt) => { door!(clears cuDevicePrimaryCtxReset_v2 $a) };
    (cuModuleLoadData $a:tt) => { door!(loads cuModuleLoadData $a) };
    (cuModuleLoadDataEx $a:tt) => { door!(loads cuModuleLoadDataEx $a) };
    (cuModuleLoadFatBinary $a:tt) => { door!(loads cuModuleLoadFatBinary $a) };
    (cuLibraryLoadData $a:tt) => { door!(loads cuLibraryLoadData $a) };
    (cuModuleLoad $a:tt) => { door!(opens cuModuleLoad $a) };
    (cuLibraryLoadFromFile $a:tt) => { door!(opens cuLibraryLoadFromFile $a) };
    (cuModuleUnload $a:tt) => { door!(unloads cuModuleUnload $a) };
    (cuLibraryUnload $a:tt) => { door!(unloads cuLibraryUnload $a) };
    (cuLibraryGetModule $a:tt) => { door!(makes images::same => cuLibraryGetModule $a) };
    (cuKernelGetFunction $a:tt) => { door!(makes kernels::made_of => cuKernelGetFunction $a) };
    ($name:ident $a:tt) => { core::ptr::null() };
}

unsafe extern "C" fn cuMemAllocPitch_v2(
    place: *mut CUdeviceptr,
    pitch: *mut usize,
    width: usize,
    height: usize,
    element: u32,
) -> CUresult {
    // SAFETY: the program's own arguments, unchanged; the driver writes both with success.
    unsafe {
        let result = (beneath().cuMemAllocPitch_v2)(place, pitch, width, height, element);
        if let (Some(begin), Some(pitch)) = (written(result, place), written(result, pitch)) {
            allocations::add(begin, (pitch as u64).saturating_mul(height as u64));
        }
        result
    }
}

macro_rules! doors {
    ($($kind:ident $treatment:ident $(($module:ident))? $order:ident $since:literal
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        static OWN: Doors = Doors([$(told!($name($($argument: $type),*))),*]);
    };
}

driver_functions!(doors);
