//! How long at least one kernel ran on each device, from the kernels' own times.
//!
//! Records come nearly in order of their start. The latest are kept sorted; the earliest are joined
//! to the running union once there are too many. A record that comes later than that is counted only as
//! far as it lies behind the union's end, so the union is never too long.

use crate::known::Known;
use std::collections::{BTreeSet, HashMap};

const WAITING: usize = 65_536;
/// A pause up to this long between kernels is the hardware's own.
const GAP_NS: u64 = 3_000;

/// The union of kernel times by device.
#[derive(Clone, Debug, Default)]
pub(super) struct BusyTime {
    /// Which device a process means by an ordinal.
    places: HashMap<(u32, Option<u8>), usize>,
    names: Vec<String>,
    devices: Vec<Union>,
}

#[derive(Clone, Debug, Default)]
struct Union {
    waiting: BTreeSet<(u64, u64, u64)>,
    arrived: u64,
    joined: Joined,
}

#[derive(Clone, Copy, Debug, Default)]
struct Joined {
    busy_ns: u64,
    end_ns: u64,
    kernels: u64,
    after_gap: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BusyTotals {
    pub(super) devices: u64,
    pub(super) busy_ns: u64,
    pub(super) kernels: u64,
    pub(super) after_gap: u64,
}

impl BusyTime {
    pub(super) fn add(
        &mut self,
        known: &Known,
        process: u32,
        device: Option<u8>,
        start_ns: u64,
        end_ns: u64,
    ) {
        let place = match self.places.get(&(process, device)) {
            Some(&place) => place,
            None => self.place(known, process, device),
        };
        let union = &mut self.devices[place];
        union.arrived += 1;
        union.waiting.insert((start_ns, end_ns, union.arrived));
        if union.waiting.len() > WAITING
            && let Some((start, end, _)) = union.waiting.pop_first()
        {
            union.joined.join(start, end);
        }
    }

    pub(super) fn totals(&self) -> BusyTotals {
        let mut totals = BusyTotals { devices: self.devices.len() as u64, ..BusyTotals::default() };
        for union in &self.devices {
            let mut joined = union.joined;
            for &(start, end, _) in &union.waiting {
                joined.join(start, end);
            }
            totals.busy_ns += joined.busy_ns;
            totals.kernels += joined.kernels;
            totals.after_gap += joined.after_gap;
        }
        totals
    }

    fn place(&mut self, known: &Known, process: u32, device: Option<u8>) -> usize {
        let name = device_name(known, process, device);
        let place = self.names.iter().position(|other| *other == name).unwrap_or_else(|| {
            self.names.push(name);
            self.devices.push(Union::default());
            self.names.len() - 1
        });
        self.places.insert((process, device), place);
        place
    }
}

impl Joined {
    fn join(&mut self, start: u64, end: u64) {
        self.kernels += 1;
        if self.kernels == 1 || start > self.end_ns.saturating_add(GAP_NS) {
            self.after_gap += 1;
        }
        self.busy_ns += end.saturating_sub(start.max(self.end_ns));
        self.end_ns = self.end_ns.max(end);
    }
}

/// Two processes may call one device by different ordinals: its UUID is its name.
pub(super) fn device_name(known: &Known, process: u32, device: Option<u8>) -> String {
    match known.device(process, device) {
        Some(facts) if !facts.uuid.is_empty() => facts.uuid.clone(),
        _ => device.map_or("unknown".into(), |ordinal| ordinal.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_kernels_count_once_and_gaps_are_seen() {
        let mut busy = BusyTime::default();
        let known = Known::default();
        for (start, end) in [(5_000, 9_000), (0, 2_000), (1_000, 3_000), (3_500, 4_500)] {
            busy.add(&known, 0, Some(0), start, end);
        }
        busy.add(&known, 0, Some(1), 0, 10);
        let expected = BusyTotals { devices: 2, busy_ns: 8_010, kernels: 5, after_gap: 2 };
        assert_eq!(busy.totals(), expected);
    }

    #[test]
    fn the_union_is_the_same_when_it_is_joined_early() {
        let mut busy = BusyTime::default();
        let known = Known::default();
        let count = 2 * WAITING as u64;
        for nth in 0..count {
            busy.add(&known, 0, Some(0), nth * 10, nth * 10 + 5);
        }
        assert_eq!(busy.totals().busy_ns, count * 5);
    }
}
