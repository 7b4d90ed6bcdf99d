//! Contexts, and which one is current on a thread.
//!
//! The current context is a thread-local word, so that asking for it costs no lock.
//! A device's primary context is made once and kept: its handle stays the same when
//! it is released and retained again, as with the driver; in between it is refused.
//! A context whose kernel failed is refused with that failure, by everything that
//! asks for the current context, until it is destroyed or reset.

use core::cell::{Cell, RefCell};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use apex_cuda::types::*;

use crate::border::{Answer, put, put_if_wanted};
use crate::device::{Device, device, initialized};
use crate::domain::Domain;
use crate::object::{create, destroy, handle_of, live, lock, object};
use crate::session::Captures;
use crate::stream::Stream;

/// One context.
pub(crate) struct Context {
    pub(crate) device: &'static Device,
    id: u64,
    api_version: u32,
    is_primary: bool,
    alive: AtomicBool,
    flags: AtomicU32,
    cache_config: AtomicU32,
    shared_config: AtomicU32,
    limits: [AtomicUsize; LIMITS.len()],
    pub(crate) captures: Captures,
    pub(crate) domain: Arc<Domain>,
    /// Streams made in the context, which end with it.
    streams: Mutex<Vec<CUstream>>,
    peers: Mutex<Vec<CUcontext>>,
}
object!(Context, b"context-");

/// A device's primary context and how often it was retained.
pub(crate) struct Primary {
    context: CUcontext,
    retained: u32,
    flags: u32,
}

// SAFETY: the handle is an address that any thread may use.
unsafe impl Send for Primary {}

impl Default for Primary {
    fn default() -> Primary {
        Primary { context: null_mut(), retained: 0, flags: 0 }
    }
}

/// What each limit is at first, by its number.
const LIMITS: [usize; 8] = [1024, 8_650_752, 8 << 20, 0, 2048, 64, 11_796_480, 232_448];
/// The depth of synchronisation on the device is a limit no more.
const ABOLISHED_LIMIT: CUlimit = 3;
/// Host memory can be mapped in every context, asked for or not.
const MAP_HOST: u32 = 8;
const API_VERSION: u32 = 3020;
const GREATEST_PRIORITY: i32 = -5;
const SCHEDULE_BLOCKING: u32 = 4;
const FLAGS: u32 = 0xff;
const LIMIT_HEAP: CUlimit = 2;

thread_local! {
    /// Whether the thread is inside a function that a stream called.
    static CALLED_BACK: Cell<bool> = const { Cell::new(false) };
    static CURRENT: Cell<CUcontext> = const { Cell::new(null_mut()) };
    /// What lies under the current one.
    static PUSHED: RefCell<Vec<CUcontext>> = const { RefCell::new(Vec::new()) };
}

/// The context of the calling thread, unless it has failed.
#[inline]
pub(crate) fn current() -> Result<&'static Context, CUresult> {
    let context = current_even_failed()?;
    context.domain.check()?;
    Ok(context)
}

/// The context of the calling thread.
#[inline]
pub(crate) fn current_even_failed() -> Result<&'static Context, CUresult> {
    initialized()?;
    let handle = CURRENT.get();
    if handle.is_null() {
        allowed_here()?;
        return Err(CUDA_ERROR_INVALID_CONTEXT);
    }
    // SAFETY: only handles that `create` gave become current.
    let context: &Context = unsafe { live(handle) }.map_err(|_| CUDA_ERROR_CONTEXT_IS_DESTROYED)?;
    if context.alive.load(Ordering::Relaxed) {
        Ok(context)
    } else {
        Err(CUDA_ERROR_CONTEXT_IS_DESTROYED)
    }
}

/// Runs a host function for a stream. It may not use the driver: nothing it waits
/// for would come about before it returns.
pub(crate) fn call_back(function: impl FnOnce()) {
    CALLED_BACK.set(true);
    function();
    CALLED_BACK.set(false);
}

fn allowed_here() -> Answer {
    if CALLED_BACK.get() { Err(CUDA_ERROR_NOT_PERMITTED) } else { Ok(()) }
}

impl Context {
    pub(crate) fn handle(&self) -> CUcontext {
        handle_of(self)
    }

    /// Tells this context from all others of the process's life.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    fn limit(&self, limit: CUlimit) -> Result<&AtomicUsize, CUresult> {
        if limit == ABOLISHED_LIMIT {
            return Err(CUDA_ERROR_UNSUPPORTED_LIMIT);
        }
        self.limits.get(limit as usize).ok_or(CUDA_ERROR_INVALID_VALUE)
    }

    /// Whether a thread that waits may spin: not where the program asked to sleep.
    pub(crate) fn spins(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & SCHEDULE_BLOCKING == 0
    }

    pub(crate) fn note_stream(&self, stream: CUstream) {
        lock(&self.streams).push(stream);
    }

    pub(crate) fn forget_stream(&self, stream: CUstream) {
        lock(&self.streams).retain(|other| *other != stream);
    }

    /// Waits for all work, then frees what belongs to the context.
    fn wind_up(&self) {
        // A failure that comes out now concerns nobody any more.
        let _ = self.domain.drain(self.spins());
        for stream in core::mem::take(&mut *lock(&self.streams)) {
            // SAFETY: the stream belongs to the context, which is at its end.
            let _ = unsafe { destroy::<Stream, _>(stream) };
        }
        crate::memory::release_all(self.handle());
        self.domain.heap.clear();
        crate::print::flush();
    }
}

// SAFETY: the handles inside are addresses that any thread may use.
unsafe impl Sync for Context {}

/// The context behind a handle.
pub(crate) unsafe fn context<'a>(handle: CUcontext) -> Result<&'a Context, CUresult> {
    initialized()?;
    // SAFETY: the caller's handle.
    unsafe { live(handle) }.map_err(|_| CUDA_ERROR_INVALID_CONTEXT)
}

fn make(device: &'static Device, flags: u32, is_primary: bool) -> CUcontext {
    static NEXT_ID: AtomicU64 = AtomicU64::new(1);
    create(Context {
        device,
        id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
        api_version: API_VERSION,
        is_primary,
        alive: AtomicBool::new(true),
        flags: AtomicU32::new(flags),
        cache_config: AtomicU32::new(0),
        shared_config: AtomicU32::new(0),
        limits: LIMITS.map(AtomicUsize::new),
        captures: Captures::default(),
        domain: Domain::new(device, LIMITS[LIMIT_HEAP as usize] as u64),
        streams: Mutex::default(),
        peers: Mutex::default(),
    })
}

/// A made context is current on the thread that made it, above what was there.
unsafe fn make_current(out: *mut CUcontext, flags: u32, dev: CUdevice) -> Answer {
    let device = device(dev)?;
    if out.is_null() || flags & !FLAGS != 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let handle = make(device, flags, false);
    push(handle);
    // SAFETY: the caller's out-pointer, not null.
    unsafe { put(out, handle) }
}

fn push(handle: CUcontext) {
    let below = CURRENT.replace(handle);
    PUSHED.with_borrow_mut(|pushed| pushed.push(below));
}

fn pop() -> CUcontext {
    let below = PUSHED.with_borrow_mut(Vec::pop).unwrap_or(null_mut());
    CURRENT.replace(below)
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
        context.wind_up();
        context.alive.store(false, Ordering::Relaxed);
        context.domain.forget_failure();
    }
    Ok(())
}

answers! {
    fn cuCtxCreate_v2(out: *mut CUcontext, flags: u32, dev: CUdevice) {
        make_current(out, flags, dev)
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
        make_current(out, flags, dev)
    }

    fn cuCtxCreate_v4(out: *mut CUcontext, params: *mut CUctxCreateParams, flags: u32, dev: CUdevice) {
        if !params.is_null() && (*params).numExecAffinityParams != 0 {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
        make_current(out, flags, dev)
    }

    fn cuCtxDestroy_v2(handle: CUcontext) {
        let context = context(handle)?;
        if context.is_primary {
            return Err(CUDA_ERROR_INVALID_CONTEXT);
        }
        context.wind_up();
        if CURRENT.get() == handle {
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
        put(out, CURRENT.get())
    }

    fn cuCtxSetCurrent(handle: CUcontext) {
        initialized()?;
        allowed_here()?;
        if !handle.is_null() {
            context(handle)?;
        }
        CURRENT.set(handle);
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
        if CURRENT.get().is_null() {
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
            primary.context = make(device, primary.flags, true);
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

    /// Runs a test in a context of its own, so that tests need no order.
    pub(crate) fn with_context(test: impl FnOnce()) {
        // SAFETY: plain calls of the driver's own kind.
        unsafe {
            assert_eq!(crate::device::cuInit(0), CUDA_SUCCESS);
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
            assert_eq!(crate::device::cuInit(0), CUDA_SUCCESS);
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
