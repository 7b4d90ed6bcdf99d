//! `apex predict`: one launch from the command line, a list, a file of measured rows, or a recorded session.

use crate::arguments::Predict;
use crate::pages::{print_page, print_text};
use anyhow::{Context, Result, anyhow, bail};
use apex_core::small_file::{self, read_text};
use apex_daemon::learn::{AtHand, Foreseen, Learner};
use apex_daemon::progress::Progress;
use apex_daemon::read::Stored;
use apex_daemon::speech::say;
use apex_daemon::user_setup::UserSetup;
use apex_models::Shared;
use apex_policy::LaunchShape;
use apex_policy::predict::answer::{Basis, Source, Time};
use apex_policy::tune::{LINEAR_BLOCKS, reshaped, suggest};
use apex_train::ask::{self, Answered, Asked};
use apex_train::chart::{Series, cloud};
use apex_train::metrics::{Pair, time_scores};
use apex_train::models::Loaded;
use apex_train::peaks::Peaks;
use apex_train::{models, rows};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Read;
use std::process::ExitCode;
use std::sync::Arc;

pub(crate) fn predict(arguments: &Predict) -> Result<ExitCode> {
    if arguments.suggest {
        return suggestions(arguments);
    }
    let answers = match &arguments.session {
        Some(session) => of_session(arguments, session)?,
        None => ask::answer(&load(arguments)?, &launches(arguments)?)?,
    };
    if let Some(path) = &arguments.chart {
        std::fs::write(path, chart(&answers))
            .with_context(|| format!("{} cannot be written", path.display()))?;
    }
    let page = if arguments.json {
        serde_json::to_string_pretty(&answers)? + "\n"
    } else if arguments.csv {
        ask::csv(&answers)
    } else {
        return print_text(&table(&answers));
    };
    print_page(page.as_bytes())
}

/// A better block for each launch, or that none is sure.
fn suggestions(arguments: &Predict) -> Result<ExitCode> {
    let (loaded, launches) = (load(arguments)?, launches(arguments)?);
    let (mut list, mut page) = (Vec::new(), String::new());
    for launch in &launches {
        let other = |threads: &u32| {
            let sides = |list: &[u32]| [0, 1, 2].map(|nth| list.get(nth).copied().unwrap_or(1));
            let shape = LaunchShape { grid: sides(&launch.grid), block: sides(&launch.block) };
            let to = [*threads, shape.block[1], shape.block[2]];
            let shape = reshaped(&shape, to).filter(|_| shape.block != to)?;
            let (grid, block) = (shape.grid.to_vec(), shape.block.to_vec());
            Some(Asked { grid, block, measured_ns: None, ..launch.clone() })
        };
        let present = Asked { measured_ns: None, ..launch.clone() };
        let asked: Vec<Asked> =
            std::iter::once(present).chain(LINEAR_BLOCKS.iter().filter_map(other)).collect();
        let answers = ask::answer(&loaded, &asked)?;
        let runs = |answer: &&Answered| answer.refused.is_none();
        let offered: Vec<&Answered> = answers.iter().skip(1).filter(runs).collect();
        let times: Vec<Time> = offered.iter().filter_map(|answer| time(answer)).collect();
        let measured = launch.measured_ns.map(|nanos| nanos as f32);
        let found = time(&answers[0]).and_then(|present| suggest(&present, measured, &times));
        let better = found.map(|found| (found, offered[found.place]));
        match (&better, &answers[0].refused) {
            (_, Some(reason)) => {
                writeln!(page, "{}: cannot be launched: {reason}", launch.kernel)?;
            }
            (None, _) => writeln!(page, "{}: unchanged, no gain is sure", launch.kernel)?,
            (Some((found, answer)), _) => writeln!(
                page,
                "{}: block {:?} with grid {:?}: {:.2} times as fast ({:.2} to {:.2}, by {})",
                launch.kernel,
                answer.block,
                answer.grid,
                found.speedup,
                found.low,
                found.high,
                answer.source
            )?,
        }
        list.push(better.map_or(
            json!({"kernel": launch.kernel, "suggestion": null, "refused": answers[0].refused}),
            |(found, answer)| {
                json!({"kernel": launch.kernel, "suggestion": {
                    "grid": answer.grid, "block": answer.block, "speedup": found.speedup,
                    "low": found.low, "high": found.high, "basis": answer.basis, "source": answer.source,
                }})
            },
        ));
    }
    if arguments.json {
        return print_page((serde_json::to_string_pretty(&list)? + "\n").as_bytes());
    }
    print_text(&page)
}

fn time(answer: &Answered) -> Option<Time> {
    let (nanos, low, high) = (answer.time_ns?, answer.low_ns?, answer.high_ns?);
    Some(Time { nanos, low, high, basis: Basis::Model, source: Source::Trees })
}

fn load(arguments: &Predict) -> Result<Loaded> {
    let folder = apex_bench::models::found(arguments.models.as_deref())?;
    models::load(&folder).context(
        "the models cannot be asked; make others with apex train collect and apex train fit",
    )
}

/// Every timed launch of a session with what would have been said of it before.
fn of_session(arguments: &Predict, session: &str) -> Result<Vec<Answered>> {
    let setup = UserSetup::read();
    setup.recover();
    let session = Some(session).filter(|word| *word != "latest");
    let mut stored = Stored::open(&setup.sessions.find(session)?)?;
    let known = stored.known();
    let at_hand = match load(arguments) {
        Ok(loaded) => {
            let device = |(name, peaks): (String, Peaks)| Some((name, peaks.device()?));
            AtHand {
                small: Some(Arc::new(Shared::new(loaded.small)).reader()),
                trees: Some(Arc::new(Shared::new(loaded.trees)).reader()),
                programs: None,
                devices: loaded.manifest.devices.into_iter().filter_map(device).collect(),
            }
        }
        Err(error) => {
            say(&format!("predictions come from measured times alone: {error:#}"));
            AtHand::default()
        }
    };
    let mut learner = Learner::new(at_hand);
    let mut answers = Vec::new();
    stored.rows(&mut Progress::on_stderr(), |row, _| {
        answers.extend(learner.take(&known, &row).map(answered));
    });
    stored.complaints.iter().for_each(|complaint| say(complaint));
    if answers.is_empty() {
        bail!("the session has no GPU times of kernels that are known");
    }
    Ok(answers)
}

fn answered(foreseen: Foreseen) -> Answered {
    let Foreseen { kernel, device, shape, prediction, is_known, measured_ns, .. } = foreseen;
    let shape = LaunchShape { grid: shape.grid, block: shape.block.map(u32::from) };
    let said = Answered::new(&kernel, &device, &shape, &prediction);
    let said = Answered { measured_ns: Some(measured_ns as f64), ..said };
    if is_known {
        return said;
    }
    let (basis, source) = ("none".into(), "not known".into());
    Answered { time_ns: None, low_ns: None, high_ns: None, basis, source, ..said }
}

fn launches(arguments: &Predict) -> Result<Vec<Asked>> {
    if let Some(path) = &arguments.rows {
        return Ok(rows::read(path)?
            .iter()
            .filter(|row| row.is_usable())
            .map(Asked::from_row)
            .collect());
    }
    if let Some(path) = &arguments.list {
        let mut text = String::new();
        if path.as_os_str() == "-" {
            std::io::stdin().read_to_string(&mut text).context("standard input cannot be read")?;
        } else {
            text = read_text(path, small_file::MADE)
                .with_context(|| format!("{} cannot be read", path.display()))?;
        }
        return ask::parse(&text).map_err(|why| anyhow!("{}: {why}", path.display()));
    }
    Ok(vec![Asked {
        device: arguments.device.clone(),
        grid: arguments.grid.clone(),
        block: arguments.block.clone(),
        dynamic_shared: arguments.shared,
        registers: arguments.registers,
        static_shared: arguments.static_shared,
        flops: arguments.flops,
        bytes: arguments.bytes,
        ..Asked::default()
    }])
}

fn table(answers: &[Answered]) -> String {
    let mut page = format!(
        "{:<24} {:>14} {:>6} {:>10} {:>10} {:>12} {:>25}  {:<14} {:>12}\n",
        "kernel",
        "grid",
        "block",
        "occupancy",
        "block eff",
        "time",
        "80 % interval",
        "from",
        "measured"
    );
    for answer in answers {
        let sides: Vec<String> = answer.grid.iter().map(u32::to_string).collect();
        let micros =
            |nanos: Option<f32>| nanos.map_or("-".into(), |nanos| format!("{:.2} µs", nanos / 1e3));
        let _ = writeln!(
            page,
            "{:<24} {:>14} {:>6} {:>8.1} % {:>8.1} % {:>12} {:>25}  {:<14} {:>12}",
            answer.kernel,
            sides.join("x"),
            answer.block.iter().product::<u32>(),
            answer.occupancy * 100.0,
            answer.block_efficiency * 100.0,
            micros(answer.time_ns),
            match answer.low_ns {
                Some(_) => format!("{} to {}", micros(answer.low_ns), micros(answer.high_ns)),
                None => "-".into(),
            },
            answer.source,
            micros(answer.measured_ns.map(|nanos| nanos as f32))
        );
        if let Some(reason) = &answer.refused {
            let _ = writeln!(page, "  cannot be launched: {reason}");
        }
    }
    if let [answer] = answers
        && answer.refused.is_none()
    {
        let share = |share: Option<f32>| share.unwrap_or(0.0) * 100.0;
        let _ = writeln!(
            page,
            "limited by {}, {:.2} waves; expected: {:.0} % of warp slots taken, {:.0} % of the SMs' peak{}",
            answer.limiter,
            answer.waves,
            share(answer.achieved_occupancy),
            share(answer.sm_throughput),
            answer
                .dram_throughput
                .map_or(String::new(), |share| format!(", {:.0} % of the memory's", share * 100.0))
        );
    }
    let pairs = |wanted: &str| -> Vec<Pair> {
        let of = answers.iter().filter(|answer| wanted.is_empty() || answer.source == wanted);
        of.filter_map(|answer| {
            let predicted = answer.time_ns?;
            Some(Pair {
                predicted: f64::from(predicted),
                measured: answer.measured_ns?,
                half_width: Some(f64::from((answer.high_ns? / predicted).log2())),
            })
        })
        .collect()
    };
    let all = time_scores(&pairs(""));
    if all.rows > 1 {
        let _ = writeln!(
            page,
            "{} measured: mean error {:.1} %, median {:.1} %, within 10 % {:.1} %, in the interval {:.1} %",
            all.rows,
            all.mean_error * 100.0,
            all.median_error * 100.0,
            all.within_10_percent * 100.0,
            all.coverage.unwrap_or(0.0) * 100.0
        );
    }
    page
}

/// Predicted against measured, by the part that answered.
fn chart(answers: &[Answered]) -> String {
    let mut clouds: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for answer in answers {
        if let (Some(measured), Some(predicted)) = (answer.measured_ns, answer.time_ns) {
            let point = (measured / 1e3, f64::from(predicted) / 1e3);
            clouds.entry(&answer.source).or_default().push(point);
        }
    }
    let series: Vec<Series> = clouds
        .into_iter()
        .map(|(source, points)| Series { name: format!("{source} ({})", points.len()), points })
        .collect();
    cloud("Predicted against measured", "measured µs", "predicted µs", &series)
}
