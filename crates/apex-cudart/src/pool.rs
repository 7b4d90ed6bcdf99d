//! Stream-ordered memory pools. Their structs are laid out like the driver's.

use core::ffi::c_void;

use apex_cuda::types::{
    CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationHandleType, CUmemAllocationType,
    CUmemLocation, CUmemPool_attribute, CUmemPoolProps, CUmemPoolPtrExportData, CUmemoryPool,
};

use crate::border::{check, wanted};
use crate::context::current;

runtime! {
    fn cudaMemPoolCreate(out: *mut CUmemoryPool, properties: *const CUmemPoolProps) {
        wanted(properties.cast_mut())?;
        check((current()?.cuMemPoolCreate)(wanted(out)?, properties))
    }

    fn cudaMemPoolDestroy(pool: CUmemoryPool) {
        check((current()?.cuMemPoolDestroy)(pool))
    }

    fn cudaMemPoolTrimTo(pool: CUmemoryPool, kept_bytes: usize) {
        check((current()?.cuMemPoolTrimTo)(pool, kept_bytes))
    }

    fn cudaMemPoolGetAttribute(
        pool: CUmemoryPool,
        attribute: CUmemPool_attribute,
        out: *mut c_void,
    ) {
        check((current()?.cuMemPoolGetAttribute)(pool, attribute, wanted(out)?))
    }

    fn cudaMemPoolSetAttribute(
        pool: CUmemoryPool,
        attribute: CUmemPool_attribute,
        value: *mut c_void,
    ) {
        check((current()?.cuMemPoolSetAttribute)(pool, attribute, wanted(value)?))
    }

    fn cudaMemPoolGetAccess(
        out: *mut CUmemAccess_flags,
        pool: CUmemoryPool,
        location: *mut CUmemLocation,
    ) {
        check((current()?.cuMemPoolGetAccess)(wanted(out)?, pool, wanted(location)?))
    }

    fn cudaMemPoolSetAccess(pool: CUmemoryPool, list: *const CUmemAccessDesc, count: usize) {
        check((current()?.cuMemPoolSetAccess)(pool, list, count))
    }

    fn cudaMemPoolExportToShareableHandle(
        out: *mut c_void,
        pool: CUmemoryPool,
        kind: CUmemAllocationHandleType,
        flags: u32,
    ) {
        let export = current()?.cuMemPoolExportToShareableHandle;
        check(export(wanted(out)?, pool, kind, u64::from(flags)))
    }

    fn cudaMemPoolImportFromShareableHandle(
        out: *mut CUmemoryPool,
        handle: *mut c_void,
        kind: CUmemAllocationHandleType,
        flags: u32,
    ) {
        let import = current()?.cuMemPoolImportFromShareableHandle;
        check(import(wanted(out)?, handle, kind, u64::from(flags)))
    }

    fn cudaMemPoolExportPointer(out: *mut CUmemPoolPtrExportData, address: *mut c_void) {
        let address = address.expose_provenance() as u64;
        check((current()?.cuMemPoolExportPointer)(wanted(out)?, address))
    }

    fn cudaMemPoolImportPointer(
        out: *mut *mut c_void,
        pool: CUmemoryPool,
        data: *mut CUmemPoolPtrExportData,
    ) {
        check((current()?.cuMemPoolImportPointer)(wanted(out)?.cast(), pool, wanted(data)?))
    }

    fn cudaMemGetDefaultMemPool(
        out: *mut CUmemoryPool,
        location: *mut CUmemLocation,
        kind: CUmemAllocationType,
    ) {
        check((current()?.cuMemGetDefaultMemPool)(wanted(out)?, wanted(location)?, kind))
    }

    fn cudaMemGetMemPool(
        out: *mut CUmemoryPool,
        location: *mut CUmemLocation,
        kind: CUmemAllocationType,
    ) {
        check((current()?.cuMemGetMemPool)(wanted(out)?, wanted(location)?, kind))
    }

    fn cudaMemSetMemPool(
        location: *mut CUmemLocation,
        kind: CUmemAllocationType,
        pool: CUmemoryPool,
    ) {
        check((current()?.cuMemSetMemPool)(wanted(location)?, kind, pool))
    }
}
