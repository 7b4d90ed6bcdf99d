//! Devices: which there are, which one a thread uses, and how it is set up.

use core::ffi::c_char;

use apex_cuda::types::{
    CUasyncCallback, CUasyncCallbackHandle, CUatomicOperation, CUdevice_P2PAttribute,
    CUdevice_attribute, CUflushGPUDirectRDMAWritesScope, CUflushGPUDirectRDMAWritesTarget,
    CUfunc_cache, CUgraphMem_attribute, CUlimit, CUmemoryPool, CUsharedconfig,
};
use core::ffi::c_void;

use crate::array::driver_format;
use crate::border::{check, get, put, wanted};
use crate::context::{self, choose, current, device_of, primary, set_valid};
use crate::driver::driver;
use crate::errors::{cudaErrorInvalidDevice, cudaErrorInvalidValue, cudaErrorNoDevice};
use crate::layouts::Channels;

/// Every flag that a program may set for a device.
const FLAGS: u32 = 0xff;
/// Host memory can always be mapped, and that is always said.
const MAP_HOST: u32 = 8;
/// In `cudaInitDevice`: the flags count.
const FLAGS_ARE_VALID: u32 = 1;

runtime! {
    fn cudaGetDeviceCount(out: *mut i32) {
        put(out, 0)?;
        check((driver()?.cuDeviceGetCount)(out))?;
        if *out == 0 { Err(cudaErrorNoDevice) } else { Ok(()) }
    }

    fn cudaGetDevice(out: *mut i32) {
        put(out, context::device(driver()?)?)
    }

    fn cudaSetDevice(ordinal: i32) {
        choose(driver()?, ordinal)
    }

    fn cudaInitDevice(ordinal: i32, device_flags: u32, flags: u32) {
        let driver = driver()?;
        if flags & FLAGS_ARE_VALID != 0 {
            let device = device_of(driver, ordinal)?;
            check((driver.cuDevicePrimaryCtxSetFlags_v2)(device, device_flags & !MAP_HOST))?;
        }
        primary(driver, ordinal).map(|_| ())
    }

    fn cudaSetValidDevices(list: *mut i32, count: i32) {
        let driver = driver()?;
        let count = usize::try_from(count).map_err(|_| cudaErrorInvalidValue)?;
        let mut devices = Vec::with_capacity(count);
        for index in 0..count {
            let ordinal = get(list.wrapping_add(index).cast_const())?;
            device_of(driver, ordinal)?;
            devices.push(ordinal);
        }
        set_valid(&devices);
        Ok(())
    }

    // All devices of the software GPU are alike, so the first matches any wish best.
    fn cudaChooseDevice(out: *mut i32, wish: *const c_void) {
        let driver = driver()?;
        wanted(wish.cast_mut())?;
        device_of(driver, 0)?;
        put(out, 0)
    }

    fn cudaSetDeviceFlags(flags: u32) {
        let driver = driver()?;
        if flags & !FLAGS != 0 {
            return Err(cudaErrorInvalidValue);
        }
        let device = device_of(driver, context::device(driver)?)?;
        check((driver.cuDevicePrimaryCtxSetFlags_v2)(device, flags & !MAP_HOST))
    }

    fn cudaGetDeviceFlags(out: *mut u32) {
        let driver = driver()?;
        let (mut flags, mut is_active) = (0, 0);
        if context::current_context(driver)?.is_null() {
            let device = device_of(driver, context::device(driver)?)?;
            let ask = driver.cuDevicePrimaryCtxGetState;
            check(ask(device, &raw mut flags, &raw mut is_active))?;
        } else {
            check((driver.cuCtxGetFlags)(&raw mut flags))?;
        }
        put(out, flags | MAP_HOST)
    }

    fn cudaDeviceReset() {
        context::reset(driver()?)
    }

    fn cudaDeviceSynchronize() {
        check((current()?.cuCtxSynchronize)())
    }

    fn cudaDeviceGetAttribute(out: *mut i32, attribute: CUdevice_attribute, ordinal: i32) {
        let driver = driver()?;
        let device = device_of(driver, ordinal)?;
        check((driver.cuDeviceGetAttribute)(wanted(out)?, attribute, device))
    }

    fn cudaDeviceGetByPCIBusId(out: *mut i32, id: *const c_char) {
        wanted(id.cast_mut())?;
        check((driver()?.cuDeviceGetByPCIBusId)(wanted(out)?, id))
    }

    fn cudaDeviceGetPCIBusId(out: *mut c_char, length: i32, ordinal: i32) {
        let driver = driver()?;
        let device = device_of(driver, ordinal)?;
        check((driver.cuDeviceGetPCIBusId)(wanted(out)?, length, device))
    }

    fn cudaDeviceGetLimit(out: *mut usize, limit: CUlimit) {
        check((current()?.cuCtxGetLimit)(wanted(out)?, limit))
    }

    fn cudaDeviceSetLimit(limit: CUlimit, value: usize) {
        check((current()?.cuCtxSetLimit)(limit, value))
    }

    fn cudaDeviceGetCacheConfig(out: *mut CUfunc_cache) {
        check((current()?.cuCtxGetCacheConfig)(wanted(out)?))
    }

    fn cudaDeviceSetCacheConfig(config: CUfunc_cache) {
        check((current()?.cuCtxSetCacheConfig)(config))
    }

    fn cudaDeviceGetSharedMemConfig(out: *mut CUsharedconfig) {
        check((current()?.cuCtxGetSharedMemConfig)(wanted(out)?))
    }

    fn cudaDeviceSetSharedMemConfig(config: CUsharedconfig) {
        check((current()?.cuCtxSetSharedMemConfig)(config))
    }

    fn cudaDeviceGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) {
        check((current()?.cuCtxGetStreamPriorityRange)(least, greatest))
    }

    fn cudaDeviceFlushGPUDirectRDMAWrites(
        target: CUflushGPUDirectRDMAWritesTarget,
        scope: CUflushGPUDirectRDMAWritesScope,
    ) {
        check((current()?.cuFlushGPUDirectRDMAWrites)(target, scope))
    }

    fn cudaDeviceGetTexture1DLinearMaxWidth(
        out: *mut usize,
        channels: *const Channels,
        ordinal: i32,
    ) {
        let driver = driver()?;
        let (format, count) = driver_format(get(channels)?)?;
        let device = device_of(driver, ordinal)?;
        check((driver.cuDeviceGetTexture1DLinearMaxWidth)(wanted(out)?, format, count, device))
    }

    fn cudaDeviceCanAccessPeer(out: *mut i32, ordinal: i32, peer: i32) {
        let driver = driver()?;
        let (device, peer) = (device_of(driver, ordinal)?, device_of(driver, peer)?);
        check((driver.cuDeviceCanAccessPeer)(wanted(out)?, device, peer))
    }

    fn cudaDeviceEnablePeerAccess(peer: i32, flags: u32) {
        let driver = current()?;
        if peer == context::device(driver)? {
            return Err(cudaErrorInvalidDevice);
        }
        check((driver.cuCtxEnablePeerAccess)(primary(driver, peer)?, flags))
    }

    fn cudaDeviceDisablePeerAccess(peer: i32) {
        let driver = current()?;
        check((driver.cuCtxDisablePeerAccess)(primary(driver, peer)?))
    }

    fn cudaDeviceGetP2PAttribute(
        out: *mut i32,
        attribute: CUdevice_P2PAttribute,
        source: i32,
        target: i32,
    ) {
        let driver = driver()?;
        let (source, target) = (device_of(driver, source)?, device_of(driver, target)?);
        check((driver.cuDeviceGetP2PAttribute)(wanted(out)?, attribute, source, target))
    }

    fn cudaDeviceGetHostAtomicCapabilities(
        out: *mut u32,
        operations: *const CUatomicOperation,
        count: u32,
        ordinal: i32,
    ) {
        let driver = driver()?;
        let device = device_of(driver, ordinal)?;
        check((driver.cuDeviceGetHostAtomicCapabilities)(out, operations, count, device))
    }

    fn cudaDeviceGetP2PAtomicCapabilities(
        out: *mut u32,
        operations: *const CUatomicOperation,
        count: u32,
        source: i32,
        target: i32,
    ) {
        let driver = driver()?;
        let (source, target) = (device_of(driver, source)?, device_of(driver, target)?);
        check((driver.cuDeviceGetP2PAtomicCapabilities)(out, operations, count, source, target))
    }

    fn cudaDeviceGetDefaultMemPool(out: *mut CUmemoryPool, ordinal: i32) {
        let driver = driver()?;
        check((driver.cuDeviceGetDefaultMemPool)(wanted(out)?, device_of(driver, ordinal)?))
    }

    fn cudaDeviceGetMemPool(out: *mut CUmemoryPool, ordinal: i32) {
        let driver = driver()?;
        check((driver.cuDeviceGetMemPool)(wanted(out)?, device_of(driver, ordinal)?))
    }

    fn cudaDeviceSetMemPool(ordinal: i32, pool: CUmemoryPool) {
        let driver = driver()?;
        check((driver.cuDeviceSetMemPool)(device_of(driver, ordinal)?, pool))
    }

    fn cudaDeviceGetGraphMemAttribute(
        ordinal: i32,
        attribute: CUgraphMem_attribute,
        out: *mut c_void,
    ) {
        let driver = driver()?;
        let device = device_of(driver, ordinal)?;
        check((driver.cuDeviceGetGraphMemAttribute)(device, attribute, wanted(out)?))
    }

    fn cudaDeviceSetGraphMemAttribute(
        ordinal: i32,
        attribute: CUgraphMem_attribute,
        value: *mut c_void,
    ) {
        let driver = driver()?;
        let device = device_of(driver, ordinal)?;
        check((driver.cuDeviceSetGraphMemAttribute)(device, attribute, wanted(value)?))
    }

    fn cudaDeviceGraphMemTrim(ordinal: i32) {
        let driver = driver()?;
        check((driver.cuDeviceGraphMemTrim)(device_of(driver, ordinal)?))
    }

    fn cudaDeviceRegisterAsyncNotification(
        ordinal: i32,
        callback: CUasyncCallback,
        data: *mut c_void,
        out: *mut CUasyncCallbackHandle,
    ) {
        let driver = driver()?;
        let device = device_of(driver, ordinal)?;
        check((driver.cuDeviceRegisterAsyncNotification)(device, callback, data, wanted(out)?))
    }

    fn cudaDeviceUnregisterAsyncNotification(ordinal: i32, callback: CUasyncCallbackHandle) {
        let driver = driver()?;
        let device = device_of(driver, ordinal)?;
        check((driver.cuDeviceUnregisterAsyncNotification)(device, callback))
    }
}

// The names that CUDA 12 still has from the time when a context belonged to a thread.
runtime! {
    fn cudaThreadExit() {
        context::reset(driver()?)
    }

    fn cudaThreadSynchronize() {
        check((current()?.cuCtxSynchronize)())
    }

    fn cudaThreadGetLimit(out: *mut usize, limit: CUlimit) {
        check((current()?.cuCtxGetLimit)(wanted(out)?, limit))
    }

    fn cudaThreadSetLimit(limit: CUlimit, value: usize) {
        check((current()?.cuCtxSetLimit)(limit, value))
    }

    fn cudaThreadGetCacheConfig(out: *mut CUfunc_cache) {
        check((current()?.cuCtxGetCacheConfig)(wanted(out)?))
    }

    fn cudaThreadSetCacheConfig(config: CUfunc_cache) {
        check((current()?.cuCtxSetCacheConfig)(config))
    }

    // Doubles were once converted for devices that had none.
    fn cudaSetDoubleForDevice(value: *mut f64) {
        wanted(value).map(|_| ())
    }

    fn cudaSetDoubleForHost(value: *mut f64) {
        wanted(value).map(|_| ())
    }
}
