//! The programs' own side: each goes through its steps, launches ahead, waits at the gate or for the device.

use super::gate::{Answer, Page, STEP_NS};
use super::gpu::Gpu;
use super::outcome::{Outcome, ProgramOutcome};
use super::{Gate, Machine, Prediction, Program, Random, Step};
use crate::schedule::Class;
use std::collections::VecDeque;

/// What a launch costs its caller, and how long until the device has it.
const LAUNCH_NS: u64 = 4_000;
/// What the end of a wait costs.
const WAKE_NS: u64 = 10_000;
/// Launches that the driver takes before it lets its caller wait.
const QUEUE: usize = 1_000;
/// What an open fence costs the device; measured on an H200 (`results/sched/fences-h200-2026-11-15.json`).
const OPEN_FENCE_NS: u64 = 6_400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host {
    /// Does its next step then.
    At(u64),
    /// Waits at the gate since, and looks again at that time, or when it is woken.
    Gate { since_ns: u64, look_ns: u64, wake: u64 },
    /// Waits for all its launches to end.
    Drain,
    /// Waits for room in the queue.
    Full,
    /// Has no more requests.
    Done,
}

struct Launched {
    pass: usize,
    step: usize,
    next_kernel: usize,
    number: u64,
    from_ns: u64,
    /// The fence before it, if there is one that the device has not gone through.
    fence: Option<u32>,
}

struct Running<'a> {
    program: &'a Program,
    host: Host,
    step: usize,
    request: usize,
    begun_ns: Option<u64>,
    queue: VecDeque<Launched>,
    launched: u64,
    /// The device stands at a fence since.
    stands_ns: Option<u64>,
    predicted_ns: Vec<Vec<u64>>,
    waits: bool,
    /// A burst that waits for its first kernel to run.
    unstarted_ns: Option<u64>,
    outcome: ProgramOutcome,
}

pub(super) struct Run<'a> {
    gpu: Gpu,
    page: Page,
    programs: Vec<Running<'a>>,
    now_ns: u64,
}

impl<'a> Run<'a> {
    pub(super) fn new(machine: &Machine, programs: &'a [Program], gate: Gate) -> Run<'a> {
        let preferred = programs.iter().map(|program| program.class == Class::Latency).collect();
        let mut random = Random::new(machine.seed);
        Run {
            gpu: Gpu::new(machine.mode, machine.sms, preferred),
            page: Page::new(machine, programs, gate),
            programs: programs
                .iter()
                .map(|program| running(program, machine, &mut random))
                .collect(),
            now_ns: 0,
        }
    }

    pub(super) fn until(mut self, end_ns: u64) -> Outcome {
        let mut next_step_ns = 0;
        let mut ended = Vec::new();
        while self.now_ns < end_ns {
            if self.now_ns >= next_step_ns {
                self.page.step(self.now_ns);
                next_step_ns = self.now_ns + STEP_NS;
            }
            self.page.look(self.now_ns);
            (0..self.programs.len()).for_each(|at| self.run_host(at));
            // Who ended a burst opened the fences of others.
            (0..self.programs.len()).for_each(|at| self.feed(at));
            let mut next = self.gpu.next_change().min(next_step_ns).min(end_ns);
            next = next.min(self.page.next_look_ns());
            for running in &self.programs {
                match running.host {
                    Host::Gate { wake, .. } if wake != self.page.wake() => next = self.now_ns,
                    Host::At(moment) | Host::Gate { look_ns: moment, .. } => {
                        next = next.min(moment)
                    }
                    Host::Drain | Host::Full | Host::Done => {}
                }
            }
            self.now_ns = next.max(self.now_ns);
            self.gpu.advance(self.now_ns, &mut ended);
            for at in ended.drain(..) {
                self.kernel_ended(at);
            }
            self.note_starts();
        }
        Outcome {
            length_ns: end_ns,
            programs: self.programs.into_iter().map(|running| running.outcome).collect(),
        }
    }

    /// Lets the program do all its steps that are due.
    fn run_host(&mut self, at: usize) {
        let now_ns = self.now_ns;
        loop {
            let running = &mut self.programs[at];
            match running.host {
                Host::At(moment) if moment <= now_ns => {}
                Host::Gate { look_ns, wake, .. }
                    if look_ns <= now_ns || wake != self.page.wake() => {}
                Host::Drain if running.queue.is_empty() => {
                    running.host = Host::At(now_ns + WAKE_NS);
                    running.step += 1;
                    self.page.waited(at, now_ns);
                    continue;
                }
                Host::Full if running.queue.len() < QUEUE => running.host = Host::At(now_ns),
                _ => return,
            }
            if running.step == 0 && running.begun_ns.is_none() && !running.begin(now_ns) {
                continue;
            }
            let Some(step) = running.steps().get(running.step) else {
                running.finish(now_ns);
                continue;
            };
            match step {
                Step::Host(nanos) => {
                    running.host = Host::At(now_ns + nanos);
                    running.step += 1;
                }
                Step::Input => {
                    running.host = Host::At(now_ns + LAUNCH_NS);
                    running.step += 1;
                    self.page.copied(at, now_ns);
                }
                Step::Wait => running.host = Host::Drain,
                Step::Launch(_) => self.launch(at),
            }
        }
    }

    fn launch(&mut self, at: usize) {
        let now_ns = self.now_ns;
        let running = &mut self.programs[at];
        let pass = running.pass();
        let Step::Launch(kernels) = &running.program.passes[pass][running.step] else { return };
        if kernels.is_empty() {
            running.host = Host::At(now_ns + LAUNCH_NS);
            running.step += 1;
            return;
        }
        if running.queue.len() >= QUEUE {
            running.host = Host::Full;
            return;
        }
        let since_ns = match running.host {
            Host::Gate { since_ns, .. } => since_ns,
            _ => now_ns,
        };
        let predicted_ns = running.predicted_ns[pass][running.step];
        if let Answer::LooksAt(look_ns) = self.page.ask(at, predicted_ns, now_ns) {
            let wake = self.page.wake();
            running.host = Host::Gate { since_ns, look_ns, wake };
            return;
        }
        running.outcome.longest_wait_ns = running.outcome.longest_wait_ns.max(now_ns - since_ns);
        let fence = self.page.fence_before(at, predicted_ns, now_ns);
        self.page.launched(at, predicted_ns, now_ns);
        if running.unstarted_ns.is_none() && running.queue.is_empty() {
            running.unstarted_ns = Some(now_ns);
        }
        running.queue.push_back(Launched {
            pass,
            step: running.step,
            next_kernel: 0,
            number: running.launched,
            from_ns: now_ns + LAUNCH_NS,
            fence,
        });
        running.launched += 1;
        running.host = Host::At(now_ns + LAUNCH_NS);
        running.step += 1;
    }

    /// Puts the next kernel of the program onto the device.
    fn feed(&mut self, at: usize) {
        let running = &mut self.programs[at];
        if !self.gpu.is_free(at) {
            return;
        }
        let Some(first) = running.queue.front_mut() else { return };
        if let Some(fence) = first.fence {
            let since_ns = *running.stands_ns.get_or_insert(self.now_ns);
            if !self.page.reaches(at, fence) {
                return;
            }
            let waited_ns = self.now_ns - since_ns;
            running.outcome.longest_wait_ns = running.outcome.longest_wait_ns.max(waited_ns);
            (first.fence, running.stands_ns) = (None, None);
            first.from_ns = first.from_ns.max(self.now_ns + OPEN_FENCE_NS);
        }
        if let Step::Launch(kernels) = &running.program.passes[first.pass][first.step] {
            self.gpu.place(at, kernels[first.next_kernel], first.from_ns);
        }
    }

    fn kernel_ended(&mut self, at: usize) {
        let running = &mut self.programs[at];
        let Some(first) = running.queue.front_mut() else { return };
        let Step::Launch(kernels) = &running.program.passes[first.pass][first.step] else { return };
        running.outcome.did(self.now_ns, kernels[first.next_kernel].nanos);
        first.next_kernel += 1;
        if first.next_kernel < kernels.len() {
            return;
        }
        let number = first.number;
        running.queue.pop_front();
        let nothing_left = running.queue.is_empty();
        self.page.ended(at, number + 1, nothing_left, self.now_ns);
        if nothing_left && !running.waits {
            self.page.waited(at, self.now_ns);
        }
    }

    /// Notes how long a program's work waited for the device after the device had been free of it.
    fn note_starts(&mut self) {
        for (at, running) in self.programs.iter_mut().enumerate() {
            if let Some(since_ns) = running.unstarted_ns
                && (self.gpu.has_begun(at) || running.queue.is_empty())
            {
                running.outcome.first_waits_ns.push(self.now_ns - since_ns);
                running.unstarted_ns = None;
            }
        }
    }
}

impl<'a> Running<'a> {
    /// Which of the passes it is in.
    fn pass(&self) -> usize {
        self.request % self.program.passes.len().max(1)
    }

    fn steps(&self) -> &'a [Step] {
        self.program.passes.get(self.pass()).map_or(&[], Vec::as_slice)
    }

    /// Begins a request or a round; false if there is none yet.
    fn begin(&mut self, now_ns: u64) -> bool {
        if let Some(arrivals) = &self.program.arrivals {
            match arrivals.get(self.request) {
                None => {
                    self.host = Host::Done;
                    return false;
                }
                Some(&arrival) if arrival > now_ns => {
                    self.host = Host::At(arrival);
                    return false;
                }
                Some(_) => {}
            }
        }
        self.begun_ns = Some(now_ns);
        true
    }

    fn finish(&mut self, now_ns: u64) {
        let begun_ns = self.begun_ns.take().unwrap_or(now_ns);
        let arrived =
            self.program.arrivals.as_ref().and_then(|arrivals| arrivals.get(self.request)).copied();
        self.outcome.passes.push((arrived.unwrap_or(begun_ns), begun_ns, now_ns));
        self.request += 1;
        self.step = 0;
        // A round without any step that takes time must not hold the clock.
        self.host = Host::At(now_ns + 1);
    }
}

fn running<'a>(program: &'a Program, machine: &Machine, random: &mut Random) -> Running<'a> {
    let mut predicted = |step: &Step| match step {
        Step::Launch(kernels) => {
            let nanos: u64 = kernels.iter().map(|kernel| kernel.nanos).sum();
            match machine.prediction {
                Prediction::Exact => nanos,
                Prediction::Spread(deviation) => (nanos as f64 * random.spread(deviation)) as u64,
                Prediction::Same(nanos) => nanos,
            }
        }
        _ => 0,
    };
    Running {
        program,
        host: Host::At(0),
        step: 0,
        request: 0,
        begun_ns: None,
        queue: VecDeque::new(),
        launched: 0,
        stands_ns: None,
        predicted_ns: program
            .passes
            .iter()
            .map(|steps| steps.iter().map(&mut predicted).collect())
            .collect(),
        waits: program.passes.iter().any(|steps| steps.contains(&Step::Wait)),
        unstarted_ns: None,
        outcome: ProgramOutcome::new(program),
    }
}
