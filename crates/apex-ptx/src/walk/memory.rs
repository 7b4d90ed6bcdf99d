//! What one access of a warp costs the memory it goes to.

use std::collections::HashMap;

use super::values::{LANES, Lanes};
use crate::tree::{Name, Space, Variable};

const SHARED_START: u64 = 1 << 36;
const OTHER_START: u64 = 1 << 37;
/// Bytes that memory moves at once, and that a cache finds at once.
const SECTOR: u64 = 32;
const LINE: u64 = 128;
const BANKS: usize = 32;
/// No variable is taken to be larger.
const LARGEST: u64 = 1 << 24;

/// Where variables lie.
#[derive(Debug, Default)]
pub(super) struct SharedSpace {
    addresses: HashMap<Name, u64>,
    used: u64,
    others: u64,
}

impl SharedSpace {
    pub(super) fn place(&mut self, variable: &Variable) {
        let (start, used) = match variable.space {
            Space::Shared => (SHARED_START, &mut self.used),
            Space::Const | Space::Global | Space::Local => (OTHER_START, &mut self.others),
            _ => return,
        };
        let align = variable.alignment().clamp(16, 4096);
        *used = used.next_multiple_of(align);
        self.addresses.insert(variable.name.clone(), start + *used);
        *used += variable.bytes().unwrap_or(0).min(LARGEST);
    }

    pub(super) fn address(&self, name: &Name) -> Option<u64> {
        self.addresses.get(name).copied()
    }
}

/// Sectors that a warp reached lately: what it finds again in the nearest cache.
#[derive(Debug, Clone)]
pub(super) struct Recent(Vec<u64>);

impl Recent {
    /// The share of one of so many warps.
    pub(super) fn of_one(warps: u32) -> Recent {
        let sectors = NEAREST_BYTES as u64 / SECTOR / u64::from(warps.max(1));
        Recent(vec![u64::MAX; sectors.clamp(32, 1024) as usize])
    }

    /// Whether a sector is new; it is not, the next time.
    fn is_new(&mut self, sector: u64) -> bool {
        let at = (sector.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % self.0.len();
        let slot = &mut self.0[at];
        std::mem::replace(slot, sector) != sector
    }
}

/// Different numbers among some lanes' ones.
fn different(lanes: &Lanes, mask: u32, unit: u64, found: &mut [u64; LANES]) -> usize {
    let mut count = 0;
    for lane in (0..LANES).filter(|lane| mask >> lane & 1 != 0) {
        let place = lanes[lane] / unit;
        if !found[..count].contains(&place) {
            found[count] = place;
            count += 1;
        }
    }
    count
}

/// An access to global memory.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Reach {
    /// Sectors, and those of them that the nearest cache does not hold.
    pub(super) sectors: f32,
    pub(super) missed: f32,
    /// Lines: as often is the cache asked.
    pub(super) lines: f32,
}

/// Of lanes whose addresses are known.
pub(super) fn reach(addresses: &Lanes, mask: u32, recent: &mut Recent) -> Reach {
    let mut found = [0; LANES];
    let lines = different(addresses, mask, LINE, &mut found) as f32;
    let sectors = different(addresses, mask, SECTOR, &mut found);
    let missed = found[..sectors].iter().filter(|sector| recent.is_new(**sector)).count();
    Reach { sectors: sectors as f32, missed: missed as f32, lines }
}

/// What the nearest cache holds of something that is read here and there.
const NEAREST_BYTES: f32 = 131_072.0;

/// Of so many lanes at addresses that nobody knows, in an allocation of so many bytes.
pub(super) fn scattered(lanes: u32, bytes: u64) -> Reach {
    let distinct = |unit: u64| expected_distinct(lanes as f32, (bytes / unit).max(1) as f32);
    let sectors = distinct(SECTOR);
    let missed = sectors * bytes as f32 / (bytes as f32 + NEAREST_BYTES);
    Reach { sectors, missed, lines: distinct(LINE) }
}

/// How many of so many places are met by so many at random.
fn expected_distinct(lanes: f32, places: f32) -> f32 {
    places * (1.0 - (1.0 - 1.0 / places).powf(lanes))
}

/// Rounds that shared memory needs: a bank answers with one word at a time.
pub(super) fn bank_rounds(addresses: &Lanes, mask: u32, bytes: u64) -> f32 {
    let words = (bytes / 4).clamp(1, 4) as usize;
    let together = LANES / words;
    let mut rounds = 0;
    for start in (0..LANES).step_by(together) {
        let group = mask & (u32::MAX >> (LANES - together)) << start;
        let mut found = [0; LANES];
        let count = different(addresses, group, 4, &mut found);
        let mut banks = [0; BANKS];
        found[..count].iter().for_each(|word| banks[*word as usize % BANKS] += 1);
        rounds += banks.iter().copied().max().unwrap_or(0).max(u32::from(count > 0));
    }
    rounds as f32
}

/// The same where nobody knows the addresses.
pub(super) const UNKNOWN_BANK_ROUNDS: f32 = 3.0;

/// How many lanes meet at one address at most.
pub(super) fn meeting(addresses: &Lanes, mask: u32) -> f32 {
    let mut found = [0; LANES];
    let count = different(addresses, mask, 4, &mut found);
    let at =
        |word: u64| (0..LANES).filter(move |l| mask >> l & 1 != 0 && addresses[*l] / 4 == word);
    found[..count].iter().map(|word| at(*word).count()).max().unwrap_or(0) as f32
}

/// The same of so many lanes at random among so many words.
pub(super) fn expected_meeting(lanes: u32, words: f32) -> f32 {
    let lanes = lanes as f32;
    (lanes / words + 2.5 * (1.0 - 1.0 / words)).min(lanes)
}

/// Lines of local memory that lanes reach: in memory the same word of all lanes lies side by side.
pub(super) fn local_lines(addresses: &Lanes, mask: u32) -> f32 {
    different(addresses, mask, 4, &mut [0; LANES]) as f32
}

/// The same of so many lanes somewhere in so many bytes.
pub(super) fn expected_local_lines(lanes: u32, bytes: u64) -> f32 {
    expected_distinct(lanes as f32, (bytes / 4).max(1) as f32)
}

/// How much atomics on an allocation hold each other up: as the root of its lines they spread over what serves them.
pub(super) fn crowding(bytes: u64) -> f32 {
    1.0 / ((bytes / LINE).max(1) as f32).sqrt()
}

/// Different constants that lanes ask for: each is a round.
pub(super) fn constants(addresses: &Lanes, mask: u32) -> f32 {
    different(addresses, mask, 4, &mut [0; LANES]) as f32
}
