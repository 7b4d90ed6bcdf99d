//! Runs programs one after the other, in a process that may die of it.
//!
//! The number of the program under way is written to a file before it begins. A watching thread ends the process where a
//! program takes too long: the supervisor then finds the number.

#![allow(unsafe_code, reason = "loads drivers")]

use crate::compare::Sides;
use crate::make;
use anyhow::{Context, Result, bail};
use apex_core::knobs::Fast;
use apex_cuda::{Driver, Function, Library};
use apex_e2e::tools;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A program that takes longer hangs, whoever else keeps the processors.
const PATIENCE: Duration = Duration::from_secs(60);
/// Programs before all threads get one processor: by then the thread that sends is there.
const BEFORE_ONE_PROCESSOR: u64 = 20;

/// Numbers in the file that a worker writes.
pub(crate) const STATE_WORDS: usize = 7;

/// How a side with accelerators comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The accelerators stand upon the software GPU, in this process.
    Bare,
    /// As programs have them: within the shim, with everything that it does beside.
    Shim,
    /// As bare, and from some programs on all threads share one processor.
    OneProcessor,
    /// As bare, with freed memory handed out again too.
    Memory,
    /// With all of it, and kernels compiled again for what they are called with.
    Specialise,
    /// As bare, and launches of a graph run at once wherever nothing that they touch forbids it.
    Overlap,
}

impl Way {
    /// Every way, with its name.
    pub const ALL: [(Way, &'static str); 6] = [
        (Way::Bare, "bare"),
        (Way::Shim, "shim"),
        (Way::OneProcessor, "one-processor"),
        (Way::Memory, "memory"),
        (Way::Specialise, "specialise"),
        (Way::Overlap, "overlap"),
    ];

    /// The way of this name.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn named(name: &str) -> Result<Way> {
        match Way::ALL.iter().find(|(_, known)| *known == name) {
            Some(&(way, _)) => Ok(way),
            None => {
                bail!(
                    "there is no way {name}: bare, shim, one-processor, memory, specialise or overlap"
                )
            }
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Way::ALL.iter().find(|(way, _)| *way == self).map_or("", |(_, name)| name)
    }

    /// A driver without accelerators, and one with them.
    fn drivers(self) -> Result<(Driver, Driver)> {
        if self == Way::Shim {
            return Ok((load(&tools().libcuda)?, load(&tools().shim)?));
        }
        let (plain, beneath) = (apex_softgpu::driver(), apex_softgpu::driver());
        let mut addresses = *beneath.as_addresses();
        let words = match self {
            Way::Memory => "launch,memory",
            Way::Specialise => "launch,memory,specialise",
            Way::Overlap => "launch,overlap",
            Way::Bare | Way::Shim | Way::OneProcessor => "launch",
        };
        let fast = Fast::parse(words).map_err(anyhow::Error::msg)?;
        apex_fast::overlap_endless();
        // SAFETY: the addresses are a driver's, and this is done once in a process.
        unsafe {
            apex_fast::raise(&mut addresses, fast);
            let raised = Driver::from_addresses(|function: Function| addresses[function as usize]);
            Ok((plain, raised))
        }
    }
}

fn load(path: &Path) -> Result<Driver> {
    // SAFETY: a library of ours.
    let library = unsafe { Library::open(path) }?;
    // SAFETY: it has every function of the table with its signature.
    match unsafe { library.driver() } {
        Ok(driver) => Ok(driver),
        Err(missing) => bail!("{} has no {}", path.display(), missing.name()),
    }
}

/// Runs programs from `seed` on until the time has passed or `most` of them are done.
///
/// # Errors
///
/// What differs, and in which program.
pub fn work(way: Way, state: &Path, seed: u64, time: Duration, most: u64) -> Result<()> {
    let state = File::create(state).context("the program's number is not noted")?;
    let (plain, fast) = way.drivers()?;
    let mut sides = Sides::new(plain, fast, way == Way::Memory)?;
    let since = Instant::now();
    let under_way = Arc::new(AtomicU64::new(seed));
    watch(under_way.clone());
    let mut next = seed;
    while since.elapsed() < time && next - seed < most {
        under_way.store(next, Ordering::Relaxed);
        note(&state, next, next - seed)?;
        if way == Way::OneProcessor && next - seed == BEFORE_ONE_PROCESSOR {
            keep_to_one_processor()?;
        }
        let program = make::program(next);
        let (again, difference) = sides.compare(&program)?;
        if let Some(difference) = difference {
            bail!("program {next} is seen to be run otherwise:\n{difference}");
        }
        sides = again;
        next += 1;
    }
    note(&state, next, next - seed)
}

/// Writes which program is under way, how many came before, and what the queue has done.
fn note(state: &File, program: u64, done: u64) -> Result<()> {
    let counts = apex_fast::counts();
    let calls = counts.queued + counts.joined;
    let numbers = [
        program,
        done,
        calls,
        counts.in_graphs,
        counts.pool_served,
        counts.rewritten_launches,
        counts.overlap_beside,
    ];
    let words = numbers.map(u64::to_le_bytes).concat();
    Ok(state.write_all_at(&words, 0)?)
}

/// All threads there are, and those that they make, run on the first processor that this one may use.
fn keep_to_one_processor() -> Result<()> {
    let allowed = nix::sched::sched_getaffinity(Pid::from_raw(0))?;
    let first = (0..CpuSet::count()).find(|&nth| allowed.is_set(nth) == Ok(true));
    let mut one = CpuSet::new();
    one.set(first.context("a process runs somewhere")?)?;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let number = thread?.file_name().to_string_lossy().parse()?;
        // A thread may have ended meanwhile.
        let _ = sched_setaffinity(Pid::from_raw(number), &one);
    }
    Ok(())
}

/// Ends the process where one program takes too long.
fn watch(under_way: Arc<AtomicU64>) {
    std::thread::spawn(move || {
        let mut begun = (0, Instant::now());
        loop {
            std::thread::sleep(Duration::from_millis(100));
            let program = under_way.load(Ordering::Relaxed);
            if program != begun.0 {
                begun = (program, Instant::now());
            } else if begun.1.elapsed() > PATIENCE {
                eprintln!("program {program} takes longer than {PATIENCE:?}");
                std::process::abort();
            }
        }
    });
}
