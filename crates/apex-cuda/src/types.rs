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
    ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        $($(#[$doc])* pub const $name: CUresult = $value;)*

        /// The C name of a result, where this crate knows it.
        pub fn result_name(result: CUresult) -> Option<&'static str> {
            match result {
                $($value => Some(stringify!($name)),)*
                _ => None,
            }
        }
    };
}

results! {
    /// The call did what was asked.
    CUDA_SUCCESS = 0;
    /// An argument is out of its range.
    CUDA_ERROR_INVALID_VALUE = 1;
    /// Not enough memory for the call.
    CUDA_ERROR_OUT_OF_MEMORY = 2;
    /// `cuInit` has not been called.
    CUDA_ERROR_NOT_INITIALIZED = 3;
    /// The driver is shutting down; the process is ending.
    CUDA_ERROR_DEINITIALIZED = 4;
    /// There is no usable device.
    CUDA_ERROR_NO_DEVICE = 100;
    /// There is no device of that number.
    CUDA_ERROR_INVALID_DEVICE = 101;
    /// The code image is not one.
    CUDA_ERROR_INVALID_IMAGE = 200;
    /// No context is current, or the given one is not alive.
    CUDA_ERROR_INVALID_CONTEXT = 201;
    /// The array is mapped and cannot be destroyed.
    CUDA_ERROR_ARRAY_IS_MAPPED = 207;
    /// The resource is already mapped.
    CUDA_ERROR_ALREADY_MAPPED = 208;
    /// The resource is not mapped.
    CUDA_ERROR_NOT_MAPPED = 211;
    /// The device does not have that limit.
    CUDA_ERROR_UNSUPPORTED_LIMIT = 215;
    /// The context is bound to another thread.
    CUDA_ERROR_CONTEXT_ALREADY_IN_USE = 216;
    /// The PTX did not compile.
    CUDA_ERROR_INVALID_PTX = 218;
    /// The source of a kernel is invalid.
    CUDA_ERROR_INVALID_SOURCE = 300;
    /// The file was not found.
    CUDA_ERROR_FILE_NOT_FOUND = 301;
    /// A shared object lacks a symbol.
    CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND = 302;
    /// A shared object could not be set up.
    CUDA_ERROR_SHARED_OBJECT_INIT_FAILED = 303;
    /// A call of the operating system failed.
    CUDA_ERROR_OPERATING_SYSTEM = 304;
    /// The handle is not one of that kind.
    CUDA_ERROR_INVALID_HANDLE = 400;
    /// The resource is not in a state for this call.
    CUDA_ERROR_ILLEGAL_STATE = 401;
    /// No symbol, table or object of that name.
    CUDA_ERROR_NOT_FOUND = 500;
    /// Work given earlier has not completed; not a failure.
    CUDA_ERROR_NOT_READY = 600;
    /// A kernel touched memory that is not there.
    CUDA_ERROR_ILLEGAL_ADDRESS = 700;
    /// The launch asks for more than the device has.
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701;
    /// Peer access is already on.
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704;
    /// Peer access is not on.
    CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705;
    /// The primary context is already active.
    CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708;
    /// The current context has been destroyed.
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709;
    /// The host range is already registered.
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712;
    /// The host range is not registered.
    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713;
    /// A kernel ended with a fault.
    CUDA_ERROR_LAUNCH_FAILED = 719;
    /// A cooperative grid does not fit on the device at once.
    CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720;
    /// The call is not permitted here.
    CUDA_ERROR_NOT_PERMITTED = 800;
    /// The call is not supported on this system.
    CUDA_ERROR_NOT_SUPPORTED = 801;
    /// The system is not ready for CUDA work.
    CUDA_ERROR_SYSTEM_NOT_READY = 802;
    /// Kernel and user driver are of different versions.
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803;
    /// The call is not permitted while the stream is captured.
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900;
    /// An earlier error ended the capture.
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901;
    /// The call would join two captures.
    CUDA_ERROR_STREAM_CAPTURE_MERGE = 902;
    /// The capture was not begun on this stream.
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903;
    /// A branch of the capture was not joined.
    CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904;
    /// A dependency would cross the border of the capture.
    CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905;
    /// The legacy stream would depend on a capture.
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906;
    /// The event was last recorded in a capture.
    CUDA_ERROR_CAPTURED_EVENT = 907;
    /// The capture belongs to another thread.
    CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908;
    /// The graph differs too much from the one instantiated.
    CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910;
    /// An error inside the driver.
    CUDA_ERROR_UNKNOWN = 999;
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
