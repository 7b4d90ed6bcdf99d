//! `apex train`: measure launches, train models from them.

mod foresee;
mod programs;

use crate::arguments::{Collect, Fit, Train};
use anyhow::{Context, Result, bail};
use apex_bench::arguments::DeviceWord;
use apex_core::event::What;
use apex_daemon::code_document::{CODE_FILE, CodeDocument, ReadKernel, SeenLaunch};
use apex_daemon::document::document;
use apex_daemon::progress::Progress;
use apex_daemon::read::Stored;
use apex_daemon::scratch::Scratch;
use apex_daemon::speech::say;
use apex_daemon::user_setup::UserSetup;
use apex_exec::{Device, Executor};
use apex_policy::amounts::counted;
use apex_policy::predict::features::{FNV_START, fnv};
use apex_train::collect::{self, Plan};
use apex_train::fit::{News, Options, Report, fit};
use apex_train::ncu::{self, Profiled};
use apex_train::rows::{self, Pieces, Row};
use apex_train::session_rows::{Seen, SessionRows, Told};
use apex_train::{card, models};
use serde_json::json;
use std::process::{Command, ExitCode};

pub(crate) fn train(arguments: &Train) -> Result<ExitCode> {
    match arguments {
        Train::Collect(collect) => match collect.ncu {
            _ if collect.join => {
                report_collected(collect, &Pieces::resume(&collect.output).finish()?)
            }
            _ if !collect.from.is_empty() => from_sessions(collect),
            Some(points) => counters(collect, points),
            None => measure(collect),
        },
        Train::Fit(arguments) => train_models(arguments),
        Train::Programs(arguments) => programs::grow_forests(arguments),
        Train::Foresee(arguments) => foresee::foresee(arguments),
        Train::LaunchPoints { points, seed, device } => {
            ncu::launch_points(&executor(*device)?, *points, *seed)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn executor(word: DeviceWord) -> Result<Executor> {
    Ok(Executor::new(match word {
        DeviceWord::Auto => Device::Auto,
        DeviceWord::Soft => Device::Soft(0),
        DeviceWord::Gpu => Device::Gpu(0),
    })?)
}

fn measure(arguments: &Collect) -> Result<ExitCode> {
    let executor = executor(arguments.device)?;
    let plan = Plan {
        runs: arguments.runs,
        seed: arguments.seed,
        resume: arguments.resume,
        ..Plan::of(arguments.points)
    };
    let mut progress = Progress::on_stderr();
    let collected = collect::collect(&executor, &plan, &arguments.output, &mut |now| {
        progress.step("measuring", (now.done + now.failed + 1).min(now.points), now.points);
    })?;
    drop(progress);
    collected.complaints.iter().for_each(|complaint| say(complaint));
    if collected.failed > collected.complaints.len() {
        say(&format!(
            "{} could not run",
            counted(collected.failed as u64, "configuration", "configurations")
        ));
    }
    report_collected(arguments, &collected.rows)
}

fn counters(arguments: &Collect, points: usize) -> Result<ExitCode> {
    let executor = executor(arguments.device)?;
    let mut child = Command::new(std::env::current_exe()?);
    child.args(["train", "launch-points", "--device", "gpu"]);
    child.args(["--points", &points.to_string(), "--seed", &arguments.seed.to_string()]);
    say(&format!("ncu counts {points} launches; this takes minutes"));
    let folder = Scratch::new().context("there is no place for temporary files")?;
    let under = Profiled { child: &child, folder: folder.path() };
    let mut progress = Progress::on_stderr();
    progress.step("counting", 1, 1);
    let joined = ncu::collect(&executor, points, arguments.seed, &arguments.output, &under)?;
    drop(progress);
    say(&format!("{} got counters", counted(joined as u64, "row", "rows")));
    if joined == 0 {
        bail!("no row has the seed's configurations: collect with --seed {} first", arguments.seed);
    }
    report_collected(arguments, &rows::read(&arguments.output)?)
}

fn from_sessions(arguments: &Collect) -> Result<ExitCode> {
    let setup = UserSetup::read();
    setup.recover();
    let mut rows = Vec::new();
    for session in &arguments.from {
        let found = Stored::open(&setup.sessions.find(Some(session))?).map(rows_of);
        match found {
            Ok(found) => rows.extend(found),
            Err(error) if arguments.from.len() > 1 => say(&error.to_string()),
            Err(error) => return Err(error.into()),
        }
    }
    if rows.is_empty() {
        bail!("no session has GPU times; record one with apex run --timing full");
    }
    // Rows of one kernel beside each other pack best.
    rows.sort_by(|a, b| (&a.kernel, &a.source).cmp(&(&b.kernel, &b.source)));
    rows::write(&arguments.output, &rows)?;
    report_collected(arguments, &rows)
}

fn rows_of(mut stored: Stored) -> Vec<Row> {
    let known = stored.known();
    let mut found = SessionRows::default();
    if let Ok(code) = document::<CodeDocument>(&stored.directory.join(CODE_FILE)) {
        take_code(&mut found, code);
    }
    stored.rows(&mut Progress::on_stderr(), |row, _| {
        if let What::GpuTime { kernel, shape, nanos, basis } = &row.what
            && let Some(kernel) = known.kernel(row.process, kernel.0)
            && let Some(device) = known.device(row.process, row.device)
        {
            found.add(kernel, device, shape, *nanos, *basis);
        }
    });
    stored.complaints.iter().for_each(|complaint| say(complaint));
    if found.left_out > 0 {
        say(&format!("{} times are upper bounds and were left out", found.left_out));
    }
    let processes = known.processes.iter().filter_map(|process| process.process.as_ref());
    let driver = processes.map(|process| process.driver_version).find(|version| *version > 0);
    let driver = u32::try_from(driver.unwrap_or(0)).unwrap_or(0);
    let folder = stored.directory.file_name().map(|name| name.to_string_lossy().into_owned());
    let seconds = stored.record.started_unix_ns / 1_000_000_000;
    found.rows(&folder.unwrap_or(stored.record.id), driver, seconds)
}

/// What was read of kernels and seen of launches.
fn take_code(found: &mut SessionRows, code: CodeDocument) {
    for ReadKernel { image, name, totals, machine, .. } in code.kernels {
        found.told.insert((image, name), Told { mix: totals, machine });
    }
    for launch in code.launches {
        let SeenLaunch { image, name, shape, sizes, values, bytes, inside, inside_bytes, walked } =
            launch;
        let seen = Seen { sizes, values, bytes, inside, inside_bytes, walked };
        found.seen.insert(((image, name), shape), seen);
    }
}

/// Writes the card of the rows, and says what was collected.
fn report_collected(arguments: &Collect, rows: &[Row]) -> Result<ExitCode> {
    let card = card::write(&arguments.output, rows)?;
    say(&format!("what was measured and how stands in {}", card.display()));
    let mut kernels: Vec<&str> = rows.iter().map(|row| row.kernel.as_str()).collect();
    kernels.sort_unstable();
    kernels.dedup();
    let with =
        |column: fn(&Row) -> &String| rows.iter().filter(|row| !column(row).is_empty()).count();
    let with_counters = rows.iter().filter(|row| row.sm_throughput.is_some()).count();
    let device = rows.first().map_or("", |row| row.device.as_str());
    let file = arguments.output.display();
    if arguments.json {
        let document = json!({
            "file": arguments.output, "rows": rows.len(), "kernels": kernels.len(),
            "with_counters": with_counters, "with_code": with(|row| &row.mix),
            "with_walks": with(|row| &row.walked), "with_arguments": with(|row| &row.sizes), "device": device,
        });
        println!("{}", serde_json::to_string_pretty(&document)?);
    } else {
        println!(
            "{file}: {} of {} on {device}, {with_counters} with counters",
            counted(rows.len() as u64, "row", "rows"),
            counted(kernels.len() as u64, "kernel", "kernels")
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn train_models(arguments: &Fit) -> Result<ExitCode> {
    let mut rows = Vec::new();
    let mut hash = FNV_START;
    for path in &arguments.rows {
        rows.extend(rows::read(path)?);
        let bytes = std::fs::read(path)
            .with_context(|| format!("{}: finish the collection first", path.display()))?;
        hash = fnv(hash, &bytes);
    }
    let options = if arguments.quick {
        Options::quick(arguments.seed)
    } else {
        Options::full(arguments.seed)
    };
    let mut progress = Progress::on_stderr();
    let fitted = fit(&rows, &options, &mut |news| match news {
        News::Step { what, done, all } => progress.step(what, done, all),
        News::Found(sentence) => say(sentence),
    })?;
    drop(progress);
    let manifest = models::write(&arguments.output, &fitted, hash)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&manifest)?);
    } else {
        print_report(&fitted.report);
    }
    say(&format!("models are in {}", arguments.output.display()));
    Ok(ExitCode::SUCCESS)
}

/// The scores as a table.
fn print_report(report: &Report) {
    println!(
        "{:<20} {:<16} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "model", "split", "rows", "mean", "median", "p90", "±10 %", "in 80 %"
    );
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    for judged in &report.judged {
        let time = &judged.time;
        println!(
            "{:<20} {:<16} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8}",
            judged.model,
            judged.split,
            time.rows,
            percent(time.mean_error),
            percent(time.median_error),
            percent(time.p90_error),
            percent(time.within_10_percent),
            time.coverage.map_or("-".into(), percent)
        );
    }
    for (split, baselines) in &report.baselines {
        for (name, time) in [
            ("last value", &baselines.last_value),
            ("kernel mean", &baselines.kernel_mean),
            ("roofline", &baselines.roofline),
        ] {
            println!(
                "{name:<20} {split:<16} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8}",
                time.rows,
                percent(time.mean_error),
                percent(time.median_error),
                percent(time.p90_error),
                percent(time.within_10_percent),
                "-"
            );
        }
    }
    println!("noise from run to run {}", percent(report.noise));
}
