//! Does what a program says, on one side, and notes what could be observed.
//!
//! What a call was given is overwritten as soon as it returns, where CUDA allows that: whoever made a call later than it
//! was made has to have its own copy.

#![allow(unsafe_code, reason = "calls a driver by its C functions")]

mod blocks;
mod graph;
mod launching;
mod memory;
mod order;
mod wrong;

use crate::program::{Act, BLOCKS, CALLBACKS, EVENTS, Kind, Program, Thread};
use crate::random::Random;
use crate::record::Record;
use crate::side::Side;
use apex_cuda::Driver;
use apex_cuda::types::*;
use blocks::Block;
use order::{Callback, Log};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Calls a function of the driver and notes its answer.
macro_rules! call {
    ($thread:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the program's handles, right or wrong; pointers lead to memory that is there as long as the call needs it.
        let result = unsafe { ($thread.driver.$name)($($argument),*) };
        $thread.record.answer(stringify!($name), result)
    }};
}
pub(crate) use call;

/// What threads that meet have in common.
pub(crate) struct Meetings {
    events: Vec<CUevent>,
    sent: Mutex<Vec<bool>>,
    changed: Condvar,
    /// The program has one thread.
    is_alone: bool,
}

// SAFETY: handles may be used by any thread.
unsafe impl Sync for Meetings {}

/// A stream with memory of its own.
pub(crate) struct Lane {
    pub(crate) kind: Kind,
    pub(crate) stream: CUstream,
    pub(crate) words: CUdeviceptr,
    pub(crate) pinned: *mut u32,
    pub(crate) pinned_address: CUdeviceptr,
    /// Uploads from pinned memory since the last wait.
    pub(crate) uploads: usize,
    /// A download to pinned memory that was not looked at yet.
    pub(crate) is_downloading: bool,
    pub(crate) gates: u32,
    pub(crate) signals: u32,
    pub(crate) log: Log,
    pub(crate) callbacks: Vec<Callback>,
}

/// What mostly is needed of a lane.
#[derive(Clone, Copy)]
pub(crate) struct View {
    pub(crate) stream: CUstream,
    pub(crate) words: CUdeviceptr,
    pub(crate) pinned: *mut u32,
    pub(crate) pinned_address: CUdeviceptr,
    pub(crate) signals: u32,
}

impl Lane {
    pub(crate) fn view(&self) -> View {
        let &Lane { stream, words, pinned, pinned_address, signals, .. } = self;
        View { stream, words, pinned, pinned_address, signals }
    }
}

/// One thread of a program at work.
pub(crate) struct Performer<'a> {
    side: &'a Side,
    driver: &'a Driver,
    meetings: &'a Meetings,
    number: usize,
    lanes: Vec<Lane>,
    events: [CUevent; EVENTS],
    blocks: [Option<Block>; BLOCKS],
    record: Record,
    /// Changes parameters from turn to turn of a loop.
    salt: u64,
    has_failed: bool,
}

/// What came of a program on one side.
pub(crate) struct Outcome {
    pub(crate) records: Vec<Record>,
    /// The context has failed: it can be used no more.
    pub(crate) has_failed: bool,
}

/// Runs a program.
pub(crate) fn perform(program: &Program, side: &Side) -> Outcome {
    let mut events = vec![null_mut(); program.meetings];
    for event in &mut events {
        // SAFETY: a valid place for the answer.
        unsafe { (side.driver.cuEventCreate)(event, 2) };
    }
    let sent = Mutex::new(vec![false; program.meetings]);
    let meetings =
        Meetings { events, sent, changed: Condvar::new(), is_alone: program.threads.len() == 1 };
    let run = |number: usize, thread: &Thread| {
        Performer::new(side, &meetings, number, program.seed, thread).run(thread)
    };
    let done: Vec<(Record, bool)> = match &program.threads[..] {
        [alone] => vec![run(0, alone)],
        threads => std::thread::scope(|scope| {
            let spawn = |(number, thread)| scope.spawn(move || run(number, thread));
            let started: Vec<_> = threads.iter().enumerate().map(spawn).collect();
            started
                .into_iter()
                .map(|one| one.join().unwrap_or_else(|_| std::process::abort()))
                .collect()
        }),
    };
    for &event in &meetings.events {
        // SAFETY: an event made above.
        unsafe { (side.driver.cuEventDestroy_v2)(event) };
    }
    let has_failed = done.iter().any(|(_, has_failed)| *has_failed);
    Outcome { records: done.into_iter().map(|(record, _)| record).collect(), has_failed }
}

impl<'a> Performer<'a> {
    fn new(
        side: &'a Side,
        meetings: &'a Meetings,
        number: usize,
        seed: u64,
        thread: &Thread,
    ) -> Performer<'a> {
        let mut performer = Performer {
            side,
            driver: &side.driver,
            meetings,
            number,
            lanes: Vec::new(),
            events: [null_mut(); EVENTS],
            blocks: [None; BLOCKS],
            record: Record::default(),
            salt: 0,
            has_failed: false,
        };
        // SAFETY: the side's own context.
        unsafe { (side.driver.cuCtxSetCurrent)(side.context) };
        let mut random = Random::new(seed ^ number as u64);
        for (nth, &kind) in thread.lanes.iter().enumerate() {
            performer.open(nth, kind, &mut random);
        }
        for (event, flags) in performer.events.iter_mut().zip(thread.events) {
            // SAFETY: a valid place for the answer.
            let result = unsafe { (side.driver.cuEventCreate)(event, flags) };
            performer.record.answer("cuEventCreate", result);
        }
        performer
    }

    fn open(&mut self, nth: usize, kind: Kind, random: &mut Random) {
        let (pinned, pinned_address) = self.side.pinned(self.number, nth);
        // SAFETY: a lane's own memory, which no work uses yet.
        unsafe { pinned.write_bytes(0, 4) };
        let log = Log::default();
        let callbacks = (0..CALLBACKS).map(|slot| Callback::new(slot, pinned, &log)).collect();
        let stream = self.stream(kind);
        let words = self.side.words(self.number, nth);
        let mut first: Vec<u32> =
            (0..crate::kernels::WORDS).map(|_| random.next() as u32).collect();
        call!(self, cuMemcpyHtoD_v2(words, first.as_mut_ptr().cast(), 4 * first.len()));
        self.lanes.push(Lane {
            kind,
            stream,
            words,
            pinned,
            pinned_address,
            uploads: 0,
            is_downloading: false,
            gates: 0,
            signals: 0,
            log,
            callbacks,
        });
    }

    /// A stream of a kind.
    fn stream(&mut self, kind: Kind) -> CUstream {
        const NON_BLOCKING: u32 = 1;
        let mut stream = null_mut();
        match kind {
            Kind::Legacy => {}
            Kind::PerThread => stream = without_provenance_mut(2),
            Kind::Blocking => _ = call!(self, cuStreamCreate(&raw mut stream, 0)),
            Kind::NonBlocking => _ = call!(self, cuStreamCreate(&raw mut stream, NON_BLOCKING)),
            Kind::Urgent => {
                _ = call!(self, cuStreamCreateWithPriority(&raw mut stream, NON_BLOCKING, -2))
            }
        }
        stream
    }

    fn run(mut self, thread: &Thread) -> (Record, bool) {
        for (nth, act) in thread.acts.iter().enumerate() {
            self.record.act = nth;
            self.act(act);
        }
        self.record.act = thread.acts.len();
        (0..BLOCKS).for_each(|block| self.drop_block(block));
        for lane in 0..self.lanes.len() {
            self.sync(lane);
            self.download_now(lane);
            let log = self.lanes[lane].log.lock().unwrap_or_else(PoisonError::into_inner).clone();
            log.iter().for_each(|&said| self.record.note("callback", said));
        }
        for event in self.events {
            call!(self, cuEventDestroy_v2(event));
        }
        for lane in 0..self.lanes.len() {
            if self.lanes[lane].kind.is_own() {
                call!(self, cuStreamDestroy_v2(self.lanes[lane].stream));
            }
        }
        (self.record, self.has_failed)
    }

    /// Does one act.
    fn act(&mut self, act: &Act) {
        match *act {
            Act::Launch(launch) => _ = self.launch(&launch),
            Act::Fill { lane, bits, value, at, count } => self.fill(lane, bits, value, at, count),
            Act::FillNow { lane, value } => self.fill_now(lane, value),
            Act::CopyWithin { lane, to, from, count } => self.copy_within(lane, to, from, count),
            Act::Exchange { to, from, event } => self.exchange(to, from, event),
            Act::Upload { lane, how, seed } => self.upload(lane, how, seed),
            Act::Download { lane, how } => self.download(lane, how),
            Act::Callback { lane, slot, is_old } => self.call_back(lane, slot, is_old),
            Act::Record { event, lane, flags } => self.record_event(event, lane, flags),
            Act::Await { event, lane } => {
                _ = call!(self, cuStreamWaitEvent(self.lanes[lane].stream, self.events[event], 0))
            }
            Act::Ask { lane } => self.ask(lane),
            Act::Query { lane } => self.query(lane),
            Act::QueryEvent { event } => self.query_event(event),
            Act::Elapsed { from, to } => self.elapsed(from, to),
            Act::Settle { event } => self.settle(event),
            Act::Sync { lane } => self.sync(lane),
            Act::SyncContext => _ = call!(self, cuCtxSynchronize()),
            Act::Allocate { lane, is_ordered, value } => self.allocate(lane, is_ordered, value),
            Act::Hold { lane, block, bytes, rows, value } => {
                self.hold(lane, block, bytes, rows, value)
            }
            Act::Mingle { lane, block, event } => self.mingle(lane, block, event),
            Act::Look { block } => self.look(block),
            Act::Drop { block } => self.drop_block(block),
            Act::Watch { lane, by_kernel } => self.watch(lane, by_kernel),
            Act::Gate { lane, ref inner } => self.gate(lane, inner),
            Act::Graph(ref graph) => self.graph(graph),
            Act::Module { lane, launches } => self.module(lane, launches),
            Act::Setting { lane, bytes } => self.setting(lane, bytes),
            Act::Elsewhere { launches, sets } => self.elsewhere(launches, sets),
            Act::Recreate { lane } => self.recreate(lane),
            Act::Wrong { lane, what } => self.wrong(lane, what),
            Act::Send { meeting, lane } => self.send(meeting, lane),
            Act::Receive { meeting, lane } => self.receive(meeting, lane),
            Act::Repeat { times, varies, ref body } => self.repeat(times, varies, body),
            Act::Flood { lane, kernel, count } => self.flood(lane, kernel, count),
            Act::Fault { lane } => self.fault(lane),
        }
    }

    fn repeat(&mut self, times: usize, varies: bool, body: &[Act]) {
        let before = self.salt;
        for turn in 0..times {
            if varies {
                self.salt = before.wrapping_mul(31).wrapping_add(turn as u64);
            }
            body.iter().for_each(|act| self.act(act));
        }
        self.salt = before;
    }
}

/// For the log of a lane, which callbacks write.
pub(crate) type Shared<T> = Arc<Mutex<T>>;
