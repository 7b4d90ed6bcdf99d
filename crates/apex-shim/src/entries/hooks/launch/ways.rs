//! The ways of a launch, from the shortest to the one that has everything.
//!
//! | way | for a launch |
//! |---|---|
//! | [`launch_record_only`] | of which its thread knows beforehand that nothing is wanted but the record |
//! | [`launch_kernel`] with [`Extras::NONE`] | of a program that is recorded and may be timed: most are |
//! | one of these two | that an open gate has counted |
//! | [`launch_with_extras`] | of which more is wanted |
//!
//! On all of them it goes down once, between the two events if it is timed, and is then recorded.

use crate::aspects::{self, Call, Note};
use crate::state::extras::Extras;
use crate::state::thread::{self, RecordOnly};
use crate::state::{captures, kernels};
use apex_core::KernelId;
use apex_core::event::{Launch, LaunchShape, What};
use apex_core::pace::{Reads, UNREAD};
use apex_core::time;
use apex_cuda::Function;
use apex_cuda::types::*;

/// Whether a launch is only recorded, as most launches of a hurry are where the clock is slow, and then the
/// kernel's number.
#[inline(always)]
pub(super) fn record_only(kernel: CUfunction) -> Option<(RecordOnly, KernelId)> {
    let number = kernels::known(kernel)?;
    Some((thread::record_only()?, number))
}

/// The same for a launch that an open gate has counted.
#[inline(always)]
pub(super) fn record_only_at_gate(kernel: CUfunction) -> Option<(RecordOnly, KernelId)> {
    let number = kernels::known(kernel)?;
    Some((thread::record_only_at_gate()?, number))
}

/// A launch that is only recorded. Its way is short and straight, because the driver has used the caches
/// and the branch predictors for itself meanwhile: every line of code or memory and every jump is paid for.
#[inline(always)]
pub(super) unsafe fn launch_record_only(
    (mut launch_of, kernel): (RecordOnly, KernelId),
    call: Call,
    forward: impl FnOnce() -> CUresult,
) -> CUresult {
    let Call { function, stream, shape, cooperative, .. } = call;
    let launch = Launch { kernel, shape, cooperative, captured: false };
    let result = forward();
    if result == CUDA_SUCCESS && !captures::any() {
        aspects::record_only(launch_of.thread(), function, launch, stream);
    } else {
        // A copy for the cold way: its address must not keep the launch in memory on the usual one.
        odd_launch(function, core::hint::black_box(launch), stream, result);
    }
    result
}

/// A launch that was to be only recorded and was refused, or that went into a graph.
#[cold]
fn odd_launch(function: Function, launch: Launch, stream: u64, result: CUresult) {
    let what = What::Launch(launch);
    aspects::launch_made(function, (UNREAD, UNREAD), result, || Note { what, stream });
}

/// A launch of a kernel that is known or not, and what is wanted beside its record. With [`Extras::NONE`] there is no
/// trace of extras on its way.
#[inline(always)]
pub(super) unsafe fn launch_kernel(
    known: Option<KernelId>,
    call: Call,
    extras: Extras,
    forward: impl FnOnce() -> CUresult,
) -> CUresult {
    aspects::launch(extras, known, call, |is_timed| {
        let (started, read_end) = read_clock(known.is_none() || is_timed);
        let result = forward();
        (result, started, if read_end { time::ticks() } else { started })
    })
}

/// A launch of which more is wanted than its record, in the shape that the tuning says where it says one.
#[inline(always)]
pub(super) unsafe fn launch_with_extras(
    known: Option<KernelId>,
    call: Call,
    plain: bool,
    own: impl FnOnce() -> CUresult,
    other: impl FnOnce(LaunchShape) -> CUresult,
) -> CUresult {
    let extras = Extras::now();
    let tuned = aspects::reshape(extras, &call, plain);
    let call = Call { shape: tuned.unwrap_or(call.shape), ..call };
    let forward = || match tuned {
        None => own(),
        Some(shape) => aspects::make_reshaped(|| other(shape), own),
    };
    // SAFETY: the caller's own arguments, passed once.
    unsafe { launch_kernel(known, call, extras, forward) }
}

/// The start of a launch, if it is read, and whether its end is read too.
#[inline(always)]
fn read_clock(must: bool) -> (u64, bool) {
    let Some(thread) = thread::current_if_started() else { return (time::ticks(), true) };
    let reads = thread.reads();
    if reads == Reads::Nothing && !must {
        return (UNREAD, false);
    }
    let started = time::ticks();
    thread.launch_read(started);
    (started, reads == Reads::Both || must)
}
