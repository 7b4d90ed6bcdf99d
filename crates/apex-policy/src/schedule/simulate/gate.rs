//! The page and its words, as the shim and the daemon keep them, and the gate in front of the virtual GPU.

use super::{Gate, Kernel, Machine, Mode, Program};
use crate::schedule::rhythm::Rhythm;
use crate::schedule::{
    Admission, Backlog, Bottleneck, Burst, Class, Device, Kind, Limits, Observed, View, Work,
    admit, harm_kept_ns, is_free, parts, queue,
};
use std::collections::VecDeque;

/// The controller's question comes this often.
pub(super) const STEP_NS: u64 = 2_000_000;

/// What the page has of one program.
#[derive(Debug, Default)]
struct Slot {
    limits: Option<Limits>,
    open_since_ns: Option<u64>,
    last_end_ns: Option<u64>,
    launches: u32,
    work_ns: u64,
    ahead_ns: u64,
    harm_before_ns: u64,
    bursts: Vec<Burst>,
    rhythm: Rhythm,
    burst_sms: u32,
    /// Launches not known to have ended: number, predicted time, whether an event stands behind it.
    in_flight: VecDeque<(u64, u64, bool)>,
    backlog: Backlog,
    /// What was let through a fence last.
    piece_ns: u64,
    unmarked_ns: u64,
    unmarked: usize,
    admitted_ns: u64,
    waited_ns: u64,
    waiting: bool,
}

pub(super) struct Page {
    gate: Gate,
    device: Device,
    fences: bool,
    classes: Vec<Class>,
    shares: Vec<(f32, Option<crate::schedule::Sla>)>,
    slots: Vec<Slot>,
    harm_ns: u64,
}

impl Page {
    pub(super) fn new(machine: &Machine, programs: &[Program], gate: Gate) -> Page {
        Page {
            gate,
            device: Device {
                sms: machine.sms,
                shared: machine.mode != Mode::TimeSlice,
                prioritised: machine.mode == Mode::MpsPriority,
            },
            fences: machine.fences,
            classes: programs.iter().map(|program| program.class).collect(),
            shares: programs.iter().map(|program| (program.share, program.sla)).collect(),
            slots: programs.iter().map(|_| Slot::default()).collect(),
            harm_ns: 0,
        }
    }

    /// A burst of the program begins, unless one is open.
    pub(super) fn open(&mut self, program: usize, now_ns: u64) {
        if self.slots[program].open_since_ns.is_some() {
            return;
        }
        self.count(now_ns);
        let ahead_ns = self.ahead_of_ns(program);
        let others =
            self.slots.iter().zip(&self.classes).any(|(slot, class)| {
                slot.open_since_ns.is_some() && *class >= self.classes[program]
            });
        let ended_ns = self.slots[program].last_end_ns;
        self.harm_ns = harm_kept_ns(self.harm_ns, others, ended_ns, now_ns);
        let harm_before_ns = self.harm_ns;
        let slot = &mut self.slots[program];
        slot.harm_before_ns = harm_before_ns;
        slot.open_since_ns = Some(now_ns);
        slot.ahead_ns = ahead_ns;
        (slot.launches, slot.work_ns) = (0, 0);
    }

    /// The program's burst has ended.
    pub(super) fn close(&mut self, program: usize, now_ns: u64) {
        self.count(now_ns);
        let (harm_ns, left_ns) = (self.harm_ns, self.ahead_of_ns(program));
        let slot = &mut self.slots[program];
        let Some(start_ns) = slot.open_since_ns.take() else { return };
        let burst = Burst {
            start_ns,
            end_ns: now_ns,
            launches: slot.launches,
            ahead_ns: slot.ahead_ns,
            harm_ns: harm_ns.saturating_sub(slot.harm_before_ns),
            left_ns,
            work_ns: slot.work_ns,
        };
        slot.last_end_ns = Some(now_ns);
        slot.rhythm.observe(&burst);
        slot.bursts.push(burst);
    }

    /// Asks whether the program may launch.
    pub(super) fn ask(
        &mut self,
        program: usize,
        kernels: &[Kernel],
        predicted_ns: u64,
        waited_ns: u64,
        now_ns: u64,
    ) -> bool {
        let admission = match &self.gate {
            Gate::Crude { launches, guard_ns, .. } => {
                let held = self.classes[program] < Class::Latency
                    && (self.burst_of(u64::MAX, program, now_ns).0
                        || self.idle_ns(u64::MAX, program, now_ns) < *guard_ns
                        || self.slots[program].in_flight.len() >= *launches);
                if held { Admission::Wait(crate::schedule::Reason::Burst) } else { Admission::GO }
            }
            Gate::Policy(_) => {
                self.count(now_ns);
                let view = self.view(program, waited_ns, now_ns);
                let ask = if self.has_fences(program) { queue } else { admit };
                ask(&view, &work(kernels, predicted_ns))
            }
        };
        let has_fences = self.has_fences(program);
        let slot = &mut self.slots[program];
        slot.waiting = if has_fences { slot.waiting } else { !admission.goes() };
        match admission {
            Admission::Go { harm_ns } => {
                self.harm_ns += harm_ns;
                slot.waited_ns += waited_ns;
            }
            Admission::Wait(_) => {
                // Who waits puts an event behind his last launch.
                if let Some(last) = slot.in_flight.back_mut() {
                    last.2 = matches!(self.gate, Gate::Policy(_)) || last.2;
                }
            }
        }
        admission.goes()
    }

    /// Whether the program's launches go behind fences.
    pub(super) fn has_fences(&self, program: usize) -> bool {
        let yields = |limits: Limits| !limits.open && limits.yields_to & !(1_u64 << program) != 0;
        self.fences && self.slots[program].limits.is_some_and(yields)
    }

    /// Whether a fence is due before a launch that follows this piece of work.
    pub(super) fn is_due(&self, program: usize, piece: &Work, next: &Work) -> bool {
        let limits = self.slots[program].limits.unwrap_or(Limits::OPEN);
        parts(piece, next, limits.budget_ns)
    }

    /// Asks whether the device may go through the fence before this piece of work.
    pub(super) fn passes(
        &mut self,
        program: usize,
        piece: &Work,
        waited_ns: u64,
        now_ns: u64,
    ) -> bool {
        self.count(now_ns);
        let mut view = self.view(program, waited_ns, now_ns);
        view.in_flight_ns = (0..self.slots.len())
            .filter(|&other| other != program && self.has_fences(other))
            .map(|other| self.ahead_ns(other))
            .sum();
        let admission = if is_free(&view) { Admission::GO } else { admit(&view, piece) };
        let slot = &mut self.slots[program];
        slot.waiting = !admission.goes();
        if let Admission::Go { harm_ns } = admission {
            self.harm_ns += harm_ns;
            slot.waited_ns += waited_ns;
            slot.piece_ns = piece.predicted_ns;
        }
        admission.goes()
    }

    /// What others come upon of a program: what is left of it, up to the next fence; nothing while it waits there.
    fn ahead_ns(&self, program: usize) -> u64 {
        let slot = &self.slots[program];
        match (self.has_fences(program), slot.waiting) {
            (false, _) => slot.backlog.left_ns(),
            (true, false) => slot.backlog.left_ns().min(slot.piece_ns),
            (true, true) => 0,
        }
    }

    /// What a burst of the program comes upon, of all below it.
    fn ahead_of_ns(&self, program: usize) -> u64 {
        let below = |&other: &usize| self.classes[other] < self.classes[program];
        (0..self.slots.len()).filter(below).map(|other| self.ahead_ns(other)).sum()
    }

    /// The program has launched.
    pub(super) fn launched(
        &mut self,
        program: usize,
        number: u64,
        kernels: &[Kernel],
        predicted_ns: u64,
        now_ns: u64,
    ) {
        let slot = &mut self.slots[program];
        slot.launches += 1;
        slot.work_ns += predicted_ns;
        slot.admitted_ns += predicted_ns;
        slot.unmarked_ns += predicted_ns;
        slot.unmarked += 1;
        let marked = match &self.gate {
            Gate::Crude { every, .. } => slot.unmarked >= *every,
            Gate::Policy(_) => {
                let limits = slot.limits.unwrap_or(Limits::OPEN);
                limits.open || slot.unmarked_ns >= limits.budget_ns / 4
            }
        };
        if marked {
            (slot.unmarked, slot.unmarked_ns) = (0, 0);
        }
        slot.in_flight.push_back((number, predicted_ns, marked));
        slot.backlog.launched(now_ns, predicted_ns);
        slot.burst_sms = work(kernels, predicted_ns).sms_needed;
    }

    /// The launch has ended; that is known if an event stands behind it.
    pub(super) fn ended(&mut self, program: usize, number: u64, nothing_left: bool, now_ns: u64) {
        let slot = &mut self.slots[program];
        // Numbers follow each other, so a launch is found by its distance from the first.
        let Some(&(first, ..)) = slot.in_flight.front() else { return };
        let place = usize::try_from(number - first).unwrap_or(usize::MAX);
        let known = slot.in_flight.get(place).is_some_and(|&(_, _, marked)| marked);
        if !known && !nothing_left {
            return;
        }
        while let Some(&(other, predicted_ns, _)) = slot.in_flight.front()
            && other <= number
        {
            slot.backlog.ended(now_ns, predicted_ns);
            slot.in_flight.pop_front();
        }
    }

    /// The controller's question.
    pub(super) fn step(&mut self, now_ns: u64) {
        let Gate::Policy(policy) = &mut self.gate else { return };
        let observed: Vec<Observed<'_>> = self
            .slots
            .iter()
            .enumerate()
            .map(|(program, slot)| Observed {
                slot: program as u8,
                key: program as u64,
                class: self.classes[program],
                share: self.shares[program].0,
                sla: self.shares[program].1,
                bursts: &slot.bursts,
                open_since_ns: slot.open_since_ns,
                predicted_burst_ns: slot.rhythm.length_ns().unwrap_or(0),
                in_flight_ns: slot.backlog.unknown_ns(),
                admitted_ns: slot.admitted_ns,
                waited_ns: slot.waited_ns,
                waiting: slot.waiting,
            })
            .collect();
        let settings = policy.step(now_ns, &self.device, &observed);
        for (slot, limits) in self.slots.iter_mut().zip(settings.programs) {
            slot.limits = Some(limits);
            slot.bursts.clear();
        }
    }

    /// Counts the time of every gated program's backlog: it drains while no program above has a burst open.
    fn count(&mut self, now_ns: u64) {
        let open = (0..self.slots.len())
            .filter(|&at| self.slots[at].open_since_ns.is_some())
            .fold(0_u64, |slots, at| slots | 1 << at);
        for slot in &mut self.slots {
            let yields_to = slot.limits.map_or(0, |limits| limits.yields_to);
            slot.backlog.count(now_ns, open & yields_to == 0);
        }
    }

    fn view(&self, program: usize, waited_ns: u64, now_ns: u64) -> View {
        let slot = &self.slots[program];
        let limits = slot.limits.unwrap_or(Limits::OPEN);
        let (burst_open, above) = self.burst_of(limits.yields_to, program, now_ns);
        let rhythm = above.map(|other| &self.slots[other].rhythm);
        let open_since_ns = above.and_then(|other| self.slots[other].open_since_ns);
        let gated = self.slots.iter().filter(|slot| slot.limits.is_some_and(|limits| !limits.open));
        View {
            limits,
            controller_age_ns: 0,
            burst_open,
            idle_ns: self.idle_ns(limits.yields_to, program, now_ns),
            burst_left_ns: match (rhythm, open_since_ns) {
                (Some(rhythm), Some(since)) => rhythm.left_ns(since, now_ns),
                _ => u64::MAX,
            },
            next_burst_ns: (0..self.slots.len())
                .filter(|other| limits.yields_to >> other & 1 == 1)
                .map(|other| self.slots[other].rhythm.next_ns(now_ns))
                .min()
                .unwrap_or(u64::MAX),
            burst_sms: above.map_or(0, |at| self.slots[at].burst_sms),
            device_sms: self.device.sms,
            in_flight_ns: gated.map(|slot| slot.backlog.left_ns()).sum(),
            harm_ns: self.harm_ns,
            harm_before_ns: above.map_or(0, |at| self.slots[at].harm_before_ns),
            admitted_ns: slot.admitted_ns,
            waited_ns,
        }
    }

    /// Whether a burst is open that the program yields to, and whose: the one opened first.
    fn burst_of(&self, yields_to: u64, program: usize, _now_ns: u64) -> (bool, Option<usize>) {
        let whose = (0..self.slots.len())
            .filter(|&other| other != program && yields_to >> other & 1 == 1)
            .filter(|&other| yields_to != u64::MAX || self.classes[other] == Class::Latency)
            .filter(|&other| self.slots[other].open_since_ns.is_some())
            .min_by_key(|&other| self.slots[other].open_since_ns);
        (whose.is_some(), whose)
    }

    fn idle_ns(&self, yields_to: u64, program: usize, now_ns: u64) -> u64 {
        (0..self.slots.len())
            .filter(|&other| other != program && yields_to >> other & 1 == 1)
            .filter(|&other| yields_to != u64::MAX || self.classes[other] == Class::Latency)
            .filter_map(|other| self.slots[other].last_end_ns)
            .max()
            .map_or(u64::MAX, |ended| now_ns.saturating_sub(ended))
    }
}

/// The work of a launch: the sum of its kernels, with what most of its time presses on.
pub(super) fn work(kernels: &[Kernel], predicted_ns: u64) -> Work {
    let total: u64 = kernels.iter().map(|kernel| kernel.nanos).sum::<u64>().max(1);
    let sms: u64 = kernels.iter().map(|kernel| u64::from(kernel.sms) * kernel.nanos).sum();
    let pressing = |on: Bottleneck| -> u64 {
        kernels.iter().filter(|kernel| kernel.bottleneck == on).map(|kernel| kernel.nanos).sum()
    };
    let bottleneck = [Bottleneck::Compute, Bottleneck::Memory]
        .into_iter()
        .find(|&on| pressing(on) * 2 > total)
        .unwrap_or(Bottleneck::Unknown);
    let blocks: u64 = kernels.iter().map(|kernel| kernel.block_ns * kernel.nanos / total).sum();
    Work {
        predicted_ns,
        block_ns: blocks,
        sms_needed: u32::try_from(sms / total).unwrap_or(u32::MAX),
        bottleneck,
        kind: if kernels.len() == 1 { Kind::Kernel } else { Kind::Graph },
    }
}
