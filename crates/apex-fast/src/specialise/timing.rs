//! Events around a launch, and the budget for them.
//!
//! Of each kernel one launch at a time is timed. Its events are asked only once the driver has them: what waits in the
//! queue has not happened.

use super::beneath;
use crate::{Position, has_sent, position, queue};
use apex_core::time;
use apex_cuda::types::*;
use apex_policy::duel::Form;
use apex_policy::sampling::is_affordable;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Share of the program's time that may go into timing, in per cent.
const PERCENT: f64 = 0.5;

/// When the program began, in ticks.
static BEGAN: OnceLock<u64> = OnceLock::new();
/// Ticks that timing has taken so far.
static SPENT: AtomicU64 = AtomicU64::new(0);

pub(super) fn begin() {
    BEGAN.set(time::ticks()).ok();
}

/// The events of one kernel.
#[derive(Default)]
pub(super) struct Timing {
    events: Option<(u64, u64)>,
    pending: Option<Pending>,
}

struct Pending {
    variant: usize,
    form: Form,
    recorded: Position,
}

impl Timing {
    /// Whether another launch can be timed now.
    pub(super) fn can_begin(&self) -> bool {
        let elapsed = time::ticks().saturating_sub(*BEGAN.get().unwrap_or(&0));
        self.pending.is_none()
            && is_affordable(elapsed, SPENT.load(Ordering::Relaxed), PERCENT, true)
    }

    /// The first event goes before a launch.
    pub(super) fn before(&mut self, stream: CUstream, is_twin: bool) -> bool {
        let entered = time::ticks();
        let events = self.events.or_else(made);
        self.events = events;
        let is_there = events.is_some_and(|(first, _)| record(first, stream, is_twin));
        spent(entered);
        is_there
    }

    /// The second goes behind it.
    pub(super) fn after(&mut self, stream: CUstream, is_twin: bool, variant: usize, form: Form) {
        let entered = time::ticks();
        if let Some((_, second)) = self.events
            && record(second, stream, is_twin)
        {
            self.pending = Some(Pending { variant, form, recorded: position() });
        }
        spent(entered);
    }

    /// The time of the launch that was timed last, once it is known: of which form of which variant.
    pub(super) fn known(&mut self) -> Option<(usize, Form, u64)> {
        let Pending { variant, form, recorded } = self.pending.as_ref()?;
        let (first, second) = self.events?;
        if !has_sent(*recorded) {
            return None;
        }
        let entered = time::ticks();
        // The queue need not be empty for a question about what was sent.
        let driver = queue::lowest().unwrap_or_else(|| beneath());
        let mut millis = 0.0_f32;
        // SAFETY: events of ours in the current context, and a valid place for the answer.
        let result = unsafe {
            match (driver.cuEventQuery)(second as CUevent) {
                CUDA_SUCCESS => (driver.cuEventElapsedTime)(
                    &raw mut millis,
                    first as CUevent,
                    second as CUevent,
                ),
                not_yet => not_yet,
            }
        };
        spent(entered);
        let found = (*variant, *form, (f64::from(millis) * 1e6) as u64);
        if result == CUDA_ERROR_NOT_READY {
            return None;
        }
        self.pending = None;
        (result == CUDA_SUCCESS).then_some(found)
    }
}

fn made() -> Option<(u64, u64)> {
    let (mut first, mut second): (CUevent, CUevent) =
        (core::ptr::null_mut(), core::ptr::null_mut());
    // SAFETY: valid places for the answers; flags 0 is an event with a time.
    let result = unsafe {
        match (beneath().cuEventCreate)(&raw mut first, 0) {
            CUDA_SUCCESS => (beneath().cuEventCreate)(&raw mut second, 0),
            refused => refused,
        }
    };
    (result == CUDA_SUCCESS).then_some((first as u64, second as u64))
}

fn record(event: u64, stream: CUstream, is_twin: bool) -> bool {
    // SAFETY: an event of ours and the program's own stream; if they do not fit the driver says so.
    let result = unsafe {
        if is_twin {
            (beneath().cuEventRecord_ptsz)(event as CUevent, stream)
        } else {
            (beneath().cuEventRecord)(event as CUevent, stream)
        }
    };
    result == CUDA_SUCCESS
}

fn spent(entered: u64) {
    SPENT.fetch_add(time::ticks().saturating_sub(entered), Ordering::Relaxed);
}
