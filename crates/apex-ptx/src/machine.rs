//! What the machine code of a kernel does, counted from the words of its section in a cubin.
//!
//! From sm_70 to sm_90 an instruction has 128 bits, and the low nine name its operation; the three above only say where
//! its operands come from. So a kernel is counted without being disassembled: how often each operation stands in
//! it, how often within loops, and how wide its loads and stores are. Loops are backward branches. What a cubin holds is
//! not trusted: what cannot be read is no kernel.

mod operations;

pub use operations::{Kind, kind_of};

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Bytes of an instruction.
const WORD: usize = 16;
const OPERATION_BITS: u64 = 0x1ff;
/// Where loads and stores say how wide they are, above the first 64 bits.
const WIDTH_AT: u32 = 9;
const BRANCH: u16 = 0x147;
const ELF_MAGIC: [u8; 4] = *b"\x7fELF";
const SECTION_HEADER: usize = 64;
const SECTION_NO_BITS: u32 = 8;
/// The largest kernel that is counted: a section that claims more is garbage.
const MOST_INSTRUCTIONS: usize = 1 << 22;

/// How often an operation stands in a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// In all of it.
    pub all: u32,
    /// Within a loop.
    pub looped: u32,
    /// Within a loop that stands in a loop.
    pub nested: u32,
}

/// The operations of one kernel's machine code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// By operation, and for loads and stores its width: 2 to its power bytes.
    pub counts: BTreeMap<(u16, u8), Count>,
    /// Branches that lead back.
    pub loops: u32,
}

impl Machine {
    /// Counts the instructions of a kernel for a device, 90 for `sm_90`; nothing for one whose instructions have another
    /// form.
    #[must_use]
    pub fn of(code: &[u8], architecture: u32) -> Option<Machine> {
        let branches = match architecture {
            70..=89 => Branches::Plain,
            90..=99 => Branches::Parted,
            _ => return None,
        };
        let words = code.as_chunks::<WORD>().0;
        let depths = depths(words, branches);
        let mut machine = Machine { loops: depths.loops, ..Machine::default() };
        for (word, depth) in words.iter().zip(&depths.of) {
            let (low, high) = halves(word);
            let operation = (low & OPERATION_BITS) as u16;
            let width = if kind_of(operation).is_access() { width_of(high) } else { 0 };
            let count = machine.counts.entry((operation, width)).or_default();
            count.all += 1;
            count.looped += u32::from(*depth > 0);
            count.nested += u32::from(*depth > 1);
        }
        Some(machine)
    }

    /// Instructions in all, without those that only fill up its end.
    #[must_use]
    pub fn total(&self) -> u32 {
        let real =
            self.counts.iter().filter(|((operation, _), _)| kind_of(*operation) != Kind::Nothing);
        real.map(|(_, count)| count.all).sum()
    }

    /// All counts as one text, which [`Machine::read`] reads: `loops`, then `operation/width:all:looped:nested`.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.loops.to_string();
        for ((operation, width), Count { all, looped, nested }) in &self.counts {
            let _ = write!(text, " {operation:x}/{width}:{all}:{looped}:{nested}");
        }
        text
    }

    /// The counts of a text; nothing if it is none.
    #[must_use]
    pub fn read(text: &str) -> Option<Machine> {
        let mut words = text.split(' ');
        let mut machine = Machine { loops: words.next()?.parse().ok()?, ..Machine::default() };
        for word in words {
            let (name, counts) = word.split_once(':')?;
            let (operation, width) = name.split_once('/')?;
            let mut numbers = counts.split(':').map(|number| number.parse().ok());
            let mut next = || numbers.next().flatten();
            let count = Count { all: next()?, looped: next()?, nested: next()? };
            let key = (u16::from_str_radix(operation, 16).ok()?, width.parse().ok()?);
            machine.counts.insert(key, count);
        }
        Some(machine)
    }
}

/// The machine code of a kernel in a cubin, by its name; none where it is not there or of another form.
#[must_use]
pub fn section<'a>(cubin: &'a [u8], kernel: &str) -> Option<&'a [u8]> {
    if cubin.get(..4)? != ELF_MAGIC {
        return None;
    }
    let start = usize::try_from(number::<8>(cubin, 40)?).ok()?;
    let (count, names) = (number::<2>(cubin, 60)? as usize, number::<2>(cubin, 62)? as usize);
    let header = |nth: usize| {
        let at = start.checked_add(nth.checked_mul(SECTION_HEADER)?)?;
        cubin.get(at..at.checked_add(SECTION_HEADER)?)
    };
    let body = |header: &[u8]| -> Option<&'a [u8]> {
        if number::<4>(header, 4)? as u32 == SECTION_NO_BITS {
            return None;
        }
        let from = usize::try_from(number::<8>(header, 24)?).ok()?;
        let bytes = usize::try_from(number::<8>(header, 32)?).ok()?;
        cubin.get(from..from.checked_add(bytes)?)
    };
    let names = body(header(names)?)?;
    let is_wanted = |header: &[u8]| {
        let name = names.get(number::<4>(header, 0)? as usize..)?;
        let rest = name.strip_prefix(b".text.")?.strip_prefix(kernel.as_bytes())?;
        (rest.first() == Some(&0)).then_some(())
    };
    let found = (0..count).filter_map(header).find(|header| is_wanted(header).is_some())?;
    body(found).filter(|code| code.len() / WORD <= MOST_INSTRUCTIONS)
}

struct Depths {
    /// Loops around each instruction.
    of: Vec<u16>,
    loops: u32,
}

/// How deep in loops each instruction lies. Several branches to one place are one loop, up to the last of them; what
/// leads to itself fills the end of a kernel.
fn depths(words: &[[u8; WORD]], branches: Branches) -> Depths {
    let mut ends: BTreeMap<usize, usize> = BTreeMap::new();
    for (place, word) in words.iter().enumerate() {
        if let Some(target) = branches.target(place, word).filter(|target| *target < place) {
            let end = ends.entry(target).or_default();
            *end = place.max(*end);
        }
    }
    let mut changes = vec![0_i32; words.len() + 1];
    for (&target, &end) in &ends {
        changes[target] += 1;
        changes[end + 1] -= 1;
    }
    let mut depth = 0;
    let deep = changes.iter().take(words.len()).map(|change| {
        depth += change;
        u16::try_from(depth).unwrap_or(u16::MAX)
    });
    Depths { of: deep.collect(), loops: ends.len() as u32 }
}

/// How branches say where they lead: as a signed distance from the next instruction, in words of four bytes.
#[derive(Clone, Copy)]
enum Branches {
    /// All of it from the 34th bit on.
    Plain,
    /// Its low eight bits from the 16th bit on, the others from the 34th on.
    Parted,
}

impl Branches {
    /// The place of the instruction that a branch leads to.
    fn target(self, place: usize, word: &[u8; WORD]) -> Option<usize> {
        let (low, high) = halves(word);
        if (low & OPERATION_BITS) as u16 != BRANCH {
            return None;
        }
        let upper = (((high << 30) | (low >> 34)) << 16).cast_signed() >> 16;
        let distance = match self {
            Branches::Plain => upper,
            Branches::Parted => (upper << 8) | ((low >> 16) & 0xff).cast_signed(),
        };
        let to = i64::try_from(place + 1).ok()? + distance / (WORD as i64 / 4);
        usize::try_from(to).ok()
    }
}

/// Bytes of an access as a power of two.
fn width_of(high: u64) -> u8 {
    match (high >> WIDTH_AT) & 7 {
        0 | 1 => 0,
        2 | 3 => 1,
        4 => 2,
        5 => 3,
        _ => 4,
    }
}

fn halves(word: &[u8; WORD]) -> (u64, u64) {
    let whole = u128::from_le_bytes(*word);
    (whole as u64, (whole >> 64) as u64)
}

/// A little-endian number of `BYTES` bytes.
fn number<const BYTES: usize>(bytes: &[u8], offset: usize) -> Option<u64> {
    let field = bytes.get(offset..offset.checked_add(BYTES)?)?;
    let mut whole = [0; 8];
    whole[..BYTES].copy_from_slice(field);
    Some(u64::from_le_bytes(whole))
}

#[cfg(test)]
mod tests;
