//! Reads hardware counters of the zoo's launches with NVIDIA's `ncu`, and joins them to rows.
//!
//! `ncu` starts this program again, which launches every point once; only launches of the zoo's own kernels are
//! profiled, with three counters and the duration, so that few passes are needed. Clocks and caches are left as
//! the program finds them, because the times they are joined to were taken so. What `ncu` prints is matched by
//! order and checked by name and shape: a launch that does not fit ends the reading instead of shifting the rest.

use crate::Error;
use crate::collect::{described, points};
use crate::mix;
use crate::rows::{self, Row};
use apex_exec::Executor;
use apex_exec::zoo::{self, Ground, Point};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The counters, in the order of [`Counters`].
pub const METRICS: [&str; 4] = [
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__time_duration.sum",
];

/// What was counted of one launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Counters {
    /// The kernel's name.
    pub kernel: String,
    /// Its grid.
    pub grid: [u32; 3],
    /// Its block.
    pub block: [u32; 3],
    /// The counters; shares are of 1, the duration in nanoseconds.
    pub values: [f32; 4],
}

/// What is profiled.
#[derive(Clone, Copy, Debug)]
pub struct Profiled<'a> {
    /// The command that launches the points.
    pub child: &'a Command,
    /// A folder of this user alone, for what `ncu` writes.
    pub folder: &'a Path,
}

/// Launches every point once, for a profiler that watches.
pub fn launch_points(executor: &Executor, count: usize, seed: u64) -> Result<usize, Error> {
    let ground = Ground::new(executor)?;
    let points = points(&ground, count, seed);
    for point in &points {
        let mut prepared = ground.prepare(point)?;
        prepared.launch().and_then(|()| executor.synchronize())?;
    }
    Ok(points.len())
}

/// Runs `ncu` over `count` points and adds what it counted to the rows of a file. Gives how many rows got
/// counters.
pub fn collect(
    executor: &Executor,
    count: usize,
    seed: u64,
    path: &Path,
    under: &Profiled<'_>,
) -> Result<usize, Error> {
    let mut rows = rows::read(path)?;
    let ground = Ground::new(executor)?;
    let points = points(&ground, count, seed);
    let texts = mix::of_zoo();
    let keys: Vec<String> = points
        .iter()
        .map(|point| described(executor.facts(), point, &texts).configuration())
        .collect();
    let text = profile(under)?;
    let counted = parse(&text)?;
    let joined = join(&mut rows, &points, &keys, &counted)?;
    rows::write(path, &rows)?;
    Ok(joined)
}

/// Joins counters to rows by the order of the launches.
fn join(
    rows: &mut [Row],
    points: &[Point],
    keys: &[String],
    counted: &[Counters],
) -> Result<usize, Error> {
    let places: HashMap<String, usize> =
        rows.iter().enumerate().map(|(place, row)| (row.configuration(), place)).collect();
    let mut joined = 0;
    for ((point, key), counters) in points.iter().zip(keys).zip(counted) {
        let entry = point.entry();
        if counters.kernel != entry || counters.grid != point.grid || counters.block != point.block
        {
            return Err(Error::Profiler(format!(
                "ncu's launch {joined} is {} {:?} {:?}, not {entry} {:?} {:?}: profile with the same seed",
                counters.kernel, counters.grid, counters.block, point.grid, point.block
            )));
        }
        if let Some(&place) = places.get(key) {
            let [achieved, sm, dram, nanos] = counters.values;
            rows[place].achieved_occupancy = Some(achieved);
            rows[place].sm_throughput = Some(sm);
            rows[place].dram_throughput = Some(dram);
            rows[place].profiled_ns = Some(nanos);
            joined += 1;
        }
    }
    Ok(joined)
}

/// Starts `ncu` with this program under it.
fn profile(Profiled { child, folder }: &Profiled<'_>) -> Result<String, Error> {
    let log = folder.join("ncu.csv");
    let entries: Vec<&str> = zoo::kernels().map(|kernel| kernel.name).collect();
    let output = Command::new(find()?)
        .args(["--clock-control", "none", "--cache-control", "none", "--target-processes", "all"])
        .args(["--metrics", &METRICS.join(",")])
        .args(["--kernel-name", &format!("regex:^({})(_[0-9]+)?$", entries.join("|"))])
        .args(["--csv", "--page", "raw", "--print-units", "base", "--log-file"])
        .arg(&log)
        .arg(child.get_program())
        .args(child.get_args())
        .output()
        .map_err(|error| Error::Profiler(format!("ncu does not start: {error}")))?;
    let text = std::fs::read_to_string(&log).unwrap_or_default();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().chain(text.lines().filter(|line| line.starts_with("==ERROR==")));
        let said: Vec<&str> = said.take(5).collect();
        return Err(Error::Profiler(format!(
            "ncu ended with {}: {}",
            output.status,
            said.join("; ")
        )));
    }
    Ok(text)
}

/// `ncu` in the usual places.
fn find() -> Result<PathBuf, Error> {
    let mut places: Vec<PathBuf> = std::env::var_os("PATH")
        .iter()
        .flat_map(std::env::split_paths)
        .map(|folder| folder.join("ncu"))
        .collect();
    places.push("/usr/local/cuda/bin/ncu".into());
    let suites = std::fs::read_dir("/opt/nvidia/nsight-compute").into_iter().flatten().flatten();
    let mut suites: Vec<PathBuf> = suites.map(|entry| entry.path().join("ncu")).collect();
    suites.sort();
    places.extend(suites.into_iter().rev());
    places.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        Error::Profiler("ncu is not found: install NVIDIA Nsight Compute, or put it in PATH".into())
    })
}

/// Reads what `ncu` printed.
pub fn parse(text: &str) -> Result<Vec<Counters>, Error> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("\"ID\""));
    let Some(header) = lines.next() else {
        let said: Vec<&str> = text.lines().filter(|line| line.starts_with("==")).take(3).collect();
        return Err(Error::Profiler(format!("ncu counted nothing: {}", said.join("; "))));
    };
    let header = cells(header);
    let column = |name: &str| {
        header
            .iter()
            .position(|found| found == name)
            .ok_or_else(|| Error::Profiler(format!("ncu printed no column {name}")))
    };
    let (id, kernel) = (column("ID")?, column("Kernel Name")?);
    let (grid, block) = (column("Grid Size")?, column("Block Size")?);
    let metrics =
        [column(METRICS[0])?, column(METRICS[1])?, column(METRICS[2])?, column(METRICS[3])?];
    let mut counted = Vec::new();
    for line in lines {
        let cells = cells(line);
        // The line below the header holds units and no number.
        if cells.get(id).is_none_or(|id| id.parse::<u64>().is_err()) {
            continue;
        }
        let wrong = || Error::Profiler(format!("ncu printed a line that cannot be read: {line}"));
        let cell = |place: usize| cells.get(place).map(String::as_str).ok_or_else(wrong);
        let number = |place: usize| -> Result<f32, Error> {
            cell(place)?.replace(',', "").parse().map_err(|_| wrong())
        };
        let shape = |place: usize| -> Result<[u32; 3], Error> {
            let sides = cell(place)?.trim_matches(['(', ')']).split(',');
            let sides: Option<Vec<u32>> = sides.map(|side| side.trim().parse().ok()).collect();
            sides.and_then(|sides| sides.try_into().ok()).ok_or_else(wrong)
        };
        let name = cell(kernel)?.split('(').next().unwrap_or_default().trim();
        counted.push(Counters {
            kernel: name.into(),
            grid: shape(grid)?,
            block: shape(block)?,
            values: [
                number(metrics[0])? / 100.0,
                number(metrics[1])? / 100.0,
                number(metrics[2])? / 100.0,
                number(metrics[3])?,
            ],
        });
    }
    Ok(counted)
}

/// The cells of a line whose every cell stands in quotes.
fn cells(line: &str) -> Vec<String> {
    let mut cells = Vec::new();
    let mut cell = String::new();
    let mut quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                cell.push('"');
                letters.next();
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(std::mem::take(&mut cell)),
            other => cell.push(other),
        }
    }
    cells.push(cell);
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = r#"==PROF== Connected to process 77 (apex)
==PROF== Profiling "triad" - 0: 0%....50%....100% - 2 passes
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","dram__throughput.avg.pct_of_peak_sustained_elapsed","gpu__time_duration.sum","sm__throughput.avg.pct_of_peak_sustained_elapsed","sm__warps_active.avg.pct_of_peak_sustained_active"
"","","","","","","","","","","","%","ns","%","%"
"0","77","apex","h","triad","1","7","(256, 1, 1)","(1,024, 1, 1)","0","9.0","33.5","1,234","29.25","73"
"1","77","apex","h","chase_2(unsigned int *)","1","7","(32, 1, 1)","(1, 1, 1)","0","9.0","0.5","10,000.5","1","1.5"
"#;

    #[test]
    fn what_ncu_prints_is_read() {
        let text = PRINTED.replace("(1,024, 1, 1)", "(1024, 1, 1)");
        let counted = parse(&text).unwrap();
        assert_eq!(counted.len(), 2);
        assert_eq!(counted[0].kernel, "triad");
        assert_eq!((counted[0].grid, counted[0].block), ([1024, 1, 1], [256, 1, 1]));
        assert_eq!(counted[0].values, [0.73, 0.2925, 0.335, 1234.0]);
        assert_eq!(counted[1].kernel, "chase_2");
        assert_eq!(counted[1].values[3], 10_000.5);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        assert!(matches!(parse("==ERROR== no permission"), Err(Error::Profiler(_))));
        assert!(matches!(parse(PRINTED), Err(Error::Profiler(_))), "a grid of four sides");
        let without = PRINTED.replace("gpu__time_duration.sum", "other");
        assert!(matches!(parse(&without), Err(Error::Profiler(said)) if said.contains("duration")));
    }
}
