//! The C types of the driver's signatures.
//!
//! Structs, unions and handles are those of cudarc's bindings. Every C enum is a
//! plain number here, by value and behind pointers: programs pass values that a
//! Rust enum of today does not know, and such an enum would be undefined
//! behaviour. For the same reason an enum field of one of these structs is read as
//! a number (through a cast pointer), unless this side has written it.
//!
//! Types that the bindings lack (the 32-bit forms of CUDA 2, GL, EGL, VDPAU) are
//! only ever passed on, so they are opaque.

#![allow(non_camel_case_types, reason = "CUDA's own names stay as they are at the border")]

use core::ffi::CStr;
pub use core::ffi::{c_char, c_void};

pub use cudarc::driver::sys::{
    CU_DEV_SM_RESOURCE_GROUP_PARAMS, CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY_MEMORY_REQUIREMENTS,
    CUDA_ARRAY_SPARSE_PROPERTIES, CUDA_ARRAY3D_DESCRIPTOR, CUDA_BATCH_MEM_OP_NODE_PARAMS,
    CUDA_CHILD_GRAPH_NODE_PARAMS, CUDA_CONDITIONAL_NODE_PARAMS, CUDA_EVENT_RECORD_NODE_PARAMS,
    CUDA_EVENT_WAIT_NODE_PARAMS, CUDA_EXT_SEM_SIGNAL_NODE_PARAMS, CUDA_EXT_SEM_WAIT_NODE_PARAMS,
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC, CUDA_EXTERNAL_MEMORY_HANDLE_DESC,
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC, CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC,
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS,
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUDA_HOST_NODE_PARAMS, CUDA_HOST_NODE_PARAMS_v2,
    CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS_v3,
    CUDA_LAUNCH_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS_v2,
    CUDA_MEM_FREE_NODE_PARAMS, CUDA_MEMCPY_NODE_PARAMS, CUDA_MEMCPY2D, CUDA_MEMCPY3D,
    CUDA_MEMCPY3D_BATCH_OP, CUDA_MEMCPY3D_PEER, CUDA_MEMSET_NODE_PARAMS,
    CUDA_MEMSET_NODE_PARAMS_v2, CUDA_RESOURCE_DESC, CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC,
    CUaccessPolicyWindow, CUarray, CUarrayMapInfo, CUasyncCallback, CUasyncCallbackHandle,
    CUcheckpointCheckpointArgs, CUcheckpointLockArgs, CUcheckpointOperationHandle,
    CUcheckpointRestoreArgs, CUcheckpointUnlockArgs, CUcliqueInfo, CUcontext,
    CUcoredumpCallbackHandle, CUcoredumpStatusCallback, CUctxCreateParams, CUdevResource,
    CUdevResourceDesc, CUdevice, CUdeviceptr, CUdevprop, CUevent, CUexecAffinityParam,
    CUexternalMemory, CUexternalSemaphore, CUfunction, CUgraph, CUgraphConditionalHandle,
    CUgraphEdgeData, CUgraphExec, CUgraphExecUpdateResultInfo, CUgraphNode, CUgraphNodeParams,
    CUgraphicsResource, CUgreenCtx, CUhostFn, CUipcEventHandle, CUipcMemHandle, CUkernel,
    CUkernelNodeAttrValue, CUlaunchAttribute, CUlaunchAttributeValue, CUlaunchConfig, CUlibrary,
    CUlinkState, CUlogIterator, CUlogicalEndpointId, CUlogicalEndpointProp, CUlogsCallbackHandle,
    CUmemAccessDesc, CUmemAllocationProp, CUmemDecompressParams, CUmemGenericAllocationHandle,
    CUmemPoolProps, CUmemPoolPtrExportData, CUmemcpyAttributes, CUmemoryPool, CUmipmappedArray,
    CUmodule, CUmulticastObjectProp, CUoccupancyB2DSize, CUstream, CUstreamAttrValue,
    CUstreamBatchMemOpParams, CUstreamCigCaptureParams, CUsurfObject, CUsurfref, CUtensorMap,
    CUtexObject, CUtexref, CUuserObject, CUuuid,
};

/// What every driver function returns: [`CUDA_SUCCESS`] or an error number.
pub type CUresult = u32;

macro_rules! results {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        $(
            #[doc = concat!("The driver says: ", $text, ".")]
            pub const $name: CUresult = $value;
        )*

        /// The C name of a result, where it is known.
        pub fn result_name(result: CUresult) -> Option<&'static CStr> {
            Some(match result {
                $($value => c_text(concat!(stringify!($name), "\0")),)*
                _ => return None,
            })
        }

        /// What the driver says of a result, where it is known.
        pub fn result_text(result: CUresult) -> Option<&'static CStr> {
            Some(match result {
                $($value => c_text(concat!($text, "\0")),)*
                _ => return None,
            })
        }
    };
}

fn c_text(text: &'static str) -> &'static CStr {
    CStr::from_bytes_with_nul(text.as_bytes()).unwrap_or_default()
}

results! {
    CUDA_SUCCESS = 0, "no error";
    CUDA_ERROR_INVALID_VALUE = 1, "invalid argument";
    CUDA_ERROR_OUT_OF_MEMORY = 2, "out of memory";
    CUDA_ERROR_NOT_INITIALIZED = 3, "initialization error";
    CUDA_ERROR_DEINITIALIZED = 4, "driver shutting down";
    CUDA_ERROR_PROFILER_DISABLED = 5, "profiler disabled while using external profiling tool";
    CUDA_ERROR_PROFILER_NOT_INITIALIZED = 6, "profiler not initialized: call cudaProfilerInitialize()";
    CUDA_ERROR_PROFILER_ALREADY_STARTED = 7, "profiler already started";
    CUDA_ERROR_PROFILER_ALREADY_STOPPED = 8, "profiler already stopped";
    CUDA_ERROR_STUB_LIBRARY = 34, "CUDA driver is a stub library";
    CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER = 36, "API call is not supported in the installed CUDA driver";
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46, "CUDA-capable device(s) is/are busy or unavailable";
    CUDA_ERROR_NO_DEVICE = 100, "no CUDA-capable device is detected";
    CUDA_ERROR_INVALID_DEVICE = 101, "invalid device ordinal";
    CUDA_ERROR_DEVICE_NOT_LICENSED = 102, "device doesn't have valid Grid license";
    CUDA_ERROR_INVALID_IMAGE = 200, "device kernel image is invalid";
    CUDA_ERROR_INVALID_CONTEXT = 201, "invalid device context";
    CUDA_ERROR_CONTEXT_ALREADY_CURRENT = 202, "context already current";
    CUDA_ERROR_MAP_FAILED = 205, "mapping of buffer object failed";
    CUDA_ERROR_UNMAP_FAILED = 206, "unmapping of buffer object failed";
    CUDA_ERROR_ARRAY_IS_MAPPED = 207, "array is mapped";
    CUDA_ERROR_ALREADY_MAPPED = 208, "resource already mapped";
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209, "no kernel image is available for execution on the device";
    CUDA_ERROR_ALREADY_ACQUIRED = 210, "resource already acquired";
    CUDA_ERROR_NOT_MAPPED = 211, "resource not mapped";
    CUDA_ERROR_NOT_MAPPED_AS_ARRAY = 212, "resource not mapped as array";
    CUDA_ERROR_NOT_MAPPED_AS_POINTER = 213, "resource not mapped as pointer";
    CUDA_ERROR_ECC_UNCORRECTABLE = 214, "uncorrectable ECC error encountered";
    CUDA_ERROR_UNSUPPORTED_LIMIT = 215, "limit is not supported on this architecture";
    CUDA_ERROR_CONTEXT_ALREADY_IN_USE = 216, "exclusive-thread device already in use by a different thread";
    CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217, "peer access is not supported between these two devices";
    CUDA_ERROR_INVALID_PTX = 218, "a PTX JIT compilation failed";
    CUDA_ERROR_INVALID_GRAPHICS_CONTEXT = 219, "invalid OpenGL or DirectX context";
    CUDA_ERROR_NVLINK_UNCORRECTABLE = 220, "uncorrectable NVLink error detected during the execution";
    CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221, "PTX JIT compiler library not found";
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222, "the provided PTX was compiled with an unsupported toolchain.";
    CUDA_ERROR_JIT_COMPILATION_DISABLED = 223, "PTX JIT compilation was disabled";
    CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY = 224, "the provided execution affinity is not supported";
    CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC = 225, "the provided PTX contains unsupported call to cudaDeviceSynchronize";
    CUDA_ERROR_CONTAINED = 226, "Invalid access of peer GPU memory over nvlink or a hardware error";
    CUDA_ERROR_INVALID_SOURCE = 300, "device kernel image is invalid";
    CUDA_ERROR_FILE_NOT_FOUND = 301, "file not found";
    CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND = 302, "shared object symbol not found";
    CUDA_ERROR_SHARED_OBJECT_INIT_FAILED = 303, "shared object initialization failed";
    CUDA_ERROR_OPERATING_SYSTEM = 304, "OS call failed or operation not supported on this OS";
    CUDA_ERROR_INVALID_HANDLE = 400, "invalid resource handle";
    CUDA_ERROR_ILLEGAL_STATE = 401, "the operation cannot be performed in the present state";
    CUDA_ERROR_LOSSY_QUERY = 402, "attempted introspection would be semantically lossy";
    CUDA_ERROR_NOT_FOUND = 500, "named symbol not found";
    CUDA_ERROR_NOT_READY = 600, "device not ready";
    CUDA_ERROR_ILLEGAL_ADDRESS = 700, "an illegal memory access was encountered";
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701, "too many resources requested for launch";
    CUDA_ERROR_LAUNCH_TIMEOUT = 702, "the launch timed out and was terminated";
    CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING = 703, "launch uses incompatible texturing mode";
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704, "peer access is already enabled";
    CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705, "peer access has not been enabled";
    CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708, "cannot set while device is active in this process";
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709, "context is destroyed";
    CUDA_ERROR_ASSERT = 710, "device-side assert triggered";
    CUDA_ERROR_TOO_MANY_PEERS = 711, "peer mapping resources exhausted";
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712, "part or all of the requested memory range is already mapped";
    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713, "pointer does not correspond to a registered memory region";
    CUDA_ERROR_HARDWARE_STACK_ERROR = 714, "hardware stack error";
    CUDA_ERROR_ILLEGAL_INSTRUCTION = 715, "an illegal instruction was encountered";
    CUDA_ERROR_MISALIGNED_ADDRESS = 716, "misaligned address";
    CUDA_ERROR_INVALID_ADDRESS_SPACE = 717, "operation not supported on global/shared address space";
    CUDA_ERROR_INVALID_PC = 718, "invalid program counter";
    CUDA_ERROR_LAUNCH_FAILED = 719, "unspecified launch failure";
    CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720, "too many blocks in cooperative launch";
    CUDA_ERROR_TENSOR_MEMORY_LEAK = 721, "tensor memory not completely freed";
    CUDA_ERROR_NOT_PERMITTED = 800, "operation not permitted";
    CUDA_ERROR_NOT_SUPPORTED = 801, "operation not supported";
    CUDA_ERROR_SYSTEM_NOT_READY = 802, "system not yet initialized";
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803, "system has unsupported display driver / cuda driver combination";
    CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804, "forward compatibility was attempted on non supported HW";
    CUDA_ERROR_MPS_CONNECTION_FAILED = 805, "MPS client failed to connect to the MPS control daemon or the MPS server";
    CUDA_ERROR_MPS_RPC_FAILURE = 806, "the remote procedural call between the MPS server and the MPS client failed";
    CUDA_ERROR_MPS_SERVER_NOT_READY = 807, "MPS server is not ready to accept new MPS client requests";
    CUDA_ERROR_MPS_MAX_CLIENTS_REACHED = 808, "the hardware resources required to create MPS client have been exhausted";
    CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED = 809, "the hardware resources required to support device connections have been exhausted";
    CUDA_ERROR_MPS_CLIENT_TERMINATED = 810, "the MPS client has been terminated by the server";
    CUDA_ERROR_CDP_NOT_SUPPORTED = 811, "is using CUDA Dynamic Parallelism, but the current configuration, like MPS, does not support it";
    CUDA_ERROR_CDP_VERSION_MISMATCH = 812, "unsupported interaction between different versions of CUDA Dynamic Parallelism";
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900, "operation not permitted when stream is capturing";
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901, "operation failed due to a previous error during capture";
    CUDA_ERROR_STREAM_CAPTURE_MERGE = 902, "operation would result in a merge of separate capture sequences";
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903, "capture was not ended in the same stream as it began";
    CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904, "capturing stream has unjoined work";
    CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905, "dependency created on uncaptured work in another stream";
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906, "operation would make the legacy stream depend on a capturing blocking stream";
    CUDA_ERROR_CAPTURED_EVENT = 907, "operation not permitted on an event last recorded in a capturing stream";
    CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908, "attempt to terminate a thread-local capture sequence from another thread";
    CUDA_ERROR_TIMEOUT = 909, "wait operation timed out";
    CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910, "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update";
    CUDA_ERROR_EXTERNAL_DEVICE = 911, "an async error has occured in external entity outside of CUDA";
    CUDA_ERROR_INVALID_CLUSTER_SIZE = 912, "a kernel launch error has occurred due to cluster misconfiguration";
    CUDA_ERROR_FUNCTION_NOT_LOADED = 913, "the function handle is not loaded when calling an API that requires a loaded function";
    CUDA_ERROR_INVALID_RESOURCE_TYPE = 914, "one or more resources passed in are not valid resource types for the operation";
    CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION = 915, "one or more resources are insufficient or non-applicable for the operation";
    CUDA_ERROR_KEY_ROTATION = 916, "an error happened during the key rotation sequence";
    CUDA_ERROR_UNKNOWN = 999, "unknown error";
}

macro_rules! enums {
    ($($name:ident)*) => {
        $(
            /// A C enum of the driver, as the number that it is.
            pub type $name = u32;
        )*
    };
}

enums! {
    CUGLDeviceList
    CUaddress_mode
    CUarray_format
    CUatomicOperation
    CUcoredumpSettings
    CUdevResourceType
    CUdevice_P2PAttribute
    CUdevice_attribute
    CUdriverProcAddressQueryResult
    CUexecAffinityType
    CUfilter_mode
    CUflushGPUDirectRDMAWritesScope
    CUflushGPUDirectRDMAWritesTarget
    CUfunc_cache
    CUfunctionLoadingState
    CUfunction_attribute
    CUgraphConditionalNodeType
    CUgraphExecUpdateResult
    CUgraphInstantiateResult
    CUgraphMem_attribute
    CUgraphNodeType
    CUgraphRecaptureStatus
    CUjitInputType
    CUjit_option
    CUkernelNodeAttrID
    CUlaunchAttributeID
    CUlibraryOption
    CUlimit
    CUlogLevel
    CUlogicalEndpointIpcHandleType
    CUmemAccess_flags
    CUmemAllocationGranularity_flags
    CUmemAllocationHandleType
    CUmemAllocationType
    CUmemLocationType
    CUmemPool_attribute
    CUmemRangeHandleType
    CUmem_advise
    CUmem_range_attribute
    CUmemorytype
    CUmoduleLoadingMode
    CUmulticastGranularity_flags
    CUoutput_mode
    CUpointer_attribute
    CUprocessState
    CUsharedconfig
    CUstreamAttrID
    CUstreamCaptureMode
    CUstreamCaptureStatus
    CUtensorMapDataType
    CUtensorMapFloatOOBfill
    CUtensorMapIm2ColWideMode
    CUtensorMapInterleave
    CUtensorMapL2promotion
    CUtensorMapSwizzle
}

macro_rules! opaque {
    ($($name:ident = $type:ty;)*) => {
        $(
            /// A type that is passed on unread.
            pub type $name = $type;
        )*
    };
}

opaque! {
    CUDA_ARRAY3D_DESCRIPTOR_v1 = c_void;
    CUDA_ARRAY_DESCRIPTOR_v1 = c_void;
    CUDA_MEMCPY2D_v1 = c_void;
    CUDA_MEMCPY3D_v1 = c_void;
    CUeglFrame = c_void;
    CUeglStreamConnection = *mut c_void;
    EGLImageKHR = *mut c_void;
    EGLStreamKHR = *mut c_void;
    EGLSyncKHR = *mut c_void;
    EGLint = i32;
    GLenum = u32;
    GLuint = u32;
    VdpDevice = u32;
    VdpGetProcAddress = c_void;
    VdpOutputSurface = u32;
    VdpVideoSurface = u32;
}

/// A device address of the 32-bit ABI of CUDA 2.
pub type CUdeviceptr_v1 = u32;

/// A place where memory can be. Passed by value, so its first field must not be a
/// Rust enum.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CUmemLocation {
    /// Which kind of place.
    pub kind: CUmemLocationType,
    /// Which one of that kind: a device ordinal or a NUMA node.
    pub id: i32,
}

const _: () =
    assert!(size_of::<CUmemLocation>() == size_of::<cudarc::driver::sys::CUmemLocation>());

/// Called by the driver when a stream reaches the callback.
pub type CUstreamCallback =
    Option<unsafe extern "C" fn(stream: CUstream, status: CUresult, user_data: *mut c_void)>;

/// Called by the driver for each line of its log.
pub type CUlogsCallback = Option<
    unsafe extern "C" fn(
        data: *mut c_void,
        log_level: CUlogLevel,
        message: *mut c_char,
        length: usize,
    ),
>;

/// Called by the driver for each node that a second capture meets again.
pub type CUgraphRecaptureCallback = Option<
    unsafe extern "C" fn(
        data: *mut c_void,
        node: CUgraphNode,
        original_params: *const CUgraphNodeParams,
        recapture_params: *const CUgraphNodeParams,
        status: CUgraphRecaptureStatus,
    ) -> CUresult,
>;
