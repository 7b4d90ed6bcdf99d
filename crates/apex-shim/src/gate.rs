//! The gate before a launch: programs that share a GPU make way for each other here.
//!
//! A program takes part if it was given a class. It then has a slot on the page of its GPU
//! (`apex_core::gate_page`), where it says what it is doing, and asks `apex_policy::schedule::admit` before a
//! launch whether it may go. It is the calling thread that waits, before it calls the driver: no launch is
//! copied, queued or moved before another. What always holds:
//!
//! 1. Without a class none of this runs, and no launch looks here ([`crate::extras`]).
//! 2. Nobody waits for ever. What says "wait" counts only while it is fresh, and a launch that was held for the
//!    policy's patience goes. A part of ours that fails lets the launch through.
//! 3. Never held: the first launch of a kernel, collectives (others wait inside them), a stream whose events
//!    another process may wait for, and what is being captured, which runs nothing.

pub(crate) mod api;
mod barrier;
mod burst;
pub(crate) mod duration;
mod flight;
mod pressure;
mod priority;

use crate::exports::driver;
use crate::extras::{self, Extra, Extras};
use crate::process::{guard, knobs, log_line};
use crate::record::PER_THREAD_STREAM;
use crate::thread::Thread;
use crate::{capture, contexts, thread};
use apex_core::KernelId;
use apex_core::event::LaunchShape;
use apex_core::gate_page::{self, Files, Grant, Own, Page, Setting, Shared};
use apex_core::time::monotonic_nanos;
use apex_cuda::types::{CUDA_SUCCESS, CUcontext, CUdevice, CUresult};
use apex_policy::schedule::Bottleneck;
use apex_policy::schedule::{
    Admission, Class, Kind, Limits, Reason, STALE_NS, Sla, View, Work, admit,
};
use burst::{Bursts, Lane};
use flight::Flight;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// A thread spins so long before it sleeps.
const SPIN_NS: u64 = 20_000;
/// No sleep is shorter than what the kernel makes of it.
const SLEEP_NS: u64 = 60_000;
/// No sleep is longer, so that whatever fails is seen.
const LONGEST_SLEEP_NS: u64 = 1_000_000;
/// Launches that a thread counts before it tells the page, while nobody asks.
const TELL_EVERY: u32 = 16;
const DEVICES: usize = 16;

static GATES: [AtomicPtr<Gate>; DEVICES] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; DEVICES];
/// Devices whose gate could not be had, a bit each.
static REFUSED: AtomicU64 = AtomicU64::new(0);

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
    /// The page's wake word when the guard after a burst was last seen to be over, plus one.
    guard_over: AtomicU64,
}

/// A thread at the gate: which one, and what it has launched and not yet told the page. In one line of memory.
#[repr(C, align(32))]
pub(crate) struct Tally {
    /// The gate of the GPU whose context is current; null if it is to be looked for.
    gate: *const Gate,
    /// The stream of the last launch, and its lane of the gate's bursts; null where there are none.
    lane: *const Lane,
    stream: u64,
    launches: u32,
    /// The launch at which the gate is looked at; those before are only counted. 0 says at the next one.
    look_at: u32,
}

impl Default for Tally {
    fn default() -> Tally {
        let (gate, lane) = (core::ptr::null(), core::ptr::null());
        Tally { gate, lane, stream: 0, launches: 0, look_at: 0 }
    }
}

impl Tally {
    /// The thread's context may be another now.
    pub(crate) fn context_changes(&mut self) {
        *self = Tally { launches: self.launches, ..Tally::default() };
    }

    /// This thread has looked at the gate, for a launch that is counted already.
    fn looked(&mut self, gate: &Gate) {
        let apart = if gate.has_bursts { burst::TELL_EVERY } else { TELL_EVERY };
        self.look_at = self.launches + apart - 1;
    }

    /// Launches that were only counted since the last look, and the one that looks.
    fn stands_for(&self, gate: &Gate) -> u32 {
        if !gate.has_bursts || self.look_at == 0 {
            return 1;
        }
        (self.launches + burst::TELL_EVERY).saturating_sub(self.look_at).clamp(1, burst::TELL_EVERY)
    }

    /// How many of the thread's next launches may go before the gate is looked at.
    #[inline(always)]
    pub(crate) fn may_go_unseen(&self) -> u32 {
        // SAFETY: null or a leaked box.
        match unsafe { self.gate.as_ref() } {
            Some(gate) if !gate.is_left_alone() => 0,
            Some(gate) if gate.has_bursts => self.look_at.saturating_sub(self.launches),
            Some(_) => u32::MAX,
            None => 0,
        }
    }

    /// Whether the gate counts each launch of the thread.
    #[inline(always)]
    pub(crate) fn is_in_burst(&self) -> bool {
        !self.lane.is_null()
    }

    /// Tells what was not told yet: the thread ends, or has waited.
    pub(crate) fn end(&mut self) {
        // SAFETY: null or a leaked box.
        if let Some(gate) = unsafe { self.gate.as_ref() }.filter(|_| self.launches > 0) {
            let mean = duration::mean_ns();
            gate.tell(self, mean, mean);
            self.look_at = 0;
        }
    }

    /// So many launches pass by unseen.
    #[inline(always)]
    pub(crate) fn passed(&mut self, launches: u32) {
        self.launches += launches;
    }
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
        if tally.launches >= TELL_EVERY {
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
        && gate.flight.mark(key, stream, context)
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

/// This thread's gate, context, and the key of a stream of it.
fn here(stream: u64) -> Option<(&'static Gate, CUcontext, u64)> {
    let thread = thread::current()?;
    contexts::follow(thread);
    let (device, context) = (thread.device, thread.context);
    let key = stream_key(stream, context, thread);
    let gate = match GATES.get(usize::from(device)) {
        // SAFETY: null or a leaked box.
        Some(gate) => unsafe { gate.load(Ordering::Acquire).as_ref() },
        None => return None,
    };
    let gate = gate.or_else(|| attach(device))?;
    if let Some(thread) = thread::current() {
        thread.tally.gate = gate;
    }
    Some((gate, context, key))
}

/// Streams by one number that is never zero: the default stream belongs to its context, the per-thread one to
/// its thread.
fn stream_key(stream: u64, context: CUcontext, thread: &Thread) -> u64 {
    match stream {
        0 | 1 => context as u64 | 1,
        PER_THREAD_STREAM => (&raw const *thread) as u64 | 2,
        other => other,
    }
}

/// The key of this thread's own default stream.
fn own_key() -> Option<u64> {
    let thread = thread::current()?;
    Some(stream_key(PER_THREAD_STREAM, thread.context, thread))
}

#[cold]
fn attach(device: u8) -> Option<&'static Gate> {
    let bit = 1 << device.min(63);
    if !is_on() || REFUSED.load(Ordering::Relaxed) & bit != 0 {
        return None;
    }
    match open(device) {
        Ok(gate) => {
            let gate = Box::into_raw(Box::new(gate));
            let place = &GATES[usize::from(device)];
            let null = core::ptr::null_mut();
            // SAFETY: just made, or the box of the thread that was first; neither is ever dropped.
            unsafe {
                match place.compare_exchange(null, gate, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => gate.as_ref(),
                    Err(first) => first.as_ref(),
                }
            }
        }
        Err(sentence) => {
            REFUSED.fetch_or(bit, Ordering::Relaxed);
            log_line(&format!("this program is not scheduled: {sentence}"));
            None
        }
    }
}

fn open(device: u8) -> Result<Gate, String> {
    let knobs = knobs();
    let class: Class = knobs.class.as_deref().unwrap_or("normal").parse()?;
    let sla: Option<Sla> = knobs.sla.as_deref().map(str::parse).transpose()?;
    let directory =
        knobs.gate.as_deref().ok_or("APEX_GATE names no directory; start it with apex run")?;
    let files = Files::of(directory, &uuid(device)?);
    gate_page::check_directory(directory).map_err(|error| error.to_string())?;
    // Where a daemon owns the directory the files are there already.
    files.create(0o600, 0o600).map_err(|error| error.to_string())?;
    let page = Page::map(&files).map_err(|error| error.to_string())?;
    let slot = page.claim(std::process::id()).ok_or("all slots of this GPU are taken")?;
    let mut sms = 0;
    // SAFETY: a valid place for the answer; 16 asks for the number of multiprocessors.
    unsafe { (driver().cuDeviceGetAttribute)(&raw mut sms, 16, CUdevice::from(device)) };
    let sms = u32::try_from(sms).unwrap_or(0).max(1);
    let own = |word, value| page.own(slot, word).store(value, Ordering::Relaxed);
    let session = knobs.rings.as_deref().map_or(0, gate_page::session_number);
    own(Own::Session, session);
    own(Own::ShareMilli, (knobs.share * 1_000.0) as u64);
    if let Some(sla) = sla {
        own(Own::SlaNs, sla.limit_ns);
        own(Own::SlaMicro, (f64::from(sla.quantile) * 1e6) as u64);
    }
    api::wishes(own);
    own(Own::Since, monotonic_nanos());
    own(Own::Class, class as u64 + 1);
    if class == Class::Latency {
        priority::raise();
    }
    page.shared(Shared::Sms).store(u64::from(sms), Ordering::Relaxed);
    Ok(Gate {
        gated: page.gated_word(slot),
        page,
        slot,
        claim: page.own(slot, Own::Claim).load(Ordering::Relaxed),
        class,
        sms,
        has_bursts: class >= Class::Normal,
        bursts: Bursts::new(),
        flight: Flight::new(),
        guard_over: AtomicU64::new(0),
    })
}

fn uuid(device: u8) -> Result<String, String> {
    // SAFETY: an all-zero UUID is a valid place for the answer.
    let mut uuid: apex_cuda::types::CUuuid = unsafe { core::mem::zeroed() };
    // SAFETY: a valid place for the answer.
    let result = unsafe { (driver().cuDeviceGetUuid)(&raw mut uuid, CUdevice::from(device)) };
    if result != CUDA_SUCCESS {
        return Err("its GPU has no UUID".into());
    }
    Ok(uuid.bytes.iter().map(|byte| format!("{:02x}", *byte as u8)).collect())
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

    /// A note of a copy or an event does not say which default stream is meant: the thread's own, if it has used that.
    fn named_by(&self, stream: u64, key: u64) -> u64 {
        let own = own_key().filter(|&own| stream == 0 && self.bursts.find(own).is_some());
        own.unwrap_or(key)
    }

    /// As [`goes_on`], on another stream than that of the thread's last launch, or on one on which several
    /// threads launch.
    #[inline(never)]
    fn goes_on_elsewhere(&self, thread: &mut Thread, stream: u64) -> bool {
        let lane = self.bursts.find(stream_key(stream, thread.context, thread));
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

    /// Waits until the work may go.
    fn hold(&self, work: &Work, stream: u64, key: u64, context: CUcontext) {
        if self.surely_goes(work) {
            return;
        }
        let began = monotonic_nanos();
        let mut held = false;
        let mut now = began;
        let (view, harm_ns) = loop {
            let seen = self.page.wake_word();
            let view = self.view(now, now - began);
            match admit(&view, work) {
                Admission::Go { harm_ns } => {
                    if !view.burst_open && view.idle_ns >= view.limits.guard_ns {
                        self.guard_over.store(u64::from(seen) + 1, Ordering::Relaxed);
                    }
                    break (view, harm_ns);
                }
                Admission::Wait(reason) => {
                    if reason == Reason::InFlight && self.look(stream, key, context, now) {
                        now = monotonic_nanos();
                        continue;
                    }
                    if !held {
                        held = true;
                        self.add(Own::Holds, 1);
                        self.add(Own::HeldNow, 1);
                    }
                    self.rest(&view, work, reason, seen);
                }
            }
            now = monotonic_nanos();
        };
        if harm_ns > 0 {
            self.page.shared(Shared::HarmNs).fetch_add(harm_ns, Ordering::Relaxed);
            self.add(Own::Beside, 1);
        }
        let leads = view.controller_age_ns <= STALE_NS;
        if !leads {
            self.add(Own::FailedOpen, 1);
        }
        if held {
            self.add(Own::HeldNow, u64::MAX);
            self.add(Own::WaitedNs, now - began);
            if leads && view.waited_ns >= view.limits.patience_ns {
                self.add(Own::Overdue, 1);
            }
        }
    }

    /// The open gate: no burst that it yields to, the guard after the last one over, and room in the budget.
    /// Then [`admit`] says go whatever the clock says.
    #[inline(always)]
    fn surely_goes(&self, work: &Work) -> bool {
        let limit = |word| self.page.grant(self.slot, word);
        let open = self.page.shared(Shared::BurstsOpen).load(Ordering::Relaxed);
        let over = self.guard_over.load(Ordering::Relaxed);
        if open & limit(Grant::YieldsTo) != 0 || over != u64::from(self.page.wake_word()) + 1 {
            return false;
        }
        let others = self.page.setting(Setting::GatedSlots) & !(1 << self.slot);
        let mut in_flight = self.flight.left_ns() + work.predicted_ns;
        for slot in bits(others) {
            in_flight += self.page.own(slot, Own::InFlightNs).load(Ordering::Relaxed);
        }
        let admitted = self.page.own(self.slot, Own::AdmittedNs).load(Ordering::Relaxed);
        in_flight <= limit(Grant::BudgetNs) && admitted < limit(Grant::AllowedNs)
    }

    /// Looks for work of ours that is done; puts an event behind it if there is none to look for.
    fn look(&self, stream: u64, key: u64, context: CUcontext, now: u64) -> bool {
        if capture::any() {
            return self.flight.expire(now);
        }
        if !self.flight.is_due(now) {
            return false;
        }
        if !self.flight.has_events() && self.flight.mark(key, stream, context) {
            self.add(Own::Marks, 1);
        }
        let progress = self.flight.refresh(context, now);
        if progress {
            self.tell_flight(now);
        }
        progress
    }

    /// Gives up the processor until it is worth looking again; for a short time it is not given up.
    fn rest(&self, view: &View, work: &Work, reason: Reason, seen: u32) {
        let limits = &view.limits;
        let time = match reason {
            // The end of a burst wakes it.
            Reason::Burst => view.burst_left_ns.clamp(SLEEP_NS, LONGEST_SLEEP_NS),
            Reason::Guard => limits.guard_ns.saturating_sub(view.idle_ns),
            Reason::InFlight => {
                let wanted = view.in_flight_ns.saturating_add(work.predicted_ns);
                let over = wanted.saturating_sub(limits.budget_ns);
                // The GPU must not run dry while this thread wakes up.
                over.min(view.in_flight_ns).saturating_sub(SLEEP_NS)
            }
            Reason::Gap => SLEEP_NS,
            Reason::Share => 10 * SLEEP_NS,
        };
        if view.waited_ns < SPIN_NS || time < SLEEP_NS {
            for _ in 0..64 {
                core::hint::spin_loop();
            }
        } else {
            self.page.sleep(seen, time.min(LONGEST_SLEEP_NS));
        }
    }

    fn view(&self, now: u64, waited_ns: u64) -> View {
        let page = &self.page;
        let limits = self.limits();
        let mut view = View {
            limits,
            controller_age_ns: now.saturating_sub(page.setting(Setting::Heartbeat)),
            burst_open: false,
            idle_ns: u64::MAX,
            burst_left_ns: 0,
            next_burst_ns: u64::MAX,
            burst_bottleneck: Bottleneck::Unknown,
            burst_sms: 0,
            device_sms: self.sms,
            in_flight_ns: 0,
            harm_ns: page.shared(Shared::HarmNs).load(Ordering::Relaxed),
            admitted_ns: page.own(self.slot, Own::AdmittedNs).load(Ordering::Relaxed),
            waited_ns,
        };
        let open = page.shared(Shared::BurstsOpen).load(Ordering::Relaxed);
        for slot in bits(limits.yields_to & !(1 << self.slot)) {
            let load = |word| page.own(slot, word).load(Ordering::Relaxed);
            let since = |then: u64| now.saturating_sub(then);
            if open >> slot & 1 != 0 && is_believed(page, slot, now) {
                view.burst_open = true;
                let usual = load(Own::UsualBurstNs);
                // One that is overdue may end at any time, or not.
                let left = usual.checked_sub(since(load(Own::BurstStart))).unwrap_or(u64::MAX);
                view.burst_left_ns = view.burst_left_ns.max(left);
                view.burst_sms += u32::try_from(load(Own::Sms)).unwrap_or(0).min(self.sms);
                view.burst_bottleneck = Bottleneck::from_code(load(Own::Bottleneck) as u8);
            } else {
                view.idle_ns = view.idle_ns.min(since(load(Own::IdleSince)));
                let next = load(Own::NextBurstAt);
                if next > now {
                    view.next_burst_ns = view.next_burst_ns.min(next - now);
                }
            }
        }
        view.burst_sms = view.burst_sms.min(self.sms);
        self.flight.count(now, !view.burst_open);
        let others = page.setting(Setting::GatedSlots) & !(1 << self.slot);
        view.in_flight_ns = self.flight.left_ns().saturating_add(in_flight_of(page, others, now));
        view
    }

    fn limits(&self) -> Limits {
        let word = |word| self.page.grant(self.slot, word);
        Limits {
            open: !self.is_gated(),
            yields_to: word(Grant::YieldsTo),
            budget_ns: word(Grant::BudgetNs),
            beside_budget_ns: word(Grant::BesideBudgetNs),
            beside_harm_ns: word(Grant::BesideHarmNs),
            beside_block_ns: word(Grant::BesideBlockNs),
            guard_ns: word(Grant::GuardNs),
            early_ns: word(Grant::EarlyNs),
            allowed_ns: word(Grant::AllowedNs),
            owed_ns: word(Grant::OwedNs),
            patience_ns: word(Grant::PatienceNs),
        }
    }
}

/// Whether an open burst counts: the controller has just seen its program alive, and it did something not
/// long ago, by the length of what it launched.
fn is_believed(page: &Page, slot: usize, now: u64) -> bool {
    let load = |word| page.own(slot, word).load(Ordering::Relaxed);
    let alive = now.saturating_sub(page.grant(slot, Grant::AliveNs)) <= STALE_NS;
    let quiet = now.saturating_sub(load(Own::LastActivity).max(load(Own::BurstStart)));
    let most = load(Own::BurstPredicted).max(load(Own::UsualBurstNs)).min(1_000_000_000);
    alive && page.grant(slot, Grant::Claim) == load(Own::Claim) && quiet <= STALE_NS + 2 * most
}

/// Predicted time that programs in these slots have in flight.
fn in_flight_of(page: &Page, slots: u64, now: u64) -> u64 {
    let in_flight = |slot| {
        let load = |word| page.own(slot, word).load(Ordering::Relaxed);
        gate_page::believed_in_flight(load(Own::InFlightNs), load(Own::InFlightAt), now)
    };
    bits(slots).map(in_flight).fold(0, u64::saturating_add)
}

#[inline(always)]
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let slot = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(slot)
    })
}

/// The program has waited for a stream, for an event, or (with neither) for everything.
pub(crate) fn waited(stream: Option<u64>, event: Option<u64>) {
    if !is_on() {
        return;
    }
    guard(|| {
        let (gate, _, key) = here(stream.unwrap_or(0))?;
        let Gate { page, slot, bursts, flight, .. } = gate;
        match event {
            Some(event) => bursts.waited_event(page, *slot, event),
            None => {
                // Where the default stream is named, it may be the thread's own; and the one for all has
                // waited for that too.
                let own = stream.filter(|&stream| stream <= 1).and_then(|_| own_key());
                let keys = [stream.map(|_| key), own];
                for &key in &keys[..1 + usize::from(own.is_some())] {
                    flight.waited(key, monotonic_nanos());
                    bursts.waited(page, *slot, key);
                }
            }
        }
        thread::current()?.tally.end();
        gate.tell_flight(monotonic_nanos());
        Some(())
    });
}

/// Memory was copied: an input copy opens a burst, and a copy out that the program waited for ends one.
pub(crate) fn copied(to_host: bool, stream: Option<u64>) {
    if !is_on() || capture::any() {
        return;
    }
    if to_host && stream.is_none() {
        return waited(Some(0), None);
    }
    guard(|| {
        let stream = stream.unwrap_or(0);
        let (gate, _, key) = here(stream)?;
        if gate.has_bursts {
            let key = gate.named_by(stream, key);
            gate.bursts.touch(&gate.page, gate.slot, key, 0, &Work::default());
        }
        Some(())
    });
}

/// An event was made; one that another process may open is kept in mind.
pub(crate) fn event_made(event: u64, flags: u32) {
    const INTERPROCESS: u32 = 4;
    if flags & INTERPROCESS != 0 {
        exempt::share_event(event);
    }
}

/// An event was recorded on a stream.
pub(crate) fn event_recorded(event: u64, stream: u64) {
    exempt::recorded(event, stream);
    if is_on() {
        guard(|| {
            let (gate, _, key) = here(stream)?;
            if gate.has_bursts {
                gate.bursts.recorded(event, gate.named_by(stream, key));
            }
            Some(())
        });
    }
}

/// A stream waits for an event.
pub(crate) fn stream_waits(stream: u64, event: u64) {
    if is_on() {
        guard(|| {
            let (gate, _, key) = here(stream)?;
            if gate.has_bursts {
                gate.bursts.joins(gate.named_by(stream, key), event);
            }
            Some(())
        });
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
                gate.bursts.forget(&gate.page, gate.slot);
                gate.tell_flight(monotonic_nanos());
            }
        }
    }
}

/// In a forked child: the slot is its parent's.
pub(crate) fn forget() {
    REFUSED.store(0, Ordering::Relaxed);
    GATES.iter().for_each(|gate| gate.store(core::ptr::null_mut(), Ordering::Release));
    duration::forget();
    pressure::forget();
    exempt::forget();
}

/// What is never held.
mod exempt {
    use super::{AtomicU64, KernelId, Ordering};

    /// One bit for each kernel that is a collective.
    static COLLECTIVES: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
    /// Events that another process may wait for, and the streams they were recorded on.
    static EVENTS: [AtomicU64; 32] = [const { AtomicU64::new(0) }; 32];
    static STREAMS: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

    pub(super) fn named(kernel: u32, name: &str) {
        if name.contains("nccl") || name.contains("nvshmem") {
            let word = &COLLECTIVES[kernel as usize / 64 % COLLECTIVES.len()];
            word.fetch_or(1 << (kernel % 64), Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(super) fn is_exempt(kernel: KernelId, stream: u64) -> bool {
        let word = COLLECTIVES[kernel.0 as usize / 64 % COLLECTIVES.len()].load(Ordering::Relaxed);
        word >> (kernel.0 % 64) & 1 != 0
            || (STREAMS[0].load(Ordering::Relaxed) != 0 && holds(&STREAMS, stream + 1))
    }

    pub(super) fn share_event(event: u64) {
        put(&EVENTS, event);
    }

    pub(super) fn recorded(event: u64, stream: u64) {
        if EVENTS[0].load(Ordering::Relaxed) != 0 && holds(&EVENTS, event) {
            put(&STREAMS, stream + 1);
        }
    }

    pub(super) fn forget() {
        COLLECTIVES.iter().chain(&EVENTS).chain(&STREAMS).for_each(|word| {
            word.store(0, Ordering::Relaxed);
        });
    }

    fn holds(list: &[AtomicU64], wanted: u64) -> bool {
        list.iter().any(|word| word.load(Ordering::Relaxed) == wanted)
    }

    fn put(list: &[AtomicU64], new: u64) {
        let exchange = |word: &AtomicU64| {
            let put = word.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed);
            put.map_or_else(|there| there == new, |_| true)
        };
        // Where more are shared than there are places, the first ones stay.
        list.iter().any(exchange);
    }
}
