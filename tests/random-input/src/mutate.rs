//! Breaks examples. Everything follows from the number of the case, so that a failure can be repeated.

/// A small generator of numbers that look random (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 where there is none.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Numbers at which sizes and indices overflow.
const NUMBERS: [u64; 12] = [
    0,
    1,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    1 << 20,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 32,
    i64::MAX as u64,
    u64::MAX,
];

/// Headers and footers, which say what everything else means, lie within so many bytes of an end.
const END_BYTES: usize = 2_048;

/// The example in one to eight places broken. `words` are pieces that mean something to the reader.
pub(crate) fn mutate(
    random: &mut Random,
    example: &[u8],
    others: &[&[u8]],
    words: &[&str],
) -> Vec<u8> {
    let mut bytes = example.to_vec();
    // Often few, so that what comes out reaches beyond the first check.
    let most = random.below(8);
    let breaks = 1 + random.below(1 + most);
    for _ in 0..breaks {
        let at = place(random, bytes.len());
        match random.below(13) {
            0 => flip(random, &mut bytes, at),
            1 => bytes.truncate(at),
            2 => drop(bytes.drain(at..(at + random.below(64)).min(bytes.len()))),
            3 | 4 => put_number(random, &mut bytes, at),
            5 => {
                let end = (at + random.below(200)).min(bytes.len());
                let again = bytes[at..end].repeat(1 + random.below(4));
                bytes.splice(at..at, again);
            }
            6 => {
                let other = others[random.below(others.len())];
                let start = place(random, other.len());
                let piece = &other[start..(start + random.below(400)).min(other.len())];
                let end =
                    if random.below(2) == 0 { at } else { (at + piece.len()).min(bytes.len()) };
                bytes.splice(at..end, piece.iter().copied());
            }
            7 => {
                let noise: Vec<u8> = (0..random.below(64)).map(|_| random.next() as u8).collect();
                bytes.splice(at..at, noise);
            }
            8 => move_line(random, &mut bytes),
            9 if !words.is_empty() => {
                let piece = words[random.below(words.len())].repeat(1 + random.below(300));
                bytes.splice(at..at, piece.into_bytes());
            }
            10 if !words.is_empty() => {
                let piece = words[random.below(words.len())];
                let end = (at + random.below(24)).min(bytes.len());
                bytes.splice(at..end, piece.bytes());
            }
            _ => flip(random, &mut bytes, at),
        }
    }
    bytes
}

/// Repeats, drops or swaps a line: what has no lines is one.
fn move_line(random: &mut Random, bytes: &mut Vec<u8>) {
    let mut lines: Vec<&[u8]> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
    if lines.is_empty() {
        return;
    }
    let (one, other) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(3) {
        0 => lines.swap(one, other),
        1 => lines.insert(one, lines[other]),
        _ => drop(lines.remove(one)),
    }
    *bytes = lines.concat();
}

fn place(random: &mut Random, length: usize) -> usize {
    match random.below(4) {
        0 => random.below(length.min(END_BYTES) + 1),
        1 => length - random.below(length.min(END_BYTES) + 1),
        _ => random.below(length + 1),
    }
}

fn flip(random: &mut Random, bytes: &mut [u8], at: usize) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1 << random.below(8);
    }
}

/// A number at a limit, or near one, in the width and at the alignment in which formats keep them.
fn put_number(random: &mut Random, bytes: &mut [u8], at: usize) {
    let number =
        NUMBERS[random.below(NUMBERS.len())].wrapping_add(random.next() % 3).wrapping_sub(1);
    let width = 1 << random.below(4);
    let at = at / width * width;
    if let Some(there) = bytes.get_mut(at..at + width) {
        there.copy_from_slice(&number.to_le_bytes()[..width]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_the_same_again_and_others_differ() {
        let broken =
            |seed| mutate(&mut Random::new(seed), b"a good example", &[b"another"], &["{"]);
        assert_eq!(broken(7), broken(7));
        let different = (0..100).filter(|&seed| broken(seed) != broken(seed + 1)).count();
        assert!(different > 90, "{different}");
    }
}
