//! A kernel that is called again and again with the same scalars and the same shape runs as one compiled for them.
//!
//! What may be rewritten and how is `apex-ptx`'s; what is tried and what stays is decided in
//! [`apex_policy::specialise`]; here that is done. The rewritten kernel takes the same parameters, so only the handle of a
//! launch changes, and whoever stands beneath, the queue too, sees another function and nothing else.
//!
//! What holds everywhere:
//!
//! 1. A launch never waits for anything here. Reading, rewriting and compiling are done by a thread of their own; a
//!    kernel that another thread looks at, or that is not understood yet, is launched as it is.
//! 2. A rewritten kernel runs only where every number that was written into it is that of the launch.
//! 3. Where the driver refuses it, the original is launched in the same call and the rewritten one is dropped.
//! 4. While any stream is captured nothing is changed: what a program records stays its own.
//! 5. A form whose bits might differ runs only after both forms wrote equal bytes, on copies of what the program has.
//! 6. Questions about a function are answered by the driver, for the original.
//!
//! | module | what is there |
//! |---|---|
//! | [`images`] | the code that the program loaded, for the PTX in it |
//! | [`kernels`] | what is known of each function |
//! | [`launch`] | the way of a launch |
//! | [`numbers`] | a call, and it as a list of numbers |
//! | [`timing`] | events around a launch |
//! | [`compare`] | both forms on the same bytes |
//! | [`plan`] | where a launch's bytes go for that |
//! | [`room`] | memory of apex's own for that |
//! | [`study`] | reads a kernel's PTX: which numbers could be written into it |
//! | [`make`] | rewrites, compiles and loads a kernel |
//! | [`past`] | which forms won or lost in earlier processes |
//! | [`prepare`] | forms that earlier processes know, ready before the first launch |
//! | [`verdict`] | times are judged, and what was found is told and kept |
//! | [`thread`] | the thread that does both |
//! | [`doors`] | the functions that stand in the driver's place |

mod compare;
mod doors;
mod images;
mod kernels;
mod launch;
mod make;
mod numbers;
mod past;
mod plan;
mod prepare;
mod room;
mod study;
mod thread;
mod timing;
mod verdict;

use apex_core::kept::Kept;
use apex_cuda::types::*;
use apex_cuda::{Driver, Function};
use core::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// What lies beneath.
static BENEATH: OnceLock<Driver> = OnceLock::new();
/// Every launch goes as it is, for good.
static IS_ASIDE: AtomicBool = AtomicBool::new(false);
/// Who is told what became of kernels.
static LISTENER: OnceLock<fn(&Told)> = OnceLock::new();

/// What became of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The kernel's name.
    pub kernel: String,
    /// `left`, `refused`, `tried`, `won` or `lost`.
    pub outcome: &'static str,
    /// Why it was left alone or refused, or what was written into it.
    pub what: String,
    /// Median of the original in nanoseconds, 0 where it was not timed.
    pub original_ns: u64,
    /// Median of the rewritten one.
    pub rewritten_ns: u64,
}

/// From now on `listener` hears what becomes of kernels, on the thread where it happens.
pub fn hear(listener: fn(&Told)) {
    LISTENER.set(listener).ok();
}

/// First word of files that keep winners and losers.
pub const KEPT_MAGIC: &str = past::MAGIC;

/// From now on winners and losers are kept there for later processes, and known from earlier ones.
pub fn keep_in(kept: Kept) {
    past::keep_in(kept);
}

fn tell(told: &Told) {
    if let Some(listener) = LISTENER.get() {
        listener(told);
    }
}

/// Puts this layer upon the driver's functions.
///
/// # Safety
///
/// As for [`crate::raise`].
pub(crate) unsafe fn raise(addresses: &mut [*const c_void; Function::COUNT]) {
    // SAFETY: the caller's promise.
    let beneath = unsafe { Driver::from_addresses(|function| addresses[function as usize]) };
    if BENEATH.set(beneath).is_err() {
        return;
    }
    timing::begin();
    compare::begin();
    // SAFETY: plain functions of this library, which is never unloaded.
    unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
        libc::atexit(thread::leave);
    }
    doors::open(addresses);
}

/// The driver does not work in a child, and whoever held a lock is not there.
extern "C" fn in_child() {
    step_aside();
}

/// For good.
pub(crate) fn step_aside() {
    IS_ASIDE.store(true, Ordering::SeqCst);
}

#[inline(always)]
fn is_aside() -> bool {
    IS_ASIDE.load(Ordering::Relaxed)
}

#[inline(always)]
fn beneath() -> &'static Driver {
    match BENEATH.get() {
        Some(driver) => driver,
        None => unreachable!("doors are opened after what lies beneath is set"),
    }
}

/// The calling thread's context; zero if it has none.
fn own_context() -> u64 {
    let mut context = core::ptr::null_mut();
    // SAFETY: a valid place for the answer.
    let result = unsafe { (beneath().cuCtxGetCurrent)(&raw mut context) };
    if result == CUDA_SUCCESS { context as u64 } else { 0 }
}
