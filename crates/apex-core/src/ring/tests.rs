//! The ring is tried in three ways: through a real file, by scribbling over it, and under loom.

use super::*;
use crate::event::{CallId, Head, What};

fn event(start: u64) -> Event {
    let head =
        Head { call: CallId(7), result: 0, start, ticks: 1, device: 0, context: 1, stream: 0 };
    Event { head, what: What::Other }
}

#[cfg(loom)]
mod exhaustive {
    use super::*;

    #[derive(Clone, Copy)]
    struct Shared(&'static [AtomicU64]);

    impl Source for Shared {
        fn read(&self, offset: u64, words: &mut [u64]) -> io::Result<bool> {
            for (nth, word) in words.iter_mut().enumerate() {
                *word = self.0[offset as usize / 8 + nth].load(Ordering::Acquire);
            }
            Ok(true)
        }

        fn write(&self, offset: u64, word: u64) -> io::Result<()> {
            self.0[offset as usize / 8].store(word, Ordering::Release);
            Ok(())
        }
    }

    /// Every interleaving of a writer of three events over a ring of two records and a reader that
    /// looks twice: what is read is whole, in order, and read or lost adds up.
    #[test]
    fn every_interleaving_gives_whole_events_in_order() {
        static TRIED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(4);
        model.check(|| {
            TRIED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let capacity = 2;
            let words = HEADER_WORDS * 2 + capacity * WORDS;
            let memory: &'static [AtomicU64] =
                Vec::leak((0..words).map(|_| AtomicU64::new(0)).collect());
            // Made before the thread starts: loom follows a word's last access, and the writer's own
            // look at `head` would hide the reader's.
            let mut writer = Writer::resume(&memory[HEADER_WORDS..]);
            let writing = loom::thread::spawn(move || {
                for start in 0..3 {
                    writer.push(&event(start));
                }
            });
            let mut reader = Reader {
                source: Shared(memory),
                header: ProcessHeader {
                    pid: 1,
                    clock: 0,
                    ring_events: capacity as u64,
                    start: 0,
                    locked: false,
                },
                tails: vec![0],
                damaged: 0,
                buffer: Vec::new(),
            };
            let mut seen = Vec::new();
            for _ in 0..2 {
                reader.drain_ring(0, &mut |_, event: Event| seen.push(event.head.start)).unwrap();
            }
            writing.join().unwrap();
            reader.drain_ring(0, &mut |_, event: Event| seen.push(event.head.start)).unwrap();
            let lost = memory[HEADER_WORDS + RingWord::Lost as usize].load(Ordering::Relaxed);
            let lost = counter(lost, RingWord::Lost as usize).unwrap();
            assert_eq!(reader.damaged, 0);
            assert!(seen.is_sorted());
            assert_eq!(seen.len() as u64 + lost, 3);
        });
        let tried = TRIED.load(std::sync::atomic::Ordering::Relaxed);
        println!("{tried} interleavings");
        assert!(tried > 100, "only {tried} interleavings were tried");
    }
}

#[cfg(not(loom))]
mod real {
    use super::*;
    use proptest::prelude::*;
    use std::fs::{File, OpenOptions};
    use std::os::unix::fs::{FileExt, PermissionsExt};
    use std::path::PathBuf;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path =
                std::env::temp_dir().join(format!("apex-ring-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn rings(&self, events: u64) -> (&'static ProcessMap, PathBuf) {
            let path = self.0.join("p.ring");
            let map = ProcessMap::create(&path, events, 1, 5).unwrap();
            (Box::leak(Box::new(map)), path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn open(path: &PathBuf) -> File {
        OpenOptions::new().read(true).write(true).open(path).unwrap()
    }

    fn starts(reader: &mut Reader<File>) -> Vec<u64> {
        let mut seen = Vec::new();
        reader.drain(|_, event| seen.push(event.head.start)).unwrap();
        seen
    }

    #[test]
    fn what_is_written_is_read_in_order_across_the_seam() {
        let folder = Folder::new("seam");
        let (map, path) = folder.rings(64);
        let mut reader = Reader::open(open(&path)).unwrap();
        let mut writer = map.claim().unwrap();
        for round in 0..10 {
            let expected: Vec<u64> = (round * 50..round * 50 + 50).collect();
            expected.iter().for_each(|&start| writer.push(&event(start)));
            assert_eq!(starts(&mut reader), expected);
        }
        assert_eq!(reader.counters().unwrap(), Counters::default());
    }

    #[test]
    fn a_full_ring_keeps_the_old_and_counts_the_new() {
        let folder = Folder::new("full");
        let (map, path) = folder.rings(64);
        let mut writer = map.claim().unwrap();
        (0..100).for_each(|start| writer.push(&event(start)));
        let mut reader = Reader::open(open(&path)).unwrap();
        assert_eq!(starts(&mut reader), (0..64).collect::<Vec<_>>());
        assert_eq!(reader.counters().unwrap().lost, 36);
        writer.push(&event(100));
        assert_eq!(starts(&mut reader), [100]);
    }

    #[test]
    fn a_call_is_told_while_a_thread_is_in_it() {
        let folder = Folder::new("inside");
        let (map, path) = folder.rings(64);
        let reader = Reader::open(open(&path)).unwrap();
        let inside = || reader.calls_under_way().unwrap();
        let (first, second) = (map.claim().unwrap(), map.claim().unwrap());
        assert_eq!(inside(), []);
        let before = second.enter(CallId(0), 0);
        assert_eq!(inside(), [(1, CallId(0), 0)]);
        // A callback calls the driver while its thread waits.
        let outer = first.enter(CallId(7), 1_000);
        let inner = first.enter(CallId(9), 2_000);
        assert_eq!(inside(), [(0, CallId(9), 2_000), (1, CallId(0), 0)]);
        first.leave(inner);
        second.leave(before);
        assert_eq!(inside(), [(0, CallId(7), 1_000)]);
        first.leave(outer);
        assert_eq!(inside(), []);
        second.enter(CallId(7), 3_000);
        second.release();
        assert_eq!(inside(), [], "a thread that has ended is in no call");
    }

    #[test]
    fn a_call_that_nobody_entered_is_not_told() {
        let folder = Folder::new("outside");
        let (map, path) = folder.rings(64);
        let file = open(&path);
        let reader = Reader::open(open(&path)).unwrap();
        map.claim().unwrap().enter(CallId(7), 1_000);
        let place = |word: RingWord| HEADER_BYTES as u64 + 8 * word as u64;
        // A reader that comes between the two stores, and a program that writes over them.
        for (word, value) in
            [(RingWord::Since, 2_000_u64), (RingWord::Call, 7 << 48), (RingWord::Call, 1)]
        {
            file.write_all_at(&value.to_le_bytes(), place(word)).unwrap();
            assert_eq!(reader.calls_under_way().unwrap(), [], "{word:?}");
        }
    }

    #[test]
    fn what_recording_took_is_counted_over_all_rings() {
        let folder = Folder::new("cost");
        let (map, path) = folder.rings(64);
        let reader = Reader::open(open(&path)).unwrap();
        for writer in [map.claim().unwrap(), map.claim().unwrap()] {
            (0..15).for_each(|_| writer.count_cost(120));
            writer.count_cost(100_000);
        }
        let counters = reader.counters().unwrap();
        assert_eq!((counters.own.count(), counters.damaged), (32, 0));
        let median = counters.own.median(30).unwrap();
        assert!((median - 120.0).abs() < 4.0, "{median}");
    }

    #[test]
    fn a_drained_ring_is_taken_over_and_an_undrained_one_is_not() {
        let folder = Folder::new("reuse");
        let (map, path) = folder.rings(64);
        let mut reader = Reader::open(open(&path)).unwrap();
        let mut first = map.claim().unwrap();
        first.push(&event(1));
        first.release();
        let second = map.claim().unwrap();
        assert_eq!(second.position(), 0, "the first ring still holds an event");
        assert_eq!(starts(&mut reader), [1]);
        assert_eq!(map.claim().unwrap().position(), 1, "now it is drained");
    }

    #[test]
    fn the_file_is_private_and_sparse() {
        let folder = Folder::new("private");
        let (_, path) = folder.rings(16384);
        let meta = std::fs::metadata(&path).unwrap();
        assert_eq!(meta.permissions().mode() & 0o777, 0o600);
        assert!(std::os::unix::fs::MetadataExt::blocks(&meta) * 512 <= 16384);
    }

    #[test]
    fn an_unfinished_or_foreign_file_is_refused() {
        let folder = Folder::new("foreign");
        let path = folder.0.join("x");
        std::fs::write(&path, b"short").unwrap();
        assert!(matches!(Reader::open(open(&path)), Err(ReaderError::NotReady)));
        std::fs::write(&path, vec![0; 8192]).unwrap();
        assert!(matches!(Reader::open(open(&path)), Err(ReaderError::NotReady)));
        std::fs::write(&path, vec![7; 8192]).unwrap();
        assert!(matches!(Reader::open(open(&path)), Err(ReaderError::NotARing(_))));
    }

    #[test]
    fn a_truncated_file_gives_damage_and_no_fault() {
        let folder = Folder::new("truncated");
        let (map, path) = folder.rings(64);
        let mut writer = map.claim().unwrap();
        (0..10).for_each(|start| writer.push(&event(start)));
        let mut reader = Reader::open(open(&path)).unwrap();
        open(&path).set_len(HEADER_BYTES as u64 * 2).unwrap();
        assert_eq!(starts(&mut reader), []);
        assert_eq!(reader.counters().unwrap().damaged, 10);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// A program writes anything anywhere over its rings between drains. The reader ends, never
        /// faults, and believes no event that was not written.
        #[test]
        fn scribbling_is_never_believed(
            scribbles in prop::collection::vec((any::<u16>(), any::<u64>()), 1..60),
            drain_between in any::<bool>(),
        ) {
            let folder = Folder::new("scribble");
            let (map, path) = folder.rings(64);
            let file = open(&path);
            let mut reader = Reader::open(open(&path)).unwrap();
            let mut writer = map.claim().unwrap();
            let mut written = 0_u64;
            let mut seen = Vec::new();
            for (place, word) in scribbles {
                for _ in 0..7 {
                    writer.push(&event(written));
                    written += 1;
                }
                // Both headers and all 64 records are within reach; odd words are small numbers, so
                // that plausible heads and tails are tried too.
                let offset = u64::from(place) * 8 % (2 * HEADER_BYTES as u64 + 64 * 64);
                let word = if word & 1 == 1 { word >> 54 } else { word };
                file.write_all_at(&word.to_le_bytes(), offset).unwrap();
                if drain_between {
                    reader.drain(|_, event| seen.push(event.head.start)).unwrap();
                }
            }
            reader.drain(|_, event| seen.push(event.head.start)).unwrap();
            prop_assert!(seen.iter().all(|&start| start < written));
        }
    }
}
