//! The thread that reads and compiles kernels.
//!
//! It is begun with the first kernel that is worth it, and sleeps unless there is something to do. It works in the
//! program's context and never while a stream is captured. What ends code or contexts waits until it is between two
//! jobs ([`pause`]), for it must not use what is gone.

use super::make::{Job, failed};
use super::{beneath, is_aside, step_aside};
use crate::captures;
use apex_cuda::types::*;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

static JOBS: Mutex<VecDeque<Job>> = Mutex::new(VecDeque::new());
static IS_ANY: Condvar = Condvar::new();
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
/// Held by the thread while it does a job.
static WORKING: Mutex<()> = Mutex::new(());

/// How long it sleeps while something is captured.
const CAPTURE_SLEEP: Duration = Duration::from_millis(5);
/// How often a program that ends looks whether the thread is between two jobs, every millisecond.
const MOST_LOOKS: u32 = 5_000;

/// Gives the thread something to do.
#[cold]
pub(super) fn ask(job: Job) {
    JOBS.lock().unwrap_or_else(PoisonError::into_inner).push_back(job);
    IS_ANY.notify_one();
    if !HAS_BEGUN.swap(true, Ordering::SeqCst) && !begin() {
        step_aside();
    }
}

/// Begins the thread. Signals of the program are not for it.
fn begin() -> bool {
    // SAFETY: an empty set of signals is a valid place for the answer; both sets outlive the calls.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { core::mem::zeroed() };
    // SAFETY: as above.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
    }
    let thread = std::thread::Builder::new().name("apex-specialise".into()).stack_size(8 << 20);
    let begun = thread.spawn(run);
    // SAFETY: the set that was there before.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut());
    }
    begun.is_ok()
}

fn run() {
    loop {
        let job = next();
        while captures::any() && !is_aside() {
            std::thread::sleep(CAPTURE_SLEEP);
        }
        let pause = pause();
        if is_aside() {
            return;
        }
        let kernel = job.kernel();
        if kernel.is_forgotten() {
            continue;
        }
        let context = job.context() as CUcontext;
        let mut popped = core::ptr::null_mut();
        // SAFETY: the program's context: whatever ends one waits until this job is done, and makes it forgotten.
        if unsafe { (beneath().cuCtxPushCurrent_v2)(context) } == CUDA_SUCCESS {
            if catch_unwind(AssertUnwindSafe(|| job.carry_out())).is_err() {
                failed(kernel);
            }
            // SAFETY: what was pushed, and a valid place for the answer.
            unsafe { (beneath().cuCtxPopCurrent_v2)(&raw mut popped) };
        } else {
            failed(kernel);
        }
        drop(pause);
    }
}

fn next() -> Job {
    let mut jobs = JOBS.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        match jobs.pop_front() {
            Some(job) => return job,
            None => jobs = IS_ANY.wait(jobs).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// The thread does nothing as long as this is held.
pub(super) fn pause() -> MutexGuard<'static, ()> {
    WORKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program ends: the thread must not be inside the driver while that is taken down.
pub(super) extern "C" fn leave() {
    step_aside();
    for _ in 0..MOST_LOOKS {
        if let Ok(pause) = WORKING.try_lock() {
            core::mem::forget(pause);
            let jobs = core::mem::take(&mut *JOBS.lock().unwrap_or_else(PoisonError::into_inner));
            // What was found is kept without the driver.
            for job in jobs.into_iter().filter(|job| matches!(job, Job::Keep { .. })) {
                let _ = catch_unwind(AssertUnwindSafe(|| job.carry_out()));
            }
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
