//! The software GPU beside gcc: the same work as kernels and as loops, on the same cores, in one run.
//!
//! Each round runs the loops as gcc -O3 makes them, as gcc -O3 -march=native makes them, and the kernels,
//! one after the other, with one core and then with two, so that a slow phase of the machine hits all
//! three. The best of all rounds counts, for each alike.

use crate::child::{ends_with_us, in_scratch};
use crate::libraries::library;
use crate::report::{Bar, Report};
use anyhow::{Context, Result, bail};
use apex_daemon::progress::Progress;
use apex_daemon::scratch::Scratch;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const LOOPS: &str = include_str!("../../../benches/softgpu/loops.c");
const CORES: [usize; 2] = [1, 2];

/// A kernel, the loop it stands beside, and how much work both do.
struct Pair {
    kernel: &'static str,
    looped: &'static str,
    work: f64,
    unit: &'static str,
}

const ELEMENTS: f64 = (1 << 24) as f64;
const PAIRS: [Pair; 7] = [
    Pair { kernel: "vector_add", looped: "vector_add", work: 12.0 * ELEMENTS, unit: "GB/s" },
    Pair { kernel: "matmul", looped: "matmul_ijk", work: MATMUL, unit: "GFLOP/s" },
    Pair { kernel: "matmul", looped: "matmul_ikj", work: MATMUL, unit: "GFLOP/s" },
    Pair { kernel: "reduction", looped: "reduction", work: 4.0 * ELEMENTS, unit: "GB/s" },
    Pair { kernel: "histogram", looped: "histogram", work: 4.0 * ELEMENTS, unit: "GB/s" },
    Pair { kernel: "mandelbrot", looped: "mandelbrot", work: 1024.0 * 1024.0, unit: "Gpixel/s" },
    Pair { kernel: "stencil", looped: "stencil", work: 8.0 * 4096.0 * 4096.0, unit: "GB/s" },
];

const MATMUL: f64 = 2.0 * 512.0 * 512.0 * 512.0;

/// Kernels in the shapes that frameworks give them, which no loop stands beside: the work, and its unit.
const ALONE: [(&str, f64, &str); 5] = [
    ("matmul_cp_async", MATMUL, "GFLOP/s"),
    ("matmul_cp_async_16", MATMUL, "GFLOP/s"),
    ("matmul_barrier", MATMUL, "GFLOP/s"),
    ("numba_matmul", MATMUL, "GFLOP/s"),
    ("texture", 1024.0 * 1024.0, "Gpixel/s"),
];

/// Single times: a launch and what it costs the first times.
const TIMES: [&str; 7] = [
    "null_launch",
    "compile_500",
    "long_loop_first",
    "long_loop_second",
    "long_loop_compiled",
    "lone_thread_second",
    "lone_thread_compiled",
];

const MATMUL_GFLOPS: f64 = 10.0;
const FRAMEWORK_GFLOPS: [(&str, f64); 4] = [
    ("matmul_cp_async", 5.0),
    ("matmul_cp_async_16", 5.0),
    ("matmul_barrier", 5.0),
    ("numba_matmul", 3.0),
];
const SECOND_LAUNCH: f64 = 1.5;
const VECTOR_ADD_SHARE: f64 = 0.8;
const COMPILE_MILLIS: f64 = 10.0;
const NULL_LAUNCH_MICROS: f64 = 10.0;
const TWO_CORES: f64 = 1.7;

/// Seconds by name.
type Times = BTreeMap<String, f64>;

/// Measures kernels and loops in alternation.
pub(crate) fn measure(quick: bool) -> Result<Report> {
    let folder = Scratch::new().context("there is no place for the loops")?;
    std::fs::write(folder.path().join("loops.c"), LOOPS).context("the loops cannot be written")?;
    let plain = compile(&folder, "loops", &["-O3"])?;
    let native = compile(&folder, "loops-native", &["-O3", "-march=native"])?;
    let rounds = if quick { 2 } else { 5 };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    let mut progress = Progress::on_stderr();
    for cores in CORES {
        if cores > processors {
            notes.push(format!("{cores} cores are left out: {processors} here"));
            continue;
        }
        let mut best = [Times::new(), Times::new(), Times::new()];
        let allowed = sched_getaffinity(Pid::this()).context("the processors are not known")?;
        sched_setaffinity(Pid::this(), &first(&allowed, cores)?)?;
        for round in 1..=rounds {
            progress.step(&format!("{cores} of {processors} cores: round"), round, rounds);
            keep_best(&mut best[0], loops(&plain, cores)?);
            keep_best(&mut best[1], loops(&native, cores)?);
            keep_best(&mut best[2], kernels(cores)?);
        }
        sched_setaffinity(Pid::this(), &allowed)?;
        let [gcc, gcc_native, soft] = &best;
        for Pair { kernel, looped, work, unit } in &PAIRS {
            let rate =
                |times: &Times, name: &str| work / times.get(name).unwrap_or(&f64::NAN) / 1e9;
            rows.push(json!({
                "kernel": kernel, "loop": looped, "cores": cores, "unit": unit,
                "soft": rate(soft, kernel), "gcc_o3": rate(gcc, looped),
                "gcc_o3_native": rate(gcc_native, looped),
            }));
        }
        for (kernel, work, unit) in ALONE {
            let rate = work / soft.get(kernel).unwrap_or(&f64::NAN) / 1e9;
            rows.push(json!({"kernel": kernel, "cores": cores, "unit": unit, "soft": rate}));
        }
        for name in TIMES {
            let seconds = soft.get(name).copied().unwrap_or(f64::NAN);
            rows.push(json!({"kernel": name, "cores": cores, "unit": "µs", "soft": seconds * 1e6}));
        }
    }
    let (device, driver) =
        ("apex software GPU".into(), format!("apex {}", env!("CARGO_PKG_VERSION")));
    Ok(Report { bench: "softgpu", device, driver, bars: bars(&rows), rows, notes })
}

/// The promises, computed from the rows.
fn bars(rows: &[Value]) -> Vec<Bar> {
    let row = |kernel: &str, cores: u64| {
        rows.iter().find(|row| row["kernel"] == kernel && row["cores"] == cores)
    };
    let number = |kernel: &str, cores: u64, column: &str| {
        row(kernel, cores).and_then(|row| row[column].as_f64()).unwrap_or(f64::NAN)
    };
    let gcc = number("vector_add", 1, "gcc_o3").max(number("vector_add", 1, "gcc_o3_native"));
    let mut bars = vec![
        Bar::at_least(
            "matmul on one core".into(),
            number("matmul", 1, "soft"),
            "GFLOP/s",
            MATMUL_GFLOPS,
        ),
        Bar::at_least(
            "vector add, share of the better gcc".into(),
            number("vector_add", 1, "soft") / gcc,
            "times",
            VECTOR_ADD_SHARE,
        ),
        Bar::at_most(
            "first launch of a kernel of 500 instructions".into(),
            number("compile_500", 1, "soft") / 1e3,
            "ms",
            COMPILE_MILLIS,
        ),
        Bar::at_most(
            "launch and wait, empty kernel".into(),
            number("null_launch", 1, "soft"),
            "µs",
            NULL_LAUNCH_MICROS,
        ),
    ];
    for (kernel, limit) in FRAMEWORK_GFLOPS {
        let rate = number(kernel, 1, "soft");
        bars.push(Bar::at_least(format!("{kernel} on one core"), rate, "GFLOP/s", limit));
    }
    for (what, second, compiled) in [
        ("a block of 32 threads", "long_loop_second", "long_loop_compiled"),
        ("a block of one thread", "lone_thread_second", "lone_thread_compiled"),
    ] {
        let ratio = number(second, 1, "soft") / number(compiled, 1, "soft");
        let name = format!("long loop in {what}, second launch over the best later one");
        bars.push(Bar::at_most(name, ratio, "times", SECOND_LAUNCH));
    }
    if row("matmul", 2).is_some() {
        let gain = number("matmul", 2, "soft") / number("matmul", 1, "soft");
        bars.push(Bar::at_least("matmul, two cores over one".into(), gain, "times", TWO_CORES));
    }
    bars
}

/// The rows as a table.
pub(crate) fn print_rows(rows: &[Value]) {
    println!("kernel               beside       cores   software GPU      gcc -O3   -march=native");
    for row in rows {
        let number =
            |name: &str| row[name].as_f64().map_or("-".into(), |value| format!("{value:.3}"));
        println!(
            "{:<20} {:<12} {:>5} {:>14} {:>12} {:>15}  {}",
            row["kernel"].as_str().unwrap_or(""),
            row["loop"].as_str().unwrap_or(""),
            row["cores"].as_u64().unwrap_or(0),
            number("soft"),
            number("gcc_o3"),
            number("gcc_o3_native"),
            row["unit"].as_str().unwrap_or(""),
        );
    }
}

/// The first processors of a set; what is started inherits them.
fn first(allowed: &CpuSet, cores: usize) -> Result<CpuSet> {
    let mut kept = CpuSet::new();
    let usable = (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false));
    for cpu in usable.take(cores) {
        kept.set(cpu)?;
    }
    Ok(kept)
}

fn keep_best(best: &mut Times, found: Times) {
    for (name, seconds) in found {
        let entry = best.entry(name).or_insert(seconds);
        *entry = entry.min(seconds);
    }
}

fn loops(program: &Path, cores: usize) -> Result<Times> {
    read_times(Command::new(program).arg("3").env("OMP_NUM_THREADS", cores.to_string()))
}

fn kernels(cores: usize) -> Result<Times> {
    library(apex_daemon::find::SOFTGPU)?;
    read_times(
        Command::new(std::env::current_exe()?)
            .args(["bench", "softgpu-kernels"])
            .env("APEX_SOFTGPU_WORKERS", cores.to_string()),
    )
}

/// What a program printed: a name and seconds in each line.
fn read_times(command: &mut Command) -> Result<Times> {
    let output = ends_with_us(command)
        .output()
        .with_context(|| format!("{} does not start", command.get_program().display()))?;
    if !output.status.success() {
        bail!(
            "{} ended with {}: {}",
            command.get_program().display(),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = |line: &str| {
        let (name, seconds) = line.split_once(' ')?;
        Some((name.to_owned(), seconds.parse().ok()?))
    };
    Ok(text.lines().filter_map(line).collect())
}

/// Compiles the loops.
fn compile(folder: &Scratch, name: &str, options: &[&str]) -> Result<PathBuf> {
    let program = folder.path().join(name);
    let output = in_scratch(folder, "gcc")
        .args(options)
        .args(["-fopenmp", "-o"])
        .arg(&program)
        .arg(folder.path().join("loops.c"))
        .output()
        .context("gcc is not found: install it to measure beside it")?;
    if !output.status.success() {
        bail!("gcc cannot make the loops: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(program)
}
