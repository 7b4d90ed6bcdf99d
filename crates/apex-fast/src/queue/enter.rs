//! The program's side: a call is put into the ring, or goes down at once with everything before it gone.

use super::known::{Asked, Known, Launch, mixed};
use super::ring::{self, Alone, Entry, Make, What};
use super::{beneath, closed, send, thread};
use crate::counts::{COUNTERS, Reason, add, put_in, went_directly};
use crate::doors::is_per_thread;
use apex_cuda::Function;
use apex_cuda::types::*;
use core::cell::{Cell, UnsafeCell};
use core::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the writer of the ring keeps.
struct Writer {
    known: Known,
    /// The context of everything that waits; zero before the first launch.
    context: u64,
}

static WRITER: Alone<Mutex<Option<Writer>>> = Alone(Mutex::new(None));

/// After so many launches a thread asks for its context although no call is known to have changed it: the runtime has
/// private ways.
const ASK_EVERY: u32 = 64;

std::thread_local! {
    /// This thread's context, and for how many launches more it is believed.
    static CONTEXT: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

/// Parameters of a launch as the program gives them.
#[derive(Clone, Copy)]
pub(super) enum Parameters {
    /// A pointer for each.
    Each(*mut *mut c_void),
    /// All in one piece of memory, of so many bytes.
    Packed(*const u8, usize),
}

/// A launch: true if it waits in the ring now. Else everything before it has gone, and [`made`] is to be told how it went.
///
/// # Safety
///
/// The program's own arguments: the parameters are as the kernel wants them.
#[inline(always)]
pub(super) unsafe fn launch(asked: &Asked, is_twin: bool, parameters: Parameters) -> bool {
    let reason = if closed::is_closed() {
        closed::reason()
    } else if is_one_of_few() {
        Reason::Few
    } else if !thread::is_awake() {
        thread::wake_if_busy();
        Reason::Idle
    } else if is_per_thread(asked.stream, is_twin) {
        Reason::OwnStream
    } else {
        // SAFETY: the caller's promise.
        match unsafe { put(asked, parameters) } {
            Ok(()) => {
                look_after();
                return true;
            }
            Err(reason) => reason,
        }
    };
    went_directly(reason);
    reach(ring::head());
    false
}

/// So few launches before a wait are soonest at the GPU by the caller's own calls: the thread takes a quarter of a
/// microsecond to see the first, five to be woken, and the rest are too few for a graph.
const FEW: u32 = 3;

/// How many launches come between the calls by which the program asks how far the GPU is.
struct Runs {
    /// Launches since the last such call.
    since: AtomicU32,
    /// Launches between the last two. As many are expected before the next.
    last: AtomicU32,
}

static RUNS: Alone<Runs> = Alone(Runs { since: AtomicU32::new(0), last: AtomicU32::new(0) });

/// Another launch. Says whether it is thought to be one of few before a wait.
#[inline(always)]
fn is_one_of_few() -> bool {
    let Alone(runs) = &RUNS;
    let since = runs.since.load(Ordering::Relaxed);
    runs.since.store(since.wrapping_add(1), Ordering::Relaxed);
    since < FEW && runs.last.load(Ordering::Relaxed) <= FEW && ring::tail() == ring::head()
}

/// The program asks how far the GPU is: everything that waits has gone.
pub(super) fn asked() {
    drain();
    let Alone(runs) = &RUNS;
    match runs.since.swap(0, Ordering::Relaxed) {
        0 => {}
        launches => runs.last.store(launches, Ordering::Relaxed),
    }
}

/// A launch that did not wait was made.
pub(super) fn made(asked: &Asked, is_twin: bool, result: CUresult) {
    let is_fit = result == CUDA_SUCCESS
        && !closed::is_closed()
        && thread::is_awake()
        && !is_per_thread(asked.stream, is_twin);
    if is_fit {
        learn(asked);
    }
}

#[cold]
fn learn(asked: &Asked) {
    let context = own_context();
    let mut lock = writer();
    let writer = get(&mut lock);
    if context == 0 || writer.context != 0 && writer.context != context {
        return;
    }
    if writer.known.is_full() {
        drop(lock);
        return forget();
    }
    writer.context = context;
    writer.known.learn(asked, beneath());
    send::serve(context);
}

/// Something was put into the ring: if the thread fell asleep meanwhile, it is sent from here.
#[inline(always)]
fn look_after() {
    // The lock that was just given back lies between the ring's head and this look. The thread says that it sleeps before
    // it looks at the head for the last time. So one of the two sees the other.
    if !thread::is_awake() {
        reach(ring::head());
    }
}

#[inline(always)]
unsafe fn put(asked: &Asked, parameters: Parameters) -> Result<(), Reason> {
    let context = believed_context();
    let mut lock = writer();
    loop {
        let writer = get(&mut lock);
        let launch = writer.known.launch(asked.key()).ok_or(Reason::First)?;
        if writer.context != context {
            return Err(Reason::Context);
        }
        // SAFETY: it stays until everything that waits has gone and the lock is held.
        let launch: &Launch = unsafe { &*launch };
        let bytes = launch.kernel.bytes;
        let is_whole = match parameters {
            Parameters::Each(each) => !each.is_null() || bytes == 0,
            Parameters::Packed(_, size) => size >= bytes,
        };
        if !is_whole || !asked.fits(&launch.kernel) {
            return Err(Reason::Form);
        }
        let entry = Entry::new(What::Launch(launch), asked.grid, bytes);
        put_in(ring::head());
        // SAFETY: the lock is held; as many bytes are filled as the kernel's parameters have. They are read where the
        // driver would read them.
        let written = unsafe { ring::write(&entry, |place| copy(launch, parameters, place)) };
        match written {
            Ok(()) => {
                add(&COUNTERS.queued, 1);
                return Ok(());
            }
            Err(tail) => {
                drop(lock);
                reach(tail);
                lock = self::writer();
            }
        }
    }
}

/// Copies a launch's parameters to `place`.
#[inline(always)]
unsafe fn copy(launch: &Launch, parameters: Parameters, place: *mut u8) {
    match parameters {
        // SAFETY: the caller's promise: as many bytes as the kernel has.
        Parameters::Packed(packed, _) => unsafe {
            packed.copy_to_nonoverlapping(place, launch.kernel.bytes);
        },
        Parameters::Each(each) => {
            if launch.kernel.has_gaps {
                // SAFETY: the place has room for all.
                unsafe { place.write_bytes(0, launch.kernel.bytes) };
            }
            for (nth, &(offset, size)) in launch.kernel.parameters.iter().enumerate() {
                // SAFETY: the program gives the driver a pointer for each parameter; the place has room for all.
                unsafe {
                    let (from, to) =
                        ((*each.add(nth)).cast::<u8>().cast_const(), place.add(offset as usize));
                    match size {
                        8 => to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()),
                        4 => to.cast::<u32>().write_unaligned(from.cast::<u32>().read_unaligned()),
                        _ => from.copy_to_nonoverlapping(to, size as usize),
                    }
                }
            }
        }
    }
}

/// A call that may wait: what it is, what it names, and how to make it later.
pub(super) struct Joining<A> {
    pub(super) function: Function,
    /// Its arguments, copied as they are.
    pub(super) arguments: A,
    /// What it names, as numbers.
    pub(super) names: [u64; 8],
    /// It works on the calling thread's own stream.
    pub(super) is_own_stream: bool,
    pub(super) make: Make,
}

/// A call that has its place in the ring; made at once where it may not wait.
pub(super) fn join<A: Copy>(joining: &Joining<A>) -> CUresult {
    let mut names = [0; 9];
    names[..8].copy_from_slice(&joining.names);
    names[8] = joining.function as u64;
    let key = mixed(&names);
    let may_wait = !closed::is_closed() && thread::is_awake() && !joining.is_own_stream;
    if may_wait && put_call(joining, key) {
        look_after();
        return CUDA_SUCCESS;
    }
    reach(ring::head());
    // SAFETY: the program's own arguments, unchanged.
    let result = unsafe { (joining.make)((&raw const joining.arguments).cast(), beneath()) };
    if may_wait && result == CUDA_SUCCESS {
        let context = believed_context();
        let mut lock = writer();
        let writer = get(&mut lock);
        if writer.context == context {
            writer.known.learn_call(key);
        }
    }
    result
}

fn put_call<A: Copy>(joining: &Joining<A>, key: u64) -> bool {
    let context = believed_context();
    let mut lock = writer();
    loop {
        let writer = get(&mut lock);
        if writer.context != context || !writer.known.has_call(key) {
            return false;
        }
        let entry = Entry::new(What::Call(joining.make), [0; 3], size_of::<A>());
        // SAFETY: the lock is held, and the arguments fill what the entry was made for.
        let written = unsafe {
            ring::write(&entry, |place| place.cast::<A>().write_unaligned(joining.arguments))
        };
        match written {
            Ok(()) => {
                add(&COUNTERS.joined, 1);
                return true;
            }
            Err(tail) => {
                drop(lock);
                reach(tail);
                lock = self::writer();
            }
        }
    }
}

/// Waits until the driver has been given everything before `target`; sends it from here where nobody else does.
#[inline(always)]
pub(super) fn reach(target: u64) {
    if ring::tail() < target {
        send::reach(target);
    }
}

/// Everything that waits has gone.
pub(super) fn drain() {
    let head = ring::head();
    if ring::tail() < head {
        COUNTERS.drained.fetch_add(1, Ordering::Relaxed);
        send::reach(head);
    }
}

/// Everything has gone, and what calls name may end now.
pub(super) fn forget_calls() {
    drain();
    if let Some(writer) = writer().as_mut() {
        writer.known.forget_calls();
    }
    context_changes();
}

/// Everything has gone, and what launches name may end now.
pub(super) fn forget() {
    let mut lock = writer();
    if let Some(writer) = lock.as_mut() {
        // Nobody writes while the lock is held.
        reach(ring::head());
        writer.known.forget();
        writer.context = 0;
        send::forget();
    }
    drop(lock);
    closed::open_again();
    context_changes();
}

/// A stream is about to be captured: nothing waits any more ([`captures::any`]), and what does has gone.
pub(super) fn capture_opens() {
    let lock = writer();
    reach(ring::head());
    drop(lock);
}

/// A launch is made whose form is none that can wait, or cannot be read before the driver has launched the function.
pub(super) fn of_no_form(is_known: bool) {
    went_directly(if is_known { Reason::Form } else { Reason::First });
    reach(ring::head());
}

/// The program ends: everything is sent, and nothing waits from now on.
pub(crate) extern "C" fn leave() {
    closed::step_aside();
    let lock = writer();
    reach(ring::head());
    drop(lock);
}

/// What a fork must not find half done: both ends of the ring, held by the thread that forks.
struct Held(UnsafeCell<Option<(MutexGuard<'static, Option<Writer>>, send::HeldSender)>>);

// SAFETY: only the thread that forks looks at it, between the first and the last of the three handlers.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// Before a fork: everything has gone, and nobody writes or sends.
pub(super) extern "C" fn before_fork() {
    let writer = writer();
    reach(ring::head());
    // SAFETY: the writer's lock is held, so no other thread is between these handlers.
    unsafe { *HELD.0.get() = Some((writer, send::hold())) };
}

/// After a fork, in the parent.
pub(super) extern "C" fn after_fork() {
    // SAFETY: as above; both locks are this thread's. They are given back as this ends.
    let _held = unsafe { (*HELD.0.get()).take() };
}

/// After a fork, in the child: the driver does not work there, and nobody sends.
pub(super) extern "C" fn in_child() {
    closed::step_aside();
    thread::gone();
    after_fork();
}

/// This thread's context may be another one.
pub(super) fn context_changes() {
    let _ = CONTEXT.try_with(|context| context.set((0, 0)));
}

#[inline(always)]
fn believed_context() -> u64 {
    CONTEXT
        .try_with(|believed| match believed.get() {
            (_, 0) => {
                let context = own_context();
                believed.set((context, ASK_EVERY));
                context
            }
            (context, more) => {
                believed.set((context, more - 1));
                context
            }
        })
        .unwrap_or(0)
}

#[cold]
fn own_context() -> u64 {
    let mut context = core::ptr::null_mut();
    // SAFETY: a valid place for the answer.
    unsafe { (beneath().cuCtxGetCurrent)(&raw mut context) };
    context as u64
}

#[inline(always)]
fn writer() -> MutexGuard<'static, Option<Writer>> {
    WRITER.0.lock().unwrap_or_else(PoisonError::into_inner)
}

#[inline(always)]
fn get<'a>(lock: &'a mut MutexGuard<'_, Option<Writer>>) -> &'a mut Writer {
    lock.get_or_insert_with(|| Writer { known: Known::default(), context: 0 })
}
