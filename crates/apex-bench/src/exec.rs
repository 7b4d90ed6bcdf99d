//! The executor beside cuBLASLt and PyTorch: the same shapes, in one run, by turns.
//!
//! Every case is run in rounds; each round times our ways and PyTorch's one after the other, so that a slow
//! phase of the device hits all. The medians count. What memory limits is compared with the better of two copies
//! of the same run, and each of its calls is timed alone, after so much else was read that nothing of it is left in the
//! device's caches: of arrays that are used over and over a twentieth can stay there, or nothing, by where they lie. On
//! the software GPU the cases are small, and nothing is promised about its speed.

mod cases;
mod launches;
mod overlap;
mod torch;

use crate::report::{Bar, Report};
use anyhow::{Context, Result};
use apex_daemon::progress::Progress;
use apex_exec::{Executor, Matmul, MatmulShape, Reduction, measure_matmul};
use cases::{Case, Sizes};
use serde_json::{Value, json};
use torch::Torch;

/// The rate of a 256 x 256 product in the design this one follows.
const SOURCE_GFLOPS: f64 = 229.0;
const THREADS: usize = 32;

/// Measures everything.
pub(crate) fn measure(quick: bool, explain: bool) -> Result<Report> {
    let executor = apex_exec::global().context("the executor cannot be made")?;
    let facts = executor.facts();
    let is_software = facts.is_software;
    let sizes = Sizes::of(is_software, quick);
    let mut notes = Vec::new();
    let mut torch = if is_software {
        Err("on the software GPU there is nothing to compare with".to_owned())
    } else {
        Torch::start()
    };
    match &torch {
        Ok(torch) => notes.push(torch.version.clone()),
        Err(reason) => notes.push(format!("without PyTorch: {reason}")),
    }
    let shapes: Vec<MatmulShape> = sizes
        .matmuls
        .iter()
        .map(|&side| MatmulShape::new::<half::bf16>(Matmul::new(side, side, side)))
        .chain([MatmulShape::new::<f32>(Matmul::new(
            sizes.small_matmul,
            sizes.small_matmul,
            sizes.small_matmul,
        ))])
        .collect();
    let mut progress = Progress::on_stderr();
    progress.step("choosing products", 1, 1);
    measure_matmul(executor, &shapes)?;
    let mut rows = Vec::new();
    let cases = cases::all(sizes);
    let all = cases.len();
    for (nth, make) in cases.into_iter().enumerate() {
        let case = make(executor)?;
        progress.step(&format!("{} {}: case", case.name, case.shape), nth + 1, all);
        if explain && !case.choice.is_empty() {
            notes.push(format!("{} {} {}: {}", case.name, case.element, case.shape, case.choice));
        }
        rows.push(time(executor, case, torch.as_mut().ok(), quick, &mut notes)?);
    }
    add_shares(&mut rows);
    progress.step("copies beside kernels", 1, 1);
    rows.extend(beside_kernels(executor, quick, &mut notes)?);
    let driver =
        format!("CUDA {}.{}", facts.driver_version / 1000, facts.driver_version % 1000 / 10);
    let bars = if is_software { Vec::new() } else { bars(&rows) };
    Ok(Report { bench: "exec", device: facts.name.clone(), driver, bars, rows, notes })
}

/// One case, in rounds by turns.
fn time(
    executor: &Executor,
    mut case: Case<'_>,
    mut torch: Option<&mut Torch>,
    quick: bool,
    notes: &mut Vec<String>,
) -> Result<Value> {
    let rounds = if quick { 5 } else { 15 };
    let stream = executor.stream();
    let is_cold = case.bytes > 0.0 && !executor.facts().is_software;
    let others = executor.zeros::<f32>(if is_cold { cases::BEYOND_CACHES } else { 1 })?;
    let mut sum = executor.zeros::<f32>(1)?;
    let mut seconds = |way: &mut cases::Way<'_>, repeats: usize| -> Result<f64> {
        if !is_cold {
            let begin = stream.record()?;
            way(repeats)?;
            return Ok(stream.record()?.seconds_since(&begin)? / repeats as f64);
        }
        let mut moments = Vec::with_capacity(repeats);
        for _ in 0..repeats {
            executor.ops().reduce(Reduction::Sum, &others, &mut sum)?;
            let begin = stream.record()?;
            way(1)?;
            moments.push((begin, stream.record()?));
        }
        let mut all = 0.0;
        for (begin, end) in &moments {
            all += end.seconds_since(begin)?;
        }
        Ok(all / repeats as f64)
    };
    let mut repeats = 1;
    for (_, way) in &mut case.ways {
        seconds(way, 2)?;
        // A turn of about four milliseconds.
        repeats = repeats.max((4e-3 / seconds(way, 3)?.max(1e-7)).clamp(1.0, 2000.0) as usize);
    }
    let mut times: Vec<(&str, Vec<f64>)> =
        case.ways.iter().map(|(name, _)| (*name, Vec::new())).collect();
    let mut torch_times = Vec::new();
    for _ in 0..rounds {
        for ((_, way), (_, times)) in case.ways.iter_mut().zip(&mut times) {
            times.push(seconds(way, repeats)?);
        }
        if let Some(peer) = torch.as_mut().filter(|_| !case.torch.is_empty()) {
            match peer.time(&case.torch, repeats, is_cold) {
                Ok(seconds) => torch_times.push(seconds),
                Err(error) => {
                    notes.push(error.to_string());
                    torch = None;
                }
            }
        }
    }
    if !torch_times.is_empty() {
        times.push(("pytorch", torch_times));
    }
    let (work, unit) = if case.operations > 0.0 {
        (case.operations / 1e12, "TFLOP/s")
    } else {
        (case.bytes / 1e9, "GB/s")
    };
    let mut row = json!({
        "case": case.name, "type": case.element, "shape": case.shape, "unit": unit,
        "bytes": case.bytes, "operations": case.operations,
    });
    if !case.choice.is_empty() {
        row["choice"] = json!(case.choice);
    }
    for (name, times) in times {
        let (low, high) = spread(&times);
        let middle = median(times);
        row[name] = json!(work / middle);
        row[format!("{name}_us")] = json!(middle * 1e6);
        row[format!("{name}_us_spread")] = json!([low * 1e6, high * 1e6]);
    }
    Ok(row)
}

/// What memory limits, as a share of the better copy.
fn add_shares(rows: &mut [Value]) {
    let best = rows
        .iter()
        .filter(|row| row["case"] == "copy")
        .flat_map(|row| [row["ours"].as_f64(), row["own_kernel"].as_f64()])
        .flatten()
        .fold(f64::NAN, f64::max);
    for row in rows.iter_mut().filter(|row| row["unit"] == "GB/s") {
        if let Some(rate) = row["ours"].as_f64() {
            row["share_of_copy"] = json!(rate / best);
        }
    }
}

/// What is not a kernel's speed: overlap, the cost of a launch, many threads.
fn beside_kernels(executor: &Executor, quick: bool, notes: &mut Vec<String>) -> Result<Vec<Value>> {
    let mut rows = Vec::new();
    match overlap::measure(executor, quick) {
        Ok((serial, pipeline)) => rows.push(json!({
            "case": "pipeline", "unit": "ms", "ours": pipeline * 1e3, "serial": serial * 1e3,
        })),
        Err(error) => notes.push(format!("the pipeline was not measured: {error}")),
    }
    if !executor.facts().is_software {
        match launches::cost(executor, quick) {
            Ok((ours, cudarc)) => {
                rows.push(json!({"case": "launch", "unit": "ns", "ours": ours, "cudarc": cudarc}));
            }
            Err(error) => notes.push(format!("the cost of a launch was not measured: {error}")),
        }
    }
    let (done, failed) = launches::threads(THREADS, if quick { 10 } else { 100 });
    rows.push(json!({"case": "threads", "unit": "results", "ours": done, "failed": failed}));
    Ok(rows)
}

/// The promises, computed from the rows.
fn bars(rows: &[Value]) -> Vec<Bar> {
    let mut bars = Vec::new();
    let number = |row: &Value, column: &str| row[column].as_f64();
    for row in rows {
        let (case, element) =
            (row["case"].as_str().unwrap_or(""), row["type"].as_str().unwrap_or(""));
        let name = format!("{case} {element} {}", row["shape"].as_str().unwrap_or(""));
        let Some(ours) = number(row, "ours") else { continue };
        let ratio = |column: &str| number(row, column).map(|other| ours / other);
        match case {
            "copy" => {}
            "matmul" if element == "f32" => {
                let gain = ours * 1e3 / SOURCE_GFLOPS;
                bars.push(Bar::at_least(format!("{name} over 229 GFLOP/s"), gain, "times", 20.0));
                if let Some(ratio) = ratio("pytorch") {
                    bars.push(Bar::at_least(format!("{name} over PyTorch"), ratio, "times", 1.0));
                }
            }
            "matmul" => {
                if let Some(ratio) = ratio("cublaslt") {
                    bars.push(Bar::at_least(format!("{name} over cuBLASLt"), ratio, "times", 0.97));
                }
                if let (Some(own), Some(other)) =
                    (number(row, "own_kernel"), number(row, "cublaslt"))
                    && name.contains("4096")
                {
                    let name = format!("{name}, our own kernel over cuBLASLt");
                    bars.push(Bar::at_least(name, own / other, "times", 0.75));
                }
            }
            "chain" => {
                if let Some(ratio) = ratio("pytorch") {
                    let name = "five operations as one over five calls of PyTorch".into();
                    bars.push(Bar::at_least(name, ratio, "times", 3.0));
                }
            }
            "pipeline" => {
                if let Some(serial) = number(row, "serial") {
                    let name = "the pipeline over the serial form".into();
                    bars.push(Bar::at_least(name, serial / ours, "times", 1.7));
                }
            }
            "launch" => {
                if let Some(cudarc) = number(row, "cudarc") {
                    let name = "a launch, more than cudarc's own".into();
                    bars.push(Bar::at_most(name, ours - cudarc, "ns", 150.0));
                }
            }
            "threads" => {
                let failed = number(row, "failed").unwrap_or(f64::NAN);
                let name = format!("wrong results of {THREADS} threads");
                bars.push(Bar::at_most(name, failed, "results", 0.0));
            }
            _ => {
                if let Some(share) = number(row, "share_of_copy") {
                    let name = format!("{name}, share of the copy's bandwidth");
                    bars.push(Bar::at_least(name, share, "times", 0.90));
                }
                if let Some(ratio) = ratio("pytorch") {
                    bars.push(Bar::at_least(format!("{name} over PyTorch"), ratio, "times", 1.0));
                }
            }
        }
    }
    bars
}

/// The rows as a table.
pub(crate) fn print_rows(rows: &[Value]) {
    println!(
        "{:<11} {:<5} {:<22} {:>11} {:>11} {:>11} {:>11} {:>7}  unit",
        "case", "type", "shape", "ours", "cuBLASLt", "own kernel", "PyTorch", "of copy"
    );
    for row in rows {
        let number =
            |name: &str| row[name].as_f64().map_or("-".into(), |value| format!("{value:.2}"));
        let word = |name: &str| row[name].as_str().unwrap_or("").to_owned();
        let beside = ["cublaslt", "serial", "cudarc", "failed"];
        let beside = beside.into_iter().find(|name| !row[name].is_null()).unwrap_or("cublaslt");
        println!(
            "{:<11} {:<5} {:<22} {:>11} {:>11} {:>11} {:>11} {:>7}  {}",
            word("case"),
            word("type"),
            word("shape"),
            number("ours"),
            number(beside),
            number("own_kernel"),
            number("pytorch"),
            number("share_of_copy"),
            word("unit"),
        );
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A tenth lies below, a tenth above.
fn spread(times: &[f64]) -> (f64, f64) {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let place = (share * times.len().saturating_sub(1) as f64) as usize;
        times.get(place).copied().unwrap_or(f64::NAN)
    };
    (at(0.1), at(0.9))
}
