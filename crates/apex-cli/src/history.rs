//! `apex history`: what earlier runs measured of kernels, listed, taken elsewhere and back, and forgotten.

use crate::arguments::History as Verb;
use crate::pages::{print_page, print_text};
use anyhow::{Context, Result, anyhow, bail};
use apex_core::small_file;
use apex_core::time::wall_nanos;
use apex_daemon::history::{self, History, Measured, Past, Timed};
use apex_daemon::show::nanos;
use apex_daemon::speech::say;
use apex_daemon::user_setup::UserSetup;
use apex_policy::amounts::counted;
use apex_train::rows::{self, Row};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) fn history(verb: &Verb) -> Result<ExitCode> {
    match verb {
        Verb::List { kernel, limit, json } => list(kernel.as_deref(), *limit, *json),
        Verb::Export { kernel, output } => export(kernel.as_deref(), output.as_deref()),
        Verb::Import { files, into } => import(files, into.as_deref()),
        Verb::Forget { kernel, all } => forget(kernel.as_deref(), *all),
    }
}

fn folder() -> Result<PathBuf> {
    let setup = UserSetup::read();
    let place = setup.sessions.own_place().map(Path::to_owned);
    place.context("there is no place of your own for sessions, so nothing is remembered")
}

fn pasts(kernel: Option<&str>) -> Result<Vec<Past>> {
    let history = History::open(&folder()?).map_err(|why| anyhow!(why))?;
    let is_wanted = |past: &Past| kernel.is_none_or(|part| past.kernel.contains(part));
    Ok(history.all().filter(is_wanted).collect())
}

fn list(kernel: Option<&str>, limit: usize, as_json: bool) -> Result<ExitCode> {
    let mut pasts = pasts(kernel)?;
    pasts.sort_by(|a, b| b.day.cmp(&a.day).then_with(|| a.kernel.cmp(&b.kernel)));
    if as_json {
        return print_page(
            (serde_json::to_string_pretty(&json!({"kernels": pasts}))? + "\n").as_bytes(),
        );
    }
    let today = (wall_nanos() / 1_000_000_000 / 86_400) as u32;
    let mut page =
        String::from("days ago  shapes      shortest       longest  device, driver, kernel\n");
    for past in pasts.iter().take(limit) {
        let times = past.shapes.iter().map(|shape| f64::from(shape.nanos));
        let shortest = times.clone().fold(f64::INFINITY, f64::min);
        page.push_str(&format!(
            "{:>8}  {:>6}  {:>12}  {:>12}  {}, {}.{}, {}\n",
            today.saturating_sub(past.day),
            past.shapes.len(),
            nanos(shortest),
            nanos(times.fold(0.0, f64::max)),
            past.device,
            past.driver / 1000,
            past.driver % 1000 / 10,
            past.kernel
        ));
    }
    page.push_str(&format!("{}\n", counted(pasts.len() as u64, "kernel", "kernels")));
    print_text(&page)
}

fn export(kernel: Option<&str>, output: Option<&Path>) -> Result<ExitCode> {
    let pasts = pasts(kernel)?;
    let mut lines = Vec::new();
    let count = history::write_lines(pasts.into_iter(), &mut lines)?;
    let Some(output) = output else { return print_page(&lines) };
    let wrong = || format!("{} cannot be written", output.display());
    let mut file = BufWriter::new(File::create(output).with_context(wrong)?);
    file.write_all(&lines).and_then(|()| file.flush()).with_context(wrong)?;
    say(&format!("{} in {}", counted(count as u64, "kernel", "kernels"), output.display()));
    Ok(ExitCode::SUCCESS)
}

fn import(files: &[PathBuf], into: Option<&Path>) -> Result<ExitCode> {
    let mut pasts = Vec::new();
    for path in files {
        if path.extension().is_some_and(|ending| ending == "parquet") {
            pasts.extend(of_rows(&rows::read(path)?));
            continue;
        }
        let file =
            small_file::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
        let (read, complaints) = history::read_lines(BufReader::new(file));
        complaints.iter().for_each(|complaint| say(&format!("{}: {complaint}", path.display())));
        pasts.extend(read);
    }
    if pasts.is_empty() {
        bail!("nothing was found that could be remembered");
    }
    let folder = into.map_or_else(folder, |into| Ok(into.to_owned()))?;
    let outcome = history::keep(&folder, &pasts)?;
    say(&format!(
        "{} read; {} remembered now",
        counted(pasts.len() as u64, "kernel", "kernels"),
        outcome.kernels
    ));
    Ok(ExitCode::SUCCESS)
}

/// Measured rows as pasts. A row of one run has no spread; the usual one is taken for it.
fn of_rows(rows: &[Row]) -> Vec<Past> {
    let mut found: BTreeMap<u64, Past> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.is_usable()) {
        let block = [row.block_x, row.block_y, row.block_z].map(u16::try_from);
        let [Ok(x), Ok(y), Ok(z)] = block else { continue };
        let past = Past {
            device: row.device.clone(),
            driver: row.driver,
            code: row.identity,
            kernel: row.kernel.clone(),
            day: u32::try_from(row.unix_seconds / 86_400).unwrap_or(0),
            shapes: Vec::new(),
        };
        // From quartile to quartile lie half of all times, in 80 % of them 1.9 times as many.
        let spread = (1.0 + row.quartiles_ns / row.median_ns).log2() * 0.95;
        let measured = Measured {
            grid: [row.grid_x, row.grid_y, row.grid_z],
            block: [x, y, z],
            dynamic_shared: row.dynamic_shared,
            timed: if row.basis == "cupti" { Timed::Cupti } else { Timed::Events },
            nanos: row.median_ns as f32,
            half_width: (spread as f32).max(LEAST_SPREAD),
            count: row.runs.max(1),
        };
        let shapes = &mut found.entry(past.key()).or_insert(past).shapes;
        if !shapes.iter().any(|known| known.is_like(&measured)) {
            shapes.push(measured);
        }
    }
    found.into_values().collect()
}

/// Half of an 80 % interval, in log2, that a kept time has at least.
const LEAST_SPREAD: f32 = 0.02;

fn forget(kernel: Option<&str>, all: bool) -> Result<ExitCode> {
    if kernel.is_none() && !all {
        bail!("say what is to be forgotten: a part of a kernel's name, or --all");
    }
    let is_forgotten = |past: &Past| kernel.is_none_or(|part| past.kernel.contains(part));
    let removed = history::forget(&folder()?, is_forgotten)?;
    say(&format!("{} forgotten", counted(removed as u64, "kernel", "kernels")));
    Ok(ExitCode::SUCCESS)
}
