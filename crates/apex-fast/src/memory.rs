//! Memory that the program freed is handed out again without the driver.
//!
//! [`apex_policy::pool`] says which block and who must wait; here that is done. All blocks are of one context. Where a
//! program uses a second one the layer steps aside, for a wait for one context says nothing of the other. A block stays a
//! block of the driver, whole, so whatever the driver is asked about it is true. Pools of stream-ordered memory are the
//! driver's own: these are told to keep what is freed in them ([`ordered`]).
//!
//! `cuMemFree` does not wait for the device here. Work that may still use a freed block is never harmed: see
//! [`apex_policy::pool::Order`].

mod doors;
mod ordered;
mod questions;
mod work;

use crate::captures;
use crate::counts::COUNTERS;
use apex_cuda::types::*;
use apex_cuda::{Driver, Function};
use apex_policy::pool::{Ask, Blocks, Freed, Order, Peaks, Taken};
use core::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// What lies beneath.
static BENEATH: OnceLock<Driver> = OnceLock::new();
/// Each free waits for the device, as the driver's does.
static IS_STRICT: AtomicBool = AtomicBool::new(false);
/// Nothing is handed out any more.
static IS_ASIDE: AtomicBool = AtomicBool::new(false);

/// This process is a child of the one that filled the pool.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// What is known of one context.
#[derive(Default)]
struct Pool {
    /// The context; zero before the first allocation.
    context: u64,
    blocks: Blocks,
    order: Order,
}

static POOL: Mutex<Option<Pool>> = Mutex::new(None);

/// Puts the pool upon the driver's functions.
///
/// # Safety
///
/// As for [`crate::raise`].
pub(crate) unsafe fn raise(addresses: &mut [*const c_void; Function::COUNT], is_strict: bool) {
    // SAFETY: the caller's promise.
    let beneath = unsafe { Driver::from_addresses(|function| addresses[function as usize]) };
    if BENEATH.set(beneath).is_err() {
        return;
    }
    IS_STRICT.store(is_strict, Ordering::Relaxed);
    // SAFETY: a plain function of this library, which is never unloaded.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    doors::open(addresses);
}

/// The driver does not work in a child, and its answers are to be the driver's own. Who held the lock is not there.
extern "C" fn in_child() {
    IS_CHILD.store(true, Ordering::SeqCst);
    IS_ASIDE.store(true, Ordering::SeqCst);
}

#[inline(always)]
fn beneath() -> &'static Driver {
    match BENEATH.get() {
        Some(driver) => driver,
        None => unreachable!("doors are opened after what lies beneath is set"),
    }
}

/// Looks at the pool. The driver is not called meanwhile but for what waits for nothing: else it may wait for work that
/// another thread is about to give.
fn with<T>(look: impl FnOnce(&mut Pool) -> T) -> Option<T> {
    if IS_CHILD.load(Ordering::Relaxed) {
        return None;
    }
    POOL.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(look)
}

/// What the pool has for a context; nothing where it is another's. The first context that allocates begins it.
fn take(ask: Ask, context: u64) -> Option<Option<Taken>> {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let pool = pool.get_or_insert_default();
    if pool.context == 0 {
        pool.context = context;
    }
    if pool.context != context {
        return None;
    }
    let taken = pool.blocks.take(ask, &mut pool.order);
    if taken.is_some() {
        work::publish(&pool.order);
        COUNTERS.pool_served.add(1);
    }
    Some(taken)
}

fn is_open() -> bool {
    !IS_ASIDE.load(Ordering::Relaxed) && !captures::any()
}

/// The calling thread's context; zero if it has none.
fn own_context() -> u64 {
    let mut context = core::ptr::null_mut();
    // SAFETY: a valid place for the answer.
    let result = unsafe { (beneath().cuCtxGetCurrent)(&raw mut context) };
    if result == CUDA_SUCCESS { context as u64 } else { 0 }
}

/// The calling thread may have another context now. A second one ends the pool.
fn context_changed() {
    let context = own_context();
    if with(|pool| pool.context != 0 && ![0, pool.context].contains(&context)) == Some(true) {
        step_aside();
    }
}

/// For good. What lies idle stays so until memory is lacking or the context ends: to give it back may be to wait.
pub(crate) fn step_aside() {
    IS_ASIDE.store(true, Ordering::SeqCst);
}

/// Memory as asked for, from the pool or from the driver. The second number is the bytes from row to row.
fn allocate(
    ask: Ask,
    forward: &dyn Fn() -> Result<(u64, u64), CUresult>,
) -> Result<(u64, u64), CUresult> {
    if !is_open() {
        return forward();
    }
    let context = own_context();
    if context == 0 {
        return forward();
    }
    match take(ask, context) {
        Some(Some(taken)) => return Ok((taken.address, taken.pitch)),
        Some(None) => make_room(ask.bytes * ask.rows.max(1)),
        None => {
            context_changed();
            return forward();
        }
    }
    let mut answer = forward();
    if answer == Err(CUDA_ERROR_OUT_OF_MEMORY) && give_back_all() {
        answer = forward();
    }
    if let Ok((address, pitch)) = answer {
        COUNTERS.pool_asked.fetch_add(1, Ordering::Relaxed);
        with(|pool| {
            pool.blocks.allocated(ask, address, pitch);
            tell(pool.blocks.peaks());
        });
    }
    answer
}

/// What was had at most, for the report. The pool's lock is held.
fn tell(peaks: Peaks) {
    let most = [
        (&COUNTERS.pool_peak_bytes, peaks.live_bytes),
        (&COUNTERS.pool_held_bytes, peaks.held_bytes),
    ];
    for (counter, bytes) in most {
        counter.add(bytes.saturating_sub(counter.value()));
    }
}

/// The program frees a block. `None` where the driver is to be told.
fn free(address: u64) -> Option<CUresult> {
    if !is_open() {
        ended_otherwise(address);
        return None;
    }
    if IS_STRICT.load(Ordering::Relaxed) {
        let result = work::wait_for_all();
        if result != CUDA_SUCCESS {
            return Some(result);
        }
    }
    let (freed, is_look_due, is_too_much) = with(|pool| {
        let freed = pool.blocks.freed(address, &pool.order);
        (freed, pool.blocks.is_look_due(), pool.blocks.is_too_much(0))
    })?;
    if is_look_due {
        look_at_device();
    }
    match freed {
        Freed::Kept => {
            // Here the driver would wait for the device too, so it may.
            if is_look_due || is_too_much {
                give_back_while(|pool| pool.blocks.must_go(0));
            }
            Some(CUDA_SUCCESS)
        }
        Freed::Twice => Some(CUDA_ERROR_INVALID_VALUE),
        Freed::GoesBack => {
            COUNTERS.pool_given_back.fetch_add(1, Ordering::Relaxed);
            None
        }
        Freed::Unknown => None,
    }
}

/// The program ended a block by another way than a free.
fn ended_otherwise(address: u64) {
    with(|pool| pool.blocks.gone(address));
}

/// Others get to know the block of this address.
fn known_elsewhere(address: u64) {
    with(|pool| pool.blocks.known_elsewhere(address));
}

/// Bytes that the pool could give back, and those of the program's own pools.
fn idle_bytes() -> u64 {
    with(|pool| pool.blocks.idle_bytes()).unwrap_or(0) + ordered::idle_bytes()
}

/// Whether the program has freed the block that an address lies in.
fn is_idle(address: u64) -> bool {
    with(|pool| pool.blocks.is_idle(address)) == Some(true)
}

/// How much the device has left for everybody. The queue need not be empty for that.
fn look_at_device() {
    let driver = crate::beneath().unwrap_or(beneath());
    let (mut free, mut total) = (0, 0);
    // SAFETY: valid places for the answers.
    let result = unsafe { (driver.cuMemGetInfo_v2)(&raw mut free, &raw mut total) };
    let (free, total) = if result == CUDA_SUCCESS { (free, total) } else { (0, 0) };
    with(|pool| pool.blocks.looked(free as u64, total as u64));
}

/// Before the driver is asked for so many bytes: what would be too much with them goes back. The driver waits for the whole
/// device when it takes memory back. So that is done only when all work is done: the program may have given work that
/// waits for what it does next.
fn make_room(more: u64) {
    if with(|pool| pool.blocks.is_look_due()) == Some(true) {
        look_at_device();
    }
    ordered::trim_for(more);
    if with(|pool| pool.blocks.is_too_much(more)) == Some(true) && work::is_done_soon() {
        give_back_beyond(more);
    }
}

/// Gives back what is too much with so many bytes more, while no work is under way.
fn give_back_beyond(more: u64) {
    give_back_while(|pool| pool.order.is_quiet().then(|| pool.blocks.must_go(more)).flatten());
}

/// Gives every idle block to the driver. Says whether there was any.
fn give_back_all() -> bool {
    let is_any = give_back_while(|pool| pool.blocks.oldest());
    ordered::trim() || is_any
}

/// Gives back blocks as long as there is one to go. Says whether there was any.
fn give_back_while(next: impl Fn(&mut Pool) -> Option<u64>) -> bool {
    let mut is_any = false;
    while let Some(address) = with(&next).flatten() {
        give_back(address);
        is_any = true;
    }
    is_any
}

fn give_back(address: u64) {
    COUNTERS.pool_given_back.fetch_add(1, Ordering::Relaxed);
    // SAFETY: a block of the driver that the program has freed. The driver itself waits for whoever may still use it.
    unsafe { (beneath().cuMemFree_v2)(address) };
}

/// The context is to end: all of it goes, and the next one may begin a pool of its own.
fn context_ends() {
    give_back_all();
    ordered::forget();
    with(|pool| *pool = Pool::default());
    work::publish(&Order::default());
}
