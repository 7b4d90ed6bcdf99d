//! Memory that `apex run --fast` hands out again, against the driver's own allocations and frees.
//!
//! Three processes of the same program take turns in one run: on the driver alone, under `--fast=memory` and under `--fast`,
//! which also queues launches. What the driver does in the order of a stream stands beside both. The most memory of the
//! device is looked at from outside, while a fresh process of each side allocates sizes that never come again. Bars are
//! judged on a GPU alone: the software GPU's memory is this machine's, and its kernels run on the processors that allocate.

mod calls;
mod found;
mod peak;
pub(crate) mod worker;

use crate::arguments::BenchMemory;
use crate::report::Report;
use crate::side::{Side, Under};
use anyhow::Result;
use apex_daemon::progress::Progress;
use found::{Found, NAMES, SIDES};
use serde_json::Value;

/// The hidden worker that a side is.
const WORKER: &str = "memory-worker";

/// How much is done: turns of each side, and the work of a turn.
struct Work {
    turns: usize,
    pairs: u64,
    cycles: u64,
    frees_behind: u64,
    /// Turns of the loop, for each number of elements.
    loops: u64,
    /// Bytes that are alive at once where sizes never come again, and allocations.
    mixed: (u64, u64),
}

impl Work {
    fn of(under: Under, quick: bool) -> Work {
        let least = if quick { 10 } else { 1 };
        match under {
            Under::Gpu => Work {
                turns: 5,
                pairs: 1_000 / least,
                cycles: 30 / least,
                frees_behind: 20 / least,
                loops: 300 / least,
                mixed: (8 << 30, 10_000 / least),
            },
            Under::SoftwareGpu | Under::StandIn => Work {
                turns: 3,
                pairs: 500 / least,
                cycles: 50 / least,
                frees_behind: 10 / least,
                loops: 20 / least,
                mixed: (64 << 20, 500 / least),
            },
        }
    }
}

/// Measures.
pub(crate) fn measure(arguments: &BenchMemory) -> Result<Report> {
    let under = Under::of(arguments.device)?;
    let work = Work::of(under, arguments.quick);
    let mut sides = start(under)?;
    let about = sides[0].about.clone();
    let mut found = Found::default();
    let mut progress = Progress::on_stderr();
    for turn in 0..work.turns {
        progress.step("measuring", turn + 1, work.turns);
        // Who goes first changes, so that nobody always finds another's leavings.
        let order = core::array::from_fn(|nth| (nth + turn) % SIDES);
        found.turn(&mut sides, order, &work)?;
    }
    for (nth, side) in sides.into_iter().enumerate() {
        found.ended(nth, side.end()?);
    }
    for (nth, side) in start(under)?.into_iter().enumerate() {
        found.peak(nth, peak::of(under, side, work.mixed)?);
    }
    let rows = found.rows();
    let bars = if under == Under::Gpu { found.bars() } else { Vec::new() };
    let device = under.device(&about.device);
    Ok(Report { bench: "memory", device, driver: about.driver(), rows, bars, notes: notes(under) })
}

fn start(under: Under) -> Result<[Side; SIDES]> {
    Ok([
        Side::alone(under, WORKER)?,
        Side::fast(under, WORKER, "memory")?,
        Side::fast(under, WORKER, "all")?,
    ])
}

fn notes(under: Under) -> Vec<String> {
    let mut notes = vec![
        "times of a call are less what reading the clock takes; a pair is an allocation and its free, a cycle a pair and a \
         wait for the stream"
            .into(),
        "async means cuMemAllocAsync and cuMemFreeAsync on the default stream, with the pool as the program finds it".into(),
    ];
    if under != Under::Gpu {
        notes.push("the software GPU's memory is this machine's: nothing is promised here".into());
    }
    notes
}

/// The rows as tables, one of each kind.
pub(crate) fn print_rows(rows: &[Value]) {
    let mut kind = "";
    for row in rows.iter().filter(|row| row["what"] != "report") {
        let what = row["what"].as_str().unwrap_or_default();
        if what != kind {
            kind = what;
            println!("{what:<28}{}", NAMES.map(|name| format!("{name:>24}")).concat());
        }
        let unit = row["unit"].as_str().unwrap_or_default();
        let cell = |name: &str| match &row[name] {
            Value::Object(side) if side.contains_key("p99") => {
                format!("{:.0} / {:.0} {unit}", number(&side["p50"]), number(&side["p99"]))
            }
            Value::Object(side) if side.contains_key("median") => {
                format!("{:.1} {unit}", number(&side["median"]))
            }
            _ => "-".into(),
        };
        let of = row["of"].as_str().unwrap_or_default();
        println!("  {of:<26}{}", NAMES.map(|name| format!("{:>24}", cell(name))).concat());
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}
