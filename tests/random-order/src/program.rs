//! A random program: what each of its threads does, as data.
//!
//! A *lane* is a stream with memory that nobody else touches. So what a thread sees follows from its own calls, and where
//! lanes and threads meet, events or waits put one before the other. Whatever a program may observe is then the same in
//! every run, and [`crate::compare`] may ask that it is.

use crate::kernels::Kernel;

/// Lanes that a thread has at most.
pub(crate) const MOST_LANES: usize = 4;
/// Threads that a program has at most.
pub(crate) const MOST_THREADS: usize = 4;
/// Events of each thread.
pub(crate) const EVENTS: usize = 4;
/// Blocks that a thread may hold at once.
pub(crate) const BLOCKS: usize = 6;
/// Host functions of each lane.
pub(crate) const CALLBACKS: usize = 4;

/// A whole program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) seed: u64,
    pub(crate) threads: Vec<Thread>,
    /// Times that one thread hands its work over to another.
    pub(crate) meetings: usize,
}

/// What one thread does.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) lanes: Vec<Kind>,
    /// Flags of its events.
    pub(crate) events: [u32; EVENTS],
    pub(crate) acts: Vec<Act>,
}

/// What a lane's stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Blocking,
    NonBlocking,
    Urgent,
    Legacy,
    PerThread,
}

impl Kind {
    /// Whether a blocking copy waits for the stream by itself.
    pub(crate) fn meets_legacy(self) -> bool {
        !matches!(self, Kind::NonBlocking | Kind::Urgent)
    }

    /// Whether the stream is one that the program has made.
    pub(crate) fn is_own(self) -> bool {
        !matches!(self, Kind::Legacy | Kind::PerThread)
    }
}

/// One launch. Its parameters follow from the seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    pub(crate) lane: usize,
    pub(crate) kernel: Kernel,
    pub(crate) seed: u64,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    pub(crate) form: Form,
}

impl Launch {
    /// A launch of a block of 64 in the usual form.
    pub(crate) fn plain(lane: usize, kernel: Kernel) -> Launch {
        let (grid, block, form) = ([1; 3], [64, 1, 1], Form::Pointers);
        Launch { lane, kernel, seed: 3, grid, block, shared: 0, form }
    }
}

/// By which function and in which form a launch is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Pointers,
    Extra,
    /// With attributes, one for each bit.
    Described(u32),
    Cooperative,
    /// The function whose null stream is the thread's own.
    Twin,
    /// By the handle of a kernel of a library instead of a function's.
    Handle,
}

/// How memory of the host takes part in a copy.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Blocking,
    Pageable,
    Pinned,
}

/// A sequence that is captured, and what is done with it.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub(crate) lane: usize,
    /// Takes part in the capture.
    pub(crate) fork: Option<usize>,
    pub(crate) mode: u32,
    pub(crate) body: Vec<Act>,
    pub(crate) launches: usize,
    /// Done after each launch of the graph.
    pub(crate) between: Vec<Act>,
    /// Whether the first node gets other parameters between launches.
    pub(crate) changes: bool,
    pub(crate) spoil: Option<Spoil>,
}

/// What ends a capture in an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoil {
    /// A question for the stream.
    Query,
    /// The end is asked of a stream that takes part and did not begin.
    Unmatched,
    /// A stream that takes part does not lead back.
    Unjoined,
    /// The legacy stream would wait for it.
    Legacy,
    /// A wait for everything.
    Context,
}

/// One thing that a thread does; mostly a call or a few.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Launch(Launch),
    /// A memset of elements of so many bits, at a word.
    Fill {
        lane: usize,
        bits: u32,
        value: u32,
        at: usize,
        count: usize,
    },
    FillNow {
        lane: usize,
        value: u32,
    },
    CopyWithin {
        lane: usize,
        to: usize,
        from: usize,
        count: usize,
    },
    /// One lane takes the other's words, with events where the streams need them.
    Exchange {
        to: usize,
        from: usize,
        event: usize,
    },
    Upload {
        lane: usize,
        how: How,
        seed: u64,
    },
    Download {
        lane: usize,
        how: How,
    },
    Callback {
        lane: usize,
        slot: usize,
        is_old: bool,
    },
    Record {
        event: usize,
        lane: usize,
        flags: Option<u32>,
    },
    Await {
        event: usize,
        lane: usize,
    },
    /// Questions that touch no work.
    Ask {
        lane: usize,
    },
    Query {
        lane: usize,
    },
    QueryEvent {
        event: usize,
    },
    Elapsed {
        from: usize,
        to: usize,
    },
    Settle {
        event: usize,
    },
    Sync {
        lane: usize,
    },
    SyncContext,
    Allocate {
        lane: usize,
        is_ordered: bool,
        value: u32,
    },
    /// A block is allocated and filled in a lane's order; what held its place goes, with work that uses it under way.
    Hold {
        lane: usize,
        block: usize,
        bytes: usize,
        rows: usize,
        value: u8,
    },
    /// A lane's words and a block's are copied to and fro. The block is that lane's from then on.
    Mingle {
        lane: usize,
        block: usize,
        event: usize,
    },
    /// Questions about a block.
    Look {
        block: usize,
    },
    /// A block is freed.
    Drop {
        block: usize,
    },
    /// The host looks at memory until the lane's work has changed it, without a call.
    Watch {
        lane: usize,
        by_kernel: bool,
    },
    /// The lane waits for a word that the host writes after the inner acts.
    Gate {
        lane: usize,
        inner: Vec<Act>,
    },
    Graph(Box<Graph>),
    Module {
        lane: usize,
        launches: usize,
    },
    /// A kernel may have so much shared memory, and is launched with it.
    Setting {
        lane: usize,
        bytes: u32,
    },
    /// Launches in another context.
    Elsewhere {
        launches: usize,
        sets: bool,
    },
    Recreate {
        lane: usize,
    },
    Wrong {
        lane: usize,
        what: Wrong,
    },
    Send {
        meeting: usize,
        lane: usize,
    },
    Receive {
        meeting: usize,
        lane: usize,
    },
    Repeat {
        times: usize,
        varies: bool,
        body: Vec<Act>,
    },
    Flood {
        lane: usize,
        kernel: Kernel,
        count: usize,
    },
    /// The context fails. Nothing comes after it but what shows that.
    Fault {
        lane: usize,
    },
}

/// What is done wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    NoGrid,
    HighGrid,
    NoBlock,
    LongBlock,
    ManyThreads,
    /// Sides of the block that look like another block's where they are packed into too few bits.
    PackedBlock,
    SharedMemory,
    NoFunction,
    NoParameters,
    BothParameters,
    UnknownExtra,
    OddCluster,
    ManyBlocksTogether,
    RecordFlags,
    WaitFlags,
    ValueFlags,
    CopyAddress,
    CopyLength,
    FillAddress,
    NoStream,
    DestroyedEvent,
    DestroyedStream,
    DestroyedGraph,
    FreedMemory,
    UnloadedModule,
    EndOfNoCapture,
}

impl Wrong {
    /// What may be done beside other threads: their new objects do not take the place of one that has ended.
    pub(crate) const ANYWHERE: &[Wrong] = &[
        Wrong::NoGrid,
        Wrong::HighGrid,
        Wrong::NoBlock,
        Wrong::LongBlock,
        Wrong::ManyThreads,
        Wrong::PackedBlock,
        Wrong::SharedMemory,
        Wrong::NoFunction,
        Wrong::NoParameters,
        Wrong::BothParameters,
        Wrong::UnknownExtra,
        Wrong::OddCluster,
        Wrong::ManyBlocksTogether,
        Wrong::RecordFlags,
        Wrong::WaitFlags,
        Wrong::ValueFlags,
        Wrong::CopyAddress,
        Wrong::CopyLength,
        Wrong::FillAddress,
        Wrong::NoStream,
        Wrong::EndOfNoCapture,
    ];

    /// What may be done by a program of one thread.
    pub(crate) const ALONE: &[Wrong] = &[
        Wrong::DestroyedEvent,
        Wrong::DestroyedStream,
        Wrong::DestroyedGraph,
        Wrong::FreedMemory,
        Wrong::UnloadedModule,
    ];
}
