//! Hands broken examples to a reader, in a process that may die of it.
//!
//! The number of a case is written to a file before the reader sees it. A watching thread ends the process when a
//! case takes too long, and the limit on memory ends it when an allocation goes beyond: the supervisor then finds
//! the number and the reason.

use crate::mutate::{Random, mutate};
use crate::readers::{Examples, READERS, Reader};
use anyhow::{Context, Result};
use nix::sys::resource::{Resource, UsageWho, getrusage, setrlimit};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A case that takes more of the processor is a hang.
const PATIENCE: Duration = Duration::from_secs(5);

/// So is one that takes longer, whatever it waits for: other programs may keep the processors.
const LONG_PATIENCE: Duration = Duration::from_secs(60);

/// Memory that a reader may take for any input, its examples included.
const MEMORY: u64 = 512 << 20;

/// File in the folder of examples that names the case under way, and how many came before it.
pub(crate) const STATE_FILE: &str = "case";

/// Where the numbers of cases lie in that file.
pub(crate) const STATE_WORDS: usize = 3;

/// Reads cases until the time has passed, with a pause after each.
pub fn work(name: &str, examples: &Path, seed: u64, time: Duration, pause: Duration) -> Result<()> {
    let state = File::create(examples.join(STATE_FILE)).context("the case is not noted")?;
    let examples = Examples::read(&examples.join(name))?;
    let place = tempfile::tempdir().context("no folder for broken files")?;
    let reader = find(name)?;
    let mut read = (reader.open)(&examples, place.path())?;
    // What stands in memory by now is not the input's doing.
    setrlimit(Resource::RLIMIT_DATA, MEMORY, MEMORY).context("memory cannot be bounded")?;
    let since = Instant::now();
    let under_way = Arc::new(AtomicU64::new(0));
    watch(under_way.clone());
    let (mut tried, mut accepted) = (0_u64, 0_u64);
    let mut number = seed;
    while since.elapsed() < time && tried < reader.cases {
        under_way.store(tried + 1, Ordering::Relaxed);
        let words = [number, tried, accepted].map(u64::to_le_bytes).concat();
        state.write_all_at(&words, 0)?;
        let (file, bytes) = broken(reader, &examples, number);
        accepted += u64::from(read(file, &bytes));
        tried += 1;
        number = number.wrapping_add(1);
        std::thread::sleep(pause);
    }
    let words = [number, tried, accepted].map(u64::to_le_bytes).concat();
    Ok(state.write_all_at(&words, 0)?)
}

/// Reads one case again, in this process and without limits, after its input was written to the working folder.
/// `kept` are the examples of the run that failed: some readers' differ from run to run.
pub fn repeat(name: &str, kept: &Path, case: u64) -> Result<()> {
    let reader = find(name)?;
    let folder = tempfile::tempdir()?;
    let examples = Examples::read(&kept.join(name))?;
    let (file, bytes) = broken(reader, &examples, case);
    let kept = format!("{name}-{case}-{file}");
    fs::write(&kept, &bytes).with_context(|| format!("{kept} is not written"))?;
    println!("{kept}: {} bytes", bytes.len());
    let since = Instant::now();
    let mut read = (reader.open)(&examples, folder.path())?;
    let accepted = read(file, &bytes);
    println!("accepted: {accepted}, {:?}", since.elapsed());
    Ok(())
}

fn find(name: &str) -> Result<&'static Reader> {
    READERS.iter().find(|reader| reader.name == name).with_context(|| {
        let names: Vec<&str> = READERS.iter().map(|reader| reader.name).collect();
        format!("there is no reader {name}: {}", names.join(", "))
    })
}

fn broken<'a>(reader: &Reader, examples: &'a Examples, case: u64) -> (&'a str, Vec<u8>) {
    let mut random = Random::new(case);
    let files = &examples.files;
    let (file, example) = &files[random.below(files.len())];
    let others: Vec<&[u8]> = files.iter().map(|(_, bytes)| bytes.as_slice()).collect();
    (file, mutate(&mut random, example, &others, reader.words))
}

/// Ends the process when one case takes too long.
fn watch(under_way: Arc<AtomicU64>) {
    std::thread::spawn(move || {
        let mut begun = (0, Instant::now(), Duration::ZERO);
        loop {
            std::thread::sleep(Duration::from_millis(100));
            let (case, spent) = (under_way.load(Ordering::Relaxed), processor_time());
            let (last, since, before) = begun;
            if case != last {
                begun = (case, Instant::now(), spent);
            } else if spent.saturating_sub(before) > PATIENCE || since.elapsed() > LONG_PATIENCE {
                eprintln!("a case takes longer than {PATIENCE:?}");
                std::process::abort();
            }
        }
    });
}

/// What this process and its ended children took of the processors.
fn processor_time() -> Duration {
    let of = |who| {
        getrusage(who).map_or(0, |usage| {
            let (user, system) = (usage.user_time(), usage.system_time());
            (user.tv_sec() + system.tv_sec()) * 1_000_000 + user.tv_usec() + system.tv_usec()
        })
    };
    let micros = of(UsageWho::RUSAGE_SELF) + of(UsageWho::RUSAGE_CHILDREN);
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
