//! What each stream was given lately, in columns of a twentieth of a second, for whoever watches a session run.
//!
//! It is kept only while somebody watches. A launch counts where it was made, with the mean time that launches of its
//! kernel and shape took so far: an estimate, because most launches are not timed. Every snapshot has the last second,
//! so a watcher who misses one or two has no gap.

use crate::row::Row;
use apex_core::event::What;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Length of a column.
pub const COLUMN_NS: u64 = 50_000_000;
/// Columns that are kept.
const COLUMNS: u64 = 20;
/// Streams that are told apart.
const STREAMS: usize = 32;

/// One stream in the last second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecentStream {
    /// Process id.
    pub pid: u32,
    /// Device ordinal, where known.
    pub device: Option<u8>,
    /// Its handle.
    pub stream: u64,
    /// Columns in which anything happened, oldest first.
    pub columns: VecDeque<RecentColumn>,
}

/// What was given to a stream in one column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecentColumn {
    /// Its number: its beginning since the session's start, in columns.
    pub nth: u64,
    /// Launches, graph launches included.
    pub launches: u64,
    /// GPU time that they take by what was measured so far, in nanoseconds.
    pub kernel_ns: u64,
    /// Bytes copied and set.
    pub bytes: u64,
    /// Time waited for it, in nanoseconds.
    pub waited_ns: u64,
}

/// The streams of a session in the last second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent {
    streams: BTreeMap<(u32, Option<u8>, u64), RecentStream>,
}

impl Recent {
    /// Counts a row; `mean_ns` is what its launch takes.
    pub(crate) fn add(&mut self, row: &Row, mean_ns: f64) {
        if !row.succeeded() {
            return;
        }
        let mut more = RecentColumn { nth: row.time_ns / COLUMN_NS, ..RecentColumn::default() };
        match row.what {
            What::Launch(launch) if !launch.captured => {
                (more.launches, more.kernel_ns) = (1, mean_ns as u64);
            }
            What::GraphLaunch { captured: false, .. } => {
                (more.launches, more.kernel_ns) = (1, mean_ns as u64);
            }
            What::Copy(copy) if !copy.captured => more.bytes = copy.bytes,
            What::Set(set) if !set.captured => more.bytes = set.bytes,
            What::Sync { .. } => more.waited_ns = row.host_ns,
            _ => return,
        }
        let key = (row.process, row.device, row.stream);
        if self.streams.len() >= STREAMS && !self.streams.contains_key(&key) {
            return;
        }
        let stream = self.streams.entry(key).or_insert_with(|| RecentStream {
            pid: row.pid,
            device: row.device,
            stream: row.stream,
            columns: VecDeque::new(),
        });
        stream.add(more);
    }

    /// The last second before a moment; older columns and silent streams are forgotten.
    pub(crate) fn last_second(&mut self, now_ns: u64) -> Vec<RecentStream> {
        let oldest = (now_ns / COLUMN_NS).saturating_sub(COLUMNS);
        self.streams.retain(|_, stream| {
            stream.columns.retain(|column| column.nth >= oldest);
            !stream.columns.is_empty()
        });
        self.streams.values().cloned().collect()
    }
}

impl RecentStream {
    fn add(&mut self, more: RecentColumn) {
        // Rows of several threads come nearly in order: the column is one of the last.
        let place = self.columns.iter().rposition(|column| column.nth <= more.nth);
        match place.and_then(|place| self.columns.get_mut(place)) {
            Some(column) if column.nth == more.nth => {
                column.launches += more.launches;
                column.kernel_ns = column.kernel_ns.saturating_add(more.kernel_ns);
                column.bytes = column.bytes.saturating_add(more.bytes);
                column.waited_ns = column.waited_ns.saturating_add(more.waited_ns);
            }
            _ => self.columns.insert(place.map_or(0, |place| place + 1), more),
        }
        while self.columns.len() > 2 * COLUMNS as usize {
            self.columns.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::row;
    use apex_core::event::{KernelId, Launch, LaunchShape, SyncKind};

    fn launch(at_ms: u64, stream: u64) -> Row {
        let what = What::Launch(Launch {
            kernel: KernelId(1),
            shape: LaunchShape::default(),
            captured: false,
            cooperative: false,
        });
        Row { stream, ..row(at_ms * 1_000_000, what) }
    }

    #[test]
    fn launches_are_counted_where_they_were_made() {
        let mut recent = Recent::default();
        for (at_ms, stream) in [(10, 7), (60, 7), (40, 7), (70, 7), (20, 8)] {
            recent.add(&launch(at_ms, stream), 1_000.0);
        }
        let sync = What::Sync { kind: SyncKind::Stream, object: 7 };
        recent.add(&Row { stream: 7, host_ns: 9, ..row(80_000_000, sync) }, 0.0);
        let streams = recent.last_second(100_000_000);
        let counted: Vec<Vec<_>> = streams
            .iter()
            .map(|one| one.columns.iter().map(|it| (it.nth, it.launches, it.kernel_ns)).collect())
            .collect();
        assert_eq!(counted, [vec![(0, 2, 2_000), (1, 2, 2_000)], vec![(0, 1, 1_000)]]);
        assert_eq!(streams[0].columns[1].waited_ns, 9);
    }

    #[test]
    fn what_is_older_is_forgotten_and_streams_are_bounded() {
        let mut recent = Recent::default();
        for at_ms in 0..10_000 {
            recent.add(&launch(at_ms, 7), 1.0);
        }
        let streams = recent.last_second(10_000_000_000);
        assert_eq!(streams[0].columns.len() as u64, COLUMNS);
        assert!(recent.last_second(12_000_000_000).is_empty());
        for stream in 0..1_000 {
            recent.add(&launch(12_000, stream), 1.0);
        }
        assert_eq!(recent.last_second(12_000_000_000).len(), STREAMS);
    }
}
