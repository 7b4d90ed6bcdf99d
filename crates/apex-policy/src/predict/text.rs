//! What a kernel's text tells: how often each kind of instruction stands in it, and what a warp does that walks it.

macro_rules! mix {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// How often each kind of instruction stands in a kernel's text.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Mix { $($(#[$doc])* pub $name: u32),+ }

        impl Mix {
            /// Names of the counts, in their order.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),+];

            /// The counts in the order of their names.
            #[must_use]
            pub fn counts(&self) -> [u32; Mix::NAMES.len()] {
                [$(self.$name),+]
            }

            /// A mix from its counts.
            #[must_use]
            pub fn from_counts(counts: &[u32; Mix::NAMES.len()]) -> Mix {
                let [$($name),+] = *counts;
                Mix { $($name),+ }
            }
        }
    };
}

mix! {
    /// All instructions.
    total,
    /// Single-precision arithmetic.
    float32,
    /// Double-precision arithmetic.
    float64,
    /// Half-precision arithmetic.
    float16,
    /// Matrix instructions.
    tensor,
    /// Roots, exponentials, sines.
    special,
    /// Integer arithmetic and comparisons.
    integer,
    /// Conversions.
    convert,
    /// Loads of global memory.
    load_global,
    /// Stores to global memory.
    store_global,
    /// Loads of shared memory.
    load_shared,
    /// Stores to shared memory.
    store_shared,
    /// Local memory.
    local,
    /// Atomics of any memory.
    atomic,
    /// Exchange within a warp.
    exchange,
    /// Barriers and fences.
    barrier,
    /// Branches and calls.
    control,
    /// Edges that go back: loops.
    loops,
    /// Bytes that one execution of every global load and store moves.
    global_bytes,
}

macro_rules! walked {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// What one warp of a launch does, found by walking a few of them through the kernel's text with the
        /// launch's arguments; all zero where nobody did.
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct Walked { $($(#[$doc])* pub $name: f32),+ }

        impl Walked {
            /// Names of the counts, in their order.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),+];

            /// The text was not walked.
            pub const NONE: &'static Walked = &Walked { $($name: 0.0),+ };

            /// The counts in the order of their names.
            #[must_use]
            pub fn numbers(&self) -> [f32; Walked::NAMES.len()] {
                [$(self.$name),+]
            }

            /// What was walked, from its counts.
            #[must_use]
            pub fn from_numbers(numbers: &[f32; Walked::NAMES.len()]) -> Walked {
                let [$($name),+] = *numbers;
                Walked { $($name),+ }
            }
        }
    };
}

walked! {
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
    /// Cycles from the first to the last instruction of the longest warp if global memory answered at once.
    cycles,
    /// Global loads of that warp that had to wait for each other.
    rounds,
    /// Floating-point operations of all lanes.
    flops,
    /// Turns of loops whose end nobody knows.
    guessed,
}

impl Walked {
    /// Whether the text was walked.
    #[inline]
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.instructions > 0.0
    }
}
