//! What the zoo's inputs hold: every value is a function of its index alone.
//!
//! The device fills its own buffers by kernels in `kernels/zoo/fill.cu`, and the references read the same
//! functions here, so no input is uploaded or kept on the host. All of it is integer arithmetic and exact
//! conversion: both sides agree to the last bit, which a test compares. A longer buffer begins with what
//! a shorter one holds, so points of all sizes share one.

/// A rule by which a buffer is filled.
///
/// ```
/// use apex_exec::zoo::Fill;
///
/// assert!((0..100).all(|index| Fill::Unit(1).number(index).abs() <= 1.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fill {
    /// Floats in [-1, 1). The salt tells inputs of one kernel apart.
    Unit(u32),
    /// Halves in [-1, 1), multiples of 1/64, two in a word.
    Half(u32),
    /// Random words.
    Words(u32),
    /// Random words below a bound.
    Below(u32),
    /// Bytes that are letters from a to z, four in a word.
    Letters,
    /// A permutation of the numbers below two to this power, repeated.
    Shuffled(u32),
    /// One ring through the numbers below two to this power: where each number leads.
    Ring(u32),
    /// Where rows begin whose lengths rise by `step` from `least` over each sixteen rows.
    RowStarts {
        /// The length of the shortest row.
        least: u32,
        /// By how much each of sixteen rows is longer than the one before.
        step: u32,
    },
}

const LETTERS_SALT: u32 = 77;
const BELOW_SALT: u32 = 55;

impl Fill {
    /// The kernel that fills by this rule.
    pub(crate) fn entry(self) -> &'static str {
        match self {
            Fill::Unit(_) => "fill_unit",
            Fill::Half(_) => "fill_half",
            Fill::Words(_) => "fill_words",
            Fill::Below(_) => "fill_below",
            Fill::Letters => "fill_letters",
            Fill::Shuffled(_) => "fill_shuffled",
            Fill::Ring(_) => "fill_ring",
            Fill::RowStarts { .. } => "fill_row_starts",
        }
    }

    /// What the kernel takes after the buffer and the count.
    pub(crate) fn scalars(self) -> Vec<u32> {
        match self {
            Fill::Unit(salt) | Fill::Half(salt) | Fill::Words(salt) => vec![salt],
            Fill::Below(bound) => vec![BELOW_SALT, bound],
            Fill::Letters => vec![LETTERS_SALT],
            Fill::Shuffled(bits) | Fill::Ring(bits) => vec![bits],
            Fill::RowStarts { least, step } => vec![least, step],
        }
    }

    /// Words that so many elements take.
    pub(crate) fn words(self, elements: usize) -> usize {
        match self {
            Fill::Half(_) => elements.div_ceil(2),
            Fill::Letters => elements.div_ceil(4),
            _ => elements,
        }
    }

    /// What the kernel counts, given the words of its buffer.
    pub(crate) fn counted(self, words: usize) -> usize {
        if matches!(self, Fill::Half(_)) { 2 * words } else { words }
    }

    /// The element as a number.
    ///
    /// ```
    /// assert_eq!(apex_exec::zoo::Fill::RowStarts { least: 3, step: 0 }.number(2), 6.0);
    /// ```
    pub fn number(self, index: u64) -> f64 {
        match self {
            Fill::Unit(salt) => f64::from(word_at(index, salt) >> 7) / f64::from(1 << 23) - 1.0,
            Fill::Half(salt) => (f64::from(word_at(index, salt) >> 24) - 64.0) / 64.0,
            _ => f64::from(self.word(index)),
        }
    }

    /// The element as an unsigned number; a float has none and answers its bits.
    ///
    /// ```
    /// assert!(apex_exec::zoo::Fill::Below(7).word(12) < 7);
    /// ```
    pub fn word(self, index: u64) -> u32 {
        let low = index as u32;
        match self {
            Fill::Unit(_) | Fill::Half(_) => (self.number(index) as f32).to_bits(),
            Fill::Words(salt) => word_at(index, salt),
            Fill::Below(bound) => word_at(index, BELOW_SALT) % bound,
            Fill::Letters => u32::from(b'a') + word_at(index, LETTERS_SALT) % 26,
            Fill::Shuffled(bits) => shuffled(low, bits),
            Fill::Ring(bits) => shuffled(unshuffled(low & mask(bits), bits) + 1, bits),
            Fill::RowStarts { least, step } => {
                let within = low % 16;
                let sixteen = 16 * least + 120 * step;
                low / 16 * sixteen + within * least + within * within.saturating_sub(1) / 2 * step
            }
        }
    }
}

fn mask(bits: u32) -> u32 {
    (1 << bits) - 1
}

fn mixed(mut value: u32) -> u32 {
    value ^= value >> 16;
    value = value.wrapping_mul(0x7feb_352d);
    value ^= value >> 15;
    value = value.wrapping_mul(0x846c_a68b);
    value ^ value >> 16
}

/// 31 bits: a word of the poison that outputs start with never occurs.
fn word_at(index: u64, salt: u32) -> u32 {
    mixed(index as u32 ^ salt.wrapping_mul(0x9e37_79b9)) >> 1
}

const SHUFFLE_FACTORS: [u32; 2] = [0x9e37_79b1, 0x85eb_ca6b];

fn shuffled(index: u32, bits: u32) -> u32 {
    let half = bits.div_ceil(2);
    let mut value = index & mask(bits);
    for factor in SHUFFLE_FACTORS {
        value = value.wrapping_mul(factor) & mask(bits);
        value ^= value >> half;
    }
    value
}

/// The index whose shuffled value this is.
pub(crate) fn unshuffled(mut value: u32, bits: u32) -> u32 {
    let half = bits.div_ceil(2);
    for factor in SHUFFLE_FACTORS.into_iter().rev() {
        // Shifting by at least half of the bits, the step undoes itself.
        value ^= value >> half;
        value = value.wrapping_mul(inverse(factor)) & mask(bits);
    }
    value
}

/// The number whose product with an odd number is one modulo two to the 32: each round of Newton's doubles
/// the bits that are right, from three.
fn inverse(odd: u32) -> u32 {
    let mut found = odd;
    for _ in 0..4 {
        found = found.wrapping_mul(2u32.wrapping_sub(odd.wrapping_mul(found)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffling_is_a_permutation_that_can_be_undone() {
        for bits in [1, 2, 5, 10, 13] {
            let mut seen = vec![false; 1 << bits];
            for index in 0..1u32 << bits {
                let value = Fill::Shuffled(bits).word(index.into());
                assert!(!std::mem::replace(&mut seen[value as usize], true), "{bits} {index}");
                assert_eq!(unshuffled(value, bits), index);
            }
        }
    }

    #[test]
    fn the_ring_passes_through_every_number() {
        let (mut at, mut steps) = (0, 0);
        loop {
            at = Fill::Ring(12).word(u64::from(at));
            steps += 1;
            if at == 0 {
                break;
            }
        }
        assert_eq!(steps, 1 << 12);
    }

    #[test]
    fn rows_rise_over_sixteen() {
        let starts = Fill::RowStarts { least: 3, step: 2 };
        let lengths: Vec<u32> =
            (0..32).map(|row| starts.word(row + 1) - starts.word(row)).collect();
        assert_eq!(lengths[..4], [3, 5, 7, 9]);
        assert_eq!(lengths[15..18], [33, 3, 5]);
    }

    #[test]
    fn floats_are_in_range_and_spread() {
        let numbers: Vec<f64> = (0..10_000).map(|index| Fill::Unit(3).number(index)).collect();
        assert!(numbers.iter().all(|number| (-1.0..1.0).contains(number)));
        let mean = numbers.iter().sum::<f64>() / 10_000.0;
        assert!(mean.abs() < 0.02, "{mean}");
    }
}
