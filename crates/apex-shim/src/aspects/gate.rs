//! The gate before a launch: programs that share a GPU make way for each other here.
//!
//! A program takes part if it was given a class. It then has a slot on the page of its GPU
//! (`apex_core::gate_page`), where it says what it is doing. All that is decided, `apex_policy::gate` decides, as state
//! machines; here they have their words in memory, the clock, the page and the driver. Where it can, the GPU itself
//! waits, at fences in the program's streams ([`fence`]), and the program launches ahead; else the calling thread waits,
//! before it calls the driver ([`hold`]). No launch is copied or moved before another. What always holds:
//!
//! 1. Without a class none of this runs, and no launch looks here ([`crate::state::extras`]).
//! 2. Nobody waits for ever. What says "wait" counts only while it is fresh, and a launch that was held for the
//!    policy's patience goes. A part of ours that fails lets the launch through.
//! 3. Never held: the first launch of a kernel, collectives (others wait inside them), a stream whose events
//!    another process may wait for, and what is being captured, which runs nothing.

pub(crate) mod api;
mod attach;
mod barrier;
mod blocking;
mod burst;
mod events;
mod exempt;
mod fence;
mod hold;
mod notes;
mod peace;
mod priority;
mod program;
mod tally;
mod view;
mod watch;
mod wishes;
mod word;

use crate::state::{
    captures,
    process::guard,
    thread::{self, Thread},
};
use apex_core::KernelId;
use apex_core::event::LaunchShape;
use apex_core::gate_page::{Grant, Own};
use apex_core::time::monotonic_nanos;
use apex_cuda::types::{CUDA_SUCCESS, CUresult};
use attach::{GATES, here, is_on, stream_key};
use hold::Asking;
pub(crate) use notes::{copied, event_made, event_recorded, stream_made, stream_waits, waited};
pub(crate) use peace::{is_peace, longest_wait_ns, peace};
use program::Gate;
use std::sync::atomic::Ordering;
use tally::Tally;

/// A launch of a program that is gated.
pub(crate) struct Admitted {
    gate: &'static Gate,
    key: u64,
    predicted_ns: u64,
    filled_ns: u64,
}

/// Before a kernel goes down that did not go on at an open gate: waits until it may.
pub(crate) fn before(
    kernel: Option<KernelId>,
    stream: u64,
    shape: &LaunchShape,
    predicted_ns: u64,
) -> Option<Admitted> {
    let blocks = shape.grid.iter().map(|&side| u64::from(side.max(1))).product::<u64>();
    guard(|| ask(kernel, stream, u32::try_from(blocks).unwrap_or(u32::MAX), predicted_ns)).flatten()
}

/// Before a graph goes down. Its kernels are not looked into one by one: it is taken to fill the device.
pub(crate) fn before_graph(stream: u64, predicted_ns: u64) -> Option<Admitted> {
    guard(|| ask(Some(KernelId(0)), stream, u32::MAX, predicted_ns)).flatten()
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
    let tally = Tally::of(&mut thread.gate_room);
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
        let known = unsafe { tally.known.as_ref() };
        match known.filter(|known| tally.stream == stream && known.is_of(me)) {
            Some(known) if gate.bursts.is_open() => gate.at_work().count(known, true),
            Some(_) => return false,
            None => return gate.goes_on_elsewhere(thread, stream),
        }
    }
    tally.launches += 1;
    true
}

/// A launch of so many blocks asks; none is the first of its kernel.
fn ask(kernel: Option<KernelId>, stream: u64, blocks: u32, predicted_ns: u64) -> Option<Admitted> {
    let (gate, context, key) = here(stream)?;
    if captures::any() && captures::on(stream) {
        gate.add(Own::Exempt, 1);
        return None;
    }
    let thread = thread::current()?;
    if gate.has_bursts {
        let tally = Tally::of(&mut thread.gate_room);
        let launches = tally.stands_for(gate);
        tally.known = gate.at_work().touch(thread::number(), key, launches, predicted_ns);
        tally.stream = stream;
    }
    let filled_ns = predicted_ns * u64::from(blocks.min(gate.sms)) / u64::from(gate.sms.max(1));
    if !gate.is_gated() {
        let tally = Tally::of(&mut thread.gate_room);
        tally.launches += 1;
        if tally.launches >= tally::TELL_EVERY {
            gate.tell(tally, predicted_ns, filled_ns);
        }
        tally.looked(gate);
        return None;
    }
    match kernel {
        Some(kernel) if !exempt::is_exempt(kernel, stream) => {
            gate.hold(Asking { predicted_ns, stream, key, context });
        }
        _ => gate.add(Own::Exempt, 1),
    }
    Some(Admitted { gate, key, predicted_ns, filled_ns })
}

fn launched(admitted: &Admitted, stream: u64) {
    let &Admitted { gate, key, predicted_ns, filled_ns } = admitted;
    let Some(thread) = thread::current() else { return };
    let context = thread.context;
    let tally = Tally::of(&mut thread.gate_room);
    tally.launches += 1;
    gate.tell(tally, predicted_ns, filled_ns);
    let budget = gate.page.grant(gate.slot, Grant::BudgetNs);
    let now = monotonic_nanos();
    if gate.flight.launched(&gate.streams, key, predicted_ns, budget, now)
        && !captures::any()
        && !gate.fences.serve(context)
    {
        gate.events.learn(&gate.streams, &gate.flight, context, now);
        let is_put = gate.events.put(&gate.streams, key, stream, context);
        gate.add(Own::Marks, is_put.into());
    }
    gate.tell_flight(now);
}

impl Gate {
    /// As [`goes_on`], on another stream than that of the thread's last launch, or on one on which several
    /// threads launch.
    #[inline(never)]
    fn goes_on_elsewhere(&self, thread: &mut Thread, stream: u64) -> bool {
        let known = self.streams.find(stream_key(stream, thread.context, thread));
        let Some(known) = known.filter(|_| self.bursts.is_open()) else { return false };
        let tally = Tally::of(&mut thread.gate_room);
        (tally.known, tally.stream) = (known, stream);
        tally.launches += 1;
        self.at_work().count(known, known.is_of(thread::number()));
        true
    }
}

/// How many of the thread's next launches may go before the gate is looked at.
#[inline(always)]
pub(crate) fn may_go_unseen(thread: &mut Thread) -> u32 {
    Tally::of(&mut thread.gate_room).may_go_unseen()
}

/// Whether the gate counts each launch of the thread.
#[inline(always)]
pub(crate) fn counts_each(thread: &mut Thread) -> bool {
    Tally::of(&mut thread.gate_room).is_in_burst()
}

/// So many launches of the thread pass by unseen.
#[inline(always)]
pub(crate) fn passed_unseen(thread: &mut Thread, launches: u32) {
    Tally::of(&mut thread.gate_room).launches += launches;
}

/// A thread ends: what it has not told yet is told.
pub(crate) fn thread_ends(thread: &mut Thread) {
    Tally::of(&mut thread.gate_room).end();
}

/// A kernel got its number.
pub(crate) fn named(kernel: u32, name: &str) {
    exempt::named(kernel, name);
}

/// A context is about to end: its events are gone with it.
pub(crate) fn context_ends() {
    if is_on() {
        for gate in &GATES {
            // SAFETY: null or a leaked box.
            if let Some(gate) = unsafe { gate.load(Ordering::Acquire).as_ref() } {
                gate.events.forget();
                gate.fences.forget(&gate.page, gate.slot);
                gate.at_work().forget();
                let now = monotonic_nanos();
                gate.flight.waited(now);
                gate.tell_flight(now);
            }
        }
    }
}

/// In a forked child: the slot is its parent's.
pub(crate) fn forget() {
    attach::forget();
    exempt::forget();
}
