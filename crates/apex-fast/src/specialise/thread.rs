//! The thread that reads and compiles kernels.
//!
//! It is begun with the first kernel that is worth it, and sleeps unless there is something to do. It works in the
//! program's context and never while a stream is captured. What ends code or contexts waits until it is between two
//! jobs ([`pause`]), for it must not use what is gone.

use super::kernels::Kernel;
use super::make::{Job, failed};
use super::verdict::conclude;
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
static IS_LEAVING: AtomicBool = AtomicBool::new(false);
/// It has concluded, and does nothing any more.
static HAS_LEFT: AtomicBool = AtomicBool::new(false);
/// Held by the thread while it does a job.
static WORKING: Mutex<()> = Mutex::new(());

/// How long it sleeps while something is captured.
const CAPTURE_SLEEP: Duration = Duration::from_millis(5);
/// How long it sleeps between two looks at times that are waited for.
const LOOK_SLEEP: Duration = Duration::from_millis(5);
/// How often a program that ends looks whether the thread has concluded, and how long it sleeps in between.
const MOST_LOOKS: u32 = 50_000;
const EXIT_SLEEP: Duration = Duration::from_micros(100);

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
    while let Some(job) = next() {
        while captures::any() && !is_aside() && !is_leaving() {
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
        if kernel.known.try_lock().is_ok_and(|known| known.timing.is_waiting()) {
            again(kernel, context as u64);
        }
    }
    let pause = pause();
    let _ = catch_unwind(conclude);
    step_aside();
    drop(pause);
    HAS_LEFT.store(true, Ordering::SeqCst);
}

fn is_leaving() -> bool {
    IS_LEAVING.load(Ordering::SeqCst)
}

/// Times of the kernel are still waited for: it is asked again after a while.
fn again(kernel: &'static Kernel, context: u64) {
    let mut jobs = JOBS.lock().unwrap_or_else(PoisonError::into_inner);
    let is_asked = |job: &Job| matches!(job, Job::Judge { kernel: other, .. } if core::ptr::eq(*other, kernel));
    if jobs.iter().any(is_asked) {
        return;
    }
    let is_idle = jobs.iter().all(|job| matches!(job, Job::Judge { .. }));
    jobs.push_back(Job::Judge { kernel, context });
    if is_idle && !is_leaving() {
        drop(IS_ANY.wait_timeout(jobs, LOOK_SLEEP));
    }
}

/// The next job; none once the program ends.
fn next() -> Option<Job> {
    let mut jobs = JOBS.lock().unwrap_or_else(PoisonError::into_inner);
    while !is_leaving() {
        match jobs.pop_front() {
            Some(job) => return Some(job),
            None => jobs = IS_ANY.wait(jobs).unwrap_or_else(PoisonError::into_inner),
        }
    }
    None
}

/// The same without waiting; nothing where the thread works.
pub(super) fn try_pause() -> Option<MutexGuard<'static, ()>> {
    WORKING.try_lock().ok()
}

/// The thread does nothing as long as this is held.
pub(super) fn pause() -> MutexGuard<'static, ()> {
    WORKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program ends: the thread concludes, and must not be inside the driver while that is taken down.
pub(super) extern "C" fn leave() {
    // In a child of `fork` the thread is not there.
    if !is_aside() && HAS_BEGUN.load(Ordering::SeqCst) {
        IS_LEAVING.store(true, Ordering::SeqCst);
        // Whoever looks for a job has seen it, or is woken.
        drop(JOBS.lock().unwrap_or_else(PoisonError::into_inner));
        IS_ANY.notify_one();
        for _ in 0..MOST_LOOKS {
            if HAS_LEFT.load(Ordering::SeqCst) {
                break;
            }
            std::thread::sleep(EXIT_SLEEP);
        }
    }
    step_aside();
}
