//! Makes a program from a seed.
//!
//! What is made can be observed in one way only: acts that would let two things meet in either order are left out where
//! others run beside (a wait for the whole context while somebody captures, objects that end while others are made).

use crate::kernels::{Kernel, WORDS};
use crate::program::{
    Act, BLOCKS, CALLBACKS, EVENTS, Form, Graph, How, Kind, Launch, MOST_LANES, MOST_THREADS,
    Program, Spoil, Thread, Wrong,
};
use crate::random::Random;

/// Makes the program of a seed.
pub(crate) fn program(seed: u64) -> Program {
    let mut random = Random::new(seed ^ 0x6f72_6465_7200);
    let count = if random.one_in(2) { 1 } else { random.between(2, MOST_THREADS) };
    let captures = count == 1 || random.one_in(2);
    let acts = random.pick(&[5_usize, 10, 20, 40, 80]).div_ceil(count);
    let mut threads: Vec<Thread> =
        (0..count).map(|_| Maker::new(&mut random, count, captures).thread(acts)).collect();
    let meetings = if count > 1 { random.below(6) } else { 0 };
    meet(&mut random, &mut threads, meetings);
    if count == 1 && random.one_in(150) {
        let lane = random.below(threads[0].lanes.len());
        threads[0].acts.push(Act::Fault { lane });
    }
    Program { seed, threads, meetings }
}

/// Puts meetings between threads, each later one behind the earlier ones in both threads: so nobody waits in a circle.
fn meet(random: &mut Random, threads: &mut [Thread], meetings: usize) {
    let mut next = vec![0; threads.len()];
    for meeting in 0..meetings {
        let from = random.below(threads.len());
        let to = (from + random.between(1, threads.len() - 1)) % threads.len();
        for (thread, is_sender) in [(from, true), (to, false)] {
            let lane = random.below(threads[thread].lanes.len());
            let at = random.between(next[thread], threads[thread].acts.len());
            let act = if is_sender {
                Act::Send { meeting, lane }
            } else {
                Act::Receive { meeting, lane }
            };
            threads[thread].acts.insert(at, act);
            next[thread] = at + 1;
        }
    }
}

struct Maker<'a> {
    random: &'a mut Random,
    lanes: Vec<Kind>,
    is_alone: bool,
    captures: bool,
}

impl Maker<'_> {
    fn new(random: &mut Random, threads: usize, captures: bool) -> Maker<'_> {
        let most = if threads == 1 { MOST_LANES } else { MOST_LANES / 2 };
        let count = random.between(1, most);
        let mut lanes = Vec::new();
        for _ in 0..count {
            let kind = random.pick(&[
                Kind::Blocking,
                Kind::Blocking,
                Kind::NonBlocking,
                Kind::NonBlocking,
                Kind::Urgent,
                Kind::Legacy,
                Kind::PerThread,
            ]);
            // Two lanes of one stream would need no care, but would be one.
            lanes.push(if !kind.is_own() && lanes.contains(&kind) { Kind::Blocking } else { kind });
        }
        Maker { random, lanes, is_alone: threads == 1, captures }
    }

    fn thread(mut self, acts: usize) -> Thread {
        let events = [0; EVENTS].map(|_| self.random.pick(&[0, 0, 1, 2, 2, 3]));
        let acts = (0..acts).map(|_| self.act(2)).collect();
        Thread { lanes: self.lanes, events, acts }
    }

    fn lane(&mut self) -> usize {
        self.random.below(self.lanes.len())
    }

    fn event(&mut self) -> usize {
        self.random.below(EVENTS)
    }

    /// Any act. Those that have acts inside have them `depth` deep at most.
    fn act(&mut self, depth: usize) -> Act {
        let lane = self.lane();
        match self.random.below(100) {
            0..28 => self.work(lane),
            28..32 => self.block(lane),
            32..46 if depth > 0 => self.repeat(depth),
            46..49 => Act::FillNow { lane, value: self.random.next() as u32 },
            49..53 => self.exchange(lane),
            53..56 => Act::Upload { lane, how: self.how(), seed: self.random.next() },
            56..59 => Act::Download { lane, how: self.how() },
            59..63 => Act::Record { event: self.event(), lane, flags: None },
            63..65 => Act::Await { event: self.event(), lane },
            65..67 => Act::Ask { lane },
            67..69 => Act::Query { lane },
            69..71 => Act::QueryEvent { event: self.event() },
            71..72 => Act::Elapsed { from: self.event(), to: self.event() },
            72..74 => Act::Settle { event: self.event() },
            74..77 => Act::Sync { lane },
            77..78 if self.is_alone || !self.captures => Act::SyncContext,
            77..78 => Act::Look { block: self.random.below(BLOCKS) },
            78..80 => self.block(lane),
            80..81 => Act::Allocate {
                lane,
                is_ordered: !self.random.one_in(3),
                value: self.random.next() as u32,
            },
            81..84 => Act::Watch { lane, by_kernel: self.random.one_in(2) },
            84..87 => self.gate(lane),
            87..90 => self.graph(lane),
            90..91 if self.random.one_in(8) => {
                Act::Module { lane, launches: self.random.between(1, 8) }
            }
            91..92 => Act::Setting { lane, bytes: self.random.pick(&[0, 1024, 60_000, 100_000]) },
            92..93 => {
                Act::Elsewhere { launches: self.random.between(1, 6), sets: self.random.one_in(2) }
            }
            93..94 if self.is_alone && self.lanes[lane].is_own() => Act::Recreate { lane },
            94..99 => self.wrong(lane),
            99..100 if self.random.one_in(10) => self.flood(lane),
            _ => self.work(lane),
        }
    }

    /// Memory that outlives the act.
    fn block(&mut self, lane: usize) -> Act {
        let block = self.random.below(BLOCKS);
        match self.random.below(8) {
            0..3 => Act::Hold {
                lane,
                block,
                bytes: self.random.pick(&[256, 256, 300, 4096, 4096, 65_536, 1 << 20]),
                rows: self.random.pick(&[0, 0, 0, 3]),
                value: self.random.next() as u8,
            },
            3..6 => Act::Mingle { lane, block, event: self.event() },
            6 => Act::Look { block },
            _ => Act::Drop { block },
        }
    }

    /// Work that a stream does in its turn and that no host waits for.
    fn work(&mut self, lane: usize) -> Act {
        match self.random.below(16) {
            0..11 => Act::Launch(self.launch(lane)),
            11..13 => self.fill(lane),
            13 => {
                let count = self.random.between(1, WORDS / 2);
                let (low, high) = (0, WORDS - count);
                let (to, from) = if self.random.one_in(2) { (low, high) } else { (high, low) };
                Act::CopyWithin { lane, to, from, count }
            }
            14 => Act::Callback {
                lane,
                slot: self.random.below(CALLBACKS),
                is_old: self.random.one_in(4),
            },
            _ => {
                let flags = self.random.one_in(3).then_some(0);
                Act::Record { event: self.event(), lane, flags }
            }
        }
    }

    fn fill(&mut self, lane: usize) -> Act {
        let at = self.random.below(WORDS);
        let count = self.random.below(WORDS - at + 1);
        Act::Fill {
            lane,
            bits: self.random.pick(&[8, 16, 32]),
            value: self.random.next() as u32,
            at,
            count,
        }
    }

    fn launch(&mut self, lane: usize) -> Launch {
        let kernel = self.random.pick(&[
            Kernel::Mix,
            Kernel::Mix,
            Kernel::Mix,
            Kernel::Mix,
            Kernel::Pull,
            Kernel::Blend,
            Kernel::Blend,
            Kernel::Wide,
            Kernel::Huge,
            Kernel::Slow,
            Kernel::Flip,
            Kernel::Bump,
            Kernel::Bump,
            Kernel::Part,
            Kernel::Part,
            Kernel::Part,
            Kernel::Part,
            Kernel::Move,
            Kernel::Move,
            Kernel::Spread,
            Kernel::Sum,
            Kernel::Sum,
            Kernel::Nothing,
        ]);
        self.launch_of(lane, kernel)
    }

    fn launch_of(&mut self, lane: usize, kernel: Kernel) -> Launch {
        let random = &mut *self.random;
        let (grid, block) = match kernel {
            Kernel::Mix => (
                random.pick(&[[1, 1, 1], [2, 1, 1], [4, 1, 1], [2, 2, 1], [3, 1, 1], [1, 1, 2]]),
                random.pick(&[[64, 1, 1], [32, 1, 1], [8, 4, 2], [1, 1, 1], [48, 1, 1]]),
            ),
            Kernel::Flip => ([1; 3], random.pick(&[[64, 1, 1], [32, 1, 1], [33, 1, 1]])),
            Kernel::Pull | Kernel::Blend => {
                (random.pick(&[[1, 1, 1], [2, 1, 1]]), random.pick(&[[64, 1, 1], [32, 1, 1]]))
            }
            _ => ([1; 3], random.pick(&[[64, 1, 1], [32, 1, 1]])),
        };
        let shared = if kernel == Kernel::Flip { random.pick(&[256, 512, 40_000]) } else { 0 };
        let form = match random.below(12) {
            0..7 => Form::Pointers,
            11 => Form::Handle,
            7 => Form::Extra,
            8 => Form::Described(random.below(256) as u32),
            9 => Form::Twin,
            _ => Form::Cooperative,
        };
        Launch { lane, kernel, seed: random.next(), grid, block, shared, form }
    }

    /// A loop: what a queue knows after its first turn, and keeps as graphs after some.
    fn repeat(&mut self, depth: usize) -> Act {
        let lane = self.lane();
        let is_burst = self.random.one_in(2);
        let length = self.random.between(1, if is_burst { 12 } else { 5 });
        let body = (0..length)
            .map(|_| if is_burst { Act::Launch(self.launch(lane)) } else { self.act(depth - 1) })
            .collect();
        let times = self.random.between(2, if is_burst { 14 } else { 5 });
        Act::Repeat { times, varies: self.random.one_in(2), body }
    }

    fn exchange(&mut self, to: usize) -> Act {
        let from = self.lane();
        if from == to { self.work(to) } else { Act::Exchange { to, from, event: self.event() } }
    }

    fn how(&mut self) -> How {
        self.random.pick(&[How::Blocking, How::Pageable, How::Pinned])
    }

    fn gate(&mut self, lane: usize) -> Act {
        let count = self.random.between(1, 12);
        let inner = (0..count).map(|_| self.work(lane)).collect();
        Act::Gate { lane, inner }
    }

    fn flood(&mut self, lane: usize) -> Act {
        let kernel = self.random.pick(&[Kernel::Wide, Kernel::Wide, Kernel::Nothing, Kernel::Mix]);
        Act::Flood { lane, kernel, count: self.random.between(300, 1500) }
    }

    fn graph(&mut self, lane: usize) -> Act {
        let kind = self.lanes[lane];
        if !self.captures || !kind.is_own() || !self.is_alone && kind.meets_legacy() {
            return self.work(lane);
        }
        let fits = |other: usize, kind: Kind| {
            other != lane && kind.is_own() && (self.is_alone || !kind.meets_legacy())
        };
        let fork = self
            .lanes
            .iter()
            .enumerate()
            .find(|&(other, &kind)| fits(other, kind))
            .map(|(other, _)| other);
        let fork = fork.filter(|_| self.random.one_in(2));
        let body = (0..self.random.between(1, 6)).map(|_| self.captured(lane)).collect();
        let between = (0..self.random.below(4)).map(|_| self.work(lane)).collect();
        let spoil = if self.random.one_in(4) { self.spoil(fork, kind) } else { None };
        Act::Graph(Box::new(Graph {
            lane,
            fork,
            mode: if self.is_alone {
                self.random.below(3) as u32
            } else {
                self.random.between(1, 2) as u32
            },
            body,
            launches: self.random.between(1, 6),
            between,
            changes: self.random.one_in(3),
            spoil,
        }))
    }

    /// Work that may be captured: no records, which would stand for a place in the graph from then on.
    fn captured(&mut self, lane: usize) -> Act {
        match self.random.below(6) {
            0 => self.fill(lane),
            1 => Act::Callback { lane, slot: self.random.below(CALLBACKS), is_old: false },
            _ => Act::Launch(Launch { form: Form::Pointers, ..self.launch(lane) }),
        }
    }

    fn spoil(&mut self, fork: Option<usize>, kind: Kind) -> Option<Spoil> {
        let mut choices = vec![Spoil::Query];
        if fork.is_some() {
            choices.extend([Spoil::Unmatched, Spoil::Unmatched, Spoil::Unjoined]);
        }
        if self.is_alone {
            choices.push(Spoil::Context);
        }
        if self.is_alone && kind.meets_legacy() {
            choices.push(Spoil::Legacy);
        }
        Some(self.random.pick(&choices))
    }

    fn wrong(&mut self, lane: usize) -> Act {
        let is_rare = self.is_alone && self.random.one_in(4);
        let what = self.random.pick(if is_rare { Wrong::ALONE } else { Wrong::ANYWHERE });
        Act::Wrong { lane, what }
    }
}
