//! Takes what waits and gives it to the driver, in order.
//!
//! One at a time holds the far end of the ring: the thread, or a caller who waits. Where several launches of one stream
//! stand one behind the other, the policy says which of them go down as a graph ([`super::graphs`]).

use super::beneath;
use super::closed;
use super::graphs::{Graphs, NotLaunched};
use super::known::Launch;
use super::pointers::Pointers;
use super::ring::{self, Alone, Entry, What};
use crate::counts::{self, COUNTERS, add};
use apex_cuda::Driver;
use apex_cuda::types::*;
use apex_policy::submit::{MOST, Step, cut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Who sends keeps this.
#[derive(Default)]
pub(super) struct Sender {
    context: u64,
    /// The one that the thread has now.
    of_thread: u64,
    graphs: Graphs,
    /// The launches that stand next, and their words.
    entries: Vec<&'static Entry>,
    words: Vec<u64>,
    /// Where each of them ends: between two there may be the end of the ring.
    ends: Vec<u64>,
}

// SAFETY: entries are those of the ring, which only the holder reads; it is empty while nobody sends.
unsafe impl Send for Sender {}

static SENDER: Alone<Mutex<Option<Sender>>> = Alone(Mutex::new(None));
/// Callers who wait until something has gone.
static WAITING: AtomicU32 = AtomicU32::new(0);
/// The first error of a queued call that nobody was told of.
static FAILED: AtomicU32 = AtomicU32::new(CUDA_SUCCESS);

/// Waits until the driver has been given everything before `target`.
#[cold]
pub(super) fn reach(target: u64) {
    WAITING.fetch_add(1, Ordering::SeqCst);
    let mut tries = 0_u32;
    while ring::tail() < target {
        if let Some(mut sender) = try_sender() {
            let own = OwnContext::enter(get(&mut sender).context);
            get(&mut sender).send_until(target);
            drop(own);
            continue;
        }
        tries += 1;
        if tries.is_multiple_of(64) {
            std::thread::yield_now();
        } else {
            core::hint::spin_loop();
        }
    }
    WAITING.fetch_sub(1, Ordering::SeqCst);
}

/// Sends what stands in the ring now; the calling thread is ours. Says whether there was anything.
pub(super) fn send_all() -> bool {
    let head = ring::head();
    if ring::tail() == head {
        return false;
    }
    // A caller who sends gives the lock back by one store: nobody sleeps on it, so nobody need be woken.
    let Some(mut lock) = try_sender() else { return true };
    let sender = get(&mut lock);
    if sender.of_thread != sender.context {
        sender.of_thread = sender.context;
        // SAFETY: the context that the program's launches were made in; they wait for it still.
        unsafe { (beneath().cuCtxSetCurrent)(sender.context as CUcontext) };
    }
    sender.send_until(head);
    true
}

/// What is sent from now on belongs to this context.
pub(super) fn serve(context: u64) {
    let mut lock = hold();
    get(&mut lock).context = context;
}

/// No graph is kept any more. Nothing waits while this is called.
pub(super) fn forget() {
    let mut lock = hold();
    let sender = get(&mut lock);
    let own = OwnContext::enter(sender.context);
    sender.graphs.forget(beneath());
    drop(own);
    (sender.context, sender.of_thread) = (0, 0);
}

/// The error of a queued call that nobody was told of yet; success if there was none.
pub(super) fn take_failed() -> CUresult {
    match FAILED.load(Ordering::Relaxed) {
        CUDA_SUCCESS => CUDA_SUCCESS,
        _ => FAILED.swap(CUDA_SUCCESS, Ordering::Relaxed),
    }
}

/// The far end of the ring, held.
pub(super) type HeldSender = MutexGuard<'static, Option<Sender>>;

/// Nobody sends while this is held.
pub(super) fn hold() -> HeldSender {
    SENDER.0.lock().unwrap_or_else(PoisonError::into_inner)
}

fn try_sender() -> Option<HeldSender> {
    match SENDER.0.try_lock() {
        Ok(sender) => Some(sender),
        Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(std::sync::TryLockError::WouldBlock) => None,
    }
}

fn get(lock: &mut HeldSender) -> &mut Sender {
    lock.get_or_insert_with(Sender::default)
}

impl Sender {
    /// Sends what stands before `target`.
    fn send_until(&mut self, target: u64) {
        let driver = beneath();
        let mut tail = ring::tail();
        while tail < target {
            // SAFETY: the lock is held, and `target` is a head that was seen.
            let entry = unsafe { ring::read(tail) };
            tail += match entry.what {
                What::Pad => entry.bytes(),
                What::Call(make) => {
                    // SAFETY: the arguments that the entry was made with.
                    note(unsafe { make(entry.arguments(), driver) });
                    entry.bytes()
                }
                What::Launch(launch) => {
                    // SAFETY: what is known stays as long as something waits.
                    let launch: &Launch = unsafe { &*launch };
                    if launch.word == 0 {
                        launch_one(launch, entry, driver);
                        entry.bytes()
                    } else {
                        self.send_launches(tail, driver)
                    }
                }
            };
            ring::sent(tail);
            counts::sent(tail);
        }
    }

    /// Sends one launch or more of those that stand from `tail` on; says how many bytes they are.
    fn send_launches(&mut self, tail: u64, driver: &Driver) -> u64 {
        let is_cut_off = self.look(tail);
        let is_all = is_cut_off || WAITING.load(Ordering::Relaxed) > 0;
        let count = match cut(&self.words, is_all) {
            Some(count) => self.send_piece(count, driver),
            None => {
                launch_each(&self.entries[..1], driver);
                1
            }
        };
        self.entries.clear();
        self.ends[count - 1] - tail
    }

    /// Sends so many of the launches that were looked at, as a graph where that pays.
    fn send_piece(&mut self, count: usize, driver: &Driver) -> usize {
        let (words, entries) = (&self.words[..count], &self.entries[..count]);
        match self.graphs.came(words) {
            Step::Replay(graph) => match self.graphs.launch(graph, entries, driver) {
                Ok(()) => {}
                Err(NotLaunched::Before) => launch_each(entries, driver),
                Err(NotLaunched::Refused(result)) => note(result),
            },
            Step::OneByOne => launch_each(entries, driver),
            Step::Build => {
                // The GPU has something to do meanwhile.
                launch_each(entries, driver);
                self.graphs.build(words, entries, driver);
            }
        }
        count
    }

    /// Looks at the launches of one stream that stand from `tail` on. Says whether another call stands behind them, so
    /// that they will not become more.
    fn look(&mut self, tail: u64) -> bool {
        self.entries.clear();
        self.words.clear();
        self.ends.clear();
        let head = ring::head();
        let (mut at, mut stream) = (tail, None);
        while at < head && self.entries.len() < MOST {
            // SAFETY: as in `send_until`.
            let entry: &'static Entry = unsafe { ring::read(at) };
            match entry.what {
                What::Pad => {}
                What::Call(_) => return true,
                What::Launch(launch) => {
                    // SAFETY: as in `send_until`.
                    let launch: &Launch = unsafe { &*launch };
                    if launch.word == 0 || *stream.get_or_insert(launch.stream) != launch.stream {
                        return true;
                    }
                    self.entries.push(entry);
                    self.words.push(launch.word);
                    self.ends.push(at + entry.bytes());
                }
            }
            at += entry.bytes();
        }
        false
    }
}

fn launch_each(entries: &[&Entry], driver: &Driver) {
    for entry in entries {
        if let What::Launch(launch) = entry.what {
            // SAFETY: what is known stays as long as something waits.
            launch_one(unsafe { &*launch }, entry, driver);
        }
    }
}

fn launch_one(launch: &Launch, entry: &Entry, driver: &Driver) {
    let [gx, gy, gz] = entry.grid;
    let [bx, by, bz] = launch.block;
    let (shared, stream) = (launch.shared, launch.stream);
    let mut pointers = Pointers::default();
    let parameters = pointers.to(launch, entry.arguments());
    let extra = core::ptr::null_mut();
    // SAFETY: the same launch went well before; the parameters were copied from the program's own.
    let result = unsafe {
        if launch.attributes.is_empty() {
            (driver.cuLaunchKernel)(
                launch.function,
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                shared,
                stream,
                parameters,
                extra,
            )
        } else {
            let config = CUlaunchConfig {
                gridDimX: gx,
                gridDimY: gy,
                gridDimZ: gz,
                blockDimX: bx,
                blockDimY: by,
                blockDimZ: bz,
                sharedMemBytes: shared,
                hStream: stream,
                attrs: launch.attributes.as_ptr().cast_mut(),
                numAttrs: launch.attributes.len() as u32,
            };
            (driver.cuLaunchKernelEx)(&raw const config, launch.function, parameters, extra)
        }
    };
    note(result);
}

/// Keeps an error for the next call that may report it.
fn note(result: CUresult) {
    if result != CUDA_SUCCESS {
        add(&COUNTERS.failed, 1);
        closed::after_failure();
        let _ = FAILED.compare_exchange(CUDA_SUCCESS, result, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// While it lives the calling thread has the context of what is sent.
struct OwnContext(bool);

impl OwnContext {
    fn enter(context: u64) -> OwnContext {
        let driver = beneath();
        let mut current = core::ptr::null_mut();
        // SAFETY: a valid place for the answer; the context that the program's launches were made in.
        OwnContext(unsafe {
            (driver.cuCtxGetCurrent)(&raw mut current);
            context != 0
                && current as u64 != context
                && (driver.cuCtxPushCurrent_v2)(context as CUcontext) == CUDA_SUCCESS
        })
    }
}

impl Drop for OwnContext {
    fn drop(&mut self) {
        if self.0 {
            let mut popped = core::ptr::null_mut();
            // SAFETY: what `enter` has pushed.
            unsafe { (beneath().cuCtxPopCurrent_v2)(&raw mut popped) };
        }
    }
}
