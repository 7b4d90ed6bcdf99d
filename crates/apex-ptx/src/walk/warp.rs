//! One warp on its way through a kernel.
//!
//! Each lane has its place in the text, and those furthest behind go first, so lanes that parted meet again. Where a
//! way depends on what was loaded, nobody knows it: then conditions hold nobody up.

use super::memory::{
    Recent, UNKNOWN_BANK_ROUNDS, bank_rounds, constants, crowding, expected_local_lines,
    expected_meeting, local_lines, meeting, reach, scattered,
};
use super::program::Program;
use super::step::{Act, Form, Memory, Operation, Source, Special, Step};
use super::values::{LANES, Lanes, computed, holds, wide};
use super::{Counts, Launch};
use crate::mix::Category;

/// Instructions after which a walk gives up.
const LONGEST: usize = 60_000;
const ENDED: usize = usize::MAX;

/// What all registers hold.
#[derive(Clone)]
pub(super) struct Registers {
    pub(super) values: Vec<Lanes>,
    /// Lanes in which a value is known.
    pub(super) known: Vec<u32>,
    /// The pointer that a value was made from, counted from 1.
    origins: Vec<u8>,
    /// When a value can be used: cycles, and global loads one after the other.
    pub(super) cycles: Vec<f32>,
    pub(super) rounds: Vec<f32>,
}

/// What is remembered of a loop.
#[derive(Clone, Default)]
pub(super) struct Turned {
    pub(super) lanes: u32,
    pub(super) turns: usize,
    /// What was counted when the average began.
    pub(super) began: Counts,
    /// The registers one and two turns ago.
    pub(super) last: Option<Registers>,
    pub(super) before: Option<Registers>,
    /// Nothing known ends it, so the next condition that could leave it does.
    pub(super) leave: bool,
}

/// A warp, as far as it came.
pub(super) struct Warp<'a> {
    pub(super) program: &'a Program,
    launch: &'a Launch<'a>,
    block: [u32; 3],
    first_thread: u32,
    pub(super) registers: Registers,
    pub(super) places: [usize; LANES],
    pub(super) counts: Counts,
    recent: Recent,
    pub(super) turned: Vec<Turned>,
    left: usize,
    /// Instructions of this stretch without branches.
    issued: f32,
    /// When the instruction at hand begins, and when the latest one of the stretch does: cycles and rounds.
    at: (f32, f32),
    pub(super) latest: (f32, f32),
}

impl<'a> Warp<'a> {
    pub(super) fn new(
        program: &'a Program,
        launch: &'a Launch<'a>,
        block: [u32; 3],
        warp: u32,
    ) -> Warp<'a> {
        let count = program.registers;
        let threads: u64 = launch.block.iter().map(|side| u64::from(*side)).product();
        let first_thread = warp * LANES as u32;
        let lives = |lane: usize| u64::from(first_thread) + (lane as u64) < threads;
        Warp {
            program,
            launch,
            block,
            first_thread,
            registers: Registers {
                values: vec![[0; LANES]; count],
                known: vec![0; count],
                origins: vec![0; count],
                cycles: vec![0.0; count],
                rounds: vec![0.0; count],
            },
            places: std::array::from_fn(|lane| if lives(lane) { 0 } else { ENDED }),
            counts: Counts::default(),
            recent: Recent::of_one(launch.sharing),
            turned: vec![Turned::default(); program.loops.len()],
            left: LONGEST,
            issued: 0.0,
            at: (0.0, 0.0),
            latest: (0.0, 0.0),
        }
    }

    /// Walks to the end.
    pub(super) fn run(mut self) -> Counts {
        let end = self.program.steps.len();
        loop {
            let place = self.places.iter().copied().min().unwrap_or(ENDED);
            if place >= end || self.left == 0 {
                self.end_stretch();
                return self.counts;
            }
            let here = self.lanes_at(place);
            let others = self.places.iter().copied().filter(|at| *at != place).min();
            self.together(place, here, others.unwrap_or(ENDED));
        }
    }

    fn lanes_at(&self, place: usize) -> u32 {
        let at = |lane: usize| u32::from(self.places[lane] == place) << lane;
        (0..LANES).map(at).sum()
    }

    /// Lets lanes go on together until they part or meet others.
    fn together(&mut self, mut place: usize, lanes: u32, others: usize) {
        let program = self.program;
        while place < program.steps.len() && self.left > 0 {
            self.left -= 1;
            let step = &program.steps[place];
            let (yes, unknown) = self.guarded(step, lanes);
            match step.act {
                Act::Branch(target) => {
                    self.issue(step);
                    self.end_stretch();
                    let taken = match unknown {
                        0 => yes,
                        _ if self.goes(place, target) => yes | unknown,
                        _ => yes,
                    };
                    self.send(lanes & !taken, place + 1);
                    self.send(taken, target);
                    if taken != 0 && target <= place {
                        self.turn(place, taken);
                    } else if target <= place {
                        self.leave(place);
                    }
                    return;
                }
                Act::End => {
                    self.send(yes | unknown, ENDED);
                    self.send(lanes & !(yes | unknown), place + 1);
                    return;
                }
                _ if yes | unknown != 0 => self.execute(step, yes | unknown),
                _ => {}
            }
            place += 1;
            if place >= others {
                break;
            }
        }
        self.send(lanes, place);
    }

    fn send(&mut self, lanes: u32, place: usize) {
        for lane in (0..LANES).filter(|lane| lanes >> lane & 1 != 0) {
            self.places[lane] = place;
        }
    }

    /// Lanes that surely execute an instruction, and those of which nobody knows.
    fn guarded(&self, step: &Step, lanes: u32) -> (u32, u32) {
        let Some((predicate, negated)) = step.guard else { return (lanes, 0) };
        let known = self.registers.known[predicate];
        let values = &self.registers.values[predicate];
        let holds = |lane: usize| u32::from((values[lane] & 1 != 0) != negated) << lane;
        let yes: u32 = (0..LANES).map(holds).sum();
        (lanes & known & yes, lanes & !known)
    }

    /// Counts an instruction and waits for what it needs.
    fn issue(&mut self, step: &Step) {
        let (mut ready, mut rounds) = (0.0_f32, 0.0_f32);
        let guard = step.guard.iter().map(|(place, _)| *place);
        let from = step.from.iter().filter_map(|source| match source {
            Source::Register(place) => Some(*place),
            _ => None,
        });
        for place in from.chain(guard) {
            ready = ready.max(self.registers.cycles[place]);
            rounds = rounds.max(self.registers.rounds[place]);
        }
        self.counts.instructions += step.weight;
        self.issued += step.weight;
        self.at = (self.counts.cycles.max(ready), self.counts.rounds.max(rounds));
        self.latest = (self.latest.0.max(self.at.0), self.latest.1.max(self.at.1));
        match step.category {
            Category::SpecialFunction => self.counts.special += 1.0,
            Category::Float64 => self.counts.double += step.weight,
            Category::Tensor => self.counts.tensor += 1.0,
            Category::Warp => self.counts.exchanges += 1.0,
            _ => {}
        }
    }

    /// Ends a stretch without branches: within it the compiler puts instructions in the order that waits least, so it
    /// takes its longest chain or all that it issues.
    fn end_stretch(&mut self) {
        let counts = &mut self.counts;
        counts.cycles = (counts.cycles + self.issued).max(self.latest.0);
        counts.rounds = counts.rounds.max(self.latest.1);
        self.issued = 0.0;
    }

    fn execute(&mut self, step: &Step, lanes: u32) {
        self.issue(step);
        self.counts.flops += step.flops * lanes.count_ones() as f32;
        match step.act {
            Act::Integer(operation, form) => {
                let (values, known, origin) = self.computed(step, operation, form);
                self.write(step, lanes, &values, known, origin);
            }
            Act::Compare(comparison, form) => {
                let ([a, b, ..], known, _) = self.read(step);
                let holds = |lane: usize| {
                    u64::from(holds(comparison, wide(a[lane], form), wide(b[lane], form)))
                };
                self.write(step, lanes, &std::array::from_fn(holds), known, 0);
            }
            Act::Parameter(at) => {
                let given = self.launch.parameters.get(at).copied().flatten();
                let pointer = self.program.pointers.get(at) == Some(&true);
                let origin = if pointer { u8::try_from(at + 1).unwrap_or(0) } else { 0 };
                let known = if given.is_some() { u32::MAX } else { 0 };
                self.write(step, lanes, &[given.unwrap_or(0); LANES], known, origin);
            }
            Act::Load(memory, bytes) => {
                self.access(step, memory, bytes, lanes, false);
                self.write(step, lanes, &[0; LANES], 0, 0);
                if memory == Memory::Global {
                    let round = self.at.1 + 1.0;
                    step.to.iter().for_each(|to| self.registers.rounds[*to] = round);
                }
            }
            Act::Store(memory, bytes) => self.access(step, memory, bytes, lanes, true),
            Act::Atomic(memory, joins) => {
                self.atomic(step, memory, joins, lanes);
                self.write(step, lanes, &[0; LANES], 0, 0);
            }
            Act::Barrier => self.counts.barriers += 1.0,
            Act::Branch(_) | Act::End | Act::Other => self.write(step, lanes, &[0; LANES], 0, 0),
        }
    }

    /// The operands, the lanes in which all are known, and the pointer that one came from.
    fn read(&self, step: &Step) -> ([Lanes; 4], u32, u8) {
        let mut values = [[0; LANES]; 4];
        let (mut known, mut origin) = (u32::MAX, 0);
        for (to, source) in values.iter_mut().zip(&step.from) {
            match source {
                Source::Register(place) => {
                    *to = self.registers.values[*place];
                    known &= self.registers.known[*place];
                    origin = self.registers.origins[*place].max(origin);
                }
                Source::Value(value) => *to = [*value; LANES],
                Source::Special(special) => *to = self.special(*special),
                Source::Unknown => known = 0,
            }
        }
        (values, known, origin)
    }

    pub(super) fn special(&self, special: Special) -> Lanes {
        let [x, y, _] = self.launch.block;
        std::array::from_fn(|lane| {
            let thread = self.first_thread + lane as u32;
            let threads = [thread % x, thread / x % y, thread / (x * y)];
            u64::from(match special {
                Special::Thread(axis) => threads[axis],
                Special::Threads(axis) => self.launch.block[axis],
                Special::Block(axis) => self.block[axis],
                Special::Blocks(axis) => self.launch.grid[axis],
                Special::Lane => lane as u32,
            })
        })
    }

    fn computed(&self, step: &Step, operation: Operation, form: Form) -> (Lanes, u32, u8) {
        let (values, known, origin) = self.read(step);
        (computed(operation, form, &values), known, if form.to_bits == 64 { origin } else { 0 })
    }

    fn write(&mut self, step: &Step, lanes: u32, values: &Lanes, known: u32, origin: u8) {
        let ready = self.at.0 + step.latency;
        for to in &step.to {
            let into = &mut self.registers.values[*to];
            for lane in (0..LANES).filter(|lane| lanes >> lane & 1 != 0) {
                into[lane] = values[lane];
            }
            let kept = self.registers.known[*to] & !lanes;
            self.registers.known[*to] = kept | known & lanes;
            self.registers.origins[*to] = origin;
            self.registers.cycles[*to] = ready;
            self.registers.rounds[*to] = self.at.1;
        }
    }

    /// The addresses of an access, the lanes in which they are known, and bytes of the allocation.
    fn addresses(&self, step: &Step) -> (Lanes, u32, u64) {
        let (values, known, origin) = match step.from.first() {
            Some(Source::Register(place)) => (
                self.registers.values[*place],
                self.registers.known[*place],
                self.registers.origins[*place],
            ),
            Some(Source::Value(value)) => ([*value; LANES], u32::MAX, 0),
            _ => ([0; LANES], 0, 0),
        };
        let bytes = match origin {
            0 => 0,
            nth => self.launch.bytes.get(usize::from(nth) - 1).copied().unwrap_or(0),
        };
        let bytes = if bytes == 0 { 1 << 30 } else { bytes };
        (values.map(|value| value.wrapping_add_signed(step.offset)), known, bytes)
    }

    fn access(&mut self, step: &Step, memory: Memory, bytes: u64, lanes: u32, store: bool) {
        let (addresses, known, allocation) = self.addresses(step);
        let whole = lanes & !known == 0;
        let counts = &mut self.counts;
        match memory {
            Memory::Global => {
                let found = match whole {
                    true => reach(&addresses, lanes, &mut self.recent),
                    false => scattered(lanes.count_ones(), allocation),
                };
                counts.accesses += 1.0;
                counts.lines += found.lines;
                self.issued += (found.lines - 1.0).max(0.0);
                if !whole {
                    counts.gathered += found.sectors;
                }
                match store {
                    true => counts.stored += found.sectors,
                    false => counts.missed += found.missed,
                }
            }
            Memory::Shared => {
                let rounds =
                    if whole { bank_rounds(&addresses, lanes, bytes) } else { UNKNOWN_BANK_ROUNDS };
                counts.shared += rounds;
                self.issued += 2.0 * (rounds - 1.0).max(0.0);
            }
            Memory::Constant => {
                let rounds = if whole { constants(&addresses, lanes) } else { 1.0 };
                counts.constants += rounds;
                self.issued += 4.0 * (rounds - 1.0).max(0.0);
            }
            Memory::Local => {
                let lines = match whole {
                    true => local_lines(&addresses, lanes),
                    false => expected_local_lines(lanes.count_ones(), self.program.local_bytes),
                };
                counts.local += lines;
                self.issued += (lines - 1.0).max(0.0);
            }
        }
    }

    fn atomic(&mut self, step: &Step, memory: Memory, joins: bool, lanes: u32) {
        let (addresses, known, allocation) = self.addresses(step);
        let whole = lanes & !known == 0;
        let count = lanes.count_ones();
        let words = match memory {
            Memory::Shared => f32::max(self.launch.dynamic_shared as f32 / 4.0, 1.0),
            _ => (allocation / 4).max(1) as f32,
        };
        let meeting =
            if whole { meeting(&addresses, lanes) } else { expected_meeting(count, words) };
        let counts = &mut self.counts;
        match memory {
            Memory::Shared => counts.shared += 2.0 * meeting,
            _ => {
                counts.atomics += count as f32;
                counts.meeting += meeting;
                // Lanes that all meet are added up on the way.
                let apart = if joins && whole && meeting >= count as f32 { 1.0 } else { meeting };
                counts.contended += apart * crowding(allocation);
            }
        }
    }
}
