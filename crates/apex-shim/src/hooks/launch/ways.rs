//! The ways of a launch, from the shortest to the one that has everything.
//!
//! A launch is only recorded ([`easy_launch`]) where its thread was told so; it is plain ([`launch_kernel`] with
//! nothing beside the record) in most programs; an open gate counts it, and it goes one of these two ways from
//! there on; or more is wanted of it ([`launch_with_extras`]). On all of them it goes down once, between the two
//! events if it is timed, and is then recorded.

use crate::extras::{Extra, Extras};
use crate::record::{self, Note};
use crate::sample::{self, Launched};
use crate::thread::{self, Easy};
use crate::{capture, detail, gate, kernels, tuned};
use apex_core::KernelId;
use apex_core::event::{Launch, LaunchShape, What};
use apex_core::pace::{Reads, UNREAD};
use apex_core::time;
use apex_cuda::Function;
use apex_cuda::types::*;
use apex_policy::schedule::Kind;

/// What a launch was asked to do.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub(super) function: Function,
    pub(super) kernel: CUfunction,
    pub(super) stream: u64,
    pub(super) shape: LaunchShape,
    pub(super) cooperative: bool,
    /// Where each argument lies; null where the call passes them otherwise.
    pub(super) arguments: *mut *mut c_void,
}

/// Whether a launch is only recorded, as most launches of a hurry are where the clock is slow, and then the
/// kernel's number.
#[inline(always)]
pub(super) fn easy(kernel: CUfunction) -> Option<(Easy, KernelId)> {
    let number = kernels::known(kernel)?;
    Some((thread::easy()?, number))
}

/// The same for a launch that an open gate has counted.
#[inline(always)]
pub(super) fn easy_at_gate(kernel: CUfunction) -> Option<(Easy, KernelId)> {
    let number = kernels::known(kernel)?;
    Some((thread::easy_at_gate()?, number))
}

/// A launch that is only recorded. Its way is short and straight, because the driver has used the caches
/// and the branch predictors for itself meanwhile: every line of code or memory and every jump is paid for.
#[inline(always)]
pub(super) unsafe fn easy_launch(
    (mut easy, kernel): (Easy, KernelId),
    call: Call,
    forward: impl FnOnce() -> CUresult,
) -> CUresult {
    let Call { function, stream, shape, cooperative, .. } = call;
    let launch = Launch { kernel, shape, cooperative, captured: false };
    let result = forward();
    if result == CUDA_SUCCESS && !capture::any() {
        record::easy_launch(easy.thread(), function, launch, stream);
    } else {
        // A copy for the cold way: its address must not keep the launch in memory on the usual one.
        odd_launch(function, core::hint::black_box(launch), stream, result);
    }
    result
}

/// An easy launch that was refused, or that went into a graph.
#[cold]
fn odd_launch(function: Function, launch: Launch, stream: u64, result: CUresult) {
    let what = What::Launch(launch);
    record::at(function, UNREAD, UNREAD, result, || Note { what, stream });
}

/// A launch and what is wanted beside its record. With [`Extras::NONE`] there is no trace of them on its way.
#[inline(always)]
pub(super) unsafe fn launch_kernel(
    call: Call,
    extras: Extras,
    forward: impl FnOnce() -> CUresult,
) -> CUresult {
    let Call { function, stream, shape, cooperative, .. } = call;
    let known = kernels::known(call.kernel);
    let kind = if cooperative { Kind::Cooperative } else { Kind::Kernel };
    let admitted =
        extras.has(Extra::Gate).then(|| gate::before(extras, known, stream, &shape, kind));
    let sample = sample::before(stream, configuration(call.kernel as u64, &shape));
    let (started, read_end) = read_clock(known.is_none() || sample.is_some());
    let result = forward();
    let ended = if read_end { time::ticks() } else { started };
    let mut kernel = known.unwrap_or_default();
    record::beside(extras.captures(), function, started, ended, result, || {
        if known.is_none() && result == CUDA_SUCCESS {
            kernel = kernels::look_up(call.kernel);
        }
        Note { what: What::Launch(Launch { kernel, shape, cooperative, captured: false }), stream }
    });
    if extras.has(Extra::Detail) && result == CUDA_SUCCESS {
        // SAFETY: the driver has just read these arguments.
        unsafe { detail::launched(kernel, ended, call.arguments) };
    }
    if let Some(sample) = sample {
        sample::after(&sample, Launched { function, stream, started, ended, kernel, shape });
    }
    gate::after(admitted.flatten(), stream, result);
    result
}

/// A launch of which more is wanted than its record, in the shape that the tuning says where it says one.
#[inline(always)]
pub(super) unsafe fn launch_with_extras(
    call: Call,
    plain: bool,
    own: impl FnOnce() -> CUresult,
    other: impl FnOnce(LaunchShape) -> CUresult,
) -> CUresult {
    let extras = Extras::now();
    let tuned = extras.has(Extra::Tuning).then(|| tuned::shape(call.kernel, &call.shape, plain));
    let tuned = tuned.flatten();
    let call = Call { shape: tuned.unwrap_or(call.shape), ..call };
    let forward = || match tuned {
        None => own(),
        Some(shape) => either(|| other(shape), own),
    };
    // SAFETY: the caller's own arguments, passed once.
    unsafe { launch_kernel(call, extras, forward) }
}

/// Launches as the tuning says, or as the program says if the driver refuses that: a refused launch ran nothing.
#[cold]
fn either(other: impl FnOnce() -> CUresult, own: impl FnOnce() -> CUresult) -> CUresult {
    match other() {
        CUDA_SUCCESS => {
            tuned::was_reshaped();
            CUDA_SUCCESS
        }
        refused => {
            tuned::was_refused("a block", refused);
            own()
        }
    }
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

/// Kernel and shape as one number.
#[inline(always)]
pub(super) fn configuration(handle: u64, shape: &LaunchShape) -> u64 {
    let [x, y, z] = shape.grid.map(u64::from);
    let mixed = handle ^ x << 20 ^ y << 40 ^ z << 52 ^ u64::from(shape.block[0]) << 4;
    mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
}
