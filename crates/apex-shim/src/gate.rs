//! The gate before a launch: programs that share a GPU make way for each other here.
//!
//! A program takes part if it was given a class. It then has a slot on the page of its GPU
//! (`apex_core::gate_page`), where it says what it is doing, and asks `apex_policy::schedule::admit` before a
//! launch whether it may go. Where it can, the GPU itself waits, at fences in the program's streams ([`fence`]), and
//! the program launches ahead; else the calling thread waits, before it calls the driver ([`hold`]). No launch is
//! copied or moved before another. What always holds:
//!
//! 1. Without a class none of this runs, and no launch looks here ([`crate::extras`]).
//! 2. Nobody waits for ever. What says "wait" counts only while it is fresh, and a launch that was held for the
//!    policy's patience goes. A part of ours that fails lets the launch through.
//! 3. Never held: the first launch of a kernel, collectives (others wait inside them), a stream whose events
//!    another process may wait for, and what is being captured, which runs nothing.

pub(crate) mod api;
mod attach;
mod barrier;
mod burst;
pub(crate) mod duration;
mod exempt;
mod fence;
mod flight;
mod hold;
mod lanes;
mod notes;
mod pressure;
mod priority;
mod tally;
mod view;
mod watch;

use crate::extras::{self, Extra, Extras};
use crate::process::guard;
use crate::thread::Thread;
use crate::{capture, thread};
use apex_core::KernelId;
use apex_core::event::LaunchShape;
use apex_core::gate_page::{Grant, Own, Page};
use apex_core::time::monotonic_nanos;
use apex_cuda::types::{CUDA_SUCCESS, CUresult};
use apex_policy::schedule::{Class, Kind, Work};
use attach::{GATES, here, stream_key};
use burst::Bursts;
use fence::Fences;
use flight::Flight;
pub(crate) use notes::{copied, event_made, event_recorded, stream_made, stream_waits, waited};
use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use tally::Tally;
pub(crate) use view::{is_peace, longest_wait_ns, peace};

/// This program at one GPU. What a launch reads at an open gate lies in its first line of memory.
#[repr(C, align(64))]
pub(crate) struct Gate {
    gated: &'static AtomicU64,
    has_bursts: bool,
    class: Class,
    sms: u32,
    bursts: Bursts,
    page: Page,
    slot: usize,
    claim: u64,
    flight: Flight,
    fences: Fences,
    /// By how much sleeps end too late.
    late_ns: AtomicU64,
    /// The page's wake word when the guard after a burst was last seen to be over, plus one.
    guard_over: AtomicU64,
}

/// A launch of a program that is gated.
pub(crate) struct Admitted {
    gate: &'static Gate,
    key: u64,
    predicted_ns: u64,
    filled_ns: u64,
}

/// Whether launches of this process are seen here.
#[inline(always)]
fn is_on() -> bool {
    extras::has(Extra::Gate)
}

/// Before a kernel goes down: waits until it may.
#[inline(never)]
pub(crate) fn before(
    extras: Extras,
    kernel: Option<KernelId>,
    stream: u64,
    shape: &LaunchShape,
    kind: Kind,
) -> Option<Admitted> {
    if !extras.captures() && goes_on(stream) {
        return None;
    }
    guard(|| ask(kernel, stream, shape, kind, 1)).flatten()
}

/// Before a graph goes down; `shape.grid[0]` is its number.
pub(crate) fn before_graph(stream: u64, shape: &LaunchShape, nodes: u64) -> Option<Admitted> {
    if !is_on() {
        return None;
    }
    guard(|| ask(Some(KernelId(0)), stream, shape, Kind::Graph, nodes)).flatten()
}

/// The driver has answered.
#[inline(always)]
pub(crate) fn after(admitted: Option<Admitted>, stream: u64, result: CUresult) {
    if let Some(admitted) = admitted
        && result == CUDA_SUCCESS
    {
        guard(|| launched(&admitted, stream));
    }
}

/// The open gate: nobody asks this program to wait, and of its launches one in so many is looked at. The others
/// are counted here and may go as if there were no gate. Not for launches while something is captured.
#[inline(always)]
pub(crate) fn goes_on(stream: u64) -> bool {
    let Some(thread) = thread::current_if_started() else { return false };
    let me = (&raw const *thread) as u64;
    let tally = &mut thread.tally;
    if tally.launches >= tally.look_at {
        return false;
    }
    // SAFETY: null or a leaked box.
    let Some(gate) = (unsafe { tally.gate.as_ref() }) else { return false };
    if !gate.is_left_alone() {
        return false;
    }
    if gate.has_bursts {
        // SAFETY: null or part of a leaked box.
        let lane = unsafe { tally.lane.as_ref() };
        match lane.filter(|lane| tally.stream == stream && lane.is_of(me)) {
            Some(lane) if gate.bursts.is_open() => {
                gate.bursts.count(&gate.page, gate.slot, lane, true);
            }
            Some(_) => return false,
            None => return gate.goes_on_elsewhere(thread, stream),
        }
    }
    tally.launches += 1;
    true
}

fn ask(
    kernel: Option<KernelId>,
    stream: u64,
    shape: &LaunchShape,
    kind: Kind,
    nodes: u64,
) -> Option<Admitted> {
    let (gate, context, key) = here(stream)?;
    if capture::any() && capture::on(stream) {
        gate.add(Own::Exempt, 1);
        return None;
    }
    let number = kernel.unwrap_or_default();
    let predicted_ns = duration::predicted_ns(number, shape, nodes);
    let work = describe(gate, number, shape, kind, predicted_ns);
    let thread = thread::current()?;
    if gate.has_bursts {
        let launches = thread.tally.stands_for(gate);
        thread.tally.lane = gate.bursts.touch(&gate.page, gate.slot, key, launches, &work);
        thread.tally.stream = stream;
    }
    let filled_ns = predicted_ns * u64::from(work.sms_needed) / u64::from(gate.sms.max(1));
    if !gate.is_gated() {
        let tally = &mut thread.tally;
        tally.launches += 1;
        if tally.launches >= tally::TELL_EVERY {
            gate.tell(tally, predicted_ns, filled_ns);
        }
        tally.looked(gate);
        return None;
    }
    if kernel.is_none() || exempt::is_exempt(number, stream) {
        gate.add(Own::Exempt, 1);
    } else {
        gate.hold(&work, stream, key, context);
    }
    Some(Admitted { gate, key, predicted_ns, filled_ns })
}

fn launched(admitted: &Admitted, stream: u64) {
    let &Admitted { gate, key, predicted_ns, filled_ns } = admitted;
    let Some(thread) = thread::current() else { return };
    let context = thread.context;
    thread.tally.launches += 1;
    gate.tell(&mut thread.tally, predicted_ns, filled_ns);
    let budget = gate.page.grant(gate.slot, Grant::BudgetNs);
    let now = monotonic_nanos();
    if gate.flight.launched(key, predicted_ns, budget, now)
        && !capture::any()
        && !gate.fences.serve(context)
        && gate.flight.mark(key, stream, context, now)
    {
        gate.add(Own::Marks, 1);
    }
    gate.tell_flight(now);
}

/// What the policy is asked about.
fn describe(
    gate: &Gate,
    kernel: KernelId,
    shape: &LaunchShape,
    kind: Kind,
    predicted_ns: u64,
) -> Work {
    if kind == Kind::Graph {
        // Its kernels are not looked into one by one: it is taken to fill the device, as one piece.
        let bottleneck = pressure::of_graph(shape.grid[0]);
        let (block_ns, sms_needed) = (predicted_ns, gate.sms);
        return Work { predicted_ns, block_ns, sms_needed, bottleneck, kind };
    }
    let blocks = shape.grid.iter().map(|&side| u64::from(side.max(1))).product::<u64>();
    let threads = shape.block.iter().map(|&side| u64::from(side.max(1))).product::<u64>();
    let sms_needed = u32::try_from(blocks).unwrap_or(u32::MAX).min(gate.sms);
    // As many blocks at once as threads allow: registers and shared memory may allow fewer, so there are at
    // least so many waves, and a block takes at most so long.
    let resident = u64::from(gate.sms.max(1)) * (2048 / threads.max(1)).clamp(1, 32);
    let block_ns = predicted_ns / blocks.div_ceil(resident).max(1);
    let bottleneck = pressure::of_kernel(kernel.0);
    Work { predicted_ns, block_ns, sms_needed, bottleneck, kind }
}

impl Gate {
    /// The one word that an open gate is known by.
    #[inline(always)]
    fn is_left_alone(&self) -> bool {
        self.gated.load(Ordering::Relaxed) == 0
    }

    #[inline(always)]
    fn is_gated(&self) -> bool {
        self.page.grant(self.slot, Grant::Gated) != 0
            && self.page.grant(self.slot, Grant::Claim) == self.claim
    }

    /// As [`goes_on`], on another stream than that of the thread's last launch, or on one on which several
    /// threads launch.
    #[inline(never)]
    fn goes_on_elsewhere(&self, thread: &mut Thread, stream: u64) -> bool {
        let lane = self.bursts.lanes.find(stream_key(stream, thread.context, thread));
        let Some(lane) = lane.filter(|_| self.bursts.is_open()) else { return false };
        (thread.tally.lane, thread.tally.stream) = (lane, stream);
        self.bursts.count(&self.page, self.slot, lane, lane.is_of(thread::number()));
        thread.tally.launches += 1;
        true
    }

    fn add(&self, word: Own, more: u64) {
        self.page.own(self.slot, word).fetch_add(more, Ordering::Relaxed);
    }

    /// Tells the page of all launches since the last time; the last one stands for all.
    fn tell(&self, tally: &mut Tally, predicted_ns: u64, filled_ns: u64) {
        let launches = u64::from(core::mem::take(&mut tally.launches));
        self.add(Own::Launches, launches);
        self.add(Own::AdmittedNs, predicted_ns.saturating_mul(launches));
        self.add(Own::FilledNs, filled_ns.saturating_mul(launches));
    }

    fn tell_flight(&self, now: u64) {
        let store = |word, value| self.page.own(self.slot, word).store(value, Ordering::Relaxed);
        store(Own::InFlightNs, self.flight.left_ns());
        store(Own::InFlightAt, now);
    }
}

/// A kernel got its number.
pub(crate) fn named(kernel: u32, name: &str) {
    exempt::named(kernel, name);
    pressure::named(kernel, name);
}

/// A graph was made ready, of so many launches of each kernel.
pub(crate) fn graph_made(graph: u32, kernels: impl Iterator<Item = (u32, u64)>) {
    pressure::graph_made(graph, kernels);
}

/// A context is about to end: its events are gone with it.
pub(crate) fn context_ends() {
    if is_on() {
        for gate in &GATES {
            // SAFETY: null or a leaked box.
            if let Some(gate) = unsafe { gate.load(Ordering::Acquire).as_ref() } {
                gate.flight.forget();
                gate.fences.forget(&gate.page, gate.slot);
                gate.bursts.forget(&gate.page, gate.slot);
                gate.tell_flight(monotonic_nanos());
            }
        }
    }
}

/// In a forked child: the slot is its parent's.
pub(crate) fn forget() {
    attach::forget();
    duration::forget();
    pressure::forget();
    exempt::forget();
}
