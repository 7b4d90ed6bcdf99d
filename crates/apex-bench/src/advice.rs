//! Is a block size that the adviser recommends faster, and by as much as it says?
//!
//! On measured rows: launches of the same kernel on the same problem with other blocks stand in for the changed
//! program, and the adviser chooses among them. With `--live` it chooses freely, and both launches are measured
//! one after the other on the device at hand. Beside it stand what a user has without it: the launch as it is,
//! blocks of 256 threads, and the size of highest occupancy, as `cuOccupancyMaxPotentialBlockSize` answers it.

use crate::arguments::BenchAdvice;
use crate::models;
use crate::report::{Bar, Report};
use anyhow::{Context, Result};
use apex_daemon::progress::Progress;
use apex_exec::zoo::{self, Ground, Point, Scale};
use apex_exec::{Device, Executor};
use apex_policy::advise::block::{Launch, SIZES, better_block};
use apex_policy::{Carveout, Chip, KernelNeeds, LaunchShape, occupancy};
use apex_train::rows::{self, Row};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const RUNS: u32 = 20;

/// One launch and what became of it with another block.
struct Followed {
    kernel: String,
    threads: u32,
    better: u32,
    /// Time after over time before, as expected and as measured.
    expected: f64,
    realised: f64,
}

/// Follows the advice and compares.
pub(crate) fn measure(arguments: &BenchAdvice) -> Result<Report> {
    if arguments.live { live(arguments) } else { from_rows(arguments) }
}

fn from_rows(arguments: &BenchAdvice) -> Result<Report> {
    let data = models::rows(arguments.rows.as_deref(), None)?;
    let rows: Vec<Row> = rows::read(&data)
        .context("measured rows are needed to judge advice: --rows FILE, or --live measures here")?
        .into_iter()
        .filter(Row::is_usable)
        .collect();
    let mut problems: BTreeMap<(&str, &str, &str, u32), Vec<&Row>> = BTreeMap::new();
    for row in &rows {
        let key = (
            row.entry.as_str(),
            row.parameters.as_str(),
            row.integers.as_str(),
            row.dynamic_shared,
        );
        problems.entry(key).or_default().push(row);
    }
    let (mut followed, mut usual, mut fullest) = (Vec::new(), Vec::new(), Vec::new());
    let mut looked = 0;
    for same in problems.values() {
        for row in same {
            let others: Vec<&&Row> = same.iter().filter(|other| stands_in(row, other)).collect();
            if others.is_empty() {
                continue;
            }
            looked += 1;
            let with = |threads: u32| others.iter().find(|other| other.block_x == threads);
            if let Some(other) = with(256) {
                usual.push(other.median_ns / row.median_ns);
            }
            let Some(chip) = Chip::for_capability(row.major, row.minor) else { continue };
            let fraction = |other: &&&&Row| {
                let warps = other.block_x.div_ceil(32) * other.driver_blocks_per_sm;
                (warps, other.block_x)
            };
            if let Some(other) = others.iter().max_by_key(|other| fraction(other)) {
                fullest.push(other.median_ns / row.median_ns);
            }
            let sizes: Vec<u32> =
                SIZES.iter().copied().filter(|&size| with(size).is_some()).collect();
            let launch = Launch {
                chip: &chip,
                sms: row.multiprocessors,
                needs: needs(row),
                local_bytes: row.local_bytes,
                shape: shape(row),
                mean_ns: Some(row.median_ns),
            };
            let Some(better) = better_block(&launch, &sizes) else { continue };
            let Some(other) = with(better.threads) else { continue };
            followed.push(Followed {
                kernel: row.kernel.clone(),
                threads: row.block_x,
                better: better.threads,
                expected: 1.0 - better.gain,
                realised: other.median_ns / row.median_ns,
            });
        }
    }
    let device = rows.first().map_or(String::new(), |row| row.device.clone());
    let driver = rows.first().map_or(String::new(), |row| format!("CUDA {}", row.driver / 1000));
    let notes = vec![format!(
        "{} rows of {}, {looked} of which have another block to compare with",
        rows.len(),
        data.display()
    )];
    Ok(report(device, driver, &followed, &usual, &fullest, notes))
}

/// Whether a row is the same work with other blocks: one dimension, as many threads.
fn stands_in(row: &Row, other: &Row) -> bool {
    let plain = |row: &Row| [row.block_y, row.block_z, row.grid_y, row.grid_z] == [1; 4];
    let threads = |row: &Row| f64::from(row.grid_x) * f64::from(row.block_x);
    let ratio = threads(row) / threads(other);
    row.block_x != other.block_x && plain(row) && plain(other) && (0.9..1.1).contains(&ratio)
}

fn shape(row: &Row) -> LaunchShape {
    LaunchShape {
        grid: [row.grid_x, row.grid_y, row.grid_z],
        block: [row.block_x, row.block_y, row.block_z],
    }
}

fn needs(row: &Row) -> KernelNeeds {
    KernelNeeds {
        registers: row.registers,
        static_shared: row.static_shared,
        dynamic_shared: row.dynamic_shared,
        max_dynamic_shared: row.max_dynamic_shared,
        carveout: Carveout::from_attribute(row.carveout),
    }
}

fn live(arguments: &BenchAdvice) -> Result<Report> {
    let executor = Executor::new(Device::Auto)?;
    let ground = Ground::new(&executor).context("the zoo's own kernels do not load")?;
    let facts = executor.facts();
    let small = arguments.quick || facts.is_software;
    let scale = if small { Scale::Small } else { Scale::Full };
    let kernels: Vec<_> = zoo::kernels().collect();
    let points =
        zoo::points(&kernels, &ground.target(), scale, Some(arguments.points), arguments.seed);
    let (mut followed, mut usual, mut fullest) = (Vec::new(), Vec::new(), Vec::new());
    let mut failed = 0;
    let mut progress = Progress::on_stderr();
    for (nth, point) in points.iter().enumerate() {
        progress.step(&format!("{}: point", point.kernel.name), nth + 1, points.len());
        match follow(&ground, point) {
            Ok(Some(found)) => {
                followed.extend(found.advice);
                usual.push(found.usual);
                fullest.push(found.fullest);
            }
            Ok(None) => {}
            Err(_) => failed += 1,
        }
    }
    let version = facts.driver_version;
    let driver = format!("CUDA {}.{}", version / 1000, version % 1000 / 10);
    let notes = vec![format!(
        "{} points of the zoo, seed {}; {failed} did not run with every block",
        points.len(),
        arguments.seed
    )];
    Ok(report(facts.name.clone(), driver, &followed, &usual, &fullest, notes))
}

struct Lived {
    advice: Option<Followed>,
    usual: f64,
    fullest: f64,
}

/// Measures a point as it is, as advised, with 256 threads, and with the highest occupancy; nothing where its
/// block cannot be changed.
fn follow(ground: &Ground, point: &Point) -> apex_exec::Result<Option<Lived>> {
    let plain = point.grid[1..] == [1, 1] && point.block[1..] == [1, 1] && point.shared_bytes == 0;
    let mut prepared = ground.prepare(point)?;
    let residency = prepared.residency()?;
    let facts = ground.executor().facts();
    let chip = Chip::for_capability(facts.compute_capability.0, facts.compute_capability.1);
    let Some(chip) = chip.filter(|_| plain && residency.static_shared == 0) else {
        return Ok(None);
    };
    let before = prepared.time(RUNS)?.median_ns;
    let needs = KernelNeeds {
        registers: residency.registers,
        static_shared: residency.static_shared,
        dynamic_shared: 0,
        max_dynamic_shared: chip.max_shared_per_block,
        carveout: Carveout::Unset,
    };
    let launch = Launch {
        chip: &chip,
        sms: facts.multiprocessors,
        needs,
        local_bytes: residency.local_bytes,
        shape: LaunchShape { grid: point.grid, block: point.block },
        mean_ns: Some(before),
    };
    let time = |threads: u32| -> apex_exec::Result<f64> {
        if threads == point.block[0] {
            return Ok(1.0);
        }
        let all = point.blocks() * u64::from(point.block[0]);
        let blocks = u32::try_from(all.div_ceil(u64::from(threads))).unwrap_or(u32::MAX);
        let other = Point { grid: [blocks, 1, 1], block: [threads, 1, 1], ..point.clone() };
        Ok(ground.prepare(&other)?.time(RUNS)?.median_ns / before)
    };
    let full = |threads: &u32| {
        let occupancy = occupancy(&chip, &needs, *threads);
        (occupancy.warps_per_sm, *threads)
    };
    let fullest = (1..=32).map(|warps| warps * 32).max_by_key(full).unwrap_or(256);
    let advice = match better_block(&launch, SIZES) {
        Some(better) => Some(Followed {
            kernel: point.kernel.name.to_owned(),
            threads: point.block[0],
            better: better.threads,
            expected: 1.0 - better.gain,
            realised: time(better.threads)?,
        }),
        None => None,
    };
    Ok(Some(Lived { advice, usual: time(256)?, fullest: time(fullest)? }))
}

/// Slower by more than this is harm.
const HARM: f64 = 1.0 / 0.98;

fn report(
    device: String,
    driver: String,
    followed: &[Followed],
    usual: &[f64],
    fullest: &[f64],
    notes: Vec<String>,
) -> Report {
    let realised: Vec<f64> = followed.iter().map(|one| one.realised).collect();
    let rows = vec![
        line("advice, where it speaks", &realised),
        line("unchanged", &vec![1.0; realised.len()]),
        line("256 threads everywhere", usual),
        line("highest occupancy everywhere", fullest),
    ];
    // A gain that did not come is expected infinitely too high.
    let ratio = |one: &Followed| {
        let came = 1.0 - one.realised;
        if came > 0.0 { (1.0 - one.expected) / came } else { f64::INFINITY }
    };
    let mut ratios: Vec<f64> = followed.iter().map(ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let mut bars = Vec::new();
    if let Some(&median) = ratios.get(ratios.len() / 2) {
        let harmful = share(&realised, |time| time > HARM);
        bars.push(Bar::at_most(
            "advice that makes a launch slower by 2 %".into(),
            harmful,
            "of all",
            0.02,
        ));
        let name = "expected over realised gain, median";
        bars.push(Bar::at_least(name.into(), median, "times", 0.8));
        bars.push(Bar::at_most(name.into(), median, "times", 1.25));
    }
    let detail = followed.iter().map(|one| {
        json!({
            "kernel": one.kernel, "threads": one.threads, "better_threads": one.better,
            "expected": one.expected, "realised": one.realised,
        })
    });
    let rows: Vec<Value> = rows.into_iter().chain(detail).collect();
    Report { bench: "advice", device, driver, rows, bars, notes }
}

fn line(what: &str, times: &[f64]) -> Value {
    let mean = times.iter().map(|time| time.ln()).sum::<f64>() / times.len().max(1) as f64;
    json!({
        "choice": what, "launches": times.len(), "mean_time": mean.exp(),
        "faster": share(times, |time| time < 0.98), "slower": share(times, |time| time > HARM),
    })
}

fn share(times: &[f64], is: impl Fn(f64) -> bool) -> f64 {
    times.iter().filter(|&&time| is(time)).count() as f64 / times.len().max(1) as f64
}

/// One line for each choice.
pub(crate) fn print_rows(rows: &[Value]) {
    println!(
        "{:<30} {:>8} {:>16} {:>8} {:>8}",
        "choice", "launches", "time (geom. mean)", "faster", "slower"
    );
    for row in rows.iter().filter(|row| row["choice"].is_string()) {
        println!(
            "{:<30} {:>8} {:>16.3} {:>6.1} % {:>6.1} %",
            row["choice"].as_str().unwrap_or_default(),
            row["launches"],
            row["mean_time"].as_f64().unwrap_or(0.0),
            row["faster"].as_f64().unwrap_or(0.0) * 100.0,
            row["slower"].as_f64().unwrap_or(0.0) * 100.0
        );
    }
}
