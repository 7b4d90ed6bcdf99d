//! Which memory a process holds at a moment, as far as its calls tell.
//!
//! From it a copy's direction is decided where the call does not say it, whether a copy's host side
//! was pinned, and how many bytes a free gave back. An address that no call of the process made is
//! taken for host memory if the other side of the copy is the device's; module globals and
//! memory opened from another process are not known here.

use apex_core::event::{AllocKind, Direction};
use std::collections::BTreeMap;

/// One live range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) kind: AllocKind,
    pub(crate) bytes: u64,
    pub(crate) device: Option<u8>,
}

/// The live memory of one process. Handles and addresses are numbers of different kinds, so each
/// kind of number has a map of its own.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    addresses: BTreeMap<u64, Range>,
    mapped: BTreeMap<u64, Range>,
    reserved: BTreeMap<u64, Range>,
    physical: BTreeMap<u64, Range>,
    arrays: BTreeMap<u64, Range>,
}

impl Memory {
    pub(crate) fn allocated(&mut self, address: u64, range: Range) {
        self.map(range.kind).insert(address, range);
    }

    /// Takes the range out and says what it was. An unmapping may cover several mappings.
    pub(crate) fn freed(&mut self, kind: AllocKind, address: u64, bytes: u64) -> Option<Range> {
        if kind == AllocKind::Mapped && bytes > 0 {
            let end = address.saturating_add(bytes);
            let covered: Vec<u64> = self.mapped.range(address..end).map(|(&at, _)| at).collect();
            let removed: Vec<Range> =
                covered.iter().filter_map(|at| self.mapped.remove(at)).collect();
            let bytes = removed.iter().map(|range| range.bytes).sum();
            return removed.first().map(|range| Range { bytes, ..*range });
        }
        self.map(kind).remove(&address)
    }

    /// The direction of a copy between two addresses.
    pub(crate) fn direction(&self, to: u64, from: u64) -> Direction {
        let (to, from) = (self.at(to), self.at(from));
        match (to.map(is_device), from.map(is_device)) {
            (Some(true), Some(true)) => {
                let devices =
                    (to.and_then(|range| range.device), from.and_then(|range| range.device));
                match devices {
                    (Some(one), Some(other)) if one != other => Direction::Peer,
                    _ => Direction::DeviceToDevice,
                }
            }
            (Some(true), _) => Direction::HostToDevice,
            (_, Some(true)) => Direction::DeviceToHost,
            (Some(false), Some(false)) => Direction::HostToHost,
            _ => Direction::Unstated,
        }
    }

    /// Whether host memory at this address is pinned.
    pub(crate) fn is_pinned(&self, address: u64) -> bool {
        self.at(address).is_some_and(|range| {
            matches!(range.kind, AllocKind::Host | AllocKind::Registered | AllocKind::Managed)
        })
    }

    fn at(&self, address: u64) -> Option<Range> {
        within(&self.addresses, address).or_else(|| within(&self.mapped, address))
    }

    fn map(&mut self, kind: AllocKind) -> &mut BTreeMap<u64, Range> {
        match kind {
            AllocKind::Reserved => &mut self.reserved,
            AllocKind::Physical => &mut self.physical,
            AllocKind::Mapped => &mut self.mapped,
            AllocKind::Array => &mut self.arrays,
            AllocKind::Plain
            | AllocKind::Async
            | AllocKind::Pool
            | AllocKind::Managed
            | AllocKind::Host
            | AllocKind::Registered => &mut self.addresses,
        }
    }
}

/// Managed memory counts as the device's: that is where a copy of it is meant to go.
fn is_device(range: Range) -> bool {
    !matches!(range.kind, AllocKind::Host | AllocKind::Registered)
}

fn within(map: &BTreeMap<u64, Range>, address: u64) -> Option<Range> {
    let (&start, range) = map.range(..=address).next_back()?;
    (address - start < range.bytes.max(1)).then_some(*range)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Memory {
        let mut memory = Memory::default();
        let range = |kind, device| Range { kind, bytes: 100, device };
        memory.allocated(1000, range(AllocKind::Plain, Some(0)));
        memory.allocated(2000, range(AllocKind::Plain, Some(1)));
        memory.allocated(3000, range(AllocKind::Host, None));
        memory.allocated(4000, range(AllocKind::Mapped, Some(0)));
        memory.allocated(4100, range(AllocKind::Mapped, Some(0)));
        memory
    }

    fn check(to: u64, from: u64, expected: Direction) {
        assert_eq!(memory().direction(to, from), expected, "{from} to {to}");
    }

    #[test]
    fn directions_follow_the_ranges() {
        check(1000, 9000, Direction::HostToDevice);
        check(9000, 1099, Direction::DeviceToHost);
        check(1000, 1050, Direction::DeviceToDevice);
        check(1000, 2000, Direction::Peer);
        check(3000, 4150, Direction::DeviceToHost);
        check(3000, 3050, Direction::HostToHost);
        check(9000, 1100, Direction::Unstated);
    }

    #[test]
    fn an_unmapping_may_cover_several_mappings() {
        let mut memory = memory();
        let freed = memory.freed(AllocKind::Mapped, 4000, 200).unwrap();
        assert_eq!(freed.bytes, 200);
        assert_eq!(memory.direction(4000, 1000), Direction::DeviceToHost);
    }

    #[test]
    fn only_live_host_ranges_are_pinned() {
        let mut memory = memory();
        assert!(memory.is_pinned(3099) && !memory.is_pinned(3100) && !memory.is_pinned(1000));
        memory.freed(AllocKind::Host, 3000, 0);
        assert!(!memory.is_pinned(3000));
    }
}
