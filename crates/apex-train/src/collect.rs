//! Measures the kernel zoo and keeps what was measured.
//!
//! Every point is timed by the median of many runs and measured a second time, so that the noise between two
//! measurements is known and not guessed. Which points are taken depends on the seed alone, so a collection that
//! was interrupted goes on where it stopped. A point that cannot run is counted and left out; when many cannot,
//! something else is wrong and the collection ends.

use crate::Error;
use crate::mix::{self, Text};
use crate::rows::{Pieces, Row, joined, read};
use crate::walks;
use apex_exec::zoo::{self, Given, Ground, Pipe, Point, Scale, ZooKernel};
use apex_exec::{DeviceFacts, Executor};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Points, evenly over the kernels.
    pub points: usize,
    /// Runs that are timed for each point.
    pub runs: u32,
    /// Runs of the second measurement.
    pub repeat_runs: u32,
    /// Which points.
    pub seed: u64,
    /// Whether to go on with a collection that is there.
    pub resume: bool,
}

impl Plan {
    /// So many points with the runs that a time needs to be trusted.
    #[must_use]
    pub fn of(points: usize) -> Plan {
        Plan { points, runs: 20, repeat_runs: 5, seed: 1, resume: false }
    }
}

/// How far a collection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// Points measured, those of an earlier run included.
    pub done: usize,
    /// Points in all.
    pub points: usize,
    /// Points that could not run.
    pub failed: usize,
    /// The kernel that is measured.
    pub kernel: &'a str,
}

/// What came of a collection.
#[derive(Debug)]
pub struct Collected {
    /// Every row, those of an earlier run included.
    pub rows: Vec<Row>,
    /// Sentences about points that could not run; the first few.
    pub complaints: Vec<String>,
    /// How many could not.
    pub failed: usize,
}

const MOST_COMPLAINTS: usize = 10;
/// Points that may fail before it is asked how many did.
const PATIENCE: usize = 50;

/// Measures and keeps.
pub fn collect(
    executor: &Executor,
    plan: &Plan,
    path: &Path,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Collected, Error> {
    let mut pieces = if plan.resume { Pieces::resume(path) } else { Pieces::restart(path)? };
    let known: HashSet<String> = match read(path) {
        Ok(rows) => rows.iter().map(Row::configuration).collect(),
        Err(Error::Read(..)) => HashSet::new(),
        Err(error) => return Err(error),
    };
    let ground = Ground::new(executor)?;
    let points = points(&ground, plan.points, plan.seed);
    let texts = mix::of_zoo();
    let (mut done, mut failed, mut complaints) = (0, 0, Vec::new());
    for point in &points {
        progress(Progress { done, points: points.len(), failed, kernel: point.kernel.name });
        let row = described(executor.facts(), point, &texts);
        if known.contains(&row.configuration()) {
            done += 1;
            continue;
        }
        match measured(&ground, point, plan, row) {
            Ok(mut row) => {
                if let Some(text) = texts.get(&row.entry) {
                    row.walked = walks::column(text, &row);
                }
                pieces.push(row)?;
                done += 1;
            }
            Err(error) => {
                failed += 1;
                if complaints.len() < MOST_COMPLAINTS {
                    complaints.push(format!("{}: {error}", point.entry()));
                }
                if failed > PATIENCE && failed > done / 4 {
                    pieces.flush()?;
                    return Err(Error::Device(format!(
                        "{failed} of {} points cannot run; the last said: {error}",
                        done + failed
                    )));
                }
            }
        }
    }
    progress(Progress { done, points: points.len(), failed, kernel: "" });
    let rows = match pieces.finish() {
        Err(Error::Read(..)) => return Err(Error::TooFew { what: "rows", found: 0, needed: 1 }),
        rows => rows?,
    };
    Ok(Collected { rows, complaints, failed })
}

/// The points of a collection, in their order.
pub(crate) fn points(ground: &Ground, count: usize, seed: u64) -> Vec<Point> {
    let soft = ground.executor().facts().is_software;
    let scale = if soft { Scale::Small } else { Scale::Full };
    let kernels: Vec<&'static ZooKernel> = zoo::kernels().collect();
    zoo::points(&kernels, &ground.target(), scale, Some(count), seed)
}

/// A row with all that is known before the point runs.
pub(crate) fn described(facts: &DeviceFacts, point: &Point, texts: &BTreeMap<String, Text>) -> Row {
    let entry = point.entry();
    let text = texts.get(&entry).cloned().unwrap_or_default();
    let work = point.work();
    let parameters: Vec<String> =
        point.parameters().map(|(name, value)| format!("{name}={value}")).collect();
    let (mut integers, mut allocations) = (Vec::new(), Vec::new());
    for given in point.given() {
        match given {
            Given::Memory(bytes) => allocations.push(bytes),
            Given::Integer(value) => integers.push(u64::from(value)),
            // The driver tells no types: a number that is no pointer is seen as its bits.
            Given::Float(value) => integers.push(u64::from((value as f32).to_bits())),
        }
    }
    Row {
        source: "zoo".into(),
        kernel: point.kernel.name.into(),
        identity: text.identity,
        device: facts.name.clone(),
        driver: facts.driver_version,
        major: facts.compute_capability.0,
        minor: facts.compute_capability.1,
        multiprocessors: facts.multiprocessors,
        l2_bytes: facts.l2_bytes,
        grid_x: point.grid[0],
        grid_y: point.grid[1],
        grid_z: point.grid[2],
        block_x: point.block[0],
        block_y: point.block[1],
        block_z: point.block[2],
        dynamic_shared: point.shared_bytes,
        carveout: -1,
        mix: joined(text.mix.counts().map(u64::from)),
        parameters: parameters.join(","),
        integers: joined(integers),
        allocations: joined(allocations),
        work_known: true,
        flops: work.flops as f64,
        pipe: match work.pipe {
            Pipe::Single => "single",
            Pipe::Double => "double",
            Pipe::Tensor => "tensor",
        }
        .into(),
        bytes_read: work.bytes_read as f64,
        bytes_written: work.bytes_written as f64,
        entry,
        ..Row::default()
    }
}

fn measured(
    ground: &Ground,
    point: &Point,
    plan: &Plan,
    row: Row,
) -> Result<Row, apex_exec::Error> {
    let mut prepared = ground.prepare(point)?;
    let residency = prepared.residency()?;
    let timing = prepared.time(plan.runs)?;
    let again = prepared.time(plan.repeat_runs)?;
    let facts = ground.executor().facts();
    // The executor allows all the shared memory there is as soon as a launch asks for more than usual.
    let asked = point.shared_bytes + residency.static_shared > USUAL_SHARED;
    let most = if asked { facts.shared_bytes_per_block } else { USUAL_SHARED };
    Ok(Row {
        registers: residency.registers,
        static_shared: residency.static_shared,
        max_dynamic_shared: most.saturating_sub(residency.static_shared),
        local_bytes: residency.local_bytes,
        driver_blocks_per_sm: residency.blocks_by_driver,
        unix_seconds: std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        sm_mhz: timing.clocks.map_or(0, |clocks| clocks.sm_mhz),
        memory_mhz: timing.clocks.map_or(0, |clocks| clocks.memory_mhz),
        celsius: timing.clocks.map_or(0, |clocks| clocks.celsius),
        runs: timing.runs,
        median_ns: timing.median_ns,
        quartiles_ns: timing.upper_quartile_ns - timing.lower_quartile_ns,
        repeat_ns: again.median_ns,
        ..row
    })
}

/// Shared memory of a block that needs no permission.
const USUAL_SHARED: u32 = 48 << 10;
