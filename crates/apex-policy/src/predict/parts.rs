//! The parts that a launch is taken apart into: one list of what they are called, counted by, and cost.

use super::text::Walked;

/// What the list below reads.
pub(super) struct View {
    pub(super) blocks: f32,
    /// Blocks on the busiest multiprocessor, and their warps.
    pub(super) blocks_on_one: f32,
    pub(super) warps_on_one: f32,
    /// Warps of one block: as many wait for each other at a barrier.
    pub(super) warps_of_block: f32,
    /// Waves, and waves begun; at least one.
    pub(super) waves: f32,
    pub(super) whole_waves: f32,
    pub(super) threads: f32,
    /// Operations of one thread if they run on these units, else none.
    pub(super) single: f32,
    pub(super) double: f32,
    pub(super) tensor: f32,
    /// Bytes of one thread, and the same for a kernel with loops.
    pub(super) bytes_each: f32,
    pub(super) looped_each: f32,
    pub(super) bytes: f32,
    pub(super) bytes_beyond: f32,
    /// The share of bytes that come from beyond the cache.
    pub(super) beyond: f32,
    /// The share of local memory that the nearest cache does not hold.
    pub(super) local_missed: f32,
    /// All warps.
    pub(super) warps: f32,
    /// What a warp does: by its walk, or as the text says it once.
    pub(super) walked: Walked,
    /// One where the text was not walked.
    pub(super) unknown: f32,
}

macro_rules! parts {
    (|$view:ident| $($group:ident { $($name:ident = $value:expr, $cost:expr, $least:expr;)+ })+) => {
        /// Names of the parts, in their order.
        pub const NAMES: &[&str] = &[$($(stringify!($name)),+),+];
        /// How many parts there are.
        pub const PARTS: usize = NAMES.len();
        /// What each part costs on a large GPU in round figures, in nanoseconds, for devices without rows: peak
        /// rates for arithmetic and bytes, usual latencies for the rest.
        pub const USUAL: Costs = [$($($cost),+),+];
        /// About a hundredth of a usual launch's time, in nanoseconds for one of each part: where a kernel's search
        /// for its own costs begins with parts that are free on the device; see `own_costs`.
        pub const LEAST: Costs = [$($($least),+),+];
        /// The group of each part.
        pub(super) const GROUP_OF: [usize; PARTS] = [$($(Group::$group as usize + 0 * stringify!($name).len()),+),+];

        /// The counts of all parts.
        #[inline]
        pub(super) fn counts($view: &View) -> [f32; PARTS] {
            [$($($value),+),+]
        }
    };
}

/// What parts have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// What every launch costs.
    Launch,
    /// Starting blocks.
    Blocks,
    /// The longest thread of each wave, whatever it computes.
    Chain,
    /// Its arithmetic.
    ChainFlops,
    /// Its memory.
    ChainBytes,
    /// What the busiest multiprocessor issues, whatever that computes.
    Issue,
    /// Its arithmetic.
    IssueFlops,
    /// Its memory.
    IssueBytes,
    /// Bytes from the cache that all share.
    Bytes,
    /// Bytes from beyond it.
    Beyond,
    /// What threads of the whole device do one after the other.
    Serial,
}

/// How many groups there are.
pub const GROUPS: usize = Group::Serial as usize + 1;

/// Nanoseconds of one of each part.
pub type Costs = [f32; PARTS];

parts! { |view|
    Launch {
        launch = 1.0, 2_000.0, 100.0;
    }
    Blocks {
        blocks = view.blocks, 0.5, 0.1;
        blocks_on_one = view.blocks_on_one, 0.0, 10.0;
    }
    Chain {
        waves = view.waves, 50.0, 30.0;
        whole_waves = view.whole_waves, 50.0, 30.0;
        chain_cycles = view.waves * view.walked.cycles, 0.5, 0.1;
        chain_rounds = view.waves * view.walked.rounds, 300.0, 20.0;
        chain_beyond = view.waves * view.beyond, 300.0, 30.0;
        chain_rounds_beyond = view.waves * view.walked.rounds * view.beyond, 200.0, 20.0;
        chain_barriers = view.waves * view.walked.barriers, 20.0, 20.0;
        chain_barrier_warps = view.waves * view.walked.barriers * view.warps_of_block, 0.0, 3.0;
    }
    ChainFlops {
        chain_single = view.unknown * view.waves * view.single, 1.0, 1.0;
        chain_double = view.unknown * view.waves * view.double, 1.0, 0.1;
        chain_tensor = view.unknown * view.waves * view.tensor, 0.05, 0.03;
    }
    ChainBytes {
        chain_bytes = view.unknown * view.waves * view.bytes_each, 0.0, 3.0;
        chain_looped_bytes = view.unknown * view.waves * view.looped_each, 25.0, 3.0;
        chain_looped_beyond = view.unknown * view.waves * view.looped_each * view.beyond, 25.0, 3.0;
    }
    Issue {
        warps = view.warps_on_one, 0.0, 1.0;
        issue_instructions = view.warps_on_one * view.walked.instructions, 0.12, 0.02;
        issue_lines = view.warps_on_one * view.walked.lines, 0.5, 0.3;
        issue_missed = view.warps_on_one * (view.walked.missed + view.walked.stored), 0.3, 0.2;
        issue_special = view.warps_on_one * view.walked.special, 1.0, 0.9;
        issue_shared = view.warps_on_one * view.walked.shared, 0.5, 0.1;
        issue_constants = view.warps_on_one * view.walked.constants, 0.5, 0.1;
        issue_atomics = view.warps_on_one * view.walked.meeting, 1.0, 1.0;
        issue_local = view.warps_on_one * view.walked.local, 2.0, 0.7;
    }
    IssueFlops {
        issue_single = view.warps_on_one * view.single, 0.063, 0.06;
        issue_double = view.warps_on_one * view.double, 0.13, 2e-3;
        issue_tensor = view.warps_on_one * view.tensor, 0.0043, 2e-3;
    }
    IssueBytes {
        issue_bytes = view.unknown * view.warps_on_one * view.bytes_each, 0.1, 0.1;
        issue_looped_bytes = view.unknown * view.warps_on_one * view.looped_each, 0.1, 0.1;
    }
    Bytes {
        bytes = view.bytes, 1e-4, 5e-5;
        sectors = view.warps * (view.walked.missed + view.walked.stored), 5e-3, 1e-3;
        local = view.warps * view.walked.local * view.local_missed, 2e-2, 1e-2;
    }
    Beyond {
        bytes_beyond_cache = view.bytes_beyond, 2e-4, 1e-5;
        gathered_beyond = view.warps * view.walked.gathered * view.beyond, 5e-3, 1e-3;
    }
    Serial {
        threads = view.threads, 0.0, 6e-4;
        atomics = view.warps * view.walked.atomics, 1e-3, 5e-4;
        contended = view.warps * view.walked.contended, 2.0, 0.5;
    }
}

/// Which part bears a name; fails the build for a name that is not in the list.
pub(super) const fn part(name: &str) -> usize {
    let mut at = 0;
    while at < PARTS {
        if same(NAMES[at].as_bytes(), name.as_bytes()) {
            return at;
        }
        at += 1;
    }
    panic!("no such part")
}

/// Whether two names are the same; for lists that are read while the crate is built.
pub(super) const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}
