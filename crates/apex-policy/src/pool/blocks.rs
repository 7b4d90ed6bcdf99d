//! The blocks that a program has, and those that it gave back.
//!
//! What lies idle is bounded: with the program's own memory it is at most a tenth more than the program ever had at once,
//! and alone it is at most [`idle_of_device`]. So a pool that waits for a size that never comes again costs little, and
//! who frees much and then makes no more calls keeps it from no other process. The bound is kept at each free, where the
//! driver would wait for the device too, and before more is asked for if no work is under way. Where the device has
//! little left for anybody, nothing lies idle.

use super::{Mark, Order, idle_of_device};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A tenth of the most that the program had at once may lie idle beside as much.
const IDLE_OF_PEAK: u64 = 10;
/// As many bytes may lie idle in any case.
const LEAST_IDLE_BYTES: u64 = 32 << 20;
/// As many blocks may lie idle.
const MOST_IDLE: usize = 4_096;
/// Sizes of which no block lies idle that are remembered: a loop frees and takes the same ones in turns.
const MOST_EMPTY: usize = 256;
/// With less than a tenth of the device free, nothing lies idle.
const FREE_OF_DEVICE: u64 = 10;
/// Frees between two looks at what the device has left.
const LOOK_EVERY: u64 = 4_096;
/// Bytes that the driver gives between two looks.
const LOOK_EVERY_BYTES: u64 = 256 << 20;

/// What an allocation asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// Bytes, or those of a row.
    pub bytes: u64,
    /// Rows; 0 where there are none.
    pub rows: u64,
    /// Bytes of an element of a row.
    pub element: u32,
}

/// A block that is handed out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Where it begins.
    pub address: u64,
    /// Bytes from row to row.
    pub pitch: u64,
}

/// What becomes of a block that the program frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freed {
    /// It is none of these blocks.
    Unknown,
    /// The program has freed it before.
    Twice,
    /// It stays.
    Kept,
    /// The driver is to have it.
    GoesBack,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    ask: Ask,
    pitch: u64,
    /// The program has freed it.
    is_idle: bool,
    /// Somebody else may know it, so that it must end when the program says so.
    is_known_elsewhere: bool,
}

#[derive(Clone, Copy, Debug)]
struct Idle {
    address: u64,
    pitch: u64,
    mark: Mark,
    /// How many were freed before it.
    number: u64,
}

/// All blocks of one context.
#[derive(Debug, Default)]
pub struct Blocks {
    /// Those that the driver has not got back, by where they begin.
    all: HashMap<u64, Block, Quick>,
    /// Those that lie idle, the newest last.
    idle: HashMap<Ask, Vec<Idle>, Quick>,
    idle_count: usize,
    live_bytes: u64,
    idle_bytes: u64,
    peak_bytes: u64,
    /// The most that program and pool had together.
    held_peak_bytes: u64,
    freed: u64,
    /// The device has little left.
    is_scarce: bool,
    /// Bytes of the device; zero before the first look.
    device_bytes: u64,
    /// Blocks freed until the device is to be looked at.
    frees_until_look: u64,
    /// Bytes that may come from the driver until then.
    bytes_until_look: u64,
}

/// What the program had at once at most, and what it had with the blocks that lay idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peaks {
    /// The program's own bytes.
    pub live_bytes: u64,
    /// With idle blocks.
    pub held_bytes: u64,
}

impl Blocks {
    /// A block of exactly this size, the newest that can be had.
    pub fn take(&mut self, ask: Ask, order: &mut Order) -> Option<Taken> {
        let same = self.idle.get_mut(&ask).filter(|same| !same.is_empty())?;
        // Where one stream has all the work its own order does, and the newest block is the one in the caches.
        let newest = order.only().and(Some(same.len() - 1)).filter(|_| order.owe());
        let rested = || same.iter().rposition(|block| order.is_over(block.mark));
        let nth = match newest.or_else(rested) {
            Some(nth) => nth,
            None if order.owe() => same.len() - 1,
            None => return None,
        };
        let Idle { address, pitch, .. } = same.remove(nth);
        if same.is_empty() && self.idle.len() > MOST_EMPTY {
            self.idle.remove(&ask);
        }
        self.idle_count -= 1;
        self.idle_bytes -= bytes(ask, pitch);
        if let Some(block) = self.all.get_mut(&address) {
            block.is_idle = false;
        }
        self.has_more(bytes(ask, pitch));
        Some(Taken { address, pitch })
    }

    /// The driver gave the program this block.
    pub fn allocated(&mut self, ask: Ask, address: u64, pitch: u64) {
        // What began there ended in a way that nobody saw.
        if self.all.get(&address).is_some_and(|lost| lost.is_idle) {
            self.idle_went(address);
        }
        self.gone(address);
        self.bytes_until_look = self.bytes_until_look.saturating_sub(bytes(ask, pitch));
        self.all.insert(address, Block { ask, pitch, is_idle: false, is_known_elsewhere: false });
        self.has_more(bytes(ask, pitch));
    }

    /// The program has so many bytes more.
    fn has_more(&mut self, bytes: u64) {
        self.live_bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
        self.held_peak_bytes = self.held_peak_bytes.max(self.live_bytes + self.idle_bytes);
    }

    /// The program frees a block.
    pub fn freed(&mut self, address: u64, order: &Order) -> Freed {
        let Some(block) = self.all.get_mut(&address) else { return Freed::Unknown };
        if block.is_idle {
            return Freed::Twice;
        }
        let Block { ask, pitch, is_known_elsewhere, .. } = *block;
        let size = bytes(ask, pitch);
        self.live_bytes -= size;
        self.freed += 1;
        self.frees_until_look = self.frees_until_look.saturating_sub(1);
        if is_known_elsewhere || self.is_scarce || self.idle_count >= MOST_IDLE {
            self.all.remove(&address);
            return Freed::GoesBack;
        }
        block.is_idle = true;
        let idle = Idle { address, pitch, mark: order.mark(), number: self.freed };
        self.idle.entry(ask).or_default().push(idle);
        self.idle_count += 1;
        self.idle_bytes += size;
        Freed::Kept
    }

    /// The program ended a block by another way.
    pub fn gone(&mut self, address: u64) {
        if let Some(block) = self.all.get(&address).filter(|block| !block.is_idle) {
            self.live_bytes -= bytes(block.ask, block.pitch);
            self.all.remove(&address);
        }
    }

    /// Another process or device gets to know the block that an address lies in, or its attributes are set.
    pub fn known_elsewhere(&mut self, address: u64) {
        let holds = |base: u64, block: &Block| {
            !block.is_idle && (base..base + bytes(block.ask, block.pitch)).contains(&address)
        };
        if let Some((_, block)) = self.all.iter_mut().find(|(base, block)| holds(**base, block)) {
            block.is_known_elsewhere = true;
        }
    }

    /// Whether so many bytes more, with what lies idle, would be too much.
    #[must_use]
    pub fn is_too_much(&self, more: u64) -> bool {
        let peak = self.peak_bytes.max(self.live_bytes + more);
        let allowed = (peak + peak / IDLE_OF_PEAK).max(self.live_bytes + more + LEAST_IDLE_BYTES);
        self.idle_bytes > self.most_idle_bytes()
            || self.live_bytes + self.idle_bytes + more > allowed
    }

    /// What may lie idle for the sake of other processes.
    fn most_idle_bytes(&self) -> u64 {
        match self.device_bytes {
            _ if self.is_scarce => 0,
            0 => u64::MAX,
            bytes => idle_of_device(bytes),
        }
    }

    /// The idle block that the driver must have before it is asked for so many bytes more; to be asked again.
    pub fn must_go(&mut self, more: u64) -> Option<u64> {
        self.is_too_much(more).then(|| self.oldest()).flatten()
    }

    /// Whether it is time to look at what the device has left: only where something lies idle, or would.
    #[must_use]
    pub fn is_look_due(&self) -> bool {
        let is_due = self.frees_until_look == 0 || self.bytes_until_look == 0;
        is_due && (self.idle_bytes > 0 || self.is_scarce)
    }

    /// The device has so many bytes left for everybody, of so many.
    pub fn looked(&mut self, free: u64, total: u64) {
        self.is_scarce = free < total / FREE_OF_DEVICE;
        self.device_bytes = total;
        (self.frees_until_look, self.bytes_until_look) = (LOOK_EVERY, LOOK_EVERY_BYTES);
    }

    /// Whether an address lies in a block that the program has freed.
    #[must_use]
    pub fn is_idle(&self, address: u64) -> bool {
        let holds = |ask: Ask, idle: &Idle| {
            (idle.address..idle.address + bytes(ask, idle.pitch)).contains(&address)
        };
        self.idle.iter().any(|(&ask, same)| same.iter().any(|idle| holds(ask, idle)))
    }

    /// What was had at most.
    #[must_use]
    pub fn peaks(&self) -> Peaks {
        Peaks { live_bytes: self.peak_bytes, held_bytes: self.held_peak_bytes }
    }

    /// The idle block that was freed longest ago, which goes back to the driver.
    pub fn oldest(&mut self) -> Option<u64> {
        let first = self.idle.values().filter_map(|same| same.first());
        let address = first.min_by_key(|block| block.number)?.address;
        self.idle_went(address);
        Some(address)
    }

    /// An idle block is no longer there.
    fn idle_went(&mut self, address: u64) {
        let Some(Block { ask, pitch, .. }) = self.all.remove(&address) else { return };
        if let Some(same) = self.idle.get_mut(&ask) {
            same.retain(|block| block.address != address);
            if same.is_empty() {
                self.idle.remove(&ask);
            }
        }
        self.idle_count -= 1;
        self.idle_bytes -= bytes(ask, pitch);
    }

    /// Bytes that lie idle.
    #[must_use]
    pub fn idle_bytes(&self) -> u64 {
        self.idle_bytes
    }
}

fn bytes(ask: Ask, pitch: u64) -> u64 {
    if ask.rows == 0 { ask.bytes } else { pitch * ask.rows }
}

/// One multiplication a number: addresses and sizes are no adversary's.
type Quick = BuildHasherDefault<QuickHasher>;

#[derive(Clone, Copy, Debug, Default)]
struct QuickHasher(u64);

impl Hasher for QuickHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number ^ 0x9e37_79b9_7f4a_7c15) * 0xa076_1d64_78bd_642f;
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(bytes: u64) -> Ask {
        Ask { bytes, rows: 0, element: 0 }
    }

    #[test]
    fn only_a_block_of_that_size_is_handed_out() {
        let (mut blocks, mut order) = (Blocks::default(), Order::default());
        blocks.allocated(ask(100), 0x1000, 0);
        assert_eq!(blocks.freed(0x1001, &order), Freed::Unknown);
        assert_eq!(blocks.freed(0x1000, &order), Freed::Kept);
        assert_eq!(blocks.freed(0x1000, &order), Freed::Twice);
        assert_eq!(blocks.take(ask(99), &mut order), None);
        let rows = Ask { rows: 1, ..ask(100) };
        assert_eq!(blocks.take(rows, &mut order), None);
        assert_eq!(blocks.take(ask(100), &mut order), Some(Taken { address: 0x1000, pitch: 0 }));
        assert_eq!(blocks.take(ask(100), &mut order), None);
    }

    #[test]
    fn a_block_that_may_be_in_use_rests_where_streams_are_many() {
        let (mut blocks, mut order) = (Blocks::default(), Order::default());
        blocks.allocated(ask(100), 0x1000, 0);
        blocks.allocated(ask(100), 0x2000, 0);
        blocks.freed(0x1000, &order);
        order.worked(None);
        blocks.freed(0x2000, &order);
        assert_eq!(blocks.take(ask(100), &mut order).unwrap().address, 0x1000);
        assert_eq!(blocks.take(ask(100), &mut order), None);
        let ticket = order.wait_begins(None).unwrap();
        order.wait_ended(ticket, true);
        assert_eq!(blocks.take(ask(100), &mut order).unwrap().address, 0x2000);
    }

    #[test]
    fn what_others_know_goes_back() {
        let (mut blocks, order) = (Blocks::default(), Order::default());
        blocks.allocated(ask(100), 0x1000, 0);
        blocks.known_elsewhere(0x1063);
        assert_eq!(blocks.freed(0x1000, &order), Freed::GoesBack);
        blocks.allocated(ask(100), 0x1000, 0);
        blocks.known_elsewhere(0x1064);
        assert_eq!(blocks.freed(0x1000, &order), Freed::Kept);
    }

    /// Whatever sizes come, program and pool have at most a tenth more than the program alone had at its peak.
    #[test]
    fn idle_blocks_are_bounded_by_the_peak() {
        let (mut blocks, order) = (Blocks::default(), Order::default());
        let (mut address, mut most, mut seed) = (0x1000, 0, 1_u64);
        let mut live = Vec::new();
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let bytes = (seed >> 40) << 8;
            if seed >> 20 & 1 == 0 && !live.is_empty() {
                blocks.freed(live.swap_remove((seed >> 21) as usize % live.len()), &order);
            } else {
                while blocks.must_go(bytes).is_some() {}
                address += bytes + 0x1000;
                blocks.allocated(ask(bytes), address, 0);
                live.push(address);
            }
            most = most.max(blocks.live_bytes + blocks.idle_bytes);
            assert!(
                most <= (blocks.peak_bytes * 11 / 10).max(blocks.peak_bytes + LEAST_IDLE_BYTES)
            );
        }
        assert!(most > blocks.peak_bytes);
        while blocks.oldest().is_some() {}
        assert_eq!((blocks.idle_bytes, blocks.idle_count), (0, 0));
        let peaks = Peaks { live_bytes: blocks.peak_bytes, held_bytes: most };
        assert_eq!(blocks.peaks(), peaks);
    }

    /// One process frees 85 % of the device and makes no more calls. Another may fill 98 % of it then.
    #[test]
    fn who_makes_no_more_calls_keeps_little_from_others() {
        const DEVICE: u64 = 140 << 30;
        let (mut blocks, order) = (Blocks::default(), Order::default());
        let addresses = || (1..=85).map(|nth| nth << 40);
        addresses().for_each(|address| blocks.allocated(ask(DEVICE / 100), address, 0));
        for address in addresses() {
            assert_eq!(blocks.freed(address, &order), Freed::Kept);
            if blocks.is_look_due() {
                blocks.looked(DEVICE - blocks.live_bytes - blocks.idle_bytes, DEVICE);
            }
            while blocks.must_go(0).is_some() {}
        }
        assert_eq!((blocks.live_bytes, blocks.idle_bytes), (0, DEVICE / 100));
        // What alone is more than may lie idle does not stay.
        blocks.allocated(ask(DEVICE / 50), 0x1000, 0);
        blocks.freed(0x1000, &order);
        while blocks.must_go(0).is_some() {}
        assert_eq!(blocks.idle_bytes, 0);
    }

    #[test]
    fn nothing_lies_idle_where_the_device_has_little_left() {
        let (mut blocks, order) = (Blocks::default(), Order::default());
        blocks.allocated(ask(100), 0x1000, 0);
        blocks.allocated(ask(100), 0x2000, 0);
        assert_eq!(blocks.freed(0x1000, &order), Freed::Kept);
        assert_eq!((blocks.is_idle(0x1063), blocks.is_idle(0x1064)), (true, false));
        blocks.looked(1_000, 10_000);
        assert!(!blocks.is_too_much(0));
        blocks.looked(999, 10_000);
        assert_eq!(blocks.must_go(0), Some(0x1000));
        assert_eq!((blocks.must_go(0), blocks.is_too_much(0)), (None, false));
        assert_eq!(blocks.freed(0x2000, &order), Freed::GoesBack);
        assert!(!blocks.is_idle(0x1000));
        blocks.looked(5_000, 10_000);
        let looks = (0..2 * LOOK_EVERY).filter(|_| {
            blocks.allocated(ask(100), 0x1000, 0);
            blocks.freed(0x1000, &order);
            let is_due = blocks.is_look_due();
            if is_due {
                blocks.looked(5_000, 10_000);
            }
            is_due
        });
        assert_eq!(looks.count(), 2);
        assert!(!blocks.is_look_due());
        blocks.allocated(ask(LOOK_EVERY_BYTES), 0x4000, 0);
        assert!(blocks.is_look_due());
    }
}
