//! How long the memory between runs takes: a history of 100,000 kernels opened, a kernel looked up in it.
//!
//! Beside the opening stands reading the same kernels from their lines of JSON, beside the look-up a map of the standard
//! library in memory that has them all.

use anyhow::Result;
use apex_daemon::history::{self, History, MOST_KERNELS, Measured, Past};
use apex_daemon::scratch::Scratch;
use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

/// What was measured.
pub(crate) struct Times {
    /// Opening, and reading the lines, in nanoseconds.
    pub(crate) open: (f64, f64),
    /// A look-up, and one in a map, in nanoseconds.
    pub(crate) find: (f64, f64),
}

/// Look-ups of one round.
const ASKED: usize = 4096;

pub(crate) fn measure(rounds: u32) -> Result<Times> {
    let folder = Scratch::new()?;
    let pasts: Vec<Past> = (0..MOST_KERNELS as u64).map(past).collect();
    history::keep(folder.path(), &pasts)?;
    let mut lines = Vec::new();
    history::write_lines(pasts.iter().cloned(), &mut lines)?;
    let best = |body: &mut dyn FnMut()| {
        let times = (0..rounds.max(3)).map(|_| {
            let start = Instant::now();
            body();
            start.elapsed().as_nanos() as f64
        });
        times.fold(f64::INFINITY, f64::min)
    };
    let opened = best(&mut || drop(black_box(History::open(folder.path()))));
    let start = Instant::now();
    black_box(history::read_lines(&lines[..]));
    let read = start.elapsed().as_nanos() as f64;
    let known = History::open(folder.path()).map_err(|why| anyhow::anyhow!(why))?;
    let keys: Vec<u64> = (0..ASKED).map(|nth| pasts[nth * 23 % pasts.len()].key()).collect();
    let found = best(&mut || {
        for key in &keys {
            black_box(known.find(*key));
        }
    });
    let map: HashMap<u64, Past> = pasts.into_iter().map(|past| (past.key(), past)).collect();
    let mapped = best(&mut || {
        for key in &keys {
            black_box(map.get(key).cloned());
        }
    });
    let each = |nanos: f64| nanos / ASKED as f64;
    Ok(Times { open: (opened, read), find: (each(found), each(mapped)) })
}

/// A kernel with as long a name as templates have, in two shapes.
fn past(nth: u64) -> Past {
    let shape = |blocks: u32| Measured {
        grid: [blocks, 1, 1],
        block: [256, 1, 1],
        nanos: 5_000.0,
        half_width: 0.05,
        count: 4,
        ..Measured::default()
    };
    let kernel = format!("_ZN2at6native29vectorized_elementwise_kernelILi4E{nth:020}EEviT0_T1_");
    Past {
        device: "NVIDIA H200".into(),
        driver: 13_000,
        code: history::code(nth, &kernel),
        kernel,
        day: 20_000,
        shapes: vec![shape(1), shape(64)],
    }
}
