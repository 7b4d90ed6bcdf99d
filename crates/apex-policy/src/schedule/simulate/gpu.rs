//! The virtual GPU: what every program's first waiting kernel gets of it, and when that changes.
//!
//! Between two changes all rates are constant, so time jumps from change to change. Three ways of sharing:
//! slices of time with a loss at each change; blocks in the order in which kernels came, the rest to the next
//! (what MPS does); and the same with priorities, where a late but preferred kernel waits only for the blocks
//! that are there, to the last of them, because it wants the whole device. The last wave of a kernel's blocks leaves
//! some of its multiprocessors free; those are what sharing gains.
//!
//! The constants were chosen so that the measured pair of `docs/policies.md` comes out; the page has the
//! agreement cell by cell.

use super::{Kernel, Mode};
use crate::schedule::Bottleneck;

/// Time the device stays with one program while others wait, and what a change costs.
const SLICE_NS: u64 = 2_000_000;
const CHANGE_NS: u64 = 200_000;
/// From one kernel's end to the begin of the next in the same stream.
const BETWEEN_KERNELS_NS: u64 = 1_000;
/// From the end of a block to the begin of a preferred one in its place, for the last of them. Short blocks cost each
/// kernel of a graph 15 to 35 µs on an H200 where they never end; with this much both those and the pair come out.
const HANDOVER_NS: u64 = 10_000;
/// The part of its multiprocessors that the last wave of a kernel holds on average.
const LAST_WAVE: f64 = 0.8;

/// A kernel on the device.
#[derive(Clone, Debug)]
pub(super) struct Resident {
    kernel: Kernel,
    /// What is left of it, in time alone on the device.
    left_ns: f64,
    /// It may begin then.
    begins_ns: u64,
    /// When it became the first of its stream: earlier ones go first.
    came: u64,
    /// Part of the device it holds, and until when it does not give that up.
    part: f64,
    held_until_ns: u64,
    rate: f64,
    seen: bool,
}

/// The device with one stream for each program.
#[derive(Debug)]
pub(super) struct Gpu {
    mode: Mode,
    sms: f64,
    now_ns: u64,
    came: u64,
    streams: Vec<Option<Resident>>,
    /// Whether a program's kernels are preferred.
    preferred: Vec<bool>,
    /// Time-slicing: whose turn it is, until when, and from when it works.
    turn: usize,
    turn_ends_ns: u64,
    works_from_ns: u64,
    /// Room for the order in which kernels are served, kept between two questions.
    order: Vec<usize>,
}

impl Gpu {
    pub(super) fn new(mode: Mode, sms: u32, preferred: Vec<bool>) -> Gpu {
        Gpu {
            mode,
            sms: f64::from(sms.max(1)),
            now_ns: 0,
            came: 0,
            streams: vec![None; preferred.len()],
            preferred,
            turn: usize::MAX,
            turn_ends_ns: 0,
            works_from_ns: 0,
            order: Vec::new(),
        }
    }

    /// Whether the program's stream has no kernel here.
    pub(super) fn is_free(&self, program: usize) -> bool {
        self.streams[program].is_none()
    }

    /// Whether the program's kernel has begun.
    pub(super) fn has_begun(&self, program: usize) -> bool {
        self.streams[program]
            .as_ref()
            .is_some_and(|resident| resident.left_ns < resident.kernel.nanos as f64)
    }

    /// Puts the next kernel of a stream onto the device.
    pub(super) fn place(&mut self, program: usize, kernel: Kernel, from_ns: u64) {
        self.came += 1;
        self.streams[program] = Some(Resident {
            kernel,
            left_ns: kernel.nanos.max(1) as f64,
            begins_ns: from_ns.max(self.now_ns + BETWEEN_KERNELS_NS),
            came: self.came,
            part: 0.0,
            held_until_ns: 0,
            rate: 0.0,
            seen: false,
        });
    }

    /// Moves on to `now_ns`, which must not lie beyond [`Gpu::next_change`]; the programs whose kernel ended.
    pub(super) fn advance(&mut self, now_ns: u64, ended: &mut Vec<usize>) {
        let passed = (now_ns - self.now_ns) as f64;
        self.now_ns = now_ns;
        for (program, stream) in self.streams.iter_mut().enumerate() {
            let Some(resident) = stream else { continue };
            resident.left_ns -= resident.rate * passed;
            // A nanosecond is the grain of the clock.
            if resident.left_ns < 1e-3 && resident.seen {
                *stream = None;
                ended.push(program);
            }
        }
    }

    /// Works out every rate anew; the next moment at which one changes by itself.
    pub(super) fn next_change(&mut self) -> u64 {
        match self.mode {
            Mode::TimeSlice => self.share_by_slices(),
            Mode::Mps | Mode::MpsPriority => self.share_by_blocks(),
        }
        let mut next = u64::MAX;
        for resident in self.streams.iter().flatten() {
            if resident.begins_ns > self.now_ns {
                next = next.min(resident.begins_ns);
            }
            if resident.held_until_ns > self.now_ns {
                next = next.min(resident.held_until_ns);
            }
            if resident.rate > 0.0 {
                let block = resident.kernel.block_ns as f64;
                let part = if resident.left_ns > block {
                    resident.left_ns - block
                } else {
                    resident.left_ns
                };
                let needed = (part / resident.rate).ceil().max(1.0);
                next = next.min(self.now_ns.saturating_add(needed as u64));
            }
        }
        if self.mode == Mode::TimeSlice {
            for moment in [self.works_from_ns, self.turn_ends_ns] {
                if moment > self.now_ns {
                    next = next.min(moment);
                }
            }
        }
        next
    }

    fn share_by_slices(&mut self) {
        let now_ns = self.now_ns;
        let ready = |stream: &Option<Resident>| {
            stream.as_ref().is_some_and(|resident| resident.begins_ns <= now_ns)
        };
        // A stream between two of its kernels has not given up its turn.
        let stays = self.streams.get(self.turn).is_some_and(Option::is_some);
        let others = (1..=self.streams.len())
            .map(|step| (self.turn.wrapping_add(step)) % self.streams.len())
            .find(|&program| program != self.turn && ready(&self.streams[program]));
        if let Some(next) = others
            && (!stays || now_ns >= self.turn_ends_ns)
        {
            let first = self.turn == usize::MAX;
            self.turn = next;
            self.works_from_ns = if first { now_ns } else { now_ns + CHANGE_NS };
            self.turn_ends_ns = self.works_from_ns + SLICE_NS;
        } else if others.is_none() && now_ns >= self.turn_ends_ns {
            self.turn_ends_ns = 0;
        }
        for (program, stream) in self.streams.iter_mut().enumerate() {
            let Some(resident) = stream else { continue };
            let runs = program == self.turn
                && now_ns >= self.works_from_ns
                && resident.begins_ns <= now_ns;
            resident.rate = f64::from(runs);
            resident.seen |= runs;
        }
    }

    fn share_by_blocks(&mut self) {
        let now_ns = self.now_ns;
        let with_priority = self.mode == Mode::MpsPriority;
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend((0..self.streams.len()).filter(|&program| {
            self.streams[program].as_ref().is_some_and(|resident| resident.begins_ns <= now_ns)
        }));
        let preferred = &self.preferred;
        let streams = &self.streams;
        order.sort_by_key(|&program| {
            let came = streams[program].as_ref().map_or(0, |resident| resident.came);
            (with_priority && !preferred[program], came)
        });
        // A preferred kernel that is new here finds the others' blocks on the device: they stay to their end.
        let new_preferred = with_priority
            && order.iter().any(|&program| {
                self.preferred[program]
                    && self.streams[program].as_ref().is_some_and(|resident| !resident.seen)
            });
        let mut free = 1.0;
        for &program in &order {
            let Some(resident) = &mut self.streams[program] else { continue };
            if new_preferred && !self.preferred[program] && resident.held_until_ns <= now_ns {
                // It wants all of the device, so it waits for the last of them.
                resident.held_until_ns = now_ns + resident.kernel.block_ns + HANDOVER_NS;
            }
            if resident.held_until_ns > now_ns {
                free -= resident.part;
            }
        }
        let mut pressed = 0.0;
        for &program in &order {
            let Some(resident) = &mut self.streams[program] else { continue };
            resident.seen = true;
            let needs = (f64::from(resident.kernel.sms.max(1)) / self.sms).min(1.0);
            let last_wave = resident.left_ns <= resident.kernel.block_ns as f64;
            let wants = if last_wave { needs * LAST_WAVE } else { needs };
            let held = if resident.held_until_ns > now_ns { resident.part } else { 0.0 };
            let part = f64::min(wants, f64::max(free, 0.0) + held);
            free -= f64::max(part - held, 0.0);
            resident.part = f64::max(part, held);
            resident.rate = (part / wants).min(1.0);
            pressed += pressure(&resident.kernel) * resident.rate;
        }
        if pressed > 1.0 {
            for resident in self.streams.iter_mut().flatten() {
                let slowed = 1.0 - pressure(&resident.kernel) * (1.0 - 1.0 / pressed);
                resident.rate *= slowed;
            }
        }
        self.order = order;
    }
}

/// The part of the memory's speed that a kernel takes at its full rate.
fn pressure(kernel: &Kernel) -> f64 {
    match kernel.bottleneck {
        Bottleneck::Memory => 0.9,
        Bottleneck::Compute => 0.3,
        Bottleneck::Unknown => 0.5,
    }
}
