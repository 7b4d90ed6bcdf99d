//! One side of the comparison: a process that allocates and frees as it is told.
//!
//! The same program stands on all sides; only the driver that it finds differs.

use super::calls::{Gpu, How};
use crate::libraries::describe;
use anyhow::{Context, Result, bail, ensure};
use apex_core::time::{self, Anchor, Scale, monotonic_nanos};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io::BufRead;
use std::path::Path;
use std::process::ExitCode;

/// Allocations and frees before those that are timed.
const WARM_UP: u64 = 4;

/// What a side is told.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "order")]
pub(super) enum Order {
    /// Allocates and frees, with nothing between: nanoseconds of each pair, and of reading the clock.
    Pairs { how: How, bytes: u64, times: u64 },
    /// The same with a wait behind each pair, which is timed too: nanoseconds of all three.
    Cycles { how: How, bytes: u64, times: u64 },
    /// Frees while a kernel runs: nanoseconds of each free.
    FreesBehind { bytes: u64, kernel_ns: u64, times: u64 },
    /// Turns of a loop as one over Thrust's algorithms is: seconds.
    Loop { how: How, elements: u32, turns: u64 },
    /// Sizes that never come again, a part of them alive at a time: the most bytes that were.
    Mixed { most_bytes: u64, times: u64 },
    /// Ends.
    Quit,
}

/// Works until told to end.
pub(crate) fn work(library: Option<&Path>) -> Result<ExitCode> {
    let gpu = Gpu::open(library)?;
    // The first launch of a kernel loads it.
    turn(&gpu, How::Plain, 1_000)?;
    gpu.spin(1)?;
    gpu.wait()?;
    let (device, driver) = describe(&gpu.driver);
    println!("{}", json!({"device": device, "driver": driver, "runs_kernels": true}));
    for line in std::io::stdin().lock().lines() {
        let line = line.context("no more orders")?;
        let order = serde_json::from_str(&line).with_context(|| format!("`{line}` is no order"))?;
        if matches!(order, Order::Quit) {
            break;
        }
        println!("{}", obey(&gpu, order)?);
    }
    Ok(ExitCode::SUCCESS)
}

fn obey(gpu: &Gpu, order: Order) -> Result<Value> {
    Ok(match order {
        Order::Pairs { how, bytes, times } => timed(times, |_| {
            let address = gpu.allocate(how, bytes)?;
            gpu.free(how, address)
        })?,
        Order::Cycles { how, bytes, times } => timed(times, |_| {
            let address = gpu.allocate(how, bytes)?;
            gpu.free(how, address)?;
            gpu.wait_for_stream()
        })?,
        Order::FreesBehind { bytes, kernel_ns, times } => {
            frees_behind(gpu, bytes, kernel_ns, times)?
        }
        Order::Loop { how, elements, turns } => {
            turn(gpu, how, elements)?;
            let began = monotonic_nanos();
            (0..turns).try_for_each(|_| turn(gpu, how, elements))?;
            json!((monotonic_nanos() - began) as f64 / 1e9)
        }
        Order::Mixed { most_bytes, times } => json!(mixed(gpu, most_bytes, times)?),
        Order::Quit => bail!("an order that is none"),
    })
}

/// Each by the processor's counter. What reading it takes is measured beside it, in the same way.
fn timed(times: u64, mut act: impl FnMut(u64) -> Result<()>) -> Result<Value> {
    (0..WARM_UP).try_for_each(&mut act)?;
    let began = Anchor::take();
    let (mut took, mut clock) = (Vec::new(), Vec::new());
    for nth in 0..times {
        let before = time::ticks();
        act(nth)?;
        took.push(time::ticks() - before);
        let before = time::ticks();
        clock.push(time::ticks() - before);
    }
    let scale = Scale::between(began, Anchor::take());
    let nanos = |ticks: Vec<u64>| -> Vec<f64> {
        ticks.into_iter().map(|ticks| ticks as f64 * scale.nanos_per_tick()).collect()
    };
    Ok(json!({"took": nanos(took), "clock": nanos(clock)}))
}

fn frees_behind(gpu: &Gpu, bytes: u64, kernel_ns: u64, times: u64) -> Result<Value> {
    let mut took = Vec::new();
    for _ in 0..times {
        let address = gpu.allocate(How::Plain, bytes)?;
        gpu.fill(address, (bytes / 4) as u32, 1)?;
        gpu.wait()?;
        gpu.spin(kernel_ns)?;
        let before = monotonic_nanos();
        gpu.free(How::Plain, address)?;
        took.push(monotonic_nanos() - before);
        gpu.wait()?;
    }
    Ok(json!(took))
}

/// Sequence, transform, sort, scan, reduce and reduce by key, as Thrust does them: temporary memory for each that needs
/// some, and a wait before that memory goes. The kernels are lighter than Thrust's; what they wrote is looked at.
fn turn(gpu: &Gpu, how: How, elements: u32) -> Result<()> {
    /// Launches of each algorithm over temporary memory, with that memory in bytes for each element.
    const WITH_MEMORY: [(u64, u32); 3] = [(8, 8), (1, 2), (4, 3)];
    let bytes = 4 * u64::from(elements);
    let (keys, values) = (gpu.allocate(how, bytes)?, gpu.allocate(how, bytes)?);
    gpu.fill(keys, elements, 3)?;
    gpu.advance(values, keys, elements)?;
    for (each, launches) in WITH_MEMORY {
        let temporary = gpu.allocate(how, (each * u64::from(elements)).max(bytes) + 512)?;
        for nth in 0..launches {
            let (to, from) = if nth % 2 == 0 { (temporary, values) } else { (values, temporary) };
            gpu.advance(to, from, elements)?;
        }
        gpu.wait_for_stream()?;
        gpu.free(how, temporary)?;
    }
    let sum = gpu.allocate(how, 4)?;
    gpu.fill(sum, 1, 0)?;
    gpu.total(sum, values, elements)?;
    let found = gpu.read(sum)?;
    for address in [sum, values, keys] {
        gpu.free(how, address)?;
    }
    // Eight, two and two launches were seen by `values`: the third of three ends in temporary memory.
    let all = u64::from(elements);
    let expected = (3 * (all * (all - 1) / 2) + 13 * all) as u32;
    ensure!(found == expected, "the sum of {elements} elements is {found} and not {expected}");
    Ok(())
}

fn mixed(gpu: &Gpu, most_bytes: u64, times: u64) -> Result<u64> {
    const WAIT_EVERY: u64 = 16;
    let mut seed = 1_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (seed >> 33) % below
    };
    let (mut live, mut live_bytes, mut peak): (Vec<(u64, u64)>, u64, u64) = (Vec::new(), 0, 0);
    for nth in 0..times {
        let bytes = (most_bytes / 64 + random(most_bytes / 16)) & !255;
        while live_bytes + bytes > most_bytes {
            let (address, bytes) = live.swap_remove(random(live.len() as u64) as usize);
            gpu.free(How::Plain, address)?;
            live_bytes -= bytes;
        }
        let address = gpu.allocate(How::Plain, bytes)?;
        gpu.fill(address, (bytes / 4).min(100_000) as u32, 1)?;
        live.push((address, bytes));
        live_bytes += bytes;
        peak = peak.max(live_bytes);
        if nth % WAIT_EVERY == 0 {
            gpu.wait_for_stream()?;
        }
    }
    live.into_iter().try_for_each(|(address, _)| gpu.free(How::Plain, address))?;
    Ok(peak)
}
