//! The tables of `apex report --by`.

use super::{bytes, count, nanos, percent};
use crate::names::shorten;
use crate::summary::{Fit, GpuTime, Summary};

/// What a table is broken down by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Kernels and graphs.
    Kernel,
    /// Kernels with their launch shapes.
    Config,
    /// Streams.
    Stream,
    /// Threads.
    Thread,
}

/// The table, at most `rows` rows of it, in lines of `width` characters.
#[must_use]
pub fn table(summary: &Summary, by: By, rows: usize, width: usize) -> String {
    let mut lines: Vec<Vec<String>> = vec![heading(by).iter().map(|&word| word.into()).collect()];
    let all = match by {
        By::Kernel => {
            lines.extend(summary.kernels.iter().take(rows).map(|kernel| {
                let mut line = timed(kernel.gpu.as_ref());
                line.extend([count(kernel.calls), kernel.shapes.to_string()]);
                line.extend([
                    known(kernel.registers),
                    fit(kernel.fit.as_ref()),
                    kernel.name.clone(),
                ]);
                line
            }));
            summary.kernels.len()
        }
        By::Config => {
            lines.extend(summary.configs.iter().take(rows).map(|config| {
                let mut line = timed(config.gpu.as_ref());
                let [x, y, z] = config.grid;
                let [bx, by, bz] = config.block;
                line.extend([
                    count(config.calls),
                    format!("{x}×{y}×{z}"),
                    format!("{bx}×{by}×{bz}"),
                ]);
                line.push(bytes(u64::from(config.dynamic_shared)));
                line.extend([
                    fit(config.fit.as_ref()),
                    waves(config.fit.as_ref()),
                    config.name.clone(),
                ]);
                line
            }));
            summary.configs.len()
        }
        By::Stream => {
            lines.extend(summary.streams.iter().take(rows).map(|stream| {
                vec![
                    stream.pid.to_string(),
                    stream.context.to_string(),
                    format!("{:#x}", stream.stream),
                    count(stream.launches),
                    count(stream.transfers),
                    bytes(stream.bytes),
                    nanos(stream.waited_ns as f64),
                ]
            }));
            summary.streams.len()
        }
        By::Thread => {
            lines.extend(summary.threads.iter().take(rows).map(|thread| {
                vec![
                    thread.pid.to_string(),
                    thread.tid.to_string(),
                    count(thread.calls),
                    count(thread.launches),
                    nanos(thread.host_ns as f64),
                    nanos(thread.waited_ns as f64),
                ]
            }));
            summary.threads.len()
        }
    };
    let mut text = align(&mut lines, width);
    if all > rows {
        text.push_str(&format!("and {} more; --json shows all\n", count((all - rows) as u64)));
    }
    text
}

fn heading(by: By) -> &'static [&'static str] {
    match by {
        By::Kernel => &[
            "time",
            "total",
            "mean",
            "timed",
            "calls",
            "shapes",
            "registers",
            "occupancy",
            "kernel",
        ],
        By::Config => &[
            "time",
            "total",
            "mean",
            "timed",
            "calls",
            "grid",
            "block",
            "dynamic",
            "occupancy",
            "waves",
            "kernel",
        ],
        By::Stream => &["pid", "context", "stream", "launches", "transfers", "bytes", "waited"],
        By::Thread => &["pid", "tid", "calls", "launches", "in driver", "waited"],
    }
}

fn timed(gpu: Option<&GpuTime>) -> Vec<String> {
    match gpu {
        Some(gpu) => vec![
            percent(gpu.share),
            nanos(gpu.total_ns),
            nanos(gpu.mean_ns),
            format!("{} {}", count(gpu.timed), gpu.basis),
        ],
        None => vec!["-".into(); 4],
    }
}

fn fit(fit: Option<&Fit>) -> String {
    fit.map_or("-".into(), |fit| match fit.limiter.as_str() {
        "none" => percent(fit.occupancy),
        limiter => format!("{} {limiter}", percent(fit.occupancy)),
    })
}

fn waves(fit: Option<&Fit>) -> String {
    fit.map_or("-".into(), |fit| format!("{:.2}", fit.waves))
}

fn known(number: Option<u64>) -> String {
    number.map_or("-".into(), |number| number.to_string())
}

/// Columns to the right; a last column of names to the left, cut to what is left of the line.
fn align(lines: &mut [Vec<String>], width: usize) -> String {
    let columns = lines[0].len();
    let named = lines[0].last().is_some_and(|word| word == "kernel");
    let widest = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| widest(column).unwrap_or(0)).collect();
    let right = if named { columns - 1 } else { columns };
    let used: usize = widths[..right].iter().map(|width| width + 2).sum();
    let mut text = String::new();
    for line in lines {
        let mut row = String::new();
        for (word, width) in line[..right].iter().zip(&widths) {
            row.push_str(&format!("{word:>width$}  "));
        }
        if named {
            row.push_str(&shorten(&line[columns - 1], width.saturating_sub(used).max(24)));
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}
