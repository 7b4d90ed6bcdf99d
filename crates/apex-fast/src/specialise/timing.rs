//! Events around a launch, and the budget for them.
//!
//! Programs launch many times and wait once, so of each kernel several launches may be timed at a time. Their events are
//! asked in their order, and only once the driver has them: what waits in the queue has not happened.

use super::beneath;
use crate::{Position, has_sent, position, queue};
use apex_core::time;
use apex_cuda::types::*;
use apex_policy::duel::Form;
use apex_policy::sampling::is_affordable;
use std::collections::VecDeque;
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

/// Launches of a kernel that are timed at a time: as many as decide between two forms.
const MOST_PENDING: usize = 112;

/// The events of one kernel.
#[derive(Default)]
pub(super) struct Timing {
    idle: Vec<(u64, u64)>,
    pending: VecDeque<Pending>,
    /// The events of a launch that is about to be made.
    begun: Option<(u64, u64)>,
}

struct Pending {
    variant: usize,
    form: Form,
    recorded: Position,
    events: (u64, u64),
}

impl Timing {
    /// Whether another launch can be timed now.
    pub(super) fn can_begin(&self) -> bool {
        let elapsed = time::ticks().saturating_sub(*BEGAN.get().unwrap_or(&0));
        self.pending.len() < MOST_PENDING
            && is_affordable(elapsed, SPENT.load(Ordering::Relaxed), PERCENT, true)
    }

    /// Whether any time is waited for.
    pub(super) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The first event goes before a launch.
    pub(super) fn before(&mut self, stream: CUstream, is_twin: bool) -> bool {
        let entered = time::ticks();
        self.begun = self.begun.take().or_else(|| self.idle.pop()).or_else(made);
        let is_there = self.begun.is_some_and(|(first, _)| record(first, stream, is_twin));
        spent(entered);
        is_there
    }

    /// The second goes behind it.
    pub(super) fn after(&mut self, stream: CUstream, is_twin: bool, variant: usize, form: Form) {
        let entered = time::ticks();
        if let Some(events) = self.begun
            && record(events.1, stream, is_twin)
        {
            self.begun = None;
            self.pending.push_back(Pending { variant, form, recorded: position(), events });
        }
        spent(entered);
    }

    /// The time of the launch that was timed first, once it is known: of which form of which variant.
    pub(super) fn known(&mut self) -> Option<(usize, Form, u64)> {
        let Pending { variant, form, recorded, events: (first, second) } = *self.pending.front()?;
        if !has_sent(recorded) {
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
        if result == CUDA_ERROR_NOT_READY {
            return None;
        }
        self.pending.pop_front();
        self.idle.push((first, second));
        (result == CUDA_SUCCESS).then_some((variant, form, (f64::from(millis) * 1e6) as u64))
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
