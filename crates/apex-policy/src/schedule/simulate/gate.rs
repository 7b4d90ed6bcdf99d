//! The page and its words, as the shim and the daemon keep them, before the virtual GPU.
//!
//! What a program does at the gate are the state machines of [`crate::gate`], as in the shim; here are only their words,
//! the virtual clock, and who looks when.

use super::{Gate, Machine, Mode, Program};
use crate::gate::{
    Act, Ask, Burst, Bursts, FenceWords, Fences, Flight, Hold, LATE_NS, Other, Plain, Rest, Sight,
    Step, Streams, Upon, View, Watch, believed_ns,
};
use crate::schedule::{Class, Device, Limits, Observed, Sla};
use std::collections::VecDeque;

/// The controller's question comes this often.
pub(super) const STEP_NS: u64 = 2_000_000;
/// Who waits awake looks this often.
const AWAKE_NS: u64 = 5_000;
/// The one stream of a program.
const KEY: u64 = 2;

/// What the page has of one program, and what its gate keeps.
#[derive(Default)]
struct Slot {
    class: Class,
    share: f32,
    sla: Option<Sla>,
    limits: Option<Limits>,
    streams: Streams<Plain>,
    flight: Flight<Plain>,
    bursts: Bursts<Plain>,
    fences: Fences<Plain>,
    watch: Watch,
    hold: Option<Hold>,
    /// The last fence that the GPU has come to, that lets work through, and that it was past.
    words: FenceWords,
    /// When its watch looks again; none before the first fence.
    look_ns: Option<u64>,
    burst_start_ns: u64,
    idle_since_ns: u64,
    last_activity_ns: u64,
    work_ns: u64,
    /// Bursts that ended since the last question.
    ended: Vec<Burst>,
    /// Predicted time left on the device and before the next fence, and when that was told.
    told_ns: u64,
    told_at_ns: u64,
    piece_ns: u64,
    admitted_ns: u64,
    waited_ns: u64,
    held_now: bool,
    stands: bool,
    /// Launches, and those known to have ended; events behind launches of that number, and what was launched until then.
    launches: u64,
    known: u64,
    events: VecDeque<(u64, u64)>,
}

pub(super) struct Page {
    gate: Gate,
    device: Device,
    fences: bool,
    slots: Vec<Slot>,
    /// Rises when a burst ends: who sleeps at the gate looks.
    wake: u64,
}

/// What a launch does.
pub(super) enum Answer {
    Goes,
    LooksAt(u64),
}

impl Page {
    pub(super) fn new(machine: &Machine, programs: &[Program], gate: Gate) -> Page {
        let slot = |program: &Program| {
            let &Program { class, share, sla, .. } = program;
            Slot { class, share, sla, ..Slot::default() }
        };
        Page {
            gate,
            device: Device {
                sms: machine.sms,
                shared: machine.mode != Mode::TimeSlice,
                prioritised: machine.mode == Mode::MpsPriority,
            },
            fences: machine.fences,
            slots: programs.iter().map(slot).collect(),
            wake: 0,
        }
    }

    /// What a sleeper compares.
    pub(super) fn wake(&self) -> u64 {
        self.wake
    }

    /// A launch of so much predicted time goes down, or a copy.
    fn touch(&mut self, program: usize, predicted_ns: Option<u64>, now_ns: u64) {
        if self.slots[program].class < Class::Normal {
            return;
        }
        let ahead_ns = self.in_flight_of_others(program, now_ns);
        let slot = &mut self.slots[program];
        slot.streams.of(KEY).count(true);
        slot.last_activity_ns = now_ns;
        let begins = !slot.bursts.is_open() && slot.bursts.open(&slot.streams, ahead_ns, now_ns);
        slot.work_ns = slot.bursts.add(predicted_ns.is_some().into(), predicted_ns.unwrap_or(0));
        if begins {
            slot.burst_start_ns = now_ns;
            for other in self.yield_to(program) {
                if self.slots[other].given_ns() >= self.slots[other].limits().owed_ns {
                    self.close(other);
                }
            }
        }
    }

    /// The program's input is copied: a burst begins.
    pub(super) fn copied(&mut self, program: usize, now_ns: u64) {
        self.touch(program, None, now_ns);
    }

    /// The program has waited for everything.
    pub(super) fn waited(&mut self, program: usize, now_ns: u64) {
        let slot = &mut self.slots[program];
        slot.streams.waited(None, |_| true);
        slot.flight.waited(now_ns);
        slot.tell_flight(now_ns);
        if !slot.bursts.is_over(&slot.streams, || now_ns) {
            return;
        }
        let ended = slot.bursts.end(&slot.streams, now_ns);
        slot.ended.extend(ended);
        slot.idle_since_ns = now_ns;
        for other in self.yield_to(program) {
            let limits = self.slots[other].limits();
            if limits.guard_ns == 0 && self.open_bursts() & limits.yields_to == 0 {
                self.slots[other].open();
            }
        }
        self.wake += 1;
        for slot in &mut self.slots {
            slot.look_ns = slot.look_ns.map(|_| now_ns);
        }
    }

    /// Those who are gated and yield to this program.
    fn yield_to(&self, program: usize) -> Vec<usize> {
        let yields = |slot: &Slot| slot.is_gated() && slot.limits().yields_to >> program & 1 != 0;
        (0..self.slots.len())
            .filter(|&other| other != program && yields(&self.slots[other]))
            .collect()
    }

    fn open_bursts(&self) -> u64 {
        let open = |nth: usize| u64::from(self.slots[nth].bursts.is_open()) << nth;
        (0..self.slots.len()).fold(0, |bits, nth| bits | open(nth))
    }

    fn close(&mut self, program: usize) {
        let slot = &mut self.slots[program];
        let words = slot.fence_words();
        slot.words.past = words.past_when_closed().unwrap_or(words.past);
        slot.words.through = FenceWords::closed(words.last);
    }

    /// Asks whether the program may launch.
    pub(super) fn ask(&mut self, program: usize, predicted_ns: u64, now_ns: u64) -> Answer {
        if let Gate::Crude { launches, guard_ns, .. } = self.gate {
            let is_held = self.is_held_crudely(program, launches, guard_ns, now_ns);
            return if is_held { Answer::LooksAt(now_ns + 2 * AWAKE_NS) } else { Answer::Goes };
        }
        if !self.slots[program].is_gated() {
            return Answer::Goes;
        }
        let kind = if self.has_fences(program) { Ask::Ahead } else { Ask::Go };
        let mut hold = self.slots[program].hold.take();
        let hold = hold.get_or_insert_with(|| Hold::new(kind, predicted_ns, now_ns));
        let view = self.view(program, hold.waited_ns(now_ns), now_ns);
        let slot = &mut self.slots[program];
        let rest = match hold.step(&view, LATE_NS) {
            Step::Go(went) => {
                slot.waited_ns += went.held_ns.unwrap_or(0);
                slot.held_now = false;
                return Answer::Goes;
            }
            Step::Look => {
                slot.learn_of_fences(now_ns);
                // Who waits puts an event behind his last launch.
                if slot.events.is_empty()
                    && let Some(launched_ns) = slot.streams.of(KEY).take_mark()
                {
                    slot.events.push_back((slot.launches, launched_ns));
                }
                hold.after_look(&view, LATE_NS)
            }
            Step::Rest(rest) => rest,
        };
        hold.is_held_now();
        slot.hold = Some(*hold);
        slot.held_now = true;
        Answer::LooksAt(match rest {
            Rest::Awake => now_ns + AWAKE_NS,
            Rest::Asleep(nanos) => now_ns + nanos,
        })
    }

    fn is_held_crudely(&self, program: usize, most: usize, guard_ns: u64, now_ns: u64) -> bool {
        let slot = &self.slots[program];
        let others = self.slots.iter().filter(|other| other.class == Class::Latency);
        let disturbs = |other: &Slot| {
            let idle_ns = now_ns.saturating_sub(other.idle_since_ns);
            other.bursts.is_open() || other.idle_since_ns > 0 && idle_ns < guard_ns
        };
        let in_flight = slot.launches - slot.known;
        slot.class < Class::Latency
            && (others.into_iter().any(disturbs) || in_flight >= most as u64)
    }

    /// Whether the program's launches go behind fences.
    fn has_fences(&self, program: usize) -> bool {
        let slot = &self.slots[program];
        self.fences && slot.is_gated() && slot.limits().yields_to & !(1 << program) != 0
    }

    /// Puts a fence before the program's next launch, if one is due.
    pub(super) fn fence_before(
        &mut self,
        program: usize,
        predicted_ns: u64,
        now_ns: u64,
    ) -> Option<u32> {
        if !self.has_fences(program) {
            return None;
        }
        let slot = &mut self.slots[program];
        if slot.look_ns.is_none() {
            slot.open();
            slot.look_ns = Some(now_ns);
        }
        let (words, budget_ns) = (slot.fence_words(), slot.limits().budget_ns);
        if !slot.fences.is_due(&slot.streams, KEY, predicted_ns, budget_ns, |_| words) {
            return None;
        }
        slot.learn_of_fences(now_ns);
        let fence = slot.fences.begin(&slot.streams, KEY)?;
        slot.fences.end(&slot.streams, fence, true);
        Some(fence)
    }

    /// The device comes to a fence. Whether it goes through.
    pub(super) fn reaches(&mut self, program: usize, fence: u32) -> bool {
        let slot = &mut self.slots[program];
        slot.words.reached = fence;
        slot.words.through.wrapping_sub(fence).cast_signed() >= 0
    }

    /// The program has launched.
    pub(super) fn launched(&mut self, program: usize, predicted_ns: u64, now_ns: u64) {
        self.touch(program, Some(predicted_ns), now_ns);
        let has_fences = self.has_fences(program);
        let slot = &mut self.slots[program];
        slot.launches += 1;
        slot.admitted_ns += predicted_ns;
        let budget_ns = slot.limits().budget_ns;
        let is_due = match &self.gate {
            Gate::Crude { every, .. } => slot.launches.is_multiple_of(*every as u64),
            Gate::Policy(_) if !slot.is_gated() => return,
            Gate::Policy(_) => {
                let due = slot.flight.launched(&slot.streams, KEY, predicted_ns, budget_ns, now_ns);
                slot.tell_flight(now_ns);
                due && !has_fences
            }
        };
        if is_due {
            let launched_ns = slot.streams.of(KEY).take_mark().unwrap_or(0);
            slot.events.push_back((slot.launches, launched_ns));
        }
    }

    /// So many launches have ended; that is known if an event stands behind them.
    pub(super) fn ended(&mut self, program: usize, ended: u64, nothing_left: bool, now_ns: u64) {
        let slot = &mut self.slots[program];
        while let Some(&(number, launched_ns)) = slot.events.front()
            && number <= ended
        {
            slot.known = number;
            let place = slot.streams.place(KEY);
            slot.flight.learn(&slot.streams, |tell| tell(place, launched_ns, true), now_ns);
            slot.events.pop_front();
            slot.tell_flight(now_ns);
        }
        if nothing_left {
            slot.known = ended;
            slot.flight.expire(&slot.streams, now_ns);
        }
    }

    /// When something must be looked at next.
    pub(super) fn next_look_ns(&self) -> u64 {
        self.slots.iter().filter_map(|slot| slot.look_ns).min().unwrap_or(u64::MAX)
    }

    /// Those watches look whose time has come.
    pub(super) fn look(&mut self, now_ns: u64) {
        for program in 0..self.slots.len() {
            if self.slots[program].look_ns.is_some_and(|look_ns| look_ns <= now_ns) {
                self.look_at_fences(program, now_ns);
            }
        }
    }

    fn look_at_fences(&mut self, program: usize, now_ns: u64) {
        self.slots[program].learn_of_fences(now_ns);
        let mut view = self.sight(program, now_ns);
        let bursts = self.open_bursts() & view.limits.yields_to & !(1 << program);
        let slot = &mut self.slots[program];
        view.admitted_ns = view.admitted_ns.saturating_sub(slot.told_ns);
        let words = slot.fence_words();
        let sight = Sight { now_ns, view, words, is_burst_open: bursts != 0 };
        let decision = slot.watch.look(&sight);
        match decision.act {
            Act::Leave => {}
            Act::Open => slot.open(),
            Act::Close => self.close(program),
            Act::Let(fence) => slot.words.through = fence,
        }
        let slot = &mut self.slots[program];
        slot.flight.count(&slot.streams, now_ns, decision.upon != Upon::Nothing);
        slot.piece_ns = match decision.upon {
            Upon::AsBefore => slot.piece_ns,
            Upon::Nothing => 0,
            Upon::UntilNext => {
                slot.fences.before_next_ns(&slot.streams, &slot.flight, words.reached)
            }
        };
        slot.waited_ns += decision.waited_ns.unwrap_or(0);
        slot.stands = decision.waits || slot.stands && decision.waited_ns.is_none();
        slot.look_ns = Some(now_ns + decision.rest_ns.max(AWAKE_NS));
    }

    /// The controller's question.
    pub(super) fn step(&mut self, now_ns: u64) {
        let Gate::Policy(policy) = &mut self.gate else { return };
        let observed: Vec<Observed<'_>> =
            self.slots.iter().enumerate().map(|(program, slot)| slot.observed(program)).collect();
        let settings = policy.step(now_ns, &self.device, &observed);
        for (slot, limits) in self.slots.iter_mut().zip(settings.programs) {
            slot.limits = Some(limits);
            slot.ended.clear();
        }
    }

    /// As a launch sees it.
    fn view(&self, program: usize, waited_ns: u64, now_ns: u64) -> View {
        let mut view = self.sight(program, now_ns);
        let slot = &self.slots[program];
        slot.flight.count(&slot.streams, now_ns, !view.burst_open);
        view.in_flight_ns = view.in_flight_ns.saturating_add(slot.flight.left_ns(&slot.streams));
        view.waited_ns = waited_ns;
        view
    }

    /// As work that waits at a fence sees it.
    fn sight(&self, program: usize, now_ns: u64) -> View {
        let slot = &self.slots[program];
        let limits = slot.limits();
        let yields = |&other: &usize| other != program && limits.yields_to >> other & 1 != 0;
        let others = (0..self.slots.len()).filter(yields).map(|at| self.slots[at].other(now_ns));
        View {
            in_flight_ns: self.in_flight_of_others(program, now_ns),
            admitted_ns: slot.admitted_ns,
            ..View::of(limits, now_ns, others, now_ns)
        }
    }

    fn in_flight_of_others(&self, program: usize, now_ns: u64) -> u64 {
        let others = self.slots.iter().enumerate().filter(|&(other, _)| other != program);
        others.filter(|(_, slot)| slot.is_gated()).map(|(_, slot)| slot.told(now_ns)).sum()
    }
}

impl Slot {
    fn limits(&self) -> Limits {
        self.limits.unwrap_or(Limits::OPEN)
    }

    fn is_gated(&self) -> bool {
        !self.limits().open
    }

    fn open(&mut self) {
        self.words.through = FenceWords::opened(self.fences.last());
    }

    fn fence_words(&self) -> FenceWords {
        FenceWords { last: self.fences.last(), ..self.words }
    }

    fn learn_of_fences(&mut self, now_ns: u64) {
        let reached = self.words.reached;
        let is_reached = |fence: u32| reached.wrapping_sub(fence).cast_signed() >= 0;
        if self.fences.learn(&self.streams, &self.flight, is_reached, now_ns) {
            self.tell_flight(now_ns);
        }
    }

    fn tell_flight(&mut self, now_ns: u64) {
        (self.told_ns, self.told_at_ns) = (self.flight.left_ns(&self.streams), now_ns);
    }

    /// What others believe it has in flight.
    fn told(&self, now_ns: u64) -> u64 {
        let piece_ns = (self.fences.last() != 0).then_some(self.piece_ns);
        believed_ns(self.told_ns, self.told_at_ns, piece_ns, now_ns)
    }

    fn other(&self, now_ns: u64) -> Other {
        Other {
            is_open: self.bursts.is_open(),
            is_known: true,
            alive_ns: now_ns,
            burst_start_ns: self.burst_start_ns,
            idle_since_ns: self.idle_since_ns,
            last_activity_ns: self.last_activity_ns,
            burst_predicted_ns: self.work_ns,
            usual_burst_ns: self.bursts.usual_ns(),
        }
    }

    /// What it was given: not what waits behind fences.
    fn given_ns(&self) -> u64 {
        let not_given_ns = if self.fences.last() == 0 { 0 } else { self.told_ns };
        self.admitted_ns.saturating_sub(not_given_ns)
    }

    fn observed(&self, program: usize) -> Observed<'_> {
        Observed {
            slot: program as u8,
            key: program as u64,
            class: self.class,
            share: self.share,
            sla: self.sla,
            bursts: &self.ended,
            open_since_ns: self.bursts.is_open().then_some(self.burst_start_ns),
            exclusive: false,
            // What is not known to have ended: whether anything moves on a device that starts nothing is seen by it.
            in_flight_ns: self.flight.in_flight_ns(&self.streams),
            admitted_ns: self.given_ns(),
            waited_ns: self.waited_ns,
            waiting: self.held_now || self.stands,
        }
    }
}
