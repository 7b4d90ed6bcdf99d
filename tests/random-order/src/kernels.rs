//! The kernels of random programs, and parameters for them.
//!
//! What a kernel does to a lane's words shows when it ran, and with which parameters. Parameters follow from a seed.

use crate::random::Random;
use std::ffi::{CStr, c_void};

/// The text that all of them stand in.
pub(crate) const TEXT: &str = include_str!("kernels.ptx");
/// Words that a lane has.
pub(crate) const WORDS: usize = 64;

/// A kernel of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    Nothing,
    Mix,
    Pull,
    Blend,
    Wide,
    Huge,
    Slow,
    Flip,
    Bump,
    Part,
    Move,
    Spread,
    Sum,
    Fault,
}

impl Kernel {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Kernel; 14] = [
        Kernel::Nothing,
        Kernel::Mix,
        Kernel::Pull,
        Kernel::Blend,
        Kernel::Wide,
        Kernel::Huge,
        Kernel::Slow,
        Kernel::Flip,
        Kernel::Bump,
        Kernel::Part,
        Kernel::Move,
        Kernel::Spread,
        Kernel::Sum,
        Kernel::Fault,
    ];

    /// Its name in the text.
    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Kernel::Nothing => c"nothing",
            Kernel::Mix => c"mix",
            Kernel::Pull => c"pull",
            Kernel::Blend => c"blend",
            Kernel::Wide => c"wide",
            Kernel::Huge => c"huge",
            Kernel::Slow => c"slow",
            Kernel::Flip => c"flip",
            Kernel::Bump => c"bump",
            Kernel::Part => c"part",
            Kernel::Move => c"move",
            Kernel::Spread => c"spread",
            Kernel::Sum => c"sum",
            Kernel::Fault => c"fault",
        }
    }
}

/// Parameters as the kernel has them, with where each one stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters {
    pub(crate) bytes: Vec<u8>,
    /// Offsets; a parameter ends where its value does.
    pub(crate) places: Vec<usize>,
}

impl Parameters {
    /// For a kernel that works on the words at `words` or, if it is one for the host to watch, at `mapped`.
    pub(crate) fn of(kernel: Kernel, seed: u64, words: u64, mapped: u64) -> Parameters {
        let mut random = Random::new(seed);
        let mut number = || random.next() as u32;
        let mut made = Parameters::default();
        match kernel {
            Kernel::Nothing | Kernel::Fault => {}
            Kernel::Mix => {
                made.put(&words.to_le_bytes());
                made.put(&(number() | 1).to_le_bytes());
                made.put(&number().to_le_bytes());
                made.put(&(number() % (WORDS as u32 + 1)).to_le_bytes());
            }
            Kernel::Pull => {
                let half = WORDS as u64 / 2;
                made.put(&words.to_le_bytes());
                made.put(&(words + 4 * half).to_le_bytes());
                made.put(&(number() as u16).to_le_bytes());
                made.put(&(number() % (half as u32 + 1)).to_le_bytes());
            }
            Kernel::Blend => {
                let mut packed = [0; 24];
                packed[..4].copy_from_slice(&number().to_le_bytes());
                packed[4..6].copy_from_slice(&(number() as u16 | 1).to_le_bytes());
                packed[8..12].copy_from_slice(&number().to_le_bytes());
                packed[16] = (number() % (WORDS as u32 + 1)) as u8;
                made.put(&words.to_le_bytes());
                made.put(&packed);
            }
            Kernel::Wide | Kernel::Huge => {
                let length = if kernel == Kernel::Wide { 3000 } else { 4084 };
                let mut long = vec![number() as u8; length];
                long[2000..2004].copy_from_slice(&number().to_le_bytes());
                long[length - 4..].copy_from_slice(&number().to_le_bytes());
                made.put(&words.to_le_bytes());
                made.put(&long);
            }
            Kernel::Slow => {
                made.put(&words.to_le_bytes());
                made.put(&(1 + number() % 400).to_le_bytes());
            }
            Kernel::Flip => made.put(&words.to_le_bytes()),
            Kernel::Part => {
                let begin = number() % WORDS as u32;
                made.put(&(words + 4 * u64::from(begin)).to_le_bytes());
                made.put(&(number() | 1).to_le_bytes());
                made.put(&(number() % (WORDS as u32 + 1 - begin)).to_le_bytes());
            }
            Kernel::Move => {
                let (to, from) = (number() % WORDS as u32, number() % WORDS as u32);
                made.put(&(words + 4 * u64::from(to)).to_le_bytes());
                made.put(&(words + 4 * u64::from(from)).to_le_bytes());
                made.put(&(number() % (WORDS as u32 + 1 - to.max(from))).to_le_bytes());
            }
            Kernel::Spread => {
                let (to, from) = (number() % (WORDS as u32 - 15), number() % WORDS as u32);
                made.put(&(words + 4 * u64::from(to)).to_le_bytes());
                made.put(&(words + 4 * u64::from(from)).to_le_bytes());
                made.put(&(number() % (WORDS as u32 + 1 - from)).to_le_bytes());
            }
            Kernel::Sum => {
                let at = number() % WORDS as u32;
                made.put(&(words + 4 * u64::from(at)).to_le_bytes());
                made.put(&(number() % 1000).to_le_bytes());
            }
            Kernel::Bump => {
                made.put(&mapped.to_le_bytes());
                made.put(&number().to_le_bytes());
            }
        }
        made
    }

    /// A pointer to each, as the driver takes them. Good as long as nothing is added.
    pub(crate) fn pointers(&mut self) -> Vec<*mut c_void> {
        let start = self.bytes.as_mut_ptr();
        self.places.iter().map(|&place| start.wrapping_add(place).cast()).collect()
    }

    /// Adds one, aligned to its size up to eight bytes.
    fn put(&mut self, value: &[u8]) {
        let alignment = if value.len() > 24 { 4 } else { value.len().min(8) };
        let place = self.bytes.len().next_multiple_of(alignment);
        self.bytes.resize(place, 0);
        self.bytes.extend_from_slice(value);
        self.places.push(place);
    }
}
