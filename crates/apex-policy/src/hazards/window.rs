//! A map of bytes with who wrote them last and who has read them since.

use std::collections::BTreeMap;
use std::ops::Range;

/// Launches of a window at most: one bit each.
pub(super) const MOST: usize = 128;

/// Bytes that a launch touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// Which.
    pub bytes: Range<u64>,
    /// Whether it may write them. Atomics count as writes, for those of floats give other sums in another order.
    pub writes: bool,
}

/// Pairs of launches that must keep their order, by the reason: each pair counts once, by the first that is found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hazards {
    /// The later reads what the earlier writes.
    pub read_after_write: u64,
    /// The later writes what the earlier reads.
    pub write_after_read: u64,
    /// Both write.
    pub write_after_write: u64,
}

/// What is known of some bytes.
#[derive(Debug, Clone, Copy)]
struct Segment {
    end: u64,
    writer: u128,
    readers: u128,
}

/// The launches that wait, up to 128 of them.
#[derive(Debug, Clone, Default)]
pub struct Window {
    segments: BTreeMap<u64, Segment>,
    count: usize,
    /// The last launch of which nothing is known.
    barrier: u128,
    hazards: Hazards,
    found: Found,
}

/// The earlier launches that the last one depends on, by the reason, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// It reads what they write.
    pub read_after_write: u128,
    /// It writes what they read.
    pub write_after_read: u128,
    /// It writes what they write.
    pub write_after_write: u128,
}

impl Window {
    /// No launch waits.
    pub fn clear(&mut self) {
        *self = Window::default();
    }

    /// The next launch, with what it touches. `None` stands for everything. Says on which launches it depends, one bit
    /// each; on others it depends through these.
    ///
    /// # Panics
    ///
    /// After 128 launches.
    pub fn add(&mut self, touched: Option<&[Touched]>) -> u128 {
        assert!(self.count < MOST, "a window has room for 128 launches");
        let own = 1_u128 << self.count;
        self.count += 1;
        self.found = Found::default();
        let Some(touched) = touched else {
            // Everything before it is done where it runs, so nothing of that is asked again.
            self.segments.clear();
            self.barrier = own;
            return own - 1;
        };
        let mut depends = self.barrier;
        let [mut raw, mut war, mut waw] = [0_u128; 3];
        // Reads first: what a launch itself writes is no hazard for it.
        for touch in touched.iter().filter(|touch| !touch.writes) {
            self.visit(&touch.bytes, |segment| {
                raw |= segment.writer & !own;
                segment.readers |= own;
            });
        }
        for touch in touched.iter().filter(|touch| touch.writes) {
            self.visit(&touch.bytes, |segment| {
                waw |= segment.writer & !own;
                war |= segment.readers & !own;
                (segment.writer, segment.readers) = (own, 0);
            });
        }
        self.hazards.read_after_write += u64::from(raw.count_ones());
        self.hazards.write_after_write += u64::from((waw & !raw).count_ones());
        self.hazards.write_after_read += u64::from((war & !raw & !waw).count_ones());
        self.found = Found { read_after_write: raw, write_after_read: war, write_after_write: waw };
        depends |= raw | war | waw;
        depends
    }

    /// Why the launch that was added last depends on others.
    #[must_use]
    pub fn found(&self) -> Found {
        self.found
    }

    /// The hazards that were found so far.
    #[must_use]
    pub fn hazards(&self) -> Hazards {
        self.hazards
    }

    /// Visits all of a range, cut where something else is known of its parts.
    fn visit(&mut self, bytes: &Range<u64>, mut of: impl FnMut(&mut Segment)) {
        if bytes.is_empty() {
            return;
        }
        self.cut(bytes.start);
        self.cut(bytes.end);
        let mut at = bytes.start;
        let mut gaps = Vec::new();
        for (&start, segment) in self.segments.range_mut(bytes.clone()) {
            if at < start {
                gaps.push(at..start);
            }
            of(segment);
            at = segment.end;
        }
        if at < bytes.end {
            gaps.push(at..bytes.end);
        }
        for gap in gaps {
            let mut segment = Segment { end: gap.end, writer: 0, readers: 0 };
            of(&mut segment);
            self.segments.insert(gap.start, segment);
        }
    }

    /// No segment goes over this place.
    fn cut(&mut self, at: u64) {
        let Some((_, segment)) = self.segments.range_mut(..at).next_back() else { return };
        if segment.end > at {
            let upper = *segment;
            segment.end = at;
            self.segments.insert(at, upper);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Random(u64);

    impl Random {
        fn below(&mut self, count: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % count
        }
    }

    fn conflict(one: Option<&[Touched]>, other: Option<&[Touched]>) -> bool {
        let (Some(one), Some(other)) = (one, other) else { return true };
        one.iter().any(|a| {
            other.iter().any(|b| {
                (a.writes || b.writes) && a.bytes.start < b.bytes.end && b.bytes.start < a.bytes.end
            })
        })
    }

    /// Every pair that conflicts is ordered, through others or directly; every pair that is ordered conflicts, through
    /// others or directly.
    #[test]
    fn what_conflicts_is_ordered_and_nothing_else() {
        let mut random = Random(7);
        for _ in 0..2_000 {
            let count = 2 + random.below(126) as usize;
            let room = 1 + random.below(300);
            let launches: Vec<Option<Vec<Touched>>> = (0..count)
                .map(|_| {
                    (random.below(20) > 0).then(|| {
                        let ranges = random.below(5);
                        let range = |random: &mut Random| {
                            let start = random.below(room);
                            let bytes = start..start + random.below(1 + room / 8);
                            Touched { bytes, writes: random.below(3) == 0 }
                        };
                        (0..ranges)
                            .map(|_| range(&mut random))
                            .filter(|t| !t.bytes.is_empty())
                            .collect()
                    })
                })
                .collect();
            let mut window = Window::default();
            let mut before: Vec<u128> = Vec::new();
            let mut model: Vec<u128> = Vec::new();
            for (nth, launch) in launches.iter().enumerate() {
                let closure = |direct: u128, known: &[u128]| {
                    let all = (0..nth).filter(|at| direct >> at & 1 != 0);
                    all.fold(direct, |all, at| all | known[at])
                };
                let direct = window.add(launch.as_deref());
                before.push(closure(direct, &before));
                let conflicts = (0..nth)
                    .filter(|&at| conflict(launches[at].as_deref(), launch.as_deref()))
                    .fold(0, |all, at| all | 1_u128 << at);
                model.push(closure(conflicts, &model));
                assert_eq!(before[nth], model[nth], "launch {nth} of {launches:?}");
            }
        }
    }

    #[test]
    fn hazards_are_counted_by_their_kind() {
        let touch = |start: u64, end: u64, writes| Touched { bytes: start..end, writes };
        let mut window = Window::default();
        assert_eq!(window.add(Some(&[touch(0, 100, true)])), 0);
        assert_eq!(window.add(Some(&[touch(50, 60, false), touch(200, 300, true)])), 0b1);
        assert_eq!(window.add(Some(&[touch(59, 61, true)])), 0b11);
        let found = Found { read_after_write: 0, write_after_read: 0b10, write_after_write: 0b01 };
        assert_eq!(window.found(), found);
        assert_eq!(window.add(Some(&[touch(100, 200, true)])), 0);
        assert_eq!(window.add(None), 0b1111);
        assert_eq!(window.found(), Found::default());
        assert_eq!(window.add(Some(&[])), 0b1_0000);
        let expected = Hazards { read_after_write: 1, write_after_read: 1, write_after_write: 1 };
        assert_eq!(window.hazards(), expected);
    }
}
