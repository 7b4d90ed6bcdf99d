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

use crate::border::Answer;
use crate::machine::device::{Device, initialized};
use crate::object::{create, handle_of, live, lock, object};
use crate::run::capture::Captures;
use crate::run::domain::Domain;

/// One context.
pub(crate) struct Context {
    pub(crate) device: &'static Device,
    pub(crate) id: u64,
    pub(crate) api_version: u32,
    pub(crate) is_primary: bool,
    pub(crate) alive: AtomicBool,
    pub(crate) flags: AtomicU32,
    pub(crate) cache_config: AtomicU32,
    pub(crate) shared_config: AtomicU32,
    limits: [AtomicUsize; LIMITS.len()],
    pub(crate) captures: Captures,
    pub(crate) domain: Arc<Domain>,
    /// Streams made in the context, which end with it.
    pub(crate) streams: Mutex<Vec<CUstream>>,
    pub(crate) peers: Mutex<Vec<CUcontext>>,
}
object!(Context, b"context-");

/// What each limit is at first, by its number.
const LIMITS: [usize; 8] = [1024, 8_650_752, 8 << 20, 0, 2048, 64, 11_796_480, 232_448];
/// The depth of synchronisation on the device is a limit no more.
const ABOLISHED_LIMIT: CUlimit = 3;
const API_VERSION: u32 = 3020;
const SCHEDULE_BLOCKING: u32 = 4;
pub(crate) const LIMIT_HEAP: CUlimit = 2;

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

/// The device of the calling thread's context, unless that has failed.
pub(crate) fn current_device() -> Result<&'static Device, CUresult> {
    Ok(current()?.device)
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

pub(crate) fn allowed_here() -> Answer {
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

    pub(crate) fn limit(&self, limit: CUlimit) -> Result<&AtomicUsize, CUresult> {
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
}

// SAFETY: the handles inside are addresses that any thread may use.
unsafe impl Sync for Context {}

/// The context behind a handle.
pub(crate) unsafe fn context<'a>(handle: CUcontext) -> Result<&'a Context, CUresult> {
    initialized()?;
    // SAFETY: the caller's handle.
    unsafe { live(handle) }.map_err(|_| CUDA_ERROR_INVALID_CONTEXT)
}

pub(crate) fn make_context(device: &'static Device, flags: u32, is_primary: bool) -> CUcontext {
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

/// The handle of the calling thread's context, or null.
#[inline]
pub(crate) fn current_handle() -> CUcontext {
    CURRENT.get()
}

/// Puts a context, or none, in the place of the calling thread's.
pub(crate) fn set_current(handle: CUcontext) {
    CURRENT.set(handle);
}

/// Puts a context above the calling thread's.
pub(crate) fn push(handle: CUcontext) {
    let below = CURRENT.replace(handle);
    PUSHED.with_borrow_mut(|pushed| pushed.push(below));
}

/// Takes the calling thread's context away; the one below is current again.
pub(crate) fn pop() -> CUcontext {
    let below = PUSHED.with_borrow_mut(Vec::pop).unwrap_or(null_mut());
    CURRENT.replace(below)
}
