//! What can be changed of a kernel without touching the program, and how far each change reaches.

/// Something that can be changed without the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// The kernel prefers so many per cent of the multiprocessor's memory as shared memory.
    Carveout(u32),
    /// The kernel prefers shared memory or cache.
    Cache(Cache),
    /// Its image is compiled with at most so many registers a thread.
    Registers(u32),
    /// Its launches with the first block get the second.
    Block {
        /// The program's block.
        from: [u32; 3],
        /// The one that takes its place.
        to: [u32; 3],
    },
}

/// What the driver calls a cache configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cache {
    /// More shared memory.
    Shared,
    /// More first-level cache.
    L1,
}

/// How far a change reaches, safest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// The driver may ignore it, and no result can differ.
    Hint,
    /// The same text is compiled otherwise.
    Compile,
    /// The launch has another shape.
    Block,
}

impl Tier {
    /// All, in the order in which they are tried.
    pub const ALL: [Tier; 3] = [Tier::Hint, Tier::Compile, Tier::Block];
}

impl Change {
    /// How far it reaches.
    #[must_use]
    pub fn tier(&self) -> Tier {
        match self {
            Change::Carveout(_) | Change::Cache(_) => Tier::Hint,
            Change::Registers(_) => Tier::Compile,
            Change::Block { .. } => Tier::Block,
        }
    }
}

impl core::fmt::Display for Change {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Change::Carveout(percent) => write!(out, "carve-out {percent} %"),
            Change::Cache(Cache::Shared) => write!(out, "prefer shared memory"),
            Change::Cache(Cache::L1) => write!(out, "prefer L1 cache"),
            Change::Registers(most) => write!(out, "at most {most} registers"),
            Change::Block { from, to } => {
                write!(out, "block {} instead of {}", sides(to), sides(from))
            }
        }
    }
}

fn sides(block: &[u32; 3]) -> String {
    match block {
        [x, 1, 1] => x.to_string(),
        [x, y, 1] => format!("{x}x{y}"),
        [x, y, z] => format!("{x}x{y}x{z}"),
    }
}
