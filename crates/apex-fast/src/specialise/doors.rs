//! The functions that stand in the driver's place: launches, and what loads, ends or sets up code.

#![allow(non_snake_case, reason = "the functions bear the driver's own names")]

use super::images::{self, Owner};
use super::launch::launch;
use super::numbers::Call;
use super::prepare::prepare;
use super::verdict::conclude;
use super::{beneath, is_aside, kernels, make, room, thread};
use crate::doors::{Doors, is_twin};
use crate::functions;
use apex_cuda::types::*;
use apex_cuda::{Function, driver_functions};
use core::ffi::{c_char, c_void};

/// Puts a function of ours in the place of each that matters here.
pub(super) fn open(addresses: &mut [*const c_void; Function::COUNT]) {
    OWN.open(addresses);
}

/// What ends code or a context: the thread pauses, and all functions are met anew.
fn ends(owner: Option<Owner>, call: impl FnOnce() -> CUresult) -> CUresult {
    // In a child of `fork` whoever held a lock is not there.
    if is_aside() {
        return call();
    }
    let pause = thread::pause();
    conclude();
    kernels::forget();
    room::forget(owner.is_none());
    let result = call();
    if let (CUDA_SUCCESS, Some(owner)) = (result, owner) {
        images::unloaded(owner);
    }
    drop(pause);
    result
}

/// What loads code: on success `keep` is told under which handle.
fn loads<T>(result: CUresult, handle: *mut *mut T, keep: impl FnOnce(*mut T) -> Owner) -> CUresult {
    if result == CUDA_SUCCESS && !handle.is_null() && !is_aside() {
        // SAFETY: the driver has written there.
        prepare(keep(unsafe { handle.read_unaligned() }));
    }
    result
}

macro_rules! kernel {
    ($name:ident) => {{
        unsafe extern "C" fn $name(
            function: CUfunction,
            grid_x: u32,
            grid_y: u32,
            grid_z: u32,
            block_x: u32,
            block_y: u32,
            block_z: u32,
            shared: u32,
            stream: CUstream,
            parameters: *mut *mut c_void,
            extra: *mut *mut c_void,
        ) -> CUresult {
            // SAFETY: the program's own arguments, unchanged but for the function.
            let forward = |function| unsafe {
                (beneath().$name)(
                    function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream,
                    parameters, extra,
                )
            };
            // Parameters in one piece are rare, and are left as they are.
            if !extra.is_null() {
                return forward(function);
            }
            let call = Call {
                function,
                grid: [grid_x, grid_y, grid_z],
                block: [block_x, block_y, block_z],
                shared,
                stream,
                is_twin: const { is_twin(stringify!($name)) },
                parameters,
            };
            // SAFETY: the program's own arguments.
            unsafe { launch(&call, forward) }
        }
        $name as *const c_void
    }};
}

macro_rules! described_kernel {
    ($name:ident) => {{
        unsafe extern "C" fn $name(
            config: *const CUlaunchConfig,
            function: CUfunction,
            parameters: *mut *mut c_void,
            extra: *mut *mut c_void,
        ) -> CUresult {
            let forward = |function| {
                // SAFETY: the program's own arguments, unchanged but for the function.
                unsafe { (beneath().$name)(config, function, parameters, extra) }
            };
            if !functions::is_known(function) {
                let result = forward(function);
                if result == CUDA_SUCCESS {
                    functions::launched(function);
                }
                return result;
            }
            // SAFETY: the driver has launched the function, so it reads the program's description.
            let Some(config) = (unsafe { config.as_ref() }) else { return forward(function) };
            // Attributes may make another launch of it: clusters, cooperation, priorities.
            if !extra.is_null() || config.numAttrs != 0 {
                return forward(function);
            }
            let call = Call {
                function,
                grid: [config.gridDimX, config.gridDimY, config.gridDimZ],
                block: [config.blockDimX, config.blockDimY, config.blockDimZ],
                shared: config.sharedMemBytes,
                stream: config.hStream,
                is_twin: const { is_twin(stringify!($name)) },
                parameters,
            };
            // SAFETY: the program's own arguments.
            unsafe { launch(&call, forward) }
        }
        $name as *const c_void
    }};
}

/// A function that loads code from an address or a file, which is its second argument.
macro_rules! loaded {
    ($name:ident($handle:ident: $first:ty, $from:ident: $second:ty $(, $argument:ident: $type:ty)*) $owner:path, $keep:path) => {{
        unsafe extern "C" fn $name($handle: $first, $from: $second $(, $argument: $type)*) -> CUresult {
            // SAFETY: the program's own arguments, unchanged.
            let result = unsafe { (beneath().$name)($handle, $from $(, $argument)*) };
            loads(result, $handle, |handle| {
                $keep($owner(handle), $from);
                $owner(handle)
            })
        }
        $name as *const c_void
    }};
}

/// A function that ends code or a context.
macro_rules! ended {
    ($name:ident($($argument:ident: $type:ty),*) $owner:expr) => {{
        unsafe extern "C" fn $name($($argument: $type),*) -> CUresult {
            // SAFETY: the program's own arguments, unchanged.
            ends($owner, || unsafe { (beneath().$name)($($argument),*) })
        }
        $name as *const c_void
    }};
}

/// A function that sets something of a function.
macro_rules! set {
    ($name:ident($($argument:ident: $type:ty),*) $told:expr) => {{
        unsafe extern "C" fn $name($($argument: $type),*) -> CUresult {
            // SAFETY: the program's own arguments, unchanged.
            let result = unsafe { (beneath().$name)($($argument),*) };
            if result == CUDA_SUCCESS && !is_aside() {
                $told;
            }
            result
        }
        $name as *const c_void
    }};
}

macro_rules! door {
    (cuLaunchKernel $arguments:tt) => { kernel!(cuLaunchKernel) };
    (cuLaunchKernel_ptsz $arguments:tt) => { kernel!(cuLaunchKernel_ptsz) };
    (cuLaunchKernelEx $arguments:tt) => { described_kernel!(cuLaunchKernelEx) };
    (cuLaunchKernelEx_ptsz $arguments:tt) => { described_kernel!(cuLaunchKernelEx_ptsz) };
    (cuModuleLoad($($a:ident: $t:ty),*)) => { loaded!(cuModuleLoad($($a: $t),*) Owner::module, images::loaded_file) };
    (cuModuleLoadData($($a:ident: $t:ty),*)) => { loaded!(cuModuleLoadData($($a: $t),*) Owner::module, images::loaded) };
    (cuModuleLoadDataEx($($a:ident: $t:ty),*)) => { loaded!(cuModuleLoadDataEx($($a: $t),*) Owner::module, images::loaded) };
    (cuModuleLoadFatBinary($($a:ident: $t:ty),*)) => { loaded!(cuModuleLoadFatBinary($($a: $t),*) Owner::module, images::loaded) };
    (cuLibraryLoadData($($a:ident: $t:ty),*)) => { loaded!(cuLibraryLoadData($($a: $t),*) Owner::library, images::loaded) };
    (cuLibraryLoadFromFile($($a:ident: $t:ty),*)) => { loaded!(cuLibraryLoadFromFile($($a: $t),*) Owner::library, images::loaded_file) };
    (cuModuleUnload($module:ident: $t:ty)) => { ended!(cuModuleUnload($module: $t) Some(Owner::module($module))) };
    (cuLibraryUnload($library:ident: $t:ty)) => { ended!(cuLibraryUnload($library: $t) Some(Owner::library($library))) };
    (cuCtxDestroy($($a:ident: $t:ty),*)) => { ended!(cuCtxDestroy($($a: $t),*) None) };
    (cuCtxDestroy_v2($($a:ident: $t:ty),*)) => { ended!(cuCtxDestroy_v2($($a: $t),*) None) };
    (cuCtxDetach($($a:ident: $t:ty),*)) => { ended!(cuCtxDetach($($a: $t),*) None) };
    (cuDevicePrimaryCtxRelease($($a:ident: $t:ty),*)) => { ended!(cuDevicePrimaryCtxRelease($($a: $t),*) None) };
    (cuDevicePrimaryCtxRelease_v2($($a:ident: $t:ty),*)) => { ended!(cuDevicePrimaryCtxRelease_v2($($a: $t),*) None) };
    (cuDevicePrimaryCtxReset($($a:ident: $t:ty),*)) => { ended!(cuDevicePrimaryCtxReset($($a: $t),*) None) };
    (cuDevicePrimaryCtxReset_v2($($a:ident: $t:ty),*)) => { ended!(cuDevicePrimaryCtxReset_v2($($a: $t),*) None) };
    (cuFuncSetAttribute($($a:ident: $t:ty),*)) => { set!(cuFuncSetAttribute($($a: $t),*) kernels::settings_changed()) };
    (cuKernelSetAttribute($($a:ident: $t:ty),*)) => { set!(cuKernelSetAttribute($($a: $t),*) kernels::settings_changed()) };
    (cuFuncSetCacheConfig($function:ident: $t:ty, $cache:ident: $u:ty)) => {
        set!(cuFuncSetCacheConfig($function: $t, $cache: $u) make::prefers($function as u64, $cache))
    };
    (cuKernelSetCacheConfig($kernel:ident: $t:ty, $cache:ident: $u:ty, $device:ident: $v:ty)) => {
        set!(cuKernelSetCacheConfig($kernel: $t, $cache: $u, $device: $v) make::prefers($kernel as u64, $cache))
    };
    ($name:ident $arguments:tt) => { core::ptr::null() };
}

macro_rules! doors {
    ($($kind:ident $treatment:ident $(($module:ident))? $order:ident $since:literal
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        static OWN: Doors = Doors([$(door!($name($($argument: $type),*))),*]);
    };
}

driver_functions!(doors);
