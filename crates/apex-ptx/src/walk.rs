//! What a launch's warps do, by walking a few of them through the kernel's text.
//!
//! A text says once what a loop does a thousand times, and nothing of whether neighbouring lanes read neighbouring
//! words. Both follow from the arguments: integers, sides of grid and block and the thread's place are known before a
//! launch, and nearly all loops and addresses are made of them. So a walk computes with these alone: what is loaded
//! or floating is unknown, nothing is read or written, and loops are walked a few turns. It takes microseconds.

mod decode;
mod memory;
mod program;
mod step;
mod turns;
mod values;
mod warp;

pub use program::Program;
use values::LANES;
use warp::Warp;

/// A launch, as far as ways and addresses depend on it.
#[derive(Debug, Clone, Copy)]
pub struct Launch<'a> {
    /// Blocks of the grid.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// Warps that share the nearest cache.
    pub sharing: u32,
    /// The value of each parameter, where it is known; of a pointer any address with room around it.
    pub parameters: &'a [Option<u64>],
    /// Bytes of the allocation that each parameter points to, 0 for others.
    pub bytes: &'a [u64],
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// What a warp did.
        #[derive(Debug, Clone, Copy, Default, PartialEq)]
        pub struct Counts { $($(#[$doc])* pub $name: f32),+ }

        impl Counts {
            /// Names of the counts, in their order.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),+];

            /// The counts in the order of their names.
            #[must_use]
            pub fn numbers(&self) -> [f32; Counts::NAMES.len()] {
                [$(self.$name),+]
            }

            fn with(&self, other: &Counts, of: impl Fn(f32, f32) -> f32) -> Counts {
                Counts { $($name: of(self.$name, other.$name)),+ }
            }
        }
    };
}

counts! {
    /// Instructions issued.
    instructions,
    /// Roots, exponentials, sines.
    special,
    /// Double-precision instructions.
    double,
    /// Matrix instructions.
    tensor,
    /// Loads and stores of global memory.
    accesses,
    /// Cache lines that these reached.
    lines,
    /// Sectors read that the nearest cache did not hold.
    missed,
    /// Sectors written.
    stored,
    /// Sectors at addresses that were loaded themselves.
    gathered,
    /// Rounds of shared memory.
    shared,
    /// Rounds of constant memory.
    constants,
    /// Loads and stores of local memory.
    local,
    /// Lanes of atomics on global memory.
    atomics,
    /// The most lanes of each atomic that met at one address.
    meeting,
    /// Atomics that each address would see of this warp if all had the same.
    contended,
    /// Exchanges within the warp.
    exchanges,
    /// Barriers.
    barriers,
    /// Cycles from the first to the last instruction if global memory answered at once.
    cycles,
    /// Global loads that had to wait for each other.
    rounds,
    /// Floating-point operations of all lanes.
    flops,
    /// Turns of loops whose end nobody knows.
    guessed,
}

impl Counts {
    fn less(&self, other: &Counts) -> Counts {
        self.with(other, |a, b| a - b)
    }

    fn plus(&self, other: &Counts) -> Counts {
        self.with(other, |a, b| a + b)
    }

    fn times(&self, factor: f32) -> Counts {
        self.with(self, |a, _| a * factor)
    }
}

/// The most threads of a block.
const WIDEST: u32 = 1024;

/// What a launch's warps do on average, and the longest way of one.
#[must_use]
pub fn walk(program: &Program, launch: &Launch<'_>) -> Counts {
    let launch = &Launch { block: launch.block.map(|side| side.clamp(1, WIDEST)), ..*launch };
    let threads: u64 = launch.block.iter().map(|side| u64::from(*side)).product();
    let warps = (threads.min(u64::from(WIDEST)) as u32).div_ceil(LANES as u32);
    let middle = launch.grid.map(|side| side / 2);
    let mut chosen = vec![0, warps / 2, warps.saturating_sub(1)];
    chosen.dedup();
    let walked: Vec<Counts> =
        chosen.iter().map(|warp| Warp::new(program, launch, middle, *warp).run()).collect();
    let first = match middle {
        [0, 0, 0] => walked[0],
        _ => Warp::new(program, launch, [0; 3], 0).run(),
    };
    let sum = walked.iter().fold(Counts::default(), |sum, counts| sum.plus(counts));
    let longest = |of: fn(&Counts) -> f32| walked.iter().map(of).fold(of(&first), f32::max);
    Counts {
        cycles: longest(|counts| counts.cycles),
        rounds: longest(|counts| counts.rounds),
        ..sum.times(1.0 / walked.len() as f32)
    }
}
