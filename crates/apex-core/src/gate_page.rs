//! The words through which programs that share a GPU see each other, and the files they lie in.
//!
//! Each GPU has two files in one directory, named by its UUID. `UUID.settings` is the controller's: it says
//! who was granted which class, which budget, and when the controller was last there; programs map it for
//! reading only. `UUID.programs` is everybody's: one slot for each program, in which the program itself
//! writes what it is doing. What always holds:
//!
//! 1. Every word is written alone and means something alone; a program that is killed between two words
//!    leaves both right. There is no lock in either file.
//! 2. A slot belongs to a process by its number *and* its start time, so a number that comes back is seen.
//! 3. Whatever says "wait" is believed only while it is fresh (`apex_policy::schedule::STALE_NS`): the
//!    controller's heartbeat, and the controller's word that a latency program still lives. Whoever finds it
//!    stale goes on.
//! 4. What a program writes about itself is a wish. Class, share and budget are what the settings say, which
//!    programs cannot write where a daemon of another user owns them.
//!
//! The controller reads and writes by position and never maps, like the collector of the rings: a program
//! that truncates its file harms whoever maps it, which is why the directory is private to one user, or to
//! the group of a daemon.

mod words;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
pub use words::{
    BURSTS_KEPT, BurstWord, FENCES, Grant, Granted, HEAD_WORDS, KeptBurst, MOST_PATIENCE_NS, Own,
    SLOT_WORDS, SLOTS, Said, Setting, Settings, Shared, SharedByAll,
};

/// First word of both files; another digit with every change of their form.
pub const MAGIC: u64 = u64::from_le_bytes(*b"APEXGAT8");
const WORDS: usize = HEAD_WORDS + SLOTS * SLOT_WORDS;
/// Bytes of either file.
pub const BYTES: usize = WORDS * 8;

/// Process number and start time in one word, never zero.
#[must_use]
pub fn claim_word(pid: u32, start_time: u64) -> u64 {
    u64::from(pid) << 32 | (start_time & 0xffff_ffff)
}

/// The process of a claim.
#[must_use]
pub fn claimed_by(claim: u64) -> u32 {
    (claim >> 32) as u32
}

/// State letter and start time of a process; none if there is no such process.
#[must_use]
pub fn process_state(pid: u32) -> Option<(char, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before may hold anything, a closing bracket too.
    let mut fields = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// Whether the process of a claim still is.
#[must_use]
pub fn is_alive(claim: u64) -> bool {
    let pid = claimed_by(claim);
    process_state(pid).is_some_and(|(state, start)| {
        !matches!(state, 'Z' | 'X') && claim_word(pid, start) == claim
    })
}

/// A number for a session, from the path of its rings.
#[must_use]
pub fn session_number(rings: &Path) -> u64 {
    let bytes = rings.as_os_str().as_encoded_bytes();
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Whether a directory may hold the files: only its owner and, where a daemon gave it one, its group may
/// enter. The error says what is wrong with it.
pub fn check_directory(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_dir() && metadata.mode() & 0o007 == 0 {
        return Ok(());
    }
    let sentence = format!("{} is open to others, or no directory", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, sentence))
}

/// Where the two files of a GPU lie.
#[derive(Clone, Debug)]
pub struct Files {
    directory: PathBuf,
    gpu: String,
}

impl Files {
    /// The files of the GPU with this UUID.
    #[must_use]
    pub fn of(directory: &Path, gpu: &str) -> Files {
        Files { directory: directory.to_owned(), gpu: gpu.to_owned() }
    }

    /// The GPU.
    #[must_use]
    pub fn gpu(&self) -> &str {
        &self.gpu
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> PathBuf {
        self.directory.join(format!("{}.settings", self.gpu))
    }

    /// The programs.
    #[must_use]
    pub fn programs(&self) -> PathBuf {
        self.directory.join(format!("{}.programs", self.gpu))
    }

    /// The file whose lock the controller holds.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.directory.join(format!("{}.lock", self.gpu))
    }

    /// All GPUs that have files in a directory.
    #[must_use]
    pub fn all(directory: &Path) -> Vec<Files> {
        let mut found: Vec<Files> = fs::read_dir(directory)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                Some(Files::of(directory, name.strip_suffix(".programs")?))
            })
            .collect();
        found.sort_by(|one, other| one.gpu.cmp(&other.gpu));
        found
    }

    /// Makes both files if they are not there. The modes are for the programs' file and the settings'.
    pub fn create(&self, programs: u32, settings: u32) -> io::Result<()> {
        create(&self.settings(), settings)?;
        create(&self.programs(), programs)
    }
}

/// Makes a file whole under another name and gives it its own: who finds it finds it ready. All its bytes are
/// written, because touching a page that a full file system cannot give would kill a program.
fn create(path: &Path, mode: u32) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let part = path.with_extension(format!("part-{}", std::process::id()));
    let _ = fs::remove_file(&part);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&part)?;
    let mut bytes = vec![0; BYTES];
    bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
    let made = file.write_all(&bytes).and_then(|()| {
        // The mask of the process must not narrow what a group was given.
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))?;
        match fs::hard_link(&part, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    });
    let _ = fs::remove_file(&part);
    made
}

/// A file of words, read and written by position.
#[derive(Debug)]
pub struct Words {
    file: File,
}

impl Words {
    /// Opens one of the two files; it is believed only if its size and first word are right.
    pub fn open(path: &Path, write: bool) -> io::Result<Words> {
        let file = OpenOptions::new().read(true).write(write).open(path)?;
        check(&file, path)?;
        Ok(Words { file })
    }

    /// All words as they stand.
    pub fn read(&self) -> io::Result<Vec<u64>> {
        let mut bytes = vec![0; BYTES];
        self.file.read_exact_at(&mut bytes, 0)?;
        let (words, _) = bytes.as_chunks();
        Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    /// Writes words beginning at `place`.
    pub fn write(&self, place: usize, words: &[u64]) -> io::Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.file.write_all_at(&bytes, place as u64 * 8)
    }
}

fn check(file: &File, path: &Path) -> io::Result<()> {
    let mut first = [0; 8];
    let whole = file.metadata()?.len() == BYTES as u64;
    if !whole || file.read_exact_at(&mut first, 0).is_err() || u64::from_le_bytes(first) != MAGIC {
        let sentence = format!("{} is not a gate of this apex; remove it", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, sentence));
    }
    Ok(())
}

/// Place of a word of the settings' head.
#[must_use]
pub const fn setting(word: Setting) -> usize {
    word as usize
}

/// Place of a word of a slot of the settings.
#[must_use]
pub const fn grant(slot: usize, word: Grant) -> usize {
    HEAD_WORDS + slot % SLOTS * SLOT_WORDS + word as usize
}

/// Place of a word of a slot of the programs.
#[must_use]
pub const fn own(slot: usize, word: Own) -> usize {
    HEAD_WORDS + slot % SLOTS * SLOT_WORDS + word as usize
}

/// Place of a word of a kept burst.
#[must_use]
pub const fn burst(slot: usize, number: u64, word: BurstWord) -> usize {
    let nth = (number % BURSTS_KEPT as u64) as usize;
    own(slot, Own::BurstRing) + nth * BurstWord::PACKED + word as usize
}

/// What a program says of itself, within bounds, out of the words of the programs' file.
#[must_use]
pub fn said(words: &[u64], slot: usize) -> Said {
    Said::unpack(|word| words[own(slot, word)])
}

/// What a program was granted, out of the words of the settings' file.
#[must_use]
pub fn granted(words: &[u64], slot: usize) -> Granted {
    Granted::unpack(|word| words[grant(slot, word)])
}

/// The burst with this number, out of the words of the programs' file.
#[must_use]
pub fn kept_burst(words: &[u64], slot: usize, number: u64) -> KeptBurst {
    KeptBurst::unpack(|word| words[burst(slot, number, word)])
}

/// Both files as a program has them: mapped for ever, because threads may come here until the last.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    settings: &'static [AtomicU64],
    programs: &'static [AtomicU64],
}

impl Page {
    /// Maps the files of a GPU.
    pub fn map(files: &Files) -> io::Result<Page> {
        let settings = OpenOptions::new().read(true).open(files.settings())?;
        check(&settings, &files.settings())?;
        let programs = OpenOptions::new().read(true).write(true).open(files.programs())?;
        check(&programs, &files.programs())?;
        Ok(Page { settings: map(&settings, false)?, programs: map(&programs, true)? })
    }

    /// A word of the settings' head.
    #[inline(always)]
    #[must_use]
    pub fn setting(&self, word: Setting) -> u64 {
        self.settings[setting(word)].load(Ordering::Relaxed)
    }

    /// A word of a slot of the settings.
    #[inline(always)]
    #[must_use]
    pub fn grant(&self, slot: usize, word: Grant) -> u64 {
        self.settings[grant(slot, word)].load(Ordering::Relaxed)
    }

    /// All that a slot's program was granted.
    #[inline]
    #[must_use]
    pub fn granted(&self, slot: usize) -> Granted {
        Granted::unpack(|word| self.grant(slot, word))
    }

    /// The word that says whether a slot's program is gated, to be looked at again and again.
    #[must_use]
    pub fn gated_word(&self, slot: usize) -> &'static AtomicU64 {
        &self.settings[grant(slot, Grant::Gated)]
    }

    /// A word of the programs' head.
    #[inline(always)]
    #[must_use]
    pub fn shared(&self, word: Shared) -> &'static AtomicU64 {
        &self.programs[word as usize]
    }

    /// A word of a slot of the programs.
    #[inline(always)]
    #[must_use]
    pub fn own(&self, slot: usize, word: Own) -> &'static AtomicU64 {
        &self.programs[own(slot, word)]
    }

    /// A word of the burst with this number.
    #[must_use]
    pub fn burst(&self, slot: usize, number: u64, word: BurstWord) -> &'static AtomicU64 {
        &self.programs[burst(slot, number, word)]
    }

    /// Keeps a burst that has ended, as the next one.
    pub fn keep_burst(&self, slot: usize, kept: &KeptBurst) {
        let number = self.own(slot, Own::Bursts).load(Ordering::Relaxed);
        let first = burst(slot, number, BurstWord::Start);
        for (word, value) in self.programs[first..].iter().zip(kept.pack()) {
            word.store(value, Ordering::Relaxed);
        }
        self.own(slot, Own::Bursts).store(number + 1, Ordering::Release);
    }

    fn half(&self, place: usize, nth: u32) -> &'static AtomicU32 {
        let words: *const AtomicU64 = &raw const self.programs[place + nth as usize / 2];
        // SAFETY: one half of a word of the mapping; it is accessed by halves alone.
        unsafe { &*words.cast::<AtomicU32>().add(nth as usize % 2) }
    }

    /// Where the GPU says that it has come to the fence of this number.
    #[must_use]
    pub fn reached(&self, slot: usize, fence: u32) -> &'static AtomicU32 {
        self.half(own(slot, Own::Reached), fence % FENCES)
    }

    /// Up to which fence work may go through.
    #[must_use]
    pub fn through(&self, slot: usize) -> &'static AtomicU32 {
        self.half(own(slot, Own::Through), 0)
    }

    /// The last fence there is.
    #[must_use]
    pub fn fence(&self, slot: usize) -> &'static AtomicU32 {
        self.half(own(slot, Own::Fence), 0)
    }

    /// The last fence that the GPU was past when they were closed.
    #[must_use]
    pub fn past(&self, slot: usize) -> &'static AtomicU32 {
        self.half(own(slot, Own::Past), 0)
    }

    /// The last fence that the GPU has come to, of those until `last`; zero for none of those that it still has.
    #[must_use]
    pub fn last_reached(&self, slot: usize, last: u32) -> u32 {
        (0..FENCES)
            .map(|back| last.wrapping_sub(back))
            .find(|&fence| self.reached(slot, fence).load(Ordering::Acquire) == fence)
            .unwrap_or(0)
    }

    /// Where the mapped words of all programs lie, for whoever makes them known to a GPU.
    #[must_use]
    pub fn programs_at(&self) -> (*const AtomicU64, usize) {
        (self.programs.as_ptr(), BYTES)
    }

    /// A slot for this process: a free one, or one whose owner is gone. Its words begin at zero.
    #[must_use]
    pub fn claim(&self, pid: u32) -> Option<usize> {
        let (_, start) = process_state(pid)?;
        let mine = claim_word(pid, start);
        let take = |slot: usize, old: u64| {
            let word = self.own(slot, Own::Claim);
            word.compare_exchange(old, mine, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let owner = |slot: usize| self.own(slot, Own::Claim).load(Ordering::Acquire);
        // What a program left behind that became this one by `exec`, or by the same number again.
        let left = (0..SLOTS).find(|&slot| owner(slot) == mine);
        let free = || (0..SLOTS).find(|&slot| owner(slot) == 0 && take(slot, 0));
        let dead = || {
            (0..SLOTS).find(|&slot| {
                let old = owner(slot);
                old != 0 && !is_alive(old) && take(slot, old)
            })
        };
        let slot = left.or_else(free).or_else(dead)?;
        self.shared(Shared::BurstsOpen).fetch_and(!(1 << slot), Ordering::AcqRel);
        for word in 1..SLOT_WORDS {
            self.programs[HEAD_WORDS + slot * SLOT_WORDS + word].store(0, Ordering::Relaxed);
        }
        Some(slot)
    }

    /// Sleeps until a burst ends, or one begins that others go on beside, or the time is over. `seen` is what [`Page::wake_word`] was when the
    /// caller last looked.
    pub fn sleep(&self, seen: u32, nanos: u64) {
        let wake = self.wake();
        let time = libc::timespec {
            tv_sec: 0,
            tv_nsec: libc::c_long::try_from(nanos.min(999_999_999)).unwrap_or(0),
        };
        self.shared(Shared::Waiters).fetch_add(1, Ordering::SeqCst);
        // SAFETY: a word of our own mapping, and a time that outlives the call. Both sides of a shared
        // mapping find each other because the flag for private words is not set.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                wake.as_ptr(),
                libc::FUTEX_WAIT,
                seen,
                &raw const time,
                core::ptr::null::<u32>(),
                0,
            );
        }
        self.shared(Shared::Waiters).fetch_sub(1, Ordering::SeqCst);
    }

    /// What a sleeper compares.
    #[must_use]
    pub fn wake_word(&self) -> u32 {
        self.wake().load(Ordering::SeqCst)
    }

    /// Wakes all that sleep; without any it is no system call.
    pub fn wake_all(&self) {
        self.wake().fetch_add(1, Ordering::SeqCst);
        if self.shared(Shared::Waiters).load(Ordering::SeqCst) != 0 {
            // SAFETY: a word of our own mapping.
            unsafe {
                libc::syscall(libc::SYS_futex, self.wake().as_ptr(), libc::FUTEX_WAKE, i32::MAX);
            }
        }
    }

    fn wake(&self) -> &'static AtomicU32 {
        let word: *const AtomicU64 = self.shared(Shared::Wake);
        // SAFETY: the low half of a word that is accessed in no other way.
        unsafe { &*word.cast::<AtomicU32>() }
    }
}

fn map(file: &File, write: bool) -> io::Result<&'static [AtomicU64]> {
    use std::os::fd::AsRawFd;
    let protection = libc::PROT_READ | if write { libc::PROT_WRITE } else { 0 };
    // SAFETY: a fresh shared mapping of a whole file, placed by the kernel.
    let address = unsafe {
        libc::mmap(core::ptr::null_mut(), BYTES, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: page-aligned, as long as the file was found to be, never unmapped, accessed as atomics alone;
    // nobody stores to words that are mapped for reading.
    Ok(unsafe { core::slice::from_raw_parts(address.cast::<AtomicU64>(), WORDS) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("apex-gate-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a directory of its own");
        path
    }

    #[test]
    fn what_one_maps_the_other_reads_by_position() {
        let place = place("map");
        let files = Files::of(&place, "gpu");
        files.create(0o600, 0o600).expect("made");
        files.create(0o600, 0o600).expect("made twice is made once");
        let page = Page::map(&files).expect("mapped");
        let slot = page.claim(std::process::id()).expect("a slot");
        page.own(slot, Own::AdmittedNs).store(77, Ordering::Relaxed);
        let programs = Words::open(&files.programs(), true).expect("opened");
        let words = programs.read().expect("read");
        assert_eq!(words[own(slot, Own::AdmittedNs)], 77);
        assert!(is_alive(words[own(slot, Own::Claim)]));
        let settings = Words::open(&files.settings(), true).expect("opened");
        settings.write(grant(slot, Grant::BudgetNs), &[500]).expect("written");
        assert_eq!(page.grant(slot, Grant::BudgetNs), 500);
        assert_eq!(Files::all(&place).len(), 1);
        fs::remove_dir_all(place).ok();
    }

    #[test]
    fn a_slot_of_the_dead_is_taken_over_and_begins_anew() {
        let place = place("dead");
        let files = Files::of(&place, "gpu");
        files.create(0o600, 0o600).expect("made");
        let page = Page::map(&files).expect("mapped");
        for slot in 0..SLOTS {
            // Its number lives, but began at another time.
            page.own(slot, Own::Claim).store(claim_word(1, 12345), Ordering::Relaxed);
            page.own(slot, Own::WaitedNs).store(9, Ordering::Relaxed);
        }
        page.shared(Shared::BurstsOpen).store(u64::MAX, Ordering::Relaxed);
        let slot = page.claim(std::process::id()).expect("a slot");
        assert_eq!(page.own(slot, Own::WaitedNs).load(Ordering::Relaxed), 0);
        assert_eq!(page.shared(Shared::BurstsOpen).load(Ordering::Relaxed) >> slot & 1, 0);
        assert_eq!(
            page.claim(std::process::id()),
            Some(slot),
            "the same process has the same slot"
        );
        fs::remove_dir_all(place).ok();
    }

    #[test]
    fn every_fence_has_a_place_of_its_own_and_the_last_one_reached_is_found() {
        let place = place("fences");
        let files = Files::of(&place, "gpu");
        files.create(0o600, 0o600).expect("made");
        let page = Page::map(&files).expect("mapped");
        assert_eq!(page.last_reached(3, 8), 0);
        for fence in [4, 5, 7] {
            page.reached(3, fence).store(fence, Ordering::Relaxed);
            assert_eq!((page.last_reached(3, 8), page.last_reached(3, 3)), (fence, 0));
        }
        for word in [page.through(3), page.fence(3), page.past(3)] {
            word.store(9, Ordering::Relaxed);
        }
        for fence in 1..=FENCES {
            page.reached(3, fence).store(fence, Ordering::Relaxed);
        }
        assert!((1..=FENCES).all(|it| page.reached(3, it).load(Ordering::Relaxed) == it));
        for word in [page.through(3), page.fence(3), page.past(3)] {
            assert_eq!(word.load(Ordering::Relaxed), 9);
        }
        assert_eq!(page.own(4, Own::Claim).load(Ordering::Relaxed), 0);
        fs::remove_dir_all(place).ok();
    }

    #[test]
    fn a_file_of_another_kind_is_refused() {
        let place = place("kind");
        let files = Files::of(&place, "gpu");
        files.create(0o600, 0o600).expect("made");
        fs::write(files.settings(), b"something else").expect("written");
        assert!(Page::map(&files).is_err());
        fs::remove_dir_all(place).ok();
    }

    #[test]
    fn no_sleep_is_longer_than_its_time() {
        let place = place("sleep");
        let files = Files::of(&place, "gpu");
        files.create(0o600, 0o600).expect("made");
        let page = Page::map(&files).expect("mapped");
        let began = std::time::Instant::now();
        page.sleep(page.wake_word(), 1_000_000);
        assert!(began.elapsed() < std::time::Duration::from_secs(2));
        page.sleep(page.wake_word().wrapping_add(1), 900_000_000);
        assert!(began.elapsed() < std::time::Duration::from_millis(900));
        fs::remove_dir_all(place).ok();
    }
}
