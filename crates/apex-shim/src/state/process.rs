//! What this process keeps: its rings, its facts file.
//!
//! Made when the first event is recorded, and again in a forked child, whose rings are its own: the
//! parent's stay mapped there but are never written. Nothing of it is ever dropped, because threads
//! may call the driver until the very end of the process.

use crate::driver::load::{self, Loaded};
use crate::settings::{knobs, log_line};
use apex_core::facts::{self, Fact};
use apex_core::kept::Kept;
use apex_core::knobs::Knobs;
use apex_core::refusal::{self, Refusal};
use apex_core::ring::{ProcessMap, ProcessWord};
use apex_core::time::{self, Anchor, Clock};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

/// One process under observation.
pub(crate) struct Process {
    /// Its rings.
    pub(crate) map: ProcessMap,
    /// Both clocks when it was made: the sampling budget counts from here.
    pub(crate) started: Anchor,
    facts: CString,
}

/// What all files of [`keep_specialised`] together may take.
const SPECIALISED_BYTES: u64 = 64 << 20;

static PROCESS: AtomicPtr<Process> = AtomicPtr::new(core::ptr::null_mut());
/// Process id whose thread is making the process's state; 0 when none is.
static STARTING: AtomicU32 = AtomicU32::new(0);
static REFUSED: AtomicBool = AtomicBool::new(false);

/// This process, if it is observed. The first call makes it.
pub(crate) fn current() -> Option<&'static Process> {
    // SAFETY: either null or a leaked box.
    match unsafe { PROCESS.load(Ordering::Acquire).as_ref() } {
        Some(process) => Some(process),
        None => start(),
    }
}

/// Whether this process is observed already.
#[inline(always)]
pub(crate) fn is_made() -> bool {
    !PROCESS.load(Ordering::Relaxed).is_null()
}

/// Facts written so far, by any thread.
static FACTS_WRITTEN: AtomicU32 = AtomicU32::new(0);

/// Counts the facts written: a call during which the number grew did something that is done once.
#[inline(always)]
pub(crate) fn facts_written() -> u32 {
    FACTS_WRITTEN.load(Ordering::Relaxed)
}

/// Writes one fact. What cannot be written is counted.
pub(crate) fn tell(fact: &Fact) {
    FACTS_WRITTEN.fetch_add(1, Ordering::Relaxed);
    if let Some(process) = current() {
        process.write(fact);
    }
}

/// Runs a part of ours that may fail. If it panics the program goes on, a counter rises, one line
/// is logged.
#[inline(always)]
pub(crate) fn guard<T>(part: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(part)) {
        Ok(value) => Some(value),
        Err(_) => {
            count_failure();
            None
        }
    }
}

#[cold]
fn count_failure() {
    // SAFETY: either null or a leaked box.
    if let Some(process) = unsafe { PROCESS.load(Ordering::Acquire).as_ref() } {
        process.map.add(ProcessWord::Failures, 1);
    }
}

#[cold]
fn start() -> Option<&'static Process> {
    if REFUSED.load(Ordering::Relaxed) {
        return None;
    }
    let me = std::process::id();
    loop {
        match STARTING.compare_exchange(0, me, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => break,
            Err(owner) if owner != me => {
                STARTING.compare_exchange(owner, 0, Ordering::Relaxed, Ordering::Relaxed).ok();
            }
            // SAFETY: gives up the processor until the other thread is done.
            Err(_) => unsafe {
                libc::sched_yield();
            },
        }
    }
    // SAFETY: either null or a leaked box; another thread may have been first.
    let there = unsafe { PROCESS.load(Ordering::Acquire).as_ref() };
    let made = there.or_else(make);
    STARTING.store(0, Ordering::Release);
    made
}

fn make() -> Option<&'static Process> {
    let knobs = knobs();
    let folder = knobs.rings.as_deref().filter(|_| knobs.enabled);
    let process = folder.and_then(|folder| match create(folder, knobs.ring_events) {
        Ok(process) => Some(process),
        Err(error) => {
            // SAFETY: a plain system call.
            let user = unsafe { libc::geteuid() };
            let refusal = Refusal { pid: std::process::id(), user, why: error.to_string() };
            // Whom nobody hears and who finds no folder has outlived the session.
            if refusal::tell(folder, &refusal) || folder.exists() {
                log_line(&format!(
                    "nothing is recorded of this program: no ring in {}: {error}",
                    folder.display()
                ));
            }
            None
        }
    });
    let Some(process) = process else {
        REFUSED.store(true, Ordering::Relaxed);
        return None;
    };
    let process: &'static Process = Box::leak(Box::new(process));
    PROCESS.store((&raw const *process).cast_mut(), Ordering::Release);
    process.write(&Fact::Process(describe_process()));
    if knobs.fast.any() {
        apex_fast::count_in(process.map.queue());
        let (words, has_queue) = (knobs.fast.words(), apex_fast::is_raised());
        process.write(&Fact::Fast(facts::Fast { words, has_queue }));
        apex_fast::hear(rewritten);
        keep_specialised(knobs);
    }
    Some(process)
}

/// Where the next process finds which kernels were worth to be compiled again.
fn keep_specialised(knobs: &Knobs) {
    let (named, magic) = (knobs.specialise_cache.as_deref(), apex_fast::SPECIALISED_MAGIC);
    if let Some(kept) = Kept::new(knobs, named, "apex/specialised", magic, SPECIALISED_BYTES) {
        apex_fast::keep_specialised_in(kept);
    }
}

/// What became of a kernel that was to be compiled again.
fn rewritten(told: &apex_fast::Told) {
    tell(&Fact::Rewritten(facts::Rewritten {
        kernel: told.kernel.clone(),
        outcome: told.outcome.into(),
        what: told.what.clone(),
        original_ns: told.original_ns,
        rewritten_ns: told.rewritten_ns,
    }));
}

fn create(folder: &Path, ring_events: u64) -> std::io::Result<Process> {
    let started = Anchor::take();
    let pid = std::process::id();
    // A program that replaced itself with `exec` keeps its number: take the next free name.
    for attempt in 0..10_000 {
        let ring = folder.join(format!("{pid}-{attempt}.ring"));
        match ProcessMap::create(&ring, ring_events, Clock::chosen().code(), started.ticks) {
            Ok(map) => {
                let facts = folder.join(format!("{pid}-{attempt}.facts"));
                let facts = CString::new(facts.as_os_str().as_bytes())?;
                return Ok(Process { map, started, facts });
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(std::io::Error::other("too many ring files of this process"))
}

impl Process {
    fn write(&self, fact: &Fact) {
        let line = fact.line();
        // Opened anew each time: facts are few, and a descriptor kept open could be closed or
        // reused by a program that closes what it does not know.
        // SAFETY: a C string and plain flags; the line is ours; the descriptor is closed once.
        let written = unsafe {
            let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC;
            let file = libc::open(self.facts.as_ptr(), flags, 0o600);
            let written =
                if file < 0 { -1 } else { libc::write(file, line.as_ptr().cast(), line.len()) };
            if file >= 0 {
                libc::close(file);
            }
            written
        };
        if written.cast_unsigned() != line.len() {
            self.map.add(ProcessWord::FactsLost, 1);
        }
    }
}

fn describe_process() -> facts::Process {
    let arguments = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let arguments = arguments.split(|&byte| byte == 0).filter(|argument| !argument.is_empty());
    let loaded = load::loaded();
    facts::Process {
        pid: u64::from(std::process::id()),
        // SAFETY: a plain system call.
        parent: u64::from(unsafe { libc::getppid() }.cast_unsigned()),
        executable: std::fs::read_link("/proc/self/exe")
            .unwrap_or_default()
            .to_string_lossy()
            .into(),
        arguments: arguments
            .map(|argument| String::from_utf8_lossy(argument).into_owned())
            .collect(),
        driver_version: driver_version(),
        driver_path: loaded
            .map(|loaded| loaded.path.to_string_lossy().into_owned())
            .unwrap_or_default(),
        soft: loaded.is_some_and(Loaded::is_soft),
        started: time::wall_nanos() / 1_000_000_000,
    }
}

fn driver_version() -> u64 {
    let mut version = 0;
    // SAFETY: a valid place for the answer.
    unsafe { (crate::driver::driver().cuDriverGetVersion)(&raw mut version) };
    u64::try_from(version).unwrap_or(0)
}

/// A panic of ours is reported in one line of ours.
pub(crate) fn watch_panics() {
    // This library has a standard library of its own: the program's hook, if any, is another.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        log_line(&format!("a part of apex failed at {place}; the program goes on without it"));
    }));
}

/// In a forked child: its rings are its own, made when it first records something.
pub(crate) fn forget() {
    apex_fast::count_in_own();
    PROCESS.store(core::ptr::null_mut(), Ordering::Release);
    STARTING.store(0, Ordering::Release);
}
