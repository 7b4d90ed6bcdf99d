//! Events that tell what of a program's work is done, where no fences do.
//!
//! Now and then, twice in each budget, an untimed event goes behind a launch: once it has passed, all that the stream had
//! been given until then is done. Nothing is asked per launch. Whoever puts an event looks at the earlier ones, so that
//! this is known of a program that never waits.
//!
//! There is no lock. An event is owned by whoever has moved its state word; the driver is called only then, by
//! a thread in whose context the event was made, and never while anything is being captured.

use super::word::{Flight, Streams};
use crate::driver::driver;
use apex_cuda::types::{CUDA_ERROR_NOT_READY, CUDA_SUCCESS, CUcontext, CUevent, CUstream};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

const EVENTS: usize = 32;
/// A thread that waits asks the driver at most so often.
const ASK_EVERY_NS: u64 = 10_000;

/// The events of a program on one GPU.
pub(super) struct Events {
    events: [Event; EVENTS],
    /// When they were last asked for.
    asked_ns: AtomicU64,
}

#[derive(Default)]
struct Event {
    state: AtomicU32,
    context: AtomicU64,
    event: AtomicU64,
    /// The place of its stream, and what had been launched there.
    stream: AtomicUsize,
    launched_ns: AtomicU64,
}

/// No event, or one with nothing before it.
const FREE: u32 = 0;
/// A thread is at it.
const TAKEN: u32 = 1;
/// It was recorded and has not been seen to pass.
const PENDING: u32 = 2;

impl Events {
    pub(super) fn new() -> Events {
        let events = core::array::from_fn(|_| Event::default());
        Events { events, asked_ns: AtomicU64::new(0) }
    }

    /// Puts an event behind all that was launched on a stream. Says whether there is one now.
    pub(super) fn put(&self, streams: &Streams, key: u64, stream: u64, context: CUcontext) -> bool {
        let place = streams.place(key);
        let Some(launched_ns) = streams.at(place).take_mark() else { return false };
        let Some(event) = self.take_free(context) else { return false };
        event.stream.store(place, Ordering::Relaxed);
        event.launched_ns.store(launched_ns, Ordering::Relaxed);
        let handle = event.event.load(Ordering::Relaxed) as CUevent;
        // SAFETY: an event of ours in the current context, and the stream that the program has just used or
        // is about to use; if they do not fit the driver says so.
        let recorded =
            unsafe { (driver().cuEventRecord)(handle, stream as CUstream) == CUDA_SUCCESS };
        event.state.store(if recorded { PENDING } else { FREE }, Ordering::Release);
        recorded
    }

    /// Whether the driver may be asked again: not more often than it takes to learn something.
    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        let asked = self.asked_ns.load(Ordering::Relaxed);
        now_ns.saturating_sub(asked) >= ASK_EVERY_NS
            && self
                .asked_ns
                .compare_exchange(asked, now_ns, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Whether there is an event to look for.
    pub(super) fn are_pending(&self) -> bool {
        self.events.iter().any(|event| event.state.load(Ordering::Relaxed) != FREE)
    }

    /// Looks which events have passed. Says whether anything was found done.
    pub(super) fn learn(
        &self,
        streams: &Streams,
        flight: &Flight,
        context: CUcontext,
        now_ns: u64,
    ) -> bool {
        let expired = flight.expire(streams, now_ns);
        let passed = flight.learn(streams, |tell| self.look(context, tell), now_ns);
        expired || passed
    }

    fn look(&self, context: CUcontext, tell: &mut dyn FnMut(usize, u64, bool)) {
        for event in &self.events {
            if event.state.load(Ordering::Relaxed) != PENDING
                || event.context.load(Ordering::Relaxed) != context as u64
                || !event.take(PENDING)
            {
                continue;
            }
            let handle = event.event.load(Ordering::Relaxed) as CUevent;
            // SAFETY: an event of ours in the current context.
            let passed = unsafe { (driver().cuEventQuery)(handle) } != CUDA_ERROR_NOT_READY;
            let place = event.stream.load(Ordering::Relaxed);
            tell(place, event.launched_ns.load(Ordering::Relaxed), passed);
            event.state.store(if passed { FREE } else { PENDING }, Ordering::Release);
        }
    }

    /// Contexts ended, and their events with them.
    pub(super) fn forget(&self) {
        for event in &self.events {
            event.event.store(0, Ordering::Relaxed);
            event.context.store(0, Ordering::Relaxed);
            event.state.store(FREE, Ordering::Release);
        }
    }

    /// A free event of this context, or a new one in a place that has none.
    fn take_free(&self, context: CUcontext) -> Option<&Event> {
        let here = |event: &&Event| event.context.load(Ordering::Relaxed) == context as u64;
        let empty = |event: &&Event| event.event.load(Ordering::Relaxed) == 0;
        if let Some(event) = self.events.iter().filter(here).find(|event| event.take(FREE)) {
            return Some(event);
        }
        let event = self.events.iter().filter(empty).find(|event| event.take(FREE))?;
        let mut handle = core::ptr::null_mut();
        const DISABLE_TIMING: u32 = 2;
        // SAFETY: a valid place for the answer.
        if unsafe { (driver().cuEventCreate)(&raw mut handle, DISABLE_TIMING) } != CUDA_SUCCESS {
            event.state.store(FREE, Ordering::Release);
            return None;
        }
        event.event.store(handle as u64, Ordering::Relaxed);
        event.context.store(context as u64, Ordering::Relaxed);
        Some(event)
    }
}

impl Event {
    fn take(&self, from: u32) -> bool {
        self.state.compare_exchange(from, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}
