//! `apex train foresee`: keeps what programs allocated, trains on it and says which method foresees best.

use crate::arguments::Foresee;
use anyhow::{Context, Result, bail};
use apex_core::event::{AllocKind, What};
use apex_core::small_file::{MADE, read_text};
use apex_daemon::progress::Progress;
use apex_daemon::read::Stored;
use apex_daemon::speech::say;
use apex_daemon::user_setup::UserSetup;
use apex_policy::amounts::counted;
use apex_policy::foresee::{Step, Trace};
use apex_train::foresee::{Plan, Report, foresee as judged};
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

pub(super) fn foresee(arguments: &Foresee) -> Result<ExitCode> {
    let setup = UserSetup::read();
    for session in &arguments.sessions {
        let stored = Stored::open(&setup.sessions.find(Some(session))?)?;
        keep(&arguments.traces, &trace(stored, arguments.most))?;
    }
    if arguments.keep {
        return Ok(ExitCode::SUCCESS);
    }
    let text = read_text(&arguments.traces, MADE)
        .with_context(|| format!("{} cannot be read", arguments.traces.display()))?;
    let traces = Trace::read(&text).map_err(anyhow::Error::msg)?;
    if traces.len() < 3 {
        bail!("{} has fewer than three programs: add sessions", arguments.traces.display());
    }
    let mut progress = Progress::on_stderr();
    let plan = Plan { epochs: arguments.epochs, seed: arguments.seed };
    let report = judged(&traces, &plan, |epoch| progress.step("training", epoch, plan.epochs));
    drop(progress);
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(&report);
    }
    Ok(ExitCode::SUCCESS)
}

/// What the session's programs took by plain allocations, and gave back.
fn trace(mut stored: Stored, most: usize) -> Trace {
    let words: Vec<&str> = stored.record.command.iter().map(String::as_str).collect();
    let name = |word: &str| word.rsplit('/').next().unwrap_or_default().replace(',', " ");
    let program = words.into_iter().map(name).collect::<Vec<_>>().join(" ");
    let (mut steps, mut blocks, mut first_ns) = (Vec::new(), HashMap::new(), None);
    let mut number = 0_u64;
    stored.rows(&mut Progress::on_stderr(), |row, _| {
        let (address, bytes) = match row.what {
            What::Alloc { kind: AllocKind::Plain, address, bytes } => (address, bytes),
            What::Free { kind: AllocKind::Plain, address, .. } => (address, 0),
            _ => return,
        };
        if !row.succeeded() || number >= most as u64 {
            return;
        }
        let key = (row.process, address);
        let block = if bytes == 0 {
            let Some(block) = blocks.remove(&key) else { return };
            block
        } else {
            number += 1;
            blocks.insert(key, number);
            number
        };
        let first_ns = *first_ns.get_or_insert(row.time_ns);
        let time_us = row.time_ns.saturating_sub(first_ns) / 1_000;
        steps.push(Step { time_us, block, bytes });
    });
    stored.complaints.iter().for_each(|complaint| say(complaint));
    Trace { program, steps }
}

fn keep(file: &Path, trace: &Trace) -> Result<()> {
    let added = OpenOptions::new().create(true).append(true).open(file);
    added
        .and_then(|mut file| file.write_all(trace.text().as_bytes()))
        .with_context(|| format!("{} cannot be written", file.display()))?;
    let steps = counted(trace.steps.len() as u64, "step", "steps");
    say(&format!("{steps} of {} are in {}", trace.program, file.display()));
    Ok(())
}

fn print(report: &Report) {
    println!(
        "{} of {} that none was trained on; {} trained on",
        counted(report.allocations, "allocation", "allocations"),
        counted(report.unseen.len() as u64, "program", "programs"),
        report.training.len(),
    );
    println!(
        "method             hit at 1   hit at 8   driver calls left   made ahead / unused   wasted MiB s"
    );
    for row in &report.rows {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        println!(
            "{:<18} {:>8}   {:>8}   {:>17}   {:>10} / {:<6}   {:>12.3}",
            row.method,
            percent(row.hit_at_1),
            percent(row.hit_at_8),
            percent(row.driver_calls_left),
            row.made_ahead,
            row.unused,
            row.wasted_mib_seconds,
        );
    }
}
