//! Where the collector's models answer questions that a program could only guess at.
//!
//! One file beside the rings of a session. The collector writes it by position and trusts its own memory of it;
//! programs map it for reading only. What always holds:
//!
//! 1. A place is two words: the key of a launch, and a time with a check over both. Whatever a reader finds there
//!    while it is written, after a crash, or because somebody scribbled, fits its check or is not used.
//! 2. A key names kernel and device by what they are and not by numbers of one process, so an answer holds in
//!    whichever process asks: one that was forked, or became another program, finds nothing that is not its own.
//! 3. The count of answers rises after a place is whole: who sees it risen finds the answer.
//! 4. The file never grows. When the places of a key are taken, the oldest answer among them goes.

use crate::event::LaunchShape;
use crate::facts::Kernel;
use crate::outputs::hash;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Name of the file in the directory of the rings.
pub const FILE: &str = "answers";

/// First word: "APEXANS1".
const MAGIC: u64 = u64::from_le_bytes(*b"APEXANS1");
const COUNT_WORD: usize = 1;
/// Words before the first place: a cache line.
const HEAD_WORDS: usize = 8;
const PLACES: usize = 1 << 12;
/// Places that an answer may stand in; two cache lines at most.
const WINDOW: usize = 4;
const WORDS: usize = HEAD_WORDS + PLACES * 2;
const BYTES: usize = WORDS * 8;

/// What a device is, as far as answers differ by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceKey {
    /// Compute capability, major and minor.
    pub capability: (u64, u64),
    /// Multiprocessors.
    pub sms: u64,
    /// Highest clock in kilohertz.
    pub clock_khz: u64,
}

/// The part of a key that all launches of a kernel on a device share.
#[must_use]
pub fn kernel_key(kernel: &Kernel, device: &DeviceKey) -> u64 {
    let DeviceKey { capability: (major, minor), sms, clock_khz } = *device;
    let words = [kernel.image_hash, kernel.registers, major, minor, sms, clock_khz];
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend_from_slice(kernel.name.as_bytes());
    hash(&bytes)
}

/// The key of a launch; never zero.
#[must_use]
pub fn launch_key(kernel_key: u64, shape: &LaunchShape) -> u64 {
    let mut bytes = [0; 40];
    let words = shape.grid.iter().copied().chain([shape.dynamic_shared]);
    let words = words.chain(shape.block.map(u32::from)).chain([0]);
    bytes[..8].copy_from_slice(&kernel_key.to_le_bytes());
    for (place, word) in bytes[8..].as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    hash(&bytes) | 1
}

fn time_word(key: u64, nanos: f32) -> u64 {
    let bits = u64::from(nanos.to_bits());
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&key.to_le_bytes());
    bytes[8..].copy_from_slice(&bits.to_le_bytes());
    hash(&bytes) >> 32 << 32 | bits
}

/// The first place of a key's window.
fn window(key: u64) -> usize {
    (key >> 32) as usize % (PLACES / WINDOW) * WINDOW
}

/// Writes answers; there is one in a session.
#[derive(Debug)]
pub struct Writer {
    file: File,
    /// Key and number of the answer in each place; the file itself is never read back.
    places: Vec<(u64, u64)>,
    count: u64,
}

impl Writer {
    /// Makes the file. All its bytes are written, because touching a page that a full file system cannot give would
    /// kill a program; it gets its name when it is whole.
    pub fn create(directory: &Path) -> io::Result<Writer> {
        let part = directory.join(format!("{FILE}.part"));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        let mut bytes = vec![0; BYTES];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        file.write_all_at(&bytes, 0)?;
        std::fs::rename(&part, directory.join(FILE))?;
        Ok(Writer { file, places: vec![(0, 0); PLACES], count: 0 })
    }

    /// Writes an answer, over that of the same key if there is one. A time that is none is not written.
    pub fn write(&mut self, key: u64, nanos: f32) -> io::Result<()> {
        if !(nanos.is_finite() && nanos > 0.0) {
            return Ok(());
        }
        let first = window(key);
        let places = &self.places[first..first + WINDOW];
        let own = places.iter().position(|(found, _)| *found == key);
        let oldest = || (0..WINDOW).min_by_key(|nth| places[*nth].1).unwrap_or(0);
        let place = first + own.unwrap_or_else(oldest);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&key.to_le_bytes());
        bytes[8..].copy_from_slice(&time_word(key, nanos).to_le_bytes());
        self.file.write_all_at(&bytes, (HEAD_WORDS + place * 2) as u64 * 8)?;
        self.count += 1;
        self.places[place] = (key, self.count);
        self.file.write_all_at(&self.count.to_le_bytes(), COUNT_WORD as u64 * 8)
    }

    /// Answers written so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// The file as a program has it: mapped for ever, because threads may come here until the last.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    words: &'static [AtomicU64],
}

impl Page {
    /// Maps the file of a session; it is believed only if its size and first word are right.
    pub fn map(directory: &Path) -> io::Result<Page> {
        let path = directory.join(FILE);
        let file = File::open(&path)?;
        if file.metadata()?.len() != BYTES as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a file of answers"));
        }
        // SAFETY: a fresh shared mapping of a whole file, placed by the kernel.
        let address = unsafe {
            let (protection, shared) = (libc::PROT_READ, libc::MAP_SHARED);
            libc::mmap(core::ptr::null_mut(), BYTES, protection, shared, file.as_raw_fd(), 0)
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: page-aligned, as long as the file was found to be, never unmapped, loaded as atomics alone.
        let words = unsafe { core::slice::from_raw_parts(address.cast::<AtomicU64>(), WORDS) };
        let page = Page { words };
        match page.words[0].load(Ordering::Relaxed) {
            MAGIC => Ok(page),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "not a file of answers")),
        }
    }

    /// Answers written so far: while it stays the same there is nothing new to find.
    #[inline(always)]
    #[must_use]
    pub fn count(&self) -> u64 {
        self.words[COUNT_WORD].load(Ordering::Acquire)
    }

    /// The time in nanoseconds that was answered for a launch.
    #[must_use]
    pub fn find(&self, key: u64) -> Option<f32> {
        let first = HEAD_WORDS + window(key) * 2;
        let places = self.words[first..first + WINDOW * 2].as_chunks::<2>().0.iter();
        let mut found = places.filter_map(|[name, time]| {
            let time = time.load(Ordering::Relaxed);
            let nanos = f32::from_bits(time as u32);
            (name.load(Ordering::Relaxed) == key && time_word(key, nanos) == time).then_some(nanos)
        });
        found.next().filter(|nanos| nanos.is_finite() && *nanos > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn place(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("apex-answers-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a directory of its own");
        path
    }

    fn key_of(name: &str, blocks: u32) -> u64 {
        let kernel = Kernel { name: name.into(), ..Kernel::default() };
        let shape = LaunchShape { grid: [blocks, 1, 1], block: [64, 1, 1], ..Default::default() };
        launch_key(kernel_key(&kernel, &DeviceKey::default()), &shape)
    }

    #[test]
    fn what_is_written_is_found_under_its_own_key_alone() {
        let place = place("found");
        assert!(Page::map(&place).is_err(), "there is none yet");
        let mut writer = Writer::create(&place).expect("made");
        let page = Page::map(&place).expect("mapped");
        assert_eq!((page.count(), page.find(key_of("k", 1))), (0, None));
        writer.write(key_of("k", 1), 7_000.0).expect("written");
        writer.write(key_of("k", 1), 8_000.0).expect("written again");
        writer.write(key_of("k", 2), f32::NAN).expect("passed over");
        assert_eq!((page.count(), writer.count()), (2, 2));
        assert_eq!(page.find(key_of("k", 1)), Some(8_000.0));
        for other in [key_of("k", 2), key_of("j", 1)] {
            assert_eq!(page.find(other), None);
        }
        let device = DeviceKey { sms: 1, ..DeviceKey::default() };
        let kernel = Kernel { name: "k".into(), ..Kernel::default() };
        assert_ne!(kernel_key(&kernel, &device), kernel_key(&kernel, &DeviceKey::default()));
        std::fs::remove_dir_all(place).ok();
    }

    #[test]
    fn half_an_answer_is_none() {
        let place = place("torn");
        let mut writer = Writer::create(&place).expect("made");
        let page = Page::map(&place).expect("mapped");
        let (one, other) = (key_of("k", 1), key_of("k", 2));
        writer.write(one, 7_000.0).expect("written");
        let at = (HEAD_WORDS + window(one) * 2) as u64 * 8;
        let set = |offset: u64, word: u64| {
            writer.file.write_all_at(&word.to_le_bytes(), at + offset).expect("written");
        };
        let whole = time_word(one, 7_000.0);
        // Only the key of another answer is there yet, or only its time, or bits of it were changed.
        for (name, time) in [
            (other, whole),
            (one, time_word(other, 9_000.0)),
            (one, time_word(other, 7_000.0)),
            (one, 0),
            (0, whole),
        ] {
            set(0, name);
            set(8, time);
            assert_eq!((page.find(one), page.find(other)), (None, None));
        }
        set(0, one);
        for bit in 0..64 {
            set(8, whole ^ 1 << bit);
            assert_eq!(page.find(one), None, "bit {bit}");
        }
        set(8, whole);
        assert_eq!(page.find(one), Some(7_000.0));
        std::fs::remove_dir_all(place).ok();
    }

    #[test]
    fn a_full_table_keeps_the_newest_answers_of_each_window() {
        let place = place("full");
        let mut writer = Writer::create(&place).expect("made");
        let page = Page::map(&place).expect("mapped");
        let keys: Vec<u64> = (0..3 * PLACES as u32).map(|blocks| key_of("k", blocks)).collect();
        for (nth, key) in keys.iter().enumerate() {
            writer.write(*key, nth as f32 + 1.0).expect("written");
            assert_eq!(page.find(*key), Some(nth as f32 + 1.0), "the newest is always there");
        }
        let mut kept = 0;
        for (nth, key) in keys.iter().enumerate() {
            if let Some(nanos) = page.find(*key) {
                assert_eq!(nanos, nth as f32 + 1.0);
                kept += 1;
            }
        }
        assert!(kept <= PLACES && kept > PLACES * 9 / 10, "{kept}");
        std::fs::remove_dir_all(place).ok();
    }

    #[test]
    fn whoever_reads_while_it_is_written_finds_whole_answers() {
        let place = place("race");
        let mut writer = Writer::create(&place).expect("made");
        let page = Page::map(&place).expect("mapped");
        // Eight keys that want the same places, each with a time of its own.
        let same = window(key_of("k", 0));
        let keys: Vec<(u64, f32)> = (0..u32::MAX)
            .map(|blocks| (key_of("k", blocks), blocks as f32 + 1.0))
            .filter(|(key, _)| window(*key) == same)
            .take(8)
            .collect();
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| {
                let mut found = 0_u64;
                loop {
                    // Looked at before, so that a reader who comes late finds the last answers.
                    let is_over = page.count() >= 20_000;
                    for (key, nanos) in &keys {
                        let answer = page.find(*key);
                        assert!(answer.is_none() || answer == Some(*nanos), "{answer:?}");
                        found += u64::from(answer.is_some());
                    }
                    if is_over {
                        return found;
                    }
                }
            });
            for round in 0..20_000 {
                let (key, nanos) = keys[round % keys.len()];
                writer.write(key, nanos).expect("written");
            }
            assert!(reading.join().expect("no panic") > 0);
        });
        std::fs::remove_dir_all(place).ok();
    }

    #[test]
    fn a_file_of_another_kind_is_refused() {
        let place = place("kind");
        std::fs::write(place.join(FILE), b"something else").expect("written");
        assert!(Page::map(&place).is_err());
        std::fs::write(place.join(FILE), vec![1; BYTES]).expect("written");
        assert!(Page::map(&place).is_err());
        std::fs::remove_dir_all(place).ok();
    }
}
