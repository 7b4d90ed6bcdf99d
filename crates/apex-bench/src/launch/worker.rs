//! One side of the comparison: a process that launches as it is told, a line of JSON each, and answers with a line.
//!
//! The same program stands on both sides; only the driver that it finds differs. So both sides run the same
//! instructions around the calls, and take turns in one run.

use super::calls::{Four, Gpu};
use super::graphs::Chain;
use crate::libraries::{check, describe};
use anyhow::{Context, Result, bail};
use apex_core::time::{self, Anchor, Scale, monotonic_nanos};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io::BufRead;
use std::path::Path;
use std::process::ExitCode;

/// Launches of a graph made by hand.
const IN_GRAPH: u64 = 100;
/// Launches between two waits, where the program waits often.
const BURST: u64 = 20;
/// Calls that are timed between two waits: they and those before them have room in any queue.
const BLOCK: u64 = 256;
/// Calls before a block is timed: a thread that sleeps is awake by then.
const WARM_UP: u64 = 256;
/// Kernels before the one whose start is timed on a busy device.
const BUSY_BEHIND: u64 = 64;
/// How long the device has had nothing to do before a start on an idle one is timed, in nanoseconds.
const IDLE_NS: u64 = 300_000;

/// What a side is told.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "order")]
pub(super) enum Order {
    /// Times single calls, in so many blocks with a wait behind each: nanoseconds of each, and of reading the clock.
    Calls { blocks: u64 },
    /// Times from a call until its kernel begins, on an idle device: nanoseconds of each.
    StartsIdle { times: u64 },
    /// The same from the first of many calls until the last one's kernel begins.
    StartsBusy { times: u64 },
    /// Launches in a plain loop and waits: seconds.
    Chain { launches: u64 },
    /// Launches by hand-made graphs of 100 with every argument changed, and waits: seconds.
    Graphs { launches: u64 },
    /// Bursts of 20 launches with a wait behind each: seconds.
    Bursts { bursts: u64 },
    /// What the driver takes for a graph: nanoseconds by name.
    Costs { launches: u64 },
    /// Ends.
    Quit,
}

/// Works until told to end.
pub(crate) fn work(library: Option<&Path>) -> Result<ExitCode> {
    let mut gpu = Gpu::open(library)?;
    // The first launch of a kernel loads it.
    gpu.chain(0, 1)?;
    if gpu.runs_kernels() {
        gpu.start_behind(0)?;
    }
    gpu.wait()?;
    let (device, driver) = describe(&gpu.driver);
    println!("{}", json!({"device": device, "driver": driver, "runs_kernels": gpu.runs_kernels()}));
    for line in std::io::stdin().lock().lines() {
        let line = line.context("no more orders")?;
        let order = serde_json::from_str(&line).with_context(|| format!("`{line}` is no order"))?;
        if matches!(order, Order::Quit) {
            break;
        }
        println!("{}", obey(&mut gpu, order)?);
    }
    Ok(ExitCode::SUCCESS)
}

fn obey(gpu: &mut Gpu, order: Order) -> Result<Value> {
    Ok(match order {
        Order::Calls { blocks } => calls(gpu, blocks)?,
        Order::StartsIdle { times } => json!(starts_idle(gpu, times)?),
        Order::StartsBusy { times } => {
            let started = (0..times).map(|_| {
                let took = gpu.start_behind(BUSY_BEHIND)?;
                gpu.wait()?;
                Ok(took)
            });
            json!(started.collect::<Result<Vec<u64>>>()?)
        }
        Order::Chain { launches } => json!(seconds(gpu, |gpu| gpu.chain(0, launches))?),
        Order::Graphs { launches } => json!(graphs(gpu, launches)?),
        Order::Bursts { bursts } => json!(seconds(gpu, |gpu| {
            (0..bursts).try_for_each(|nth| gpu.chain(nth * BURST, BURST).and_then(|()| gpu.wait()))
        })?),
        Order::Costs { launches } => costs(gpu, launches)?,
        Order::Quit => bail!("an order that is none"),
    })
}

/// Seconds until everything is done.
fn seconds(gpu: &Gpu, work: impl FnOnce(&Gpu) -> Result<()>) -> Result<f64> {
    gpu.wait()?;
    let began = monotonic_nanos();
    work(gpu)?;
    gpu.wait()?;
    Ok((monotonic_nanos() - began) as f64 / 1e9)
}

/// Each call alone, by the processor's counter. What reading it takes is measured beside it, in the same way.
fn calls(gpu: &Gpu, blocks: u64) -> Result<Value> {
    let began = Anchor::take();
    let (mut times, mut clock) = (Vec::new(), Vec::new());
    for _ in 0..blocks {
        gpu.chain(0, WARM_UP)?;
        for nth in 0..BLOCK {
            let before = time::ticks();
            let answer = gpu.launch(Four::nth(nth));
            times.push(time::ticks() - before);
            check("cuLaunchKernel", answer)?;
        }
        for _ in 0..BLOCK {
            let before = time::ticks();
            clock.push(time::ticks() - before);
        }
        gpu.wait()?;
    }
    let scale = Scale::between(began, Anchor::take());
    let nanos = |ticks: Vec<u64>| -> Vec<f64> {
        ticks.into_iter().map(|ticks| ticks as f64 * scale.nanos_per_tick()).collect()
    };
    Ok(json!({"calls": nanos(times), "clock": nanos(clock)}))
}

fn starts_idle(gpu: &mut Gpu, times: u64) -> Result<Vec<u64>> {
    let mut started = Vec::new();
    for _ in 0..times {
        gpu.wait()?;
        let since = monotonic_nanos();
        while monotonic_nanos() - since < IDLE_NS {
            core::hint::spin_loop();
        }
        started.push(gpu.start_behind(0)?);
    }
    Ok(started)
}

fn graphs(gpu: &Gpu, launches: u64) -> Result<f64> {
    let chain = Chain::new(gpu, IN_GRAPH)?;
    chain.launch()?;
    seconds(gpu, |_| {
        (0..launches / IN_GRAPH).try_for_each(|nth| {
            chain.change(nth * IN_GRAPH)?;
            chain.launch()
        })
    })
}

/// What the policy of `--fast` asks: two lengths of a graph give what a launch of it costs and what a node of it does.
fn costs(gpu: &Gpu, launches: u64) -> Result<Value> {
    const SHORT: u64 = 10;
    const LONG: u64 = 100;
    let launch = seconds(gpu, |gpu| gpu.chain(0, launches))? / launches as f64;
    let began = monotonic_nanos();
    let long = Chain::new(gpu, LONG)?;
    let build_ns = (monotonic_nanos() - began) / LONG;
    let short = Chain::new(gpu, SHORT)?;
    let each = |chain: &Chain<'_>, length: u64| -> Result<f64> {
        let count = (launches / length).max(10);
        chain.launch()?;
        let took = seconds(gpu, |_| (0..count).try_for_each(|_| chain.launch()))?;
        Ok(took * 1e9 / count as f64)
    };
    let (by_short, by_long) = (each(&short, SHORT)?, each(&long, LONG)?);
    let node = ((by_long - by_short) / (LONG - SHORT) as f64).max(0.0);
    let graph = (by_short - node * SHORT as f64).max(0.0);
    let began = monotonic_nanos();
    let changes = (launches / LONG).max(10);
    (0..changes).try_for_each(|nth| long.change(nth))?;
    let changed_ns = (monotonic_nanos() - began) / (changes * LONG);
    Ok(json!({
        "launch_ns": (launch * 1e9) as u64,
        "graph_ns": graph as u64,
        "node_ns": node as u64,
        "changed_ns": changed_ns,
        "build_ns": build_ns,
    }))
}
