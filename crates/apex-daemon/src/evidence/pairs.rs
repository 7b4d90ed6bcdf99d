//! Launches that directly follow one another on a stream: do they share memory, could one kernel be both, and
//! would both fit on the device at once?
//!
//! Pointers come from the record of detail. A value counts as a pointer if it lies in memory that the process
//! allocated; without detail there are no pairs.

use crate::known::Known;
use crate::names::Demangled;
use crate::row::Row;
use crate::summarise::{ConfigKey, Means, is_device_memory};
use apex_core::event::What;
use apex_policy::advise::Pair;
use std::collections::{BTreeMap, HashMap};

/// Pairs of a session.
#[derive(Default)]
pub(super) struct Pairs {
    memory: HashMap<u32, BTreeMap<u64, u64>>,
    /// The last launch of each thread, until its pointers come.
    pending: HashMap<(u32, u32), (ConfigKey, u64)>,
    /// The last launch on each stream, with its pointers.
    last: HashMap<(u32, u64), (ConfigKey, Vec<u64>)>,
    pairs: HashMap<(ConfigKey, ConfigKey), Seen>,
}

#[derive(Default)]
struct Seen {
    count: u64,
    sharing: u64,
    repeated: u64,
    shared_bytes: u64,
    pointers: (u64, u64),
}

const MOST: usize = 1 << 14;
/// Pairs that become evidence at most.
const MOST_SHOWN: usize = 256;

impl Pairs {
    pub(super) fn add(&mut self, row: &Row, launch: Option<&ConfigKey>) {
        let thread = (row.process, row.tid);
        if let Some(key) = launch {
            self.pending.insert(thread, (*key, row.stream));
            return;
        }
        match row.what {
            What::Passed { pointers, .. } => {
                let Some((key, stream)) = self.pending.remove(&thread) else { return };
                self.follow(key, stream, &pointers);
            }
            What::Alloc { kind, address, bytes } if is_device_memory(kind) => {
                self.memory.entry(row.process).or_default().insert(address, bytes);
            }
            What::Free { address, .. } => {
                self.memory.entry(row.process).or_default().remove(&address);
            }
            // Something else on the stream stands between.
            What::Copy(_) | What::Set(_) => {
                self.last.remove(&(row.process, row.stream));
            }
            What::Sync { .. } => self.last.retain(|(process, _), _| *process != row.process),
            _ => {}
        }
    }

    fn follow(&mut self, key: ConfigKey, stream: u64, values: &[u64]) {
        let memory = self.memory.entry(key.process).or_default();
        let within = |&value: &u64| -> bool { rest(memory, value).is_some() };
        let pointers: Vec<u64> = values.iter().copied().filter(within).collect();
        if let Some((before, earlier)) = self.last.get(&(key.process, stream)) {
            let pair = (*before, key);
            if self.pairs.len() < MOST || self.pairs.contains_key(&pair) {
                let seen = self.pairs.entry(pair).or_default();
                seen.count += 1;
                seen.pointers = (earlier.len() as u64, pointers.len() as u64);
                let shared = pointers.iter().filter(|pointer| earlier.contains(pointer));
                let bytes = shared.filter_map(|&pointer| rest(memory, pointer)).max();
                if *before == key && *earlier == pointers {
                    seen.repeated += 1;
                } else if let Some(bytes) = bytes {
                    seen.sharing += 1;
                    seen.shared_bytes = seen.shared_bytes.max(bytes);
                }
            }
        }
        self.last.insert((key.process, stream), (key, pointers));
    }

    pub(super) fn finish(
        self,
        known: &Known,
        means: &Means<'_>,
        names: &mut Demangled,
    ) -> Vec<Pair> {
        let mut all: Vec<_> = self.pairs.into_iter().collect();
        all.sort_by(|(a, one), (b, other)| other.count.cmp(&one.count).then_with(|| a.cmp(b)));
        all.truncate(MOST_SHOWN);
        all.into_iter()
            .map(|((first, second), seen)| {
                let mut name = |key: &ConfigKey| {
                    let kernel = known.kernel(key.process, key.kernel);
                    kernel.map_or_else(String::new, |k| names.name(&k.name).to_owned())
                };
                Pair {
                    first: name(&first),
                    second: name(&second),
                    count: seen.count,
                    sharing: seen.sharing,
                    repeated: seen.repeated,
                    shared_bytes: seen.shared_bytes,
                    first_pointers: seen.pointers.0,
                    second_pointers: seen.pointers.1,
                    gpu_ns: means.of(&first).zip(means.of(&second)),
                    elementwise: threads(&first) == threads(&second)
                        && is_plain(known, &first)
                        && is_plain(known, &second),
                    sms_needed: sms_needed(known, &first) + sms_needed(known, &second),
                }
            })
            .collect()
    }
}

/// Bytes from an address to the end of its allocation.
fn rest(memory: &BTreeMap<u64, u64>, address: u64) -> Option<u64> {
    let (&start, &bytes) = memory.range(..=address).next_back()?;
    (address - start < bytes).then(|| bytes - (address - start))
}

fn threads(key: &ConfigKey) -> u64 {
    let block: u64 = key.shape.block.iter().map(|&side| u64::from(side)).product();
    key.shape.grid.iter().map(|&side| u64::from(side)).product::<u64>() * block
}

/// Neither shared memory nor a cluster: threads do not work together beyond their warp.
fn is_plain(known: &Known, key: &ConfigKey) -> bool {
    let kernel = known.kernel(key.process, key.kernel);
    kernel.is_some_and(|kernel| kernel.static_shared == 0)
        && key.shape.dynamic_shared == 0
        && key.shape.cluster == [0; 3]
}

/// The share of the device's multiprocessors that a launch keeps busy, one block on each where it can.
fn sms_needed(known: &Known, key: &ConfigKey) -> f64 {
    let blocks: u64 = key.shape.grid.iter().map(|&side| u64::from(side)).product();
    let device = known.device(key.process, key.device);
    let sms = device.map_or(0, |device| device.sms);
    if sms == 0 {
        return f64::INFINITY;
    }
    blocks as f64 / sms as f64
}
