//! The driver's functions for contexts, and how a context ends.

use core::sync::atomic::Ordering;

use apex_cuda::types::*;

use crate::border::{Answer, put, put_if_wanted};
use crate::machine::device::{Device, device, initialized};
use crate::object::{destroy, live, lock};
use crate::run::context::{
    Context, LIMIT_HEAP, allowed_here, context, current, current_even_failed, current_handle,
    make_context, pop, push, set_current,
};
use crate::run::stream::Stream;

/// Host memory can be mapped in every context, asked for or not.
const MAP_HOST: u32 = 8;
const GREATEST_PRIORITY: i32 = -5;
const FLAGS: u32 = 0xff;

/// A made context is current on the thread that made it, above what was there.
unsafe fn create_current(out: *mut CUcontext, flags: u32, dev: CUdevice) -> Answer {
    let device = device(dev)?;
    if out.is_null() || flags & !FLAGS != 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let handle = make_context(device, flags, false);
    push(handle);
    // SAFETY: the caller's out-pointer, not null.
    unsafe { put(out, handle) }
}

/// Waits for all work of a context, then frees what belongs to it.
fn wind_up(context: &Context) {
    // A failure that comes out now concerns nobody any more.
    let _ = context.domain.drain(context.spins());
    for stream in core::mem::take(&mut *lock(&context.streams)) {
        // SAFETY: the stream belongs to the context, which is at its end.
        let _ = unsafe { destroy::<Stream, _>(stream) };
    }
    crate::memory::allocation::release_all(context.handle());
    context.domain.heap.clear();
    crate::print::flush();
}

fn release_primary(device: &Device, all: bool) -> Answer {
    let mut primary = lock(&device.primary);
    if primary.retained == 0 {
        return if all { Ok(()) } else { Err(CUDA_ERROR_INVALID_CONTEXT) };
    }
    primary.retained = if all { 0 } else { primary.retained - 1 };
    if primary.retained == 0 {
        // SAFETY: the primary context's slot is never destroyed.
        let context: &Context = unsafe { live(primary.context) }?;
        drop(primary);
        wind_up(context);
        context.alive.store(false, Ordering::Relaxed);
        context.domain.forget_failure();
    }
    Ok(())
}

answers! {
    fn cuCtxCreate_v2(out: *mut CUcontext, flags: u32, dev: CUdevice) {
        create_current(out, flags, dev)
    }

    fn cuCtxCreate_v3(
        out: *mut CUcontext,
        _affinities: *mut CUexecAffinityParam,
        count: i32,
        flags: u32,
        dev: CUdevice,
    ) {
        if count != 0 {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
        create_current(out, flags, dev)
    }

    fn cuCtxCreate_v4(out: *mut CUcontext, params: *mut CUctxCreateParams, flags: u32, dev: CUdevice) {
        if !params.is_null() && (*params).numExecAffinityParams != 0 {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
        create_current(out, flags, dev)
    }

    fn cuCtxDestroy_v2(handle: CUcontext) {
        let context = context(handle)?;
        if context.is_primary {
            return Err(CUDA_ERROR_INVALID_CONTEXT);
        }
        wind_up(context);
        if current_handle() == handle {
            pop();
        }
        destroy::<Context, _>(handle)
    }

    fn cuCtxAttach(out: *mut CUcontext, flags: u32) {
        if flags != 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        put(out, current()?.handle())
    }

    fn cuCtxDetach(handle: CUcontext) {
        context(handle).map(|_| ())
    }

    #[inline]
    fn cuCtxGetCurrent(out: *mut CUcontext) {
        initialized()?;
        put(out, current_handle())
    }

    fn cuCtxSetCurrent(handle: CUcontext) {
        initialized()?;
        allowed_here()?;
        if !handle.is_null() {
            context(handle)?;
        }
        set_current(handle);
        Ok(())
    }

    fn cuCtxPushCurrent_v2(handle: CUcontext) {
        context(handle)?;
        allowed_here()?;
        push(handle);
        Ok(())
    }

    fn cuCtxPopCurrent_v2(out: *mut CUcontext) {
        initialized()?;
        if current_handle().is_null() {
            return Err(CUDA_ERROR_INVALID_CONTEXT);
        }
        put_if_wanted(out, pop());
        Ok(())
    }

    fn cuCtxGetDevice(out: *mut CUdevice) {
        // A program must be able to ask which device to reset.
        put(out, current_even_failed()?.device.ordinal)
    }

    fn cuCtxGetDevice_v2(out: *mut CUdevice, handle: CUcontext) {
        let context = if handle.is_null() { current_even_failed()? } else { context(handle)? };
        put(out, context.device.ordinal)
    }

    fn cuCtxGetId(handle: CUcontext, out: *mut u64) {
        let context = if handle.is_null() { current()? } else { context(handle)? };
        put(out, context.id)
    }

    fn cuCtxGetApiVersion(handle: CUcontext, out: *mut u32) {
        let context = if handle.is_null() { current()? } else { context(handle)? };
        put(out, context.api_version)
    }

    fn cuCtxGetFlags(out: *mut u32) {
        put(out, current()?.flags.load(Ordering::Relaxed) | MAP_HOST)
    }

    fn cuCtxSetFlags(flags: u32) {
        current()?.flags.store(flags, Ordering::Relaxed);
        Ok(())
    }

    fn cuCtxGetLimit(out: *mut usize, limit: CUlimit) {
        put(out, current()?.limit(limit)?.load(Ordering::Relaxed))
    }

    fn cuCtxSetLimit(limit: CUlimit, value: usize) {
        let context = current()?;
        let kept = context.limit(limit)?;
        if limit == LIMIT_HEAP {
            // Kernels already rely on the heap as it is.
            if context.domain.heap.is_used() {
                return Err(CUDA_ERROR_INVALID_VALUE);
            }
            context.domain.heap.limit.store(value as u64, Ordering::Relaxed);
        }
        kept.store(value, Ordering::Relaxed);
        Ok(())
    }

    fn cuCtxGetCacheConfig(out: *mut CUfunc_cache) {
        put(out, current()?.cache_config.load(Ordering::Relaxed))
    }

    fn cuCtxSetCacheConfig(config: CUfunc_cache) {
        current()?.cache_config.store(config, Ordering::Relaxed);
        Ok(())
    }

    fn cuCtxGetSharedMemConfig(out: *mut CUsharedconfig) {
        put(out, current()?.shared_config.load(Ordering::Relaxed))
    }

    fn cuCtxSetSharedMemConfig(config: CUsharedconfig) {
        current()?.shared_config.store(config, Ordering::Relaxed);
        Ok(())
    }

    fn cuCtxGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) {
        current()?;
        put_if_wanted(least, 0);
        put_if_wanted(greatest, GREATEST_PRIORITY);
        Ok(())
    }

    fn cuCtxResetPersistingL2Cache() {
        current().map(|_| ())
    }

    fn cuCtxSynchronize() {
        let context = current()?;
        context.captures.refuse_any()?;
        context.domain.drain(context.spins())
    }

    fn cuCtxSynchronize_v2(handle: CUcontext) {
        let context = if handle.is_null() { current()? } else { context(handle)? };
        context.captures.refuse_any()?;
        context.domain.drain(context.spins())
    }

    fn cuCtxEnablePeerAccess(peer: CUcontext, flags: u32) {
        let (own, peer) = (current()?, context(peer)?);
        if flags != 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        if own.device.ordinal == peer.device.ordinal {
            return Err(CUDA_ERROR_INVALID_DEVICE);
        }
        let mut peers = lock(&own.peers);
        if peers.contains(&peer.handle()) {
            return Err(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
        }
        peers.push(peer.handle());
        Ok(())
    }

    fn cuCtxDisablePeerAccess(peer: CUcontext) {
        let (own, peer) = (current()?, context(peer)?);
        let mut peers = lock(&own.peers);
        let place = peers.iter().position(|known| *known == peer.handle());
        peers.swap_remove(place.ok_or(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED)?);
        Ok(())
    }

    fn cuDevicePrimaryCtxRetain(out: *mut CUcontext, dev: CUdevice) {
        let device = device(dev)?;
        let mut primary = lock(&device.primary);
        if primary.context.is_null() {
            primary.context = make_context(device, primary.flags, true);
        }
        if primary.retained == 0 {
            let context = context(primary.context)?;
            context.flags.store(primary.flags, Ordering::Relaxed);
            context.alive.store(true, Ordering::Relaxed);
        }
        primary.retained += 1;
        put(out, primary.context)
    }

    fn cuDevicePrimaryCtxRelease_v2(dev: CUdevice) {
        release_primary(device(dev)?, false)
    }

    fn cuDevicePrimaryCtxReset_v2(dev: CUdevice) {
        release_primary(device(dev)?, true)
    }

    fn cuDevicePrimaryCtxGetState(dev: CUdevice, flags: *mut u32, active: *mut i32) {
        let primary = lock(&device(dev)?.primary);
        put_if_wanted(flags, primary.flags);
        put(active, i32::from(primary.retained > 0))
    }

    fn cuDevicePrimaryCtxSetFlags_v2(dev: CUdevice, flags: u32) {
        let mut primary = lock(&device(dev)?.primary);
        primary.flags = flags;
        if !primary.context.is_null() {
            context(primary.context)?.flags.store(flags, Ordering::Relaxed);
        }
        Ok(())
    }
}

// The older symbols of the same ABI.
pub(crate) use self::{
    cuCtxCreate_v2 as cuCtxCreate, cuCtxDestroy_v2 as cuCtxDestroy,
    cuCtxPopCurrent_v2 as cuCtxPopCurrent, cuCtxPushCurrent_v2 as cuCtxPushCurrent,
    cuDevicePrimaryCtxRelease_v2 as cuDevicePrimaryCtxRelease,
    cuDevicePrimaryCtxReset_v2 as cuDevicePrimaryCtxReset,
    cuDevicePrimaryCtxSetFlags_v2 as cuDevicePrimaryCtxSetFlags,
};

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use core::ptr::null_mut;

    /// Runs a test in a context of its own, so that tests need no order.
    pub(crate) fn with_context(test: impl FnOnce()) {
        // SAFETY: plain calls of the driver's own kind.
        unsafe {
            assert_eq!(crate::api::device::cuInit(0), CUDA_SUCCESS);
            let mut handle = null_mut();
            assert_eq!(cuCtxCreate_v2(&raw mut handle, 0, 0), CUDA_SUCCESS);
            test();
            assert_eq!(cuCtxDestroy_v2(handle), CUDA_SUCCESS);
        }
    }

    #[test]
    fn without_a_context_calls_are_refused() {
        // SAFETY: plain calls of the driver's own kind.
        unsafe {
            assert_eq!(crate::api::device::cuInit(0), CUDA_SUCCESS);
            assert_eq!(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
            assert_eq!(cuCtxPopCurrent_v2(null_mut()), CUDA_ERROR_INVALID_CONTEXT);
            assert_eq!(
                cuCtxSetCurrent(core::ptr::without_provenance_mut(8)),
                CUDA_ERROR_INVALID_CONTEXT
            );
        }
    }

    #[test]
    fn contexts_are_stacked() {
        with_context(|| {
            let (mut first, mut second, mut seen) = (null_mut(), null_mut(), null_mut());
            // SAFETY: plain calls of the driver's own kind.
            unsafe {
                assert_eq!(cuCtxGetCurrent(&raw mut first), CUDA_SUCCESS);
                assert_eq!(cuCtxCreate_v2(&raw mut second, 0, 0), CUDA_SUCCESS);
                assert_eq!(cuCtxPopCurrent_v2(&raw mut seen), CUDA_SUCCESS);
                assert_eq!(seen, second);
                assert_eq!(cuCtxPushCurrent_v2(second), CUDA_SUCCESS);
                assert_eq!(cuCtxDestroy_v2(second), CUDA_SUCCESS);
                assert_eq!(cuCtxGetCurrent(&raw mut seen), CUDA_SUCCESS);
                assert_eq!(seen, first);
                assert_eq!(cuCtxPushCurrent_v2(second), CUDA_ERROR_INVALID_CONTEXT);
            }
        });
    }
}
