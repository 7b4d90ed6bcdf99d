//! `apex predict`: one launch from the command line, a list, or a file of measured rows.

use crate::arguments::Predict;
use crate::print_page;
use anyhow::{Context, Result, anyhow};
use apex_train::ask::{self, Answered, Asked};
use apex_train::chart::{Series, cloud};
use apex_train::metrics::{Pair, time_scores};
use apex_train::{models, rows};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Read;
use std::process::ExitCode;

pub(crate) fn predict(arguments: &Predict) -> Result<ExitCode> {
    let loaded = models::load(&arguments.models).context(
        "there are no models to ask; make some with apex train collect and apex train fit",
    )?;
    let launches = launches(arguments)?;
    let answers = ask::answer(&loaded, &launches)?;
    if let Some(path) = &arguments.chart {
        std::fs::write(path, chart(&answers))
            .with_context(|| format!("{} cannot be written", path.display()))?;
    }
    let page = if arguments.json {
        serde_json::to_string_pretty(&answers)? + "\n"
    } else if arguments.csv {
        ask::csv(&answers)
    } else {
        table(&answers)
    };
    print_page(page.as_bytes())
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
            text = std::fs::read_to_string(path)
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
        let micros = |nanos: f32| format!("{:.2} µs", nanos / 1e3);
        let _ = writeln!(
            page,
            "{:<24} {:>14} {:>6} {:>8.1} % {:>8.1} % {:>12} {:>25}  {:<14} {:>12}",
            answer.kernel,
            sides.join("x"),
            answer.block.iter().product::<u32>(),
            answer.occupancy * 100.0,
            answer.block_efficiency * 100.0,
            micros(answer.time_ns),
            format!("{} to {}", micros(answer.low_ns), micros(answer.high_ns)),
            answer.source,
            answer.measured_ns.map_or("-".into(), |nanos| micros(nanos as f32))
        );
    }
    if let [answer] = answers {
        let _ = writeln!(
            page,
            "limited by {}, {:.2} waves; expected: {:.0} % of warp slots taken, {:.0} % of the SMs' peak{}",
            answer.limiter,
            answer.waves,
            answer.achieved_occupancy * 100.0,
            answer.sm_throughput * 100.0,
            answer
                .dram_throughput
                .map_or(String::new(), |share| format!(", {:.0} % of the memory's", share * 100.0))
        );
    }
    let pairs = |wanted: &str| -> Vec<Pair> {
        let of = answers.iter().filter(|answer| wanted.is_empty() || answer.source == wanted);
        of.filter_map(|answer| {
            Some(Pair {
                predicted: f64::from(answer.time_ns),
                measured: answer.measured_ns?,
                half_width: Some(f64::from((answer.high_ns / answer.time_ns).log2())),
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
        if let Some(measured) = answer.measured_ns {
            let point = (measured / 1e3, f64::from(answer.time_ns) / 1e3);
            clouds.entry(&answer.source).or_default().push(point);
        }
    }
    let series: Vec<Series> = clouds
        .into_iter()
        .map(|(source, points)| Series { name: format!("{source} ({})", points.len()), points })
        .collect();
    cloud("Predicted against measured", "measured µs", "predicted µs", &series)
}
