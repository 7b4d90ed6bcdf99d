//! Copies by direction and host side, and uploads that bring what is there already.

use crate::row::{Row, has_host_side};
use apex_core::event::{Direction, What};
use apex_policy::advise::{Calls, Copies as Kind, Upload};
use std::collections::{BTreeMap, HashMap};

/// Copies of a session.
#[derive(Default)]
pub(super) struct Copies {
    kinds: BTreeMap<(Direction, Option<bool>), Kind>,
    /// The last call of each thread, if it was a small copy: its kind.
    last_small: HashMap<(u32, u32), (Direction, Option<bool>)>,
    /// Time in the last upload of each thread.
    last_upload: HashMap<(u32, u32), u64>,
    uploads: HashMap<(u32, u64, u64, u64), (Calls, bool)>,
}

const MOST_UPLOADS: usize = 1 << 16;

impl Copies {
    pub(super) fn add(&mut self, row: &Row) {
        let thread = (row.process, row.tid);
        match row.what {
            What::Copy(copy) if !copy.captured => {
                let key = (copy.direction, row.pageable.filter(|_| has_host_side(copy.direction)));
                let kind = self.kinds.entry(key).or_insert_with(|| Kind {
                    direction: copy.direction.word().into(),
                    pageable: key.1,
                    ..Kind::default()
                });
                kind.all.add(row.host_ns);
                kind.bytes = kind.bytes.saturating_add(copy.bytes);
                if copy.bytes <= Kind::SMALL_BYTES {
                    kind.small.add(row.host_ns);
                    kind.small_bytes += copy.bytes;
                    let before = self.last_small.insert(thread, key);
                    kind.small_runs += u64::from(before == Some(key));
                } else {
                    self.last_small.remove(&thread);
                }
                if copy.direction == Direction::HostToDevice {
                    self.last_upload.insert(thread, row.host_ns);
                }
            }
            What::Contents { to, bytes, digest, whole } => {
                let host_ns = self.last_upload.remove(&thread).unwrap_or(0);
                let key = (row.process, to, bytes, digest);
                if self.uploads.len() < MOST_UPLOADS || self.uploads.contains_key(&key) {
                    let (calls, all) = self.uploads.entry(key).or_insert((Calls::default(), whole));
                    calls.add(host_ns);
                    *all &= whole;
                }
            }
            What::GpuTime { .. } | What::Passed { .. } => {}
            _ => {
                self.last_small.remove(&thread);
            }
        }
    }

    pub(super) fn finish(self) -> (Vec<Kind>, Vec<Upload>) {
        let mut uploads: Vec<Upload> = self
            .uploads
            .into_iter()
            .filter(|(_, (calls, _))| calls.count > 1)
            .map(|((_, _, bytes, _), (all, whole))| Upload { bytes, all, whole })
            .collect();
        uploads.sort_by(|a, b| b.all.host_ns.total_cmp(&a.all.host_ns).then(b.bytes.cmp(&a.bytes)));
        (self.kinds.into_values().collect(), uploads)
    }
}
