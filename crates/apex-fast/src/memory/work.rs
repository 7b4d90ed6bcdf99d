//! Work that the program gives to streams, and the waits that end it.
//!
//! A program mostly has one stream with work, and nothing to wait for there. Its number stands in one word that a launch
//! looks at before and after; only another stream takes the lock.

use super::{beneath, captures, give_back_beyond, own_context, with};
use crate::counts::COUNTERS;
use apex_cuda::types::*;
use apex_policy::pool::{Ending, Order, Ticket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// One more than the stream on which more work changes nothing and has nobody to wait for; zero if there is none.
static ONLY: AtomicU64 = AtomicU64::new(0);
/// Flags of an event that only orders.
const NO_TIMING: u32 = 2;
/// Flags of a wait: there are none.
const PLAIN: u32 = 0;

/// A stream as the policy tells it: `None` is a thread's own, and the two names of the default stream are one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct On(pub(super) Option<u64>);

impl On {
    /// The default stream.
    pub(super) const DEFAULT: On = On(Some(0));

    #[inline(always)]
    pub(super) fn stream(stream: CUstream, is_own: bool) -> On {
        const LEGACY: u64 = 1;
        match stream as u64 {
            _ if is_own => On(None),
            LEGACY => On::DEFAULT,
            number => On(Some(number)),
        }
    }

    #[inline(always)]
    fn is_only(self) -> bool {
        self.0.is_some_and(|stream| ONLY.load(Ordering::Acquire) == stream + 1)
    }
}

/// The word is renewed; the pool's lock is held.
pub(super) fn publish(order: &Order) {
    ONLY.store(order.only().map_or(0, |only| only + 1), Ordering::Release);
}

/// Work is about to be given to a stream.
#[inline(always)]
pub(super) fn before(on: On, stream: CUstream) {
    if !on.is_only() {
        settle(on, stream);
    }
}

/// Work was given to a stream. It may have been so while the word changed, which is why it is looked at again.
#[inline(always)]
pub(super) fn after(on: On, stream: CUstream, result: CUresult) {
    if !on.is_only() {
        register(on, stream, result);
    }
}

/// What may be no stream is not remembered as one: the driver would be given its name later, when anything may lie there.
#[cold]
fn register(on: On, stream: CUstream, result: CUresult) {
    let mut flags = 0;
    // SAFETY: the driver has just been given the same handle; a valid place for the answer.
    let mut is_stream = || unsafe { (beneath().cuStreamGetFlags)(stream, &raw mut flags) };
    if result != CUDA_SUCCESS && is_stream() != CUDA_SUCCESS {
        return;
    }
    with(|pool| {
        pool.order.worked(on.0);
        publish(&pool.order);
    });
}

#[cold]
fn settle(on: On, stream: CUstream) {
    if captures::any() || !is_of_pool(on) {
        return;
    }
    let Some(settling) = with(|pool| pool.order.before_work(on.0)).flatten() else { return };
    for &other in settling.others() {
        COUNTERS.pool_waits.fetch_add(1, Ordering::Relaxed);
        wait_for(other as CUstream, stream);
    }
    with(|pool| pool.order.settled(settling));
}

/// Whether a stream is one of the pool's context. Each context has a default stream under the same name.
fn is_of_pool(on: On) -> bool {
    on != On::DEFAULT || is_here()
}

/// Whether the calling thread has the pool's context: a wait for another one says nothing of this one's work.
fn is_here() -> bool {
    let context = own_context();
    with(|pool| pool.context == context) == Some(true)
}

/// `stream` goes on when `other` has done what it has now. Where that cannot be said to the driver the caller waits.
fn wait_for(other: CUstream, stream: CUstream) {
    let driver = beneath();
    let mut event = core::ptr::null_mut();
    // SAFETY: streams of the program that have not ended, and an event of ours, which the driver keeps as long as somebody
    // waits for it.
    unsafe {
        if (driver.cuEventCreate)(&raw mut event, NO_TIMING) == CUDA_SUCCESS {
            let is_said = (driver.cuEventRecord)(event, other) == CUDA_SUCCESS
                && (driver.cuStreamWaitEvent)(stream, event, PLAIN) == CUDA_SUCCESS;
            (driver.cuEventDestroy_v2)(event);
            if is_said {
                return;
            }
        }
        (driver.cuStreamSynchronize)(other);
    }
}

/// The program begins to wait for a stream, or for all.
pub(super) fn wait_begins(of: Option<On>) -> Option<Ticket> {
    if !of.map_or_else(is_here, is_of_pool) {
        return None;
    }
    with(|pool| {
        let ticket = match of {
            None => pool.order.wait_begins(None),
            Some(On(None)) => None,
            Some(On(stream)) => pool.order.wait_begins(stream),
        };
        publish(&pool.order);
        ticket
    })
    .flatten()
}

/// That wait has ended.
pub(super) fn wait_ended(ticket: Option<Ticket>, result: CUresult) {
    let Some(ticket) = ticket else { return };
    with(|pool| {
        pool.order.wait_ended(ticket, result == CUDA_SUCCESS);
        publish(&pool.order);
    });
    give_back_beyond(0);
}

/// Whether all work is done, or is soon. Nobody waits for more than a moment: the program may have given work that waits for
/// what it does next.
pub(super) fn is_done_soon() -> bool {
    /// The driver would have waited for it at the free already.
    const LONGEST: Duration = Duration::from_millis(5);
    let Some(ticket) = wait_begins(None) else { return false };
    let (begun, called) = (Instant::now(), crate::position());
    let result = loop {
        // Questions about streams say nothing of what the queue has not sent yet.
        match crate::has_sent(called).then(are_streams_done) {
            Some(Some(true)) => break CUDA_SUCCESS,
            Some(None) => break CUDA_ERROR_NOT_READY,
            _ if begun.elapsed() > LONGEST => break CUDA_ERROR_NOT_READY,
            _ => std::thread::yield_now(),
        }
    };
    wait_ended(Some(ticket), result);
    result == CUDA_SUCCESS
}

/// Whether all streams with work are done; nothing where they cannot be told. The question waits for nobody, so it is asked
/// while no stream can end and no capture can begin, which a question would spoil.
fn are_streams_done() -> Option<bool> {
    let driver = crate::beneath().unwrap_or(beneath());
    // SAFETY: streams of the program that have not ended.
    let is_done =
        |&stream: &u64| unsafe { (driver.cuStreamQuery)(stream as CUstream) } == CUDA_SUCCESS;
    with(|pool| {
        let streams = pool.order.all().filter(|_| !captures::any())?;
        Some(streams.iter().all(is_done))
    })
    .flatten()
}

/// A stream is to end.
pub(super) fn stream_ends(on: On, stream: CUstream) {
    let Some(number) = on.0 else { return };
    let mut was_waited_for = false;
    loop {
        let ending = with(|pool| {
            let ending = pool.order.stream_ends(number, was_waited_for);
            publish(&pool.order);
            ending
        });
        match ending {
            Some(Ending::MustBeWaitedFor) => {
                // SAFETY: a stream of the program that has not ended.
                unsafe { (beneath().cuStreamSynchronize)(stream) };
                was_waited_for = true;
            }
            Some(Ending::IsInUse) => std::thread::yield_now(),
            Some(Ending::MayEnd) | None => return,
        }
    }
}

/// Nothing can be said to the stream that comes: whoever would be waited for is waited for now.
pub(super) fn settle_all() {
    if with(|pool| pool.order.is_owed()) == Some(true) && is_here() {
        wait_for_all();
    }
}

/// Waits until the context has nothing more to do.
pub(super) fn wait_for_all() -> CUresult {
    let ticket = wait_begins(None);
    // SAFETY: a plain call of the driver.
    let result = unsafe { (beneath().cuCtxSynchronize)() };
    wait_ended(ticket, result);
    result
}
