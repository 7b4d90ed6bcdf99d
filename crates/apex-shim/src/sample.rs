//! Times some launches on the GPU with a pair of events around them.
//!
//! Which launches is decided by `apex-policy` under a budget. Everything here belongs to one thread:
//! its event pairs, what is pending on them; so there is no lock. A pair is asked for its time only
//! from a launch or a wait in the context it was made in, and never while anything is being captured:
//! a question to the driver could break the program's capture.
//!
//! If the first event has already passed when the second is recorded, the GPU had run dry and what lies
//! between the events contains its wait for the launch. The time the launch took on the host is then
//! taken off, and the time is marked: it still holds a few microseconds that are not the kernel's. Where it is no longer
//! than the recording of the events took, the kernel may have been over long before, and all that is known is that it takes
//! no more. On the software GPU's virtual clock nothing waits for the host, so nothing is taken off.

use crate::exports::driver;
use crate::extras::{self, Extra};
use crate::load::{self, Loaded};
use crate::process::{guard, knobs};
use crate::thread::Thread;
use crate::{capture, cupti, gate, predict, thread};
use apex_core::event::{CallId, Event, Head, KernelId, LaunchShape, TimeBasis, What};
use apex_core::knobs::{Clock, Timing};
use apex_core::ring::RingWord;
use apex_core::time::{self, Anchor, Scale};
use apex_cuda::Function;
use apex_cuda::types::{CUDA_ERROR_NOT_READY, CUDA_SUCCESS, CUcontext, CUevent, CUstream};
use apex_policy::sampling::{Schedule, is_affordable};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// One thread's share of the sampling.
#[repr(C)] // What most launches read comes first.
pub(crate) struct Sampler {
    enabled: bool,
    schedule: Schedule,
    pairs: Vec<Pair>,
    pending: usize,
    percent: f64,
    /// Whether events of an idle stream hold the wait for the launch; those of the virtual clock do not.
    holds_wait: bool,
    process_began: Anchor,
    contexts_seen: u32,
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
    /// What [`gate::peace`] said at the launch.
    peace: u64,
}

const MOST_PAIRS: usize = 16;

/// Ticks that all threads of the process have spent here.
static SPENT: AtomicU64 = AtomicU64::new(0);
/// Counts ends of contexts; what belonged to them is forgotten.
static CONTEXTS_ENDED: AtomicU32 = AtomicU32::new(0);

impl Sampler {
    /// For a thread of a process that began then.
    pub(crate) fn new(process_began: Anchor) -> Sampler {
        let knobs = knobs();
        Sampler {
            enabled: knobs.timing != Timing::Off && !cupti::is_on() && knobs.sampling_percent > 0.0,
            schedule: Schedule::default(),
            pairs: Vec::with_capacity(MOST_PAIRS),
            pending: 0,
            percent: knobs.sampling_percent,
            holds_wait: knobs.softgpu_clock != Clock::Virtual
                || !load::loaded().is_some_and(Loaded::is_soft),
            process_began,
            contexts_seen: CONTEXTS_ENDED.load(Ordering::Relaxed),
        }
    }
}

impl Sampler {
    /// Up to `most` launches pass without a look; how many.
    #[inline(always)]
    pub(crate) fn look_away(&mut self, most: u32) -> u32 {
        if self.enabled { self.schedule.look_away(most) } else { most }
    }
}

/// A context is about to end: its events are gone with it.
pub(crate) fn context_ends() {
    CONTEXTS_ENDED.fetch_add(1, Ordering::Relaxed);
}

/// Before a launch: is it one to time? Then the first event is recorded.
#[inline(always)]
pub(crate) fn before(stream: u64, configuration: u64) -> Option<Sample> {
    let sampler = &mut thread::current()?.sampler;
    if !sampler.enabled || sampler.schedule.looks_away() || !sampler.schedule.is_due(configuration)
    {
        return None;
    }
    guard(|| begin(stream, configuration)).flatten()
}

#[cold]
fn begin(stream: u64, configuration: u64) -> Option<Sample> {
    let entered = time::ticks();
    let thread = thread::current()?;
    let sampler = &mut thread.sampler;
    if capture::any() || !gate::api::is_timed() {
        sampler.schedule.put_off(configuration);
        return None;
    }
    let young = sampler.schedule.is_young(configuration);
    let elapsed = entered.saturating_sub(sampler.process_began.ticks);
    if !is_affordable(elapsed, SPENT.load(Ordering::Relaxed), sampler.percent, young) {
        sampler.schedule.put_off(configuration);
        return None;
    }
    sampler.schedule.advance(configuration);
    let sample = collect(thread)
        .and_then(|context| free_pair(&mut thread.sampler, context))
        .map(|pair| Sample { pair, began: time::ticks() })
        .filter(|sample| record(thread.sampler.pairs[sample.pair].first, stream));
    spent(thread, entered);
    sample
}

/// Right after a launch: the second event is recorded.
#[cold]
pub(crate) fn after(sample: &Sample, launched: Launched) {
    let entered = time::ticks();
    guard(|| {
        let Some(thread) = thread::current() else { return };
        let Some(pair) = thread.sampler.pairs.get_mut(sample.pair) else { return };
        pair.taken = false;
        if record(pair.second, launched.stream) {
            let between = time::ticks().saturating_sub(sample.began);
            let recording = between.saturating_sub(launched.ended - launched.started);
            // SAFETY: an event of ours in the current context.
            let passed = unsafe { (driver().cuEventQuery)(pair.first) } != CUDA_ERROR_NOT_READY;
            let basis = if passed && thread.sampler.holds_wait {
                TimeBasis::EventPairIdle
            } else {
                TimeBasis::EventPair
            };
            let peace = gate::peace();
            pair.pending = Some(Pending { launched, basis, recording, peace });
            thread.sampler.pending += 1;
        }
        spent(thread, entered);
    });
}

/// After the program has waited for the GPU: times that have become known are written down.
#[inline(always)]
pub(crate) fn harvest() {
    let Some(thread) = thread::current() else { return };
    if thread.sampler.pending == 0 || capture::any() {
        return;
    }
    let entered = time::ticks();
    guard(|| collect(thread));
    spent(thread, entered);
}

/// Writes down what has become known in the current context, which it returns.
fn collect(thread: &mut Thread) -> Option<CUcontext> {
    let mut context = core::ptr::null_mut();
    // SAFETY: a valid place for the answer.
    unsafe { (driver().cuCtxGetCurrent)(&raw mut context) };
    if context.is_null() {
        return None;
    }
    let ended = CONTEXTS_ENDED.load(Ordering::Relaxed);
    let sampler = &mut thread.sampler;
    if sampler.contexts_seen != ended {
        sampler.contexts_seen = ended;
        sampler.pairs.clear();
        sampler.pending = 0;
    }
    for pair in sampler.pairs.iter_mut().filter(|pair| pair.context == context) {
        if pair.pending.is_none() {
            continue;
        }
        let mut millis = 0.0_f32;
        // SAFETY: events of ours in the current context and a valid place for the answer.
        let known = unsafe {
            (driver().cuEventQuery)(pair.second) == CUDA_SUCCESS
                && (driver().cuEventElapsedTime)(&raw mut millis, pair.first, pair.second)
                    == CUDA_SUCCESS
        };
        if known && let Some(Pending { launched, basis, recording, peace }) = pair.pending.take() {
            sampler.pending -= 1;
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
                let scale = Scale::between(sampler.process_began, Anchor::take());
                nanos = nanos.saturating_sub(scale.span(launched.ended - launched.started));
                hidden = nanos <= scale.span(recording);
            }
            let Launched { kernel, shape, .. } = launched;
            // A launch that another program came upon says how long it waited, not how long it takes.
            let undisturbed = gate::is_peace(peace);
            match (hidden, undisturbed) {
                (false, true) => gate::duration::learn(kernel, &shape, nanos),
                (false, false) => {
                    gate::duration::bound(kernel, &shape, nanos, gate::longest_wait_ns());
                }
                (true, _) => gate::duration::bound(kernel, &shape, nanos, nanos),
            }
            if undisturbed && basis == TimeBasis::EventPair && extras::has(Extra::Predictions) {
                predict::measured(kernel, &shape, nanos);
            }
            thread
                .writer
                .push(&Event { head, what: What::GpuTime { kernel, shape, nanos, basis } });
        }
    }
    Some(context)
}

/// A pair of this context with nothing pending; the oldest context's goes if there are too many.
fn free_pair(sampler: &mut Sampler, context: CUcontext) -> Option<usize> {
    let free = |pair: &Pair| pair.context == context && pair.pending.is_none() && !pair.taken;
    let found = sampler.pairs.iter().position(free).or_else(|| {
        (sampler.pairs.len() < MOST_PAIRS).then(|| new_pair(context))?.map(|pair| {
            sampler.pairs.push(pair);
            sampler.pairs.len() - 1
        })
    })?;
    sampler.pairs[found].taken = true;
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
