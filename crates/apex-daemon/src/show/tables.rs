//! The tables of `apex report --by`.

use super::layout::Layout;
use super::missing::cell;
use crate::names::shorten;
use crate::palette::Tone;
use crate::summary::{Fit, GpuTime, Summary};
use apex_policy::amounts::{bytes, count, nanos, percent};

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

/// The table, at most `rows` rows of it.
#[must_use]
pub fn table(summary: &Summary, by: By, rows: usize, layout: Layout) -> String {
    let mut lines: Vec<Vec<String>> = vec![heading(by).iter().map(|&word| word.into()).collect()];
    let all = match by {
        By::Kernel => {
            lines.extend(summary.kernels.iter().take(rows).map(|kernel| {
                let mut line = timed(kernel.gpu.as_ref());
                line.extend([cell(summary, kernel.calls), kernel.shapes.to_string()]);
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
                    cell(summary, config.calls),
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
                    cell(summary, stream.launches),
                    cell(summary, stream.transfers),
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
                    cell(summary, thread.calls),
                    cell(summary, thread.launches),
                    nanos(thread.host_ns as f64),
                    nanos(thread.waited_ns as f64),
                ]
            }));
            summary.threads.len()
        }
    };
    let tones = tones(summary, by);
    let mut text = align(&lines, &tones, layout);
    if all > rows {
        text.push_str(&format!("and {} more; --json shows all\n", count((all - rows) as u64)));
    }
    text
}

/// How strongly each row says its share of the time; plainly where a table has none.
fn tones(summary: &Summary, by: By) -> Vec<Tone> {
    let tone =
        |gpu: &Option<GpuTime>| gpu.as_ref().map_or(Tone::Faint, |gpu| Tone::of_share(gpu.share));
    match by {
        By::Kernel => summary.kernels.iter().map(|kernel| tone(&kernel.gpu)).collect(),
        By::Config => summary.configs.iter().map(|config| tone(&config.gpu)).collect(),
        By::Stream | By::Thread => Vec::new(),
    }
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
fn align(lines: &[Vec<String>], tones: &[Tone], layout: Layout) -> String {
    let columns = lines[0].len();
    let named = lines[0].last().is_some_and(|word| word == "kernel");
    let widest = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| widest(column).unwrap_or(0)).collect();
    let right = if named { columns - 1 } else { columns };
    let used: usize = widths[..right].iter().map(|width| width + 2).sum();
    let mut text = String::new();
    for (nth, line) in lines.iter().enumerate() {
        let mut row = String::new();
        for (word, width) in line[..right].iter().zip(&widths) {
            row.push_str(&format!("{word:>width$}  "));
        }
        if named {
            row.push_str(&shorten(&line[columns - 1], layout.width.saturating_sub(used).max(24)));
        }
        let row = row.trim_end();
        match nth.checked_sub(1).map(|row| tones.get(row).copied().unwrap_or(Tone::Plain)) {
            None => text.push_str(&layout.paint(Tone::Faint, row)),
            Some(tone) => {
                let (share, others) = row.split_at(widths[0].min(row.len()));
                text.push_str(&layout.paint(tone, share));
                text.push_str(others);
            }
        }
        text.push('\n');
    }
    text
}
