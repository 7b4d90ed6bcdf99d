//! The kernel zoo, timed: one row for each configuration, in the order of the zoo.
//!
//! How a time is taken stands in `apex_exec::zoo`: the median of runs between events, launches back to back,
//! nothing subtracted. Rates are made from the exact counts of each configuration: operations, and the bytes of
//! global memory that no cache can avoid. A configuration that does not run is a row with its error.

use crate::arguments::{DeviceWord, Zoo};
use crate::report::{Bar, Report};
use anyhow::{Context, Result, bail};
use apex_daemon::progress::Progress;
use apex_exec::zoo::{self, Ground, Point, Scale, ZooKernel};
use apex_exec::{Device, DeviceFacts, Executor};
use apex_policy::amounts::counted;
use serde_json::{Map, Value, json};

const RUNS: u32 = 20;
const QUICK_RUNS: u32 = 5;

/// Times, and where asked checks, the chosen configurations.
pub(crate) fn measure(arguments: &Zoo) -> Result<Report> {
    let kernels = chosen(&arguments.kernel)?;
    let device = match arguments.device {
        DeviceWord::Auto => Device::Auto,
        DeviceWord::Soft => Device::Soft(0),
        DeviceWord::Gpu => Device::Gpu(0),
    };
    let executor = Executor::new(device)?;
    let ground = Ground::new(&executor).context("the zoo's own kernels do not load")?;
    let small = arguments.quick || executor.facts().is_software;
    let scale = if small { Scale::Small } else { Scale::Full };
    let limit = arguments.points.0.map(|each| each.saturating_mul(kernels.len()));
    let points = zoo::points(&kernels, &ground.target(), scale, limit, arguments.seed);
    let mut rows = Vec::with_capacity(points.len());
    let mut progress = Progress::on_stderr();
    for (nth, point) in points.iter().enumerate() {
        progress.step(&format!("{}: configuration", point.kernel.name), nth + 1, points.len());
        rows.push(row(&ground, point, arguments));
    }
    drop(progress);
    let facts = executor.facts();
    Ok(Report {
        bench: "zoo",
        device: facts.name.clone(),
        driver: driver(facts),
        bars: bars(&rows),
        notes: notes(arguments, small, points.len()),
        rows,
    })
}

/// The named kernels, or all.
fn chosen(names: &[String]) -> Result<Vec<&'static ZooKernel>> {
    if names.is_empty() {
        return Ok(zoo::kernels().collect());
    }
    let find = |name: &String| match zoo::kernels().find(|kernel| kernel.name == name) {
        Some(kernel) => Ok(kernel),
        None => {
            let known: Vec<&str> = zoo::kernels().map(|kernel| kernel.name).collect();
            bail!("the zoo has no kernel {name}; it has {}", known.join(", "))
        }
    };
    names.iter().map(find).collect()
}

fn driver(facts: &DeviceFacts) -> String {
    let version = facts.driver_version;
    format!("CUDA {}.{}", version / 1000, version % 1000 / 10)
}

fn row(ground: &Ground, point: &Point, arguments: &Zoo) -> Value {
    let work = point.work();
    let parameters: Map<String, Value> =
        point.parameters().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let mut row = json!({
        "kernel": point.kernel.name, "entry": point.entry(), "parameters": parameters,
        "grid": point.grid, "block": point.block, "shared_bytes": point.shared_bytes,
        "flops": work.flops, "pipe": work.pipe.name(),
        "bytes_read": work.bytes_read, "bytes_written": work.bytes_written,
    });
    let found = measured(ground, point, arguments)
        .unwrap_or_else(|error| Map::from_iter([("error".to_owned(), error.to_string().into())]));
    if let Some(row) = row.as_object_mut() {
        row.extend(found);
    }
    row
}

fn measured(
    ground: &Ground,
    point: &Point,
    arguments: &Zoo,
) -> apex_exec::Result<Map<String, Value>> {
    let mut prepared = ground.prepare(point)?;
    let residency = prepared.residency()?;
    let verdict = arguments.check.then(|| prepared.check()).transpose()?;
    let runs = if arguments.quick { QUICK_RUNS } else { RUNS };
    let timing = if arguments.cold { prepared.time_cold(runs)? } else { prepared.time(runs)? };
    let work = point.work();
    let bytes = (work.bytes_read + work.bytes_written) as f64;
    let found = json!({
        "registers": residency.registers, "static_shared_bytes": residency.static_shared,
        "local_bytes": residency.local_bytes, "occupancy": residency.occupancy,
        "blocks_per_sm": residency.blocks_by_driver,
        "blocks_per_sm_by_arithmetic": residency.blocks_by_arithmetic,
        "median_ns": timing.median_ns, "lower_quartile_ns": timing.lower_quartile_ns,
        "upper_quartile_ns": timing.upper_quartile_ns, "spread": timing.spread(),
        "runs": timing.runs, "launches_per_run": timing.launches_per_run, "cold": timing.cold,
        "sm_mhz": timing.clocks.map(|clocks| clocks.sm_mhz),
        "memory_mhz": timing.clocks.map(|clocks| clocks.memory_mhz),
        "celsius": timing.clocks.map(|clocks| clocks.celsius),
        "gflops": work.flops as f64 / timing.median_ns, "gbps": bytes / timing.median_ns,
        "check": verdict.as_ref().map(|verdict| verdict.fault.is_none()),
        "fault": verdict.and_then(|verdict| verdict.fault).map(|fault| fault.to_string()),
    });
    match found {
        Value::Object(found) => Ok(found),
        _ => Ok(Map::new()),
    }
}

/// The promises, computed from the rows.
fn bars(rows: &[Value]) -> Vec<Bar> {
    let share = |name: &str, good: &dyn Fn(&Value) -> Option<bool>| {
        let (mut count, mut right) = (0, 0);
        for good in rows.iter().filter_map(good) {
            count += 1;
            right += usize::from(good);
        }
        (count > 0).then(|| Bar::at_least(name.into(), right as f64 / count as f64, "of all", 1.0))
    };
    let ran = |row: &Value| Some(row.get("error").is_none());
    let right = |row: &Value| row["check"].as_bool();
    let exact = |row: &Value| {
        let arithmetic = row["blocks_per_sm_by_arithmetic"].as_u64()?;
        Some(row["blocks_per_sm"].as_u64()? == arithmetic)
    };
    let bars = [
        share("configurations that ran", &ran),
        share("checked results that are right", &right),
        share("occupancy by arithmetic that equals the driver's answer", &exact),
    ];
    bars.into_iter().flatten().collect()
}

fn notes(arguments: &Zoo, small: bool, points: usize) -> Vec<String> {
    let mut notes = vec![format!(
        "{}, seed {}",
        counted(points as u64, "configuration", "configurations"),
        arguments.seed
    )];
    if small {
        notes.push("small problems: the rates say nothing about the device".into());
    }
    if arguments.cold {
        notes.push("cold: each run begins with none of its data in the second-level cache".into());
    }
    notes
}

/// One line for each kernel: its best rates and the span of its times, and what went wrong.
pub(crate) fn print_rows(rows: &[Value]) {
    println!(
        "{:<20} {:>6} {:>9} {:>10} {:>11} {:>11}  checked",
        "kernel", "points", "GB/s", "GFLOP/s", "least µs", "most µs"
    );
    for rows in rows.chunk_by(|one, other| one["kernel"] == other["kernel"]) {
        let numbers = |name: &'static str| rows.iter().filter_map(move |row| row[name].as_f64());
        let most = |name| numbers(name).fold(0.0, f64::max);
        let least = numbers("median_ns").fold(f64::INFINITY, f64::min);
        let checks: Vec<bool> = rows.iter().filter_map(|row| row["check"].as_bool()).collect();
        let checked = match checks.iter().filter(|right| !**right).count() {
            _ if checks.is_empty() => "-".into(),
            0 => "right".into(),
            wrong => format!("{wrong} WRONG"),
        };
        println!(
            "{:<20} {:>6} {:>9.1} {:>10.1} {:>11.2} {:>11.2}  {checked}",
            rows[0]["kernel"].as_str().unwrap_or(""),
            rows.len(),
            most("gbps"),
            most("gflops"),
            least / 1e3,
            most("median_ns") / 1e3,
        );
    }
    let sentences = rows.iter().flat_map(|row| [row["fault"].as_str(), row["error"].as_str()]);
    for sentence in sentences.flatten() {
        println!("  {sentence}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_result_misses_its_bar() {
        let right = json!({"check": true, "blocks_per_sm": 4, "blocks_per_sm_by_arithmetic": 4});
        let wrong = json!({"check": false, "blocks_per_sm": 4, "blocks_per_sm_by_arithmetic": 5});
        let failed = json!({"error": "no"});
        let holds = |rows: &[Value]| bars(rows).iter().map(|bar| bar.ok).collect::<Vec<_>>();
        assert_eq!(holds(&[right.clone(), right.clone()]), [true, true, true]);
        assert_eq!(holds(&[right.clone(), wrong]), [true, false, false]);
        assert_eq!(holds(&[right, failed]), [false, true, true]);
        // What was not checked promises nothing.
        assert_eq!(holds(&[json!({"check": null})]), [true]);
    }

    #[test]
    fn an_unknown_kernel_is_refused_with_the_known_ones() {
        let error = chosen(&["tirad".into()]).unwrap_err().to_string();
        assert!(error.contains("tirad") && error.contains("triad"), "{error}");
    }
}
