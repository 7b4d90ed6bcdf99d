//! Launches through the queue of `apex run --fast`, against the driver alone.
//!
//! Two processes of the same program, one on each side, take turns in one run, so whatever disturbs the machine disturbs
//! both. A call that only puts a launch into a queue says nothing of when its kernel begins: so the time until it does
//! stands beside the call's. Bars are judged on a GPU alone. On the software GPU kernels run on this machine's
//! processors, and a stand-in driver runs none.

mod calibrate;
mod calls;
mod found;
mod graphs;
pub(crate) mod worker;

use crate::arguments::BenchLaunch;
use crate::report::Report;
use crate::side::{Side, Under};
use anyhow::Result;
use apex_daemon::progress::Progress;
use found::Found;
use serde_json::Value;

/// The hidden worker that a side is.
const WORKER: &str = "launch-worker";

/// How much is done: turns of each side, and the work of a turn.
struct Work {
    turns: usize,
    blocks: u64,
    starts: u64,
    launches: u64,
    bursts: u64,
}

impl Work {
    fn of(under: Under, quick: bool) -> Work {
        let least = if quick { 10 } else { 1 };
        match under {
            Under::Gpu => Work {
                turns: 5,
                blocks: 100 / least,
                starts: 200 / least,
                launches: 200_000 / least,
                bursts: 2_000 / least,
            },
            // A kernel takes its processors some microseconds, which says nothing of a GPU.
            Under::SoftwareGpu | Under::StandIn => Work {
                turns: 3,
                blocks: 20 / least,
                starts: 50 / least,
                launches: 10_000 / least,
                bursts: 100 / least,
            },
        }
    }
}

/// Measures.
pub(crate) fn measure(arguments: &BenchLaunch) -> Result<Report> {
    let under = match arguments.standin {
        true => Under::StandIn,
        false => Under::of(arguments.device)?,
    };
    if arguments.calibrate {
        return calibrate::measure(under, arguments.quick);
    }
    let work = Work::of(under, arguments.quick);
    let mut sides = [Side::alone(under, WORKER)?, Side::fast(under, WORKER, "all")?];
    let about = sides[0].about.clone();
    let mut found = Found::default();
    let mut progress = Progress::on_stderr();
    for turn in 0..work.turns {
        progress.step("measuring", turn + 1, work.turns);
        // Who goes first changes, so that neither always finds the other's leavings.
        let order = if turn % 2 == 0 { [0, 1] } else { [1, 0] };
        for nth in order {
            found.calls(&mut sides[nth], nth, &work)?;
        }
        if about.runs_kernels {
            found.turn(&mut sides, order, &work)?;
        }
    }
    let [alone, fast] = sides;
    alone.end()?;
    let queue = fast.end()?;
    let rows = found.rows(queue.as_ref());
    let bars = if under == Under::Gpu { found.bars() } else { Vec::new() };
    let mut notes = notes(under);
    if queue.is_none() {
        notes.push("apex's report has nothing of a queue: it was not there".into());
    }
    let device = under.device(&about.device);
    Ok(Report { bench: "launch", device, driver: about.driver(), rows, bars, notes })
}

fn notes(under: Under) -> Vec<String> {
    let mut notes = vec![
        "a call's time is less what reading the clock takes; a start's time is until the host sees a word that the \
         kernel writes"
            .into(),
    ];
    match under {
        Under::Gpu => {}
        Under::SoftwareGpu => notes.push(
            "the software GPU runs kernels on the processors that also launch them: nothing is promised here".into(),
        ),
        Under::StandIn => notes.push(
            "the stand-in driver answers at once and runs nothing: only calls are timed, and nothing is promised".into(),
        ),
    }
    notes
}

/// The rows as a table.
pub(crate) fn print_rows(rows: &[Value]) {
    if rows.iter().any(|row| row.get("launch_ns").is_some()) {
        return calibrate::print_rows(rows);
    }
    println!(
        "side              call p50/p99 ns   start idle / busy µs    launches/s    bursts of 20/s"
    );
    for row in rows {
        let number = |name: &str, unit: f64, digits: usize| match row[name].as_f64() {
            Some(value) => format!("{:.digits$}", value / unit),
            None => "-".into(),
        };
        println!(
            "{:<16} {:>8} / {:>6}   {:>8} / {:>8}    {:>10}    {:>10}",
            row["side"].as_str().unwrap_or_default(),
            number("call_p50_ns", 1.0, 0),
            number("call_p99_ns", 1.0, 0),
            number("start_idle_p50_ns", 1e3, 1),
            number("start_busy_p50_ns", 1e3, 1),
            number("chain_per_second", 1.0, 0),
            number("bursts_per_second", 1.0, 0),
        );
        if let Some(queue) = row.get("queue") {
            println!(
                "  queued {}, in graphs {} by {} graph launches, directly {}",
                queue["queued"], queue["in_graphs"], queue["graph_launches"], queue["direct"]
            );
        }
    }
}
