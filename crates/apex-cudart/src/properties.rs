//! What a device is, in the struct of CUDA 12 and in that of CUDA 13.
//!
//! Each field but the first five is an attribute of the driver; the tables below give
//! its number. CUDA 13 dropped some fields in the middle and took others in, so the
//! two structs are written out apart. CUDA 11's, which the `libcudart.so.12` of
//! NVIDIA still fills under the plain name, is the beginning of CUDA 12's.

#![allow(non_snake_case, reason = "the fields bear the runtime's own names")]

use core::ffi::c_char;
use core::mem::offset_of;

use apex_cuda::Driver;
use apex_cuda::types::{CUdevice, CUdevice_attribute};

use crate::border::{Answer, check, put, wanted};
use crate::context::device_of;
use crate::driver::driver;
use crate::errors::Error;

/// What is not an attribute: name, identity, memory.
#[repr(C)]
#[derive(Clone, Copy)]
struct Identity {
    name: [u8; 256],
    uuid: [u8; 16],
    luid: [u8; 8],
    luid_nodes: u32,
    total_bytes: usize,
}

/// A field's value from the attributes that it has.
trait Value: Sized {
    fn of(ask: &dyn Fn(CUdevice_attribute) -> i32, attributes: &[CUdevice_attribute]) -> Self;
}

impl Value for i32 {
    fn of(ask: &dyn Fn(CUdevice_attribute) -> i32, attributes: &[CUdevice_attribute]) -> i32 {
        attributes.first().map_or(0, |&attribute| ask(attribute))
    }
}

impl Value for usize {
    fn of(ask: &dyn Fn(CUdevice_attribute) -> i32, attributes: &[CUdevice_attribute]) -> usize {
        attributes.first().map_or(0, |&attribute| ask(attribute).max(0) as usize)
    }
}

impl<const COUNT: usize> Value for [i32; COUNT] {
    fn of(ask: &dyn Fn(CUdevice_attribute) -> i32, attributes: &[CUdevice_attribute]) -> Self {
        core::array::from_fn(|index| attributes.get(index).map_or(0, |&attribute| ask(attribute)))
    }
}

macro_rules! properties {
    ($(#[doc = $doc:literal])* $name:ident, $reserved:literal;
     $($field:ident: $type:ty = $attributes:expr;)*) => {
        $(#[doc = $doc])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub(crate) struct $name {
            identity: Identity,
            $($field: $type,)*
            reserved: [i32; $reserved],
        }

        impl $name {
            fn new(identity: Identity, ask: &dyn Fn(CUdevice_attribute) -> i32) -> $name {
                $name {
                    identity,
                    $($field: Value::of(ask, &$attributes),)*
                    reserved: [0; $reserved],
                }
            }
        }
    };
}

properties! {
    /// `cudaDeviceProp` of CUDA 12.
    Properties12, 63;
    sharedMemPerBlock: usize = [8];
    regsPerBlock: i32 = [12];
    warpSize: i32 = [10];
    memPitch: usize = [11];
    maxThreadsPerBlock: i32 = [1];
    maxThreadsDim: [i32; 3] = [2, 3, 4];
    maxGridSize: [i32; 3] = [5, 6, 7];
    clockRate: i32 = [13];
    totalConstMem: usize = [9];
    major: i32 = [75];
    minor: i32 = [76];
    textureAlignment: usize = [14];
    texturePitchAlignment: usize = [51];
    deviceOverlap: i32 = [15];
    multiProcessorCount: i32 = [16];
    kernelExecTimeoutEnabled: i32 = [17];
    integrated: i32 = [18];
    canMapHostMemory: i32 = [19];
    computeMode: i32 = [20];
    maxTexture1D: i32 = [21];
    maxTexture1DMipmap: i32 = [77];
    maxTexture1DLinear: i32 = [69];
    maxTexture2D: [i32; 2] = [22, 23];
    maxTexture2DMipmap: [i32; 2] = [73, 74];
    maxTexture2DLinear: [i32; 3] = [70, 71, 72];
    maxTexture2DGather: [i32; 2] = [45, 46];
    maxTexture3D: [i32; 3] = [24, 25, 26];
    maxTexture3DAlt: [i32; 3] = [47, 48, 49];
    maxTextureCubemap: i32 = [52];
    maxTexture1DLayered: [i32; 2] = [42, 43];
    maxTexture2DLayered: [i32; 3] = [27, 28, 29];
    maxTextureCubemapLayered: [i32; 2] = [53, 54];
    maxSurface1D: i32 = [55];
    maxSurface2D: [i32; 2] = [56, 57];
    maxSurface3D: [i32; 3] = [58, 59, 60];
    maxSurface1DLayered: [i32; 2] = [61, 62];
    maxSurface2DLayered: [i32; 3] = [63, 64, 65];
    maxSurfaceCubemap: i32 = [66];
    maxSurfaceCubemapLayered: [i32; 2] = [67, 68];
    surfaceAlignment: usize = [30];
    concurrentKernels: i32 = [31];
    ECCEnabled: i32 = [32];
    pciBusID: i32 = [33];
    pciDeviceID: i32 = [34];
    pciDomainID: i32 = [50];
    tccDriver: i32 = [35];
    asyncEngineCount: i32 = [40];
    unifiedAddressing: i32 = [41];
    memoryClockRate: i32 = [36];
    memoryBusWidth: i32 = [37];
    l2CacheSize: i32 = [38];
    persistingL2CacheMaxSize: i32 = [108];
    maxThreadsPerMultiProcessor: i32 = [39];
    streamPrioritiesSupported: i32 = [78];
    globalL1CacheSupported: i32 = [79];
    localL1CacheSupported: i32 = [80];
    sharedMemPerMultiprocessor: usize = [81];
    regsPerMultiprocessor: i32 = [82];
    managedMemory: i32 = [83];
    isMultiGpuBoard: i32 = [84];
    multiGpuBoardGroupID: i32 = [85];
    hostNativeAtomicSupported: i32 = [86];
    singleToDoublePrecisionPerfRatio: i32 = [87];
    pageableMemoryAccess: i32 = [88];
    concurrentManagedAccess: i32 = [89];
    computePreemptionSupported: i32 = [90];
    canUseHostPointerForRegisteredMem: i32 = [91];
    cooperativeLaunch: i32 = [95];
    cooperativeMultiDeviceLaunch: i32 = [96];
    sharedMemPerBlockOptin: usize = [97];
    pageableMemoryAccessUsesHostPageTables: i32 = [100];
    directManagedMemAccessFromHost: i32 = [101];
    maxBlocksPerMultiProcessor: i32 = [106];
    accessPolicyMaxWindowSize: i32 = [109];
    reservedSharedMemPerBlock: usize = [111];
    hostRegisterSupported: i32 = [99];
    sparseCudaArraySupported: i32 = [112];
    hostRegisterReadOnlySupported: i32 = [113];
    timelineSemaphoreInteropSupported: i32 = [114];
    memoryPoolsSupported: i32 = [115];
    gpuDirectRDMASupported: i32 = [116];
    gpuDirectRDMAFlushWritesOptions: i32 = [117];
    gpuDirectRDMAWritesOrdering: i32 = [118];
    memoryPoolSupportedHandleTypes: i32 = [119];
    deferredMappingCudaArraySupported: i32 = [121];
    ipcEventSupported: i32 = [125];
    clusterLaunch: i32 = [120];
    unifiedFunctionPointers: i32 = [129];
}

properties! {
    /// `cudaDeviceProp` of CUDA 13.
    Properties13, 56;
    sharedMemPerBlock: usize = [8];
    regsPerBlock: i32 = [12];
    warpSize: i32 = [10];
    memPitch: usize = [11];
    maxThreadsPerBlock: i32 = [1];
    maxThreadsDim: [i32; 3] = [2, 3, 4];
    maxGridSize: [i32; 3] = [5, 6, 7];
    totalConstMem: usize = [9];
    major: i32 = [75];
    minor: i32 = [76];
    textureAlignment: usize = [14];
    texturePitchAlignment: usize = [51];
    multiProcessorCount: i32 = [16];
    integrated: i32 = [18];
    canMapHostMemory: i32 = [19];
    maxTexture1D: i32 = [21];
    maxTexture1DMipmap: i32 = [77];
    maxTexture2D: [i32; 2] = [22, 23];
    maxTexture2DMipmap: [i32; 2] = [73, 74];
    maxTexture2DLinear: [i32; 3] = [70, 71, 72];
    maxTexture2DGather: [i32; 2] = [45, 46];
    maxTexture3D: [i32; 3] = [24, 25, 26];
    maxTexture3DAlt: [i32; 3] = [47, 48, 49];
    maxTextureCubemap: i32 = [52];
    maxTexture1DLayered: [i32; 2] = [42, 43];
    maxTexture2DLayered: [i32; 3] = [27, 28, 29];
    maxTextureCubemapLayered: [i32; 2] = [53, 54];
    maxSurface1D: i32 = [55];
    maxSurface2D: [i32; 2] = [56, 57];
    maxSurface3D: [i32; 3] = [58, 59, 60];
    maxSurface1DLayered: [i32; 2] = [61, 62];
    maxSurface2DLayered: [i32; 3] = [63, 64, 65];
    maxSurfaceCubemap: i32 = [66];
    maxSurfaceCubemapLayered: [i32; 2] = [67, 68];
    surfaceAlignment: usize = [30];
    concurrentKernels: i32 = [31];
    ECCEnabled: i32 = [32];
    pciBusID: i32 = [33];
    pciDeviceID: i32 = [34];
    pciDomainID: i32 = [50];
    tccDriver: i32 = [35];
    asyncEngineCount: i32 = [40];
    unifiedAddressing: i32 = [41];
    memoryBusWidth: i32 = [37];
    l2CacheSize: i32 = [38];
    persistingL2CacheMaxSize: i32 = [108];
    maxThreadsPerMultiProcessor: i32 = [39];
    streamPrioritiesSupported: i32 = [78];
    globalL1CacheSupported: i32 = [79];
    localL1CacheSupported: i32 = [80];
    sharedMemPerMultiprocessor: usize = [81];
    regsPerMultiprocessor: i32 = [82];
    managedMemory: i32 = [83];
    isMultiGpuBoard: i32 = [84];
    multiGpuBoardGroupID: i32 = [85];
    hostNativeAtomicSupported: i32 = [86];
    pageableMemoryAccess: i32 = [88];
    concurrentManagedAccess: i32 = [89];
    computePreemptionSupported: i32 = [90];
    canUseHostPointerForRegisteredMem: i32 = [91];
    cooperativeLaunch: i32 = [95];
    sharedMemPerBlockOptin: usize = [97];
    pageableMemoryAccessUsesHostPageTables: i32 = [100];
    directManagedMemAccessFromHost: i32 = [101];
    maxBlocksPerMultiProcessor: i32 = [106];
    accessPolicyMaxWindowSize: i32 = [109];
    reservedSharedMemPerBlock: usize = [111];
    hostRegisterSupported: i32 = [99];
    sparseCudaArraySupported: i32 = [112];
    hostRegisterReadOnlySupported: i32 = [113];
    timelineSemaphoreInteropSupported: i32 = [114];
    memoryPoolsSupported: i32 = [115];
    gpuDirectRDMASupported: i32 = [116];
    gpuDirectRDMAFlushWritesOptions: i32 = [117];
    gpuDirectRDMAWritesOrdering: i32 = [118];
    memoryPoolSupportedHandleTypes: i32 = [119];
    deferredMappingCudaArraySupported: i32 = [121];
    ipcEventSupported: i32 = [125];
    clusterLaunch: i32 = [120];
    unifiedFunctionPointers: i32 = [129];
    deviceNumaConfig: i32 = [130];
    deviceNumaId: i32 = [131];
    mpsEnabled: i32 = [133];
    hostNumaId: i32 = [134];
    gpuPciDeviceID: i32 = [139];
    gpuPciSubsystemID: i32 = [140];
    hostNumaMultinodeIpcSupported: i32 = [143];
}

fn identity(driver: &Driver, device: CUdevice) -> Result<Identity, Error> {
    let mut identity =
        Identity { name: [0; 256], uuid: [0; 16], luid: [0; 8], luid_nodes: 0, total_bytes: 0 };
    let name: *mut c_char = identity.name.as_mut_ptr().cast();
    // SAFETY: every place can be written and is as long as the driver is told. There
    // are LUIDs on Windows only: elsewhere the driver says no and leaves the zeros.
    unsafe {
        check((driver.cuDeviceGetName)(name, 256, device))?;
        check((driver.cuDeviceGetUuid_v2)((&raw mut identity.uuid).cast(), device))?;
        check((driver.cuDeviceTotalMem_v2)(&raw mut identity.total_bytes, device))?;
        let luid: *mut c_char = identity.luid.as_mut_ptr().cast();
        let _ = (driver.cuDeviceGetLuid)(luid, &raw mut identity.luid_nodes, device);
    }
    Ok(identity)
}

/// An attribute that the driver does not know is 0.
fn attribute(driver: &Driver, device: CUdevice, attribute: CUdevice_attribute) -> i32 {
    let mut value = 0;
    // SAFETY: the value can be written.
    match unsafe { (driver.cuDeviceGetAttribute)(&raw mut value, attribute, device) } {
        0 => value,
        _ => 0,
    }
}

fn properties<T>(
    ordinal: i32,
    make: fn(Identity, &dyn Fn(CUdevice_attribute) -> i32) -> T,
) -> Result<T, Error> {
    let driver = driver()?;
    let device = device_of(driver, ordinal)?;
    Ok(make(identity(driver, device)?, &|number| attribute(driver, device, number)))
}

/// Where CUDA 11's struct ends.
const BYTES_11: usize = offset_of!(Properties12, hostRegisterSupported);

/// # Safety
///
/// `out` is null or has room for the struct of CUDA 11.
unsafe fn put_beginning(out: *mut Properties12, whole: &Properties12) -> Answer {
    let (to, from) = (wanted(out)?.cast::<u8>(), (&raw const *whole).cast::<u8>());
    // SAFETY: the beginning fits, as the caller vouches.
    unsafe { to.copy_from_nonoverlapping(from, BYTES_11) };
    Ok(())
}

runtime! {
    fn cudart13_cudaGetDeviceProperties(out: *mut Properties13, ordinal: i32) {
        put(out, properties(ordinal, Properties13::new)?)
    }

    fn cudaGetDeviceProperties_v2(out: *mut Properties12, ordinal: i32) {
        put(out, properties(ordinal, Properties12::new)?)
    }

    fn cudart12_cudaGetDeviceProperties(out: *mut Properties12, ordinal: i32) {
        put_beginning(out, &properties(ordinal, Properties12::new)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The numbers are those that a C compiler gives for the headers of 12.9 and 13.0.
    #[test]
    fn the_structs_are_laid_out_as_in_the_headers() {
        assert_eq!(size_of::<Properties12>(), 1032);
        assert_eq!(offset_of!(Properties12, major), 360);
        assert_eq!(offset_of!(Properties12, clusterLaunch), 772);
        assert_eq!(BYTES_11, 728);
        assert_eq!(size_of::<Properties13>(), 1008);
        assert_eq!(offset_of!(Properties13, major), 360);
        assert_eq!(offset_of!(Properties13, clusterLaunch), 748);
        assert_eq!(offset_of!(Properties13, hostNumaMultinodeIpcSupported), 780);
    }

    #[test]
    fn fields_come_from_their_attributes() {
        let identity =
            Identity { name: [0; 256], uuid: [0; 16], luid: [0; 8], luid_nodes: 0, total_bytes: 7 };
        let made = Properties13::new(identity, &|attribute| attribute as i32);
        assert_eq!((made.major, made.minor), (75, 76));
        assert_eq!((made.maxThreadsDim, made.maxGridSize), ([2, 3, 4], [5, 6, 7]));
        assert_eq!((made.sharedMemPerBlock, made.identity.total_bytes), (8, 7));
        assert_eq!(Properties12::new(identity, &|attribute| attribute as i32).clockRate, 13);
    }
}
