//! Times some launches on the GPU with a pair of events around them.
//!
//! Which launches is decided by `apex-policy` under a budget. Everything here belongs to one thread:
//! its event pairs, what is pending on them; so there is no lock. A pair is asked for its time only
//! from a launch, a wait or a blocking copy in the context it was made in, and never while anything is being captured:
//! a question to the driver could break the program's capture.
//!
//! If the first event has already passed when the second is recorded, the GPU had run dry and what lies
//! between the events contains its wait for the launch. [`idle_time`] says what is known then, and the time is marked: it
//! still holds a few microseconds that are not the kernel's. On the software GPU's virtual clock nothing waits for the
//! host, so no time is marked there.

mod cupti;

use crate::driver::{
    beneath, driver,
    load::{self, Loaded},
};
use crate::settings::{are_launches_timed, knobs};
use crate::state::{
    captures,
    process::{self, guard},
    thread::{self, SamplingRoom, Thread},
    times::LaunchKey,
};
use apex_core::event::{CallId, Event, Head, KernelId, LaunchShape, TimeBasis, What};
use apex_core::knobs::{Clock, Timing};
use apex_core::ring::RingWord;
use apex_core::time::{self, Anchor, Scale};
use apex_cuda::Function;
use apex_cuda::types::{CUDA_ERROR_NOT_READY, CUDA_SUCCESS, CUcontext, CUevent, CUstream};
use apex_fast::Position;
use apex_policy::sampling::{SamplingPlan, idle_time, is_affordable};
pub(crate) use cupti::start_once as start_full_timing;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What sampling asks of the aspects around it, and tells them; the list answers.
pub(crate) trait Around {
    /// A number that is the same later if no other program has come upon this one in between.
    fn peace() -> u64;
    /// A launch's time has become known.
    fn measured(measured: &Measured);
}

/// A time that has become known.
pub(crate) struct Measured {
    pub(crate) kernel: KernelId,
    pub(crate) shape: LaunchShape,
    /// How long it took at most.
    pub(crate) nanos: u64,
    /// It may have taken far less: see [`idle_time`].
    pub(crate) hidden: bool,
    pub(crate) basis: TimeBasis,
    /// What [`Around::peace`] said at the launch.
    pub(crate) peace: u64,
}

/// One thread's share of the sampling. It stands in the thread's room for it, all zeros at first.
#[repr(C)] // What most launches read comes first.
struct Sampler {
    mode: Mode,
    schedule: SamplingPlan,
    pending: usize,
    contexts_seen: u32,
    rest: Option<Box<Rest>>,
}

/// Whether a thread's launches are sampled.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Mode {
    /// The settings were not asked yet.
    #[expect(dead_code, reason = "what a thread's room says before anything is written there")]
    Unasked = 0,
    Off = 1,
    On = 2,
}

/// What is needed when a launch is timed.
struct Rest {
    pairs: Vec<Pair>,
    percent: f64,
    /// Whether events of an idle stream hold the wait for the launch; those of the virtual clock do not.
    holds_wait: bool,
    on_software_gpu: bool,
    process_began: Anchor,
}

/// A launch that is being timed: which pair stands around it, and when the first event went down.
pub(crate) struct Sample {
    pair: usize,
    began: u64,
}

/// What was launched.
pub(crate) struct Launched {
    /// Through which function.
    pub(crate) function: Function,
    /// On which stream.
    pub(crate) stream: u64,
    /// When the driver was called, and when it returned.
    pub(crate) started: u64,
    /// See `started`.
    pub(crate) ended: u64,
    /// The kernel; zero for a graph.
    pub(crate) kernel: KernelId,
    /// Its shape; for a graph `grid[0]` is the graph's number.
    pub(crate) shape: LaunchShape,
}

struct Pair {
    context: CUcontext,
    first: CUevent,
    second: CUevent,
    pending: Option<Pending>,
    taken: bool,
}

/// What is around a launch whose time is not yet known.
struct Pending {
    launched: Launched,
    basis: TimeBasis,
    /// Ticks between the two events that were not the launch's.
    recording: u64,
    /// What [`Around::peace`] said at the launch.
    peace: u64,
    /// Behind the second event: before the driver has it, it need not be asked.
    recorded: Position,
}

const MOST_PAIRS: usize = 16;

/// Ticks that all threads of the process have spent here.
static SPENT: AtomicU64 = AtomicU64::new(0);
/// Counts ends of contexts; what belonged to them is forgotten.
static CONTEXTS_ENDED: AtomicU32 = AtomicU32::new(0);

impl Sampler {
    /// A thread's sampler, in its room.
    #[inline(always)]
    fn of(room: &mut SamplingRoom) -> &mut Sampler {
        // SAFETY: numbers, a mode that begins at 0 and an optional box, of which zeros are values; nobody else asks
        // for this room.
        unsafe { room.of() }
    }

    /// Asks the settings, once for each thread, whether its launches are sampled.
    #[cold]
    fn ask(&mut self) -> bool {
        let knobs = knobs();
        let wanted = knobs.timing != Timing::Off && !cupti::is_on() && knobs.sampling_percent > 0.0;
        self.mode = Mode::Off;
        if let Some(process) = process::current().filter(|_| wanted) {
            let on_software_gpu = load::loaded().is_some_and(Loaded::is_soft);
            self.contexts_seen = CONTEXTS_ENDED.load(Ordering::Relaxed);
            self.rest = Some(Box::new(Rest {
                pairs: Vec::with_capacity(MOST_PAIRS),
                percent: knobs.sampling_percent,
                holds_wait: knobs.softgpu_clock != Clock::Virtual || !on_software_gpu,
                on_software_gpu,
                process_began: process.started,
            }));
            self.mode = Mode::On;
        }
        self.mode == Mode::On
    }
}

/// Up to `most` launches of the thread pass without a look; how many.
#[inline(always)]
pub(crate) fn look_away(thread: &mut Thread, most: u32) -> u32 {
    let sampler = Sampler::of(&mut thread.sampling_room);
    match sampler.mode {
        Mode::On => sampler.schedule.look_away(most),
        Mode::Off => most,
        Mode::Unasked => 0,
    }
}

/// A thread ends: what was pending is never known.
pub(crate) fn thread_ends(thread: &mut Thread) {
    Sampler::of(&mut thread.sampling_room).rest = None;
}

/// A context is about to end: its events are gone with it.
pub(crate) fn context_ends() {
    CONTEXTS_ENDED.fetch_add(1, Ordering::Relaxed);
}

/// Before a launch of this handle in this shape: is it one to time? Then the first event is recorded.
#[inline(always)]
pub(crate) fn before<A: Around>(stream: u64, handle: u64, shape: &LaunchShape) -> Option<Sample> {
    let sampler = Sampler::of(&mut thread::current()?.sampling_room);
    match sampler.mode {
        Mode::On => {}
        Mode::Off => return None,
        Mode::Unasked => sampler.ask().then_some(())?,
    }
    if sampler.schedule.looks_away() {
        return None;
    }
    let configuration = configuration(handle, shape);
    if !sampler.schedule.is_due(configuration) {
        return None;
    }
    guard(|| begin::<A>(stream, configuration)).flatten()
}

/// The launch as the schedule knows it.
#[inline(always)]
fn configuration(handle: u64, shape: &LaunchShape) -> u64 {
    LaunchKey::of_handle(handle, shape).number() >> 32
}

#[cold]
fn begin<A: Around>(stream: u64, configuration: u64) -> Option<Sample> {
    let entered = time::ticks();
    let thread = thread::current()?;
    let Sampler { schedule, rest, .. } = Sampler::of(&mut thread.sampling_room);
    let rest = rest.as_deref()?;
    if captures::any() || !are_launches_timed() {
        schedule.put_off(configuration);
        return None;
    }
    let young = schedule.is_young(configuration);
    let elapsed = entered.saturating_sub(rest.process_began.ticks);
    if !is_affordable(elapsed, SPENT.load(Ordering::Relaxed), rest.percent, young) {
        schedule.put_off(configuration);
        return None;
    }
    schedule.advance(configuration);
    let sample = collect::<A>(thread).and_then(|context| {
        let rest = Sampler::of(&mut thread.sampling_room).rest.as_deref_mut()?;
        let pair = free_pair(rest, context)?;
        let sample = Sample { pair, began: time::ticks() };
        record(rest.pairs[pair].first, stream).then_some(sample)
    });
    spent(thread, entered);
    sample
}

/// Right after a launch: the second event is recorded.
#[cold]
pub(crate) fn after<A: Around>(sample: &Sample, launched: Launched) {
    let entered = time::ticks();
    guard(|| {
        let Some(thread) = thread::current() else { return };
        let Sampler { pending, rest, .. } = Sampler::of(&mut thread.sampling_room);
        let Some(rest) = rest.as_deref_mut() else { return };
        let Some(pair) = rest.pairs.get_mut(sample.pair) else { return };
        pair.taken = false;
        if record(pair.second, launched.stream) {
            let between = time::ticks().saturating_sub(sample.began);
            let recording = between.saturating_sub(launched.ended - launched.started);
            let recorded = apex_fast::position();
            // An event that waits in a queue has not passed.
            // SAFETY: an event of ours in the current context.
            let passed = apex_fast::has_sent(recorded)
                && unsafe { (beneath().cuEventQuery)(pair.first) } != CUDA_ERROR_NOT_READY;
            let basis = if passed && rest.holds_wait {
                TimeBasis::EventPairIdle
            } else {
                TimeBasis::EventPair
            };
            let peace = A::peace();
            pair.pending = Some(Pending { launched, basis, recording, peace, recorded });
            *pending += 1;
        }
        spent(thread, entered);
    });
}

/// After the program has waited for the GPU: times that have become known are written down.
#[inline(always)]
pub(crate) fn harvest<A: Around>() {
    let Some(thread) = thread::current() else { return };
    if Sampler::of(&mut thread.sampling_room).pending == 0 || captures::any() {
        return;
    }
    let entered = time::ticks();
    guard(|| collect::<A>(thread));
    spent(thread, entered);
}

/// Writes down what has become known in the current context, which it returns.
fn collect<A: Around>(thread: &mut Thread) -> Option<CUcontext> {
    let mut context = core::ptr::null_mut();
    // SAFETY: a valid place for the answer.
    unsafe { (driver().cuCtxGetCurrent)(&raw mut context) };
    if context.is_null() {
        return None;
    }
    let ended = CONTEXTS_ENDED.load(Ordering::Relaxed);
    let Sampler { pending, contexts_seen, rest, .. } = Sampler::of(&mut thread.sampling_room);
    let Rest { pairs, process_began, on_software_gpu, .. } = rest.as_deref_mut()?;
    if *contexts_seen != ended {
        *contexts_seen = ended;
        pairs.clear();
        *pending = 0;
    }
    for pair in pairs.iter_mut().filter(|pair| pair.context == context) {
        let Some((known, millis)) = take_known(pair) else { continue };
        *pending -= 1;
        let Pending { launched, basis, recording, peace, .. } = known;
        let head = Head {
            call: CallId(launched.function as u16),
            result: 0,
            start: launched.started,
            ticks: 0,
            device: thread.device,
            context: thread.context_id,
            stream: launched.stream,
        };
        let mut nanos = (f64::from(millis) * 1e6).round() as u64;
        let mut hidden = false;
        if basis == TimeBasis::EventPairIdle {
            let scale = Scale::between(*process_began, Anchor::take());
            let launch = scale.span(launched.ended - launched.started);
            let recording = scale.span(recording);
            let known = idle_time(nanos, launch, recording, *on_software_gpu);
            (nanos, hidden) = (known.at_most, known.hidden);
        }
        let Launched { kernel, shape, .. } = launched;
        A::measured(&Measured { kernel, shape, nanos, hidden, basis, peace });
        thread.writer.push(&Event { head, what: What::GpuTime { kernel, shape, nanos, basis } });
    }
    Some(context)
}

/// What was around a launch whose time the driver knows now, and that time in milliseconds.
fn take_known(pair: &mut Pair) -> Option<(Pending, f32)> {
    if !apex_fast::has_sent(pair.pending.as_ref()?.recorded) {
        return None;
    }
    let mut millis = 0.0_f32;
    // SAFETY: events of ours in the current context and a valid place for the answer.
    let known = unsafe {
        (beneath().cuEventQuery)(pair.second) == CUDA_SUCCESS
            && (beneath().cuEventElapsedTime)(&raw mut millis, pair.first, pair.second)
                == CUDA_SUCCESS
    };
    if known { Some((pair.pending.take()?, millis)) } else { None }
}

/// A pair of this context with nothing pending; the oldest context's goes if there are too many.
fn free_pair(rest: &mut Rest, context: CUcontext) -> Option<usize> {
    let free = |pair: &Pair| pair.context == context && pair.pending.is_none() && !pair.taken;
    let found = rest.pairs.iter().position(free).or_else(|| {
        (rest.pairs.len() < MOST_PAIRS).then(|| new_pair(context))?.map(|pair| {
            rest.pairs.push(pair);
            rest.pairs.len() - 1
        })
    })?;
    rest.pairs[found].taken = true;
    Some(found)
}

fn new_pair(context: CUcontext) -> Option<Pair> {
    let (mut first, mut second) = (core::ptr::null_mut(), core::ptr::null_mut());
    // SAFETY: valid places for the answers; flags 0 is an event with a time.
    let made = unsafe {
        (driver().cuEventCreate)(&raw mut first, 0) == CUDA_SUCCESS
            && (driver().cuEventCreate)(&raw mut second, 0) == CUDA_SUCCESS
    };
    made.then_some(Pair { context, first, second, pending: None, taken: false })
}

fn record(event: CUevent, stream: u64) -> bool {
    // SAFETY: an event of ours and the program's own stream; if they do not fit the driver says so.
    unsafe { (driver().cuEventRecord)(event, stream as CUstream) == CUDA_SUCCESS }
}

fn spent(thread: &Thread, entered: u64) {
    let ticks = time::ticks().wrapping_sub(entered);
    SPENT.fetch_add(ticks, Ordering::Relaxed);
    thread.writer.add(RingWord::SamplingTicks, ticks);
}
