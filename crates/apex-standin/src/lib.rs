//! A driver that costs nothing: what the shim's own cost is measured against.
//!
//! `apex bench shim` launches a kernel through the shim and past it; what the driver
//! itself takes stands in both figures, so it must be small and the same. Here a
//! launch counts one and nothing else happens: no lock, no system call, no memory.
//! Only what the benchmark, the proof that a launch is quiet, and the shim around them
//! call is answered, with one device, one context, one module and one kernel; all other functions of the table answer
//! `CUDA_ERROR_NOT_SUPPORTED`. Every function is exported by an address of its own,
//! as a driver's are: the shim tells functions apart by address.

#![allow(non_snake_case, reason = "the functions bear the driver's own names")]

use core::ptr::{null_mut, without_provenance_mut};
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use apex_cuda::types::*;
use apex_cuda::{Driver, Function, driver_functions};

static LAUNCHES: AtomicU64 = AtomicU64::new(0);
static CURRENT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

const CONTEXT: usize = 0x1000;
const MODULE: usize = 0x2000;
const KERNEL: usize = 0x3000;
const EVENT: usize = 0x4000;
const STREAM: usize = 0x5000;

/// What is answered.
mod answered {
    use super::*;

    /// Writes an answer; the caller's out-pointer is trusted as far as a driver trusts it.
    unsafe fn put<T>(out: *mut T, value: T) -> CUresult {
        if out.is_null() {
            return CUDA_ERROR_INVALID_VALUE;
        }
        // SAFETY: not null, and the caller vouches for the rest.
        unsafe { out.write_unaligned(value) };
        CUDA_SUCCESS
    }

    macro_rules! answers {
        ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
            $(
                #[allow(clippy::too_many_arguments, reason = "the driver's own signatures")]
                pub(super) unsafe extern "C" fn $name($($argument: $type),*) -> CUresult {
                    #[allow(unused_unsafe, reason = "some bodies only look at numbers")]
                    // SAFETY: the caller keeps the C contract of this function.
                    unsafe { $body }
                }
            )*
        };
    }

    answers! {
        fn cuInit(_flags: u32) { CUDA_SUCCESS }
        fn cuDriverGetVersion(out: *mut i32) { put(out, 13_000) }
        fn cuDeviceGetAttribute(out: *mut i32, _attribute: CUdevice_attribute, _device: CUdevice) { put(out, 0) }
        fn cuDeviceTotalMem_v2(out: *mut usize, _device: CUdevice) { put(out, 1 << 30) }
        fn cuDeviceGetName(name: *mut c_char, length: i32, _device: CUdevice) {
            if length < 1 { CUDA_ERROR_INVALID_VALUE } else { put(name, 0) }
        }
        fn cuDeviceGetUuid(out: *mut CUuuid, _device: CUdevice) { put(out, CUuuid { bytes: [0; 16] }) }
        fn cuDevicePrimaryCtxRetain(out: *mut CUcontext, _device: CUdevice) {
            put(out, without_provenance_mut(CONTEXT))
        }
        fn cuDeviceGet(out: *mut CUdevice, ordinal: i32) { put(out, ordinal) }
        fn cuCtxCreate_v2(out: *mut CUcontext, _flags: u32, _device: CUdevice) {
            CURRENT.store(without_provenance_mut(CONTEXT), Ordering::Relaxed);
            put(out, without_provenance_mut(CONTEXT))
        }
        fn cuStreamCreate(out: *mut CUstream, _flags: u32) { put(out, without_provenance_mut(STREAM)) }
        fn cuCtxSetCurrent(context: CUcontext) {
            CURRENT.store(context.cast(), Ordering::Relaxed);
            CUDA_SUCCESS
        }
        fn cuCtxGetCurrent(out: *mut CUcontext) { put(out, CURRENT.load(Ordering::Relaxed).cast()) }
        fn cuCtxGetDevice(out: *mut CUdevice) { put(out, 0) }
        fn cuModuleLoadData(out: *mut CUmodule, _image: *const c_void) { put(out, without_provenance_mut(MODULE)) }
        fn cuModuleGetFunction(out: *mut CUfunction, _module: CUmodule, _name: *const c_char) {
            put(out, without_provenance_mut(KERNEL))
        }
        fn cuFuncGetName(out: *mut *const c_char, _function: CUfunction) { put(out, c"empty".as_ptr()) }
        fn cuFuncGetModule(out: *mut CUmodule, _function: CUfunction) { put(out, without_provenance_mut(MODULE)) }
        fn cuFuncGetAttribute(out: *mut i32, _attribute: CUfunction_attribute, _function: CUfunction) { put(out, 0) }
        fn cuFuncGetParamInfo(_function: CUfunction, _index: usize, _offset: *mut usize, _bytes: *mut usize) {
            CUDA_ERROR_INVALID_VALUE
        }
        fn cuStreamIsCapturing(_stream: CUstream, out: *mut CUstreamCaptureStatus) { put(out, 0) }
        fn cuEventCreate(out: *mut CUevent, _flags: u32) { put(out, without_provenance_mut(EVENT)) }
        fn cuEventRecord(_event: CUevent, _stream: CUstream) { CUDA_SUCCESS }
        fn cuEventQuery(_event: CUevent) { CUDA_SUCCESS }
        fn cuEventElapsedTime(out: *mut f32, _start: CUevent, _end: CUevent) { put(out, 0.001) }
        fn cuLaunchKernel(
            function: CUfunction,
            _grid_x: u32, _grid_y: u32, _grid_z: u32, _block_x: u32, _block_y: u32, _block_z: u32,
            _shared_bytes: u32, _stream: CUstream, _params: *mut *mut c_void, _extra: *mut *mut c_void,
        ) {
            if function.addr() != KERNEL {
                return CUDA_ERROR_INVALID_HANDLE;
            }
            LAUNCHES.fetch_add(1, Ordering::Relaxed);
            CUDA_SUCCESS
        }
    }
}

macro_rules! table {
    ($(
        $kind:ident $treatment:ident $(($module:ident))? $order:ident $since:literal
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;
    )*) => {
        #[allow(dead_code, reason = "the defaults of answered functions are hidden")]
        mod default {
            use super::*;
            $(
                #[allow(clippy::too_many_arguments, reason = "the driver's own signatures")]
                pub(super) unsafe extern "C" fn $name($(_: $type),*) $(-> $result)? {
                    let _result = CUDA_ERROR_NOT_SUPPORTED;
                    $(_result as $result)?
                }
            )*
        }

        /// What answers each function.
        static ANSWERS: Driver = {
            use default::*;
            {
                // The inner scope hides the defaults of the same name.
                use answered::*;
                Driver { $($name,)* }
            }
        };

        mod export {
            use super::*;
            $(
                /// # Safety
                ///
                /// The caller keeps the C contract of the driver function.
                #[unsafe(naked)]
                #[cfg_attr(not(test), unsafe(no_mangle))]
                pub(super) unsafe extern "C" fn $name() {
                    core::arch::naked_asm!(
                        "jmp qword ptr [rip + {answers} + {offset}]",
                        answers = sym ANSWERS,
                        offset = const 8 * Function::$name as usize,
                    )
                }
            )*
        }

        /// The address under which a function is exported.
        #[allow(dead_code, reason = "keeps the exports in the library, and is asked by its tests")]
        fn address(function: Function) -> *const c_void {
            match function {
                $(Function::$name => export::$name as *const c_void,)*
            }
        }
    };
}

driver_functions!(table);

/// How many kernels were launched in this process; no libcuda has it, so the shim
/// knows by it that no kernel runs.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn apex_standin_launches() -> u64 {
    LAUNCHES.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_is_counted_and_all_else_is_refused() {
        let kernel = without_provenance_mut(KERNEL);
        let before = apex_standin_launches();
        // SAFETY: nothing looks behind these handles.
        unsafe {
            let go = ANSWERS.cuLaunchKernel;
            let launched = go(kernel, 1, 1, 1, 1, 1, 1, 0, null_mut(), null_mut(), null_mut());
            assert_eq!(launched, CUDA_SUCCESS);
            assert_eq!((ANSWERS.cuMemFree_v2)(0), CUDA_ERROR_NOT_SUPPORTED);
        }
        assert_eq!(apex_standin_launches(), before + 1);
        assert_ne!(address(Function::cuInit), address(Function::cuMemFree_v2));
    }
}
