//! Streams, events and contexts coming and going, and events being recorded and waited for.

use super::answer::answer;
use crate::aspects::{self, Note};
use crate::driver::driver;
use crate::state::{contexts, inside};
use apex_core::event::{Life, ObjectKind, What};
use apex_core::time;
use apex_cuda::Function;
use apex_cuda::types::*;

pub(crate) unsafe fn cuStreamCreate(result: CUresult, stream: *mut CUstream, flags: u32) -> Note {
    // SAFETY: the driver's out-pointer.
    let handle = unsafe { answer(result, stream, core::ptr::null_mut()) };
    aspects::stream_made(handle as u64, flags);
    made(ObjectKind::Stream, handle as u64, flags, 0)
}

pub(crate) unsafe fn cuStreamCreateWithPriority(
    result: CUresult,
    stream: *mut CUstream,
    flags: u32,
    priority: i32,
) -> Note {
    // SAFETY: the driver's out-pointer.
    let handle = unsafe { answer(result, stream, core::ptr::null_mut()) };
    aspects::stream_made(handle as u64, flags);
    made(ObjectKind::Stream, handle as u64, flags, priority)
}

pub(crate) unsafe fn cuGreenCtxStreamCreate(
    result: CUresult,
    stream: *mut CUstream,
    _context: CUgreenCtx,
    flags: u32,
    priority: i32,
) -> Note {
    // SAFETY: the driver's out-pointer.
    let handle = unsafe { answer(result, stream, core::ptr::null_mut()) };
    aspects::stream_made(handle as u64, flags);
    made(ObjectKind::Stream, handle as u64, flags, priority)
}

pub(crate) unsafe fn cuStreamDestroy(_: CUresult, stream: CUstream) -> Note {
    ended(ObjectKind::Stream, stream as u64)
}

pub(crate) use cuStreamDestroy as cuStreamDestroy_v2;

pub(crate) unsafe fn cuEventCreate(result: CUresult, event: *mut CUevent, flags: u32) -> Note {
    // SAFETY: the driver's out-pointer.
    let handle = unsafe { answer(result, event, core::ptr::null_mut()) };
    aspects::event_made(handle as u64, flags);
    made(ObjectKind::Event, handle as u64, flags, 0)
}

pub(crate) unsafe fn cuEventDestroy(_: CUresult, event: CUevent) -> Note {
    ended(ObjectKind::Event, event as u64)
}

pub(crate) use cuEventDestroy as cuEventDestroy_v2;

pub(crate) unsafe fn cuEventRecord(_: CUresult, event: CUevent, stream: CUstream) -> Note {
    aspects::event_recorded(event as u64, stream as u64);
    Note::on(stream, What::Other)
}

pub(crate) unsafe fn cuEventRecordWithFlags(
    _: CUresult,
    event: CUevent,
    stream: CUstream,
    _flags: u32,
) -> Note {
    aspects::event_recorded(event as u64, stream as u64);
    Note::on(stream, What::Other)
}

pub(crate) unsafe fn cuStreamWaitEvent(
    _: CUresult,
    stream: CUstream,
    event: CUevent,
    _flags: u32,
) -> Note {
    aspects::stream_waits(stream as u64, event as u64);
    Note::on(stream, What::Other)
}

pub(crate) use {
    cuEventRecord as cuEventRecord_ptsz, cuEventRecordWithFlags as cuEventRecordWithFlags_ptsz,
    cuStreamWaitEvent as cuStreamWaitEvent_ptsz,
};

pub(crate) unsafe fn cuCtxCreate(
    result: CUresult,
    context: *mut CUcontext,
    flags: u32,
    _device: CUdevice,
) -> Note {
    // SAFETY: the driver's out-pointer.
    let handle = unsafe { answer(result, context, core::ptr::null_mut()) };
    contexts::may_have_changed();
    made(ObjectKind::Context, handle as u64, flags, 0)
}

pub(crate) use cuCtxCreate as cuCtxCreate_v2;

pub(crate) unsafe fn cuCtxCreate_v3(
    result: CUresult,
    context: *mut CUcontext,
    _params: *mut CUexecAffinityParam,
    _count: i32,
    flags: u32,
    device: CUdevice,
) -> Note {
    // SAFETY: the same out-pointer.
    unsafe { cuCtxCreate(result, context, flags, device) }
}

pub(crate) unsafe fn cuCtxCreate_v4(
    result: CUresult,
    context: *mut CUcontext,
    _params: *mut CUctxCreateParams,
    flags: u32,
    device: CUdevice,
) -> Note {
    // SAFETY: the same out-pointer.
    unsafe { cuCtxCreate(result, context, flags, device) }
}

pub(crate) unsafe fn cuDevicePrimaryCtxRetain(
    result: CUresult,
    context: *mut CUcontext,
    _device: CUdevice,
) -> Note {
    // SAFETY: the driver's out-pointer.
    let handle = unsafe { answer(result, context, core::ptr::null_mut()) };
    made(ObjectKind::Context, handle as u64, 0, 0)
}

// Ends of contexts forward the call themselves: what of ours belongs to the context must be forgotten
// before it is gone.
macro_rules! context_ends {
    ($($name:ident($argument:ident: $type:ty);)*) => { $(
        pub(crate) unsafe fn $name($argument: $type) -> CUresult {
            aspects::context_ends();
            let started = time::ticks();
            // SAFETY: the program's own argument.
            let forward = || unsafe { (driver().$name)($argument) };
            let result = inside::call(Function::$name, started, forward);
            contexts::forget_all();
            contexts::may_have_changed();
            aspects::call(Function::$name, false, started, result, || {
                ended(ObjectKind::Context, $argument as u64)
            });
            result
        }
    )* };
}

context_ends! {
    cuCtxDestroy(context: CUcontext);
    cuCtxDestroy_v2(context: CUcontext);
    cuCtxDetach(context: CUcontext);
    cuDevicePrimaryCtxRelease(device: CUdevice);
    cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    cuDevicePrimaryCtxReset(device: CUdevice);
    cuDevicePrimaryCtxReset_v2(device: CUdevice);
}

fn made(object: ObjectKind, handle: u64, flags: u32, priority: i32) -> Note {
    Note::plain(What::Life(Life { object, begins: true, handle, flags, priority }))
}

fn ended(object: ObjectKind, handle: u64) -> Note {
    Note::plain(What::Life(Life { object, begins: false, handle, flags: 0, priority: 0 }))
}
