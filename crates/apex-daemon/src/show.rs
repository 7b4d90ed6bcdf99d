//! The report: the answer first, our own cost last, ten to fifteen lines.
//!
//! Everything shown stands in the [`Summary`]; here it only becomes text. A number that was not measured
//! is called so. Colour is used for the first line alone, where the reader allows it.

mod tables;

pub use apex_policy::amounts::{bytes, count, nanos, percent};
pub use tables::{By, table};

use crate::names::shorten;
use crate::summary::{Busy, Exit, KernelSummary, Summary};
use std::fmt::Write as _;

/// How a report is laid out.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Characters of a line.
    pub width: usize,
    /// Emphasise with colour.
    pub colour: bool,
}

const TOP_KERNELS: usize = 5;

/// The report at exit. `place` is where the session is kept.
#[must_use]
pub fn report(summary: &Summary, place: Option<&str>, layout: Layout) -> String {
    let mut lines = Vec::new();
    if summary.calls == 0 {
        lines.push(no_calls(summary));
    } else {
        lines.push(emphasise(&answer(summary), layout));
        lines.push(executed(summary));
        lines.extend(kernel_lines(summary, layout));
        lines.extend(predicted_line(summary));
        lines.extend(memory_line(summary));
        lines.extend(copies_line(summary));
        lines.push(waiting_line(summary));
        lines.extend(errors_line(summary));
    }
    if let Some(place) = place {
        lines.push(format!("  kept in {place}"));
    }
    lines.push(own_line(summary));
    lines.join("\n") + "\n"
}

fn no_calls(summary: &Summary) -> String {
    let command = summary.command.first().map_or("the program", String::as_str);
    format!(
        "apex: no CUDA call was seen in {} ({}); either {command} uses no CUDA, or it escapes the \
         preload: static, setuid, or started with a cleared environment",
        nanos(summary.wall_ns as f64),
        exit_words(summary.exit)
    )
}

fn answer(summary: &Summary) -> String {
    let busy = match &summary.gpu_busy {
        Some(busy) => busy_words(busy, summary.gpu_phase_ns),
        None => format!("GPU busy not measured over {}", nanos(summary.gpu_phase_ns as f64)),
    };
    let bound = match &summary.launch_bound {
        Some(bound) => {
            format!("launch-bound {} ({} timed)", percent(bound.share), count(bound.timed))
        }
        None => "launch-bound not measured".into(),
    };
    let soft = if summary.soft { " (the software GPU: times are this CPU's)" } else { "" };
    format!("apex: {busy}; {bound}{soft}")
}

fn busy_words(busy: &Busy, phase_ns: u64) -> String {
    let phase = nanos(phase_ns as f64);
    if busy.basis == "cupti" {
        return format!("GPU busy {} of {phase} (all kernels timed by CUPTI)", percent(busy.share));
    }
    let bound = if busy.upper_bound { "at most " } else { "about " };
    format!(
        "GPU busy {bound}{} of {phase} (from {} timed launches, {} of all covered)",
        percent(busy.share),
        count(busy.timed),
        percent(busy.covered)
    )
}

fn executed(summary: &Summary) -> String {
    let mut line = format!("  {} kernels executed", count(summary.kernels_executed));
    if summary.graph_launches > 0 {
        let _ = write!(
            line,
            ": {} launches, {} through {} graph launches",
            count(summary.launches),
            count(summary.graph_kernels),
            count(summary.graph_launches)
        );
    }
    if summary.failed_launches > 0 {
        let _ = write!(line, "; {} launches refused", count(summary.failed_launches));
    }
    let device = summary.devices.first().map_or("device not known", |device| device.name.as_str());
    let more = summary.devices.len().saturating_sub(1);
    let _ = write!(line, "; {device}");
    if more > 0 {
        let _ = write!(line, " and {more} more");
    }
    if let Some(driver) = &summary.driver {
        let _ = write!(line, ", CUDA {driver}");
    }
    if summary.processes > 1 {
        let _ = write!(line, "; {} processes", count(summary.processes));
    }
    let _ = write!(line, "; {}", exit_words(summary.exit));
    line
}

fn kernel_lines(summary: &Summary, layout: Layout) -> Vec<String> {
    if summary.kernels.is_empty() {
        return Vec::new();
    }
    let columns = format!("  {:>6} {:>11} {:>9}  {:<30}  ", "time", "calls", "mean", "occupancy");
    let room = layout.width.saturating_sub(columns.chars().count()).max(24);
    let row = |kernel: &KernelSummary| {
        let (share, mean) = match &kernel.gpu {
            Some(gpu) => (percent(gpu.share), nanos(gpu.mean_ns)),
            None => ("-".into(), "-".into()),
        };
        format!(
            "  {share:>6} {:>11} {mean:>9}  {:<30}  {}",
            count(kernel.calls),
            fit_words(kernel),
            shorten(&kernel.name, room)
        )
    };
    let heading = columns + "kernel";
    let rows = summary.kernels.iter().take(TOP_KERNELS).map(row);
    std::iter::once(heading).chain(rows).collect()
}

/// Occupancy with its limiter, and the worst thing about the shape.
fn fit_words(kernel: &KernelSummary) -> String {
    let Some(fit) = &kernel.fit else { return "-".into() };
    let mut words = percent(fit.occupancy);
    if fit.limiter != "none" {
        let _ = write!(words, " {}", fit.limiter);
    }
    if fit.waves < 1.0 {
        let _ = write!(words, ", {:.2} waves", fit.waves);
    } else if fit.waves < 4.0 && fit.tail_fraction > 0.2 {
        let _ = write!(words, ", tail {}", percent(fit.tail_fraction));
    }
    words
}

/// How near predictions came. Not on the software GPU, whose times are the machine's: no model is of those.
fn predicted_line(summary: &Summary) -> Option<String> {
    let predicted = summary.predicted.as_ref().filter(|_| !summary.soft)?;
    let by: Vec<String> = predicted
        .by
        .iter()
        .map(|by| format!("{} of {} by {}", percent(by.median_error), count(by.timed), by.source))
        .collect();
    let models = if predicted.with_models { "" } else { "; no trained models at hand" };
    Some(format!(
        "  predicted within {} (median) of {} timed launches in {} configurations, {} within 10 %: {}{models}",
        percent(predicted.median_error),
        count(predicted.timed),
        count(predicted.configurations),
        percent(predicted.within_10_percent),
        by.join(", ")
    ))
}

fn memory_line(summary: &Summary) -> Option<String> {
    let memory = &summary.memory;
    if memory.kinds.is_empty() {
        return None;
    }
    let kinds: Vec<String> = memory
        .kinds
        .iter()
        .filter(|kind| kind.peak_bytes > 0)
        .map(|kind| format!("{} {}", kind.kind, bytes(kind.peak_bytes)))
        .collect();
    let churn = match memory.churn_per_second {
        Some(rate) => format!("{rate:.0} allocations and frees a second in the steady phase"),
        None => {
            let all: u64 = memory.kinds.iter().map(|kind| kind.allocations + kind.frees).sum();
            format!("{} allocations and frees", count(all))
        }
    };
    let peak = bytes(memory.device_peak_bytes);
    Some(format!("  memory: peak {peak} on devices (peaks: {}); {churn}", kinds.join(", ")))
}

fn copies_line(summary: &Summary) -> Option<String> {
    if summary.copies.is_empty() {
        return None;
    }
    let words = summary.copies.iter().map(|copy| {
        let mut words =
            format!("{} {} in {}", copy.direction, bytes(copy.bytes), count(copy.count));
        if copy.pageable_count > 0 {
            let share = copy.pageable_bytes as f64 / (copy.bytes as f64).max(1.0);
            let _ = write!(words, " ({} pageable)", percent(share));
        }
        words
    });
    Some(format!("  copies: {}", words.collect::<Vec<_>>().join(", ")))
}

fn waiting_line(summary: &Summary) -> String {
    let mut line = format!(
        "  waiting: {} in {} synchronisations, {} of the wall time",
        nanos(summary.syncs.waited_ns as f64),
        count(summary.syncs.count),
        percent(summary.syncs.share_of_wall)
    );
    if summary.loads.count > 0 {
        let _ = write!(
            line,
            "; loading: {} in {} modules and libraries",
            nanos(summary.loads.host_ns as f64),
            count(summary.loads.count)
        );
    }
    line
}

fn errors_line(summary: &Summary) -> Option<String> {
    // The runtime calls the driver once more when the driver is gone: every program ends so.
    let at_exit = u16::try_from(apex_cuda::types::CUDA_ERROR_DEINITIALIZED).unwrap_or(0);
    let errors: Vec<_> = summary.errors.iter().filter(|error| error.result != at_exit).collect();
    if errors.is_empty() {
        return None;
    }
    let mut words: Vec<String> = errors
        .iter()
        .take(3)
        .map(|error| format!("{} {} × {}", error.function, error.name, count(error.count)))
        .collect();
    if errors.len() > words.len() {
        words.push(format!("{} more kinds", errors.len() - words.len()));
    }
    Some(format!("  errors: {}", words.join(", ")))
}

fn own_line(summary: &Summary) -> String {
    let own = &summary.own;
    let mut line = format!("  apex itself: {} events", count(own.events));
    if let Some(mean) = own.mean_ns {
        let _ = write!(line, ", {mean:.0} ns each");
    }
    if let Some(share) = own.share_of_wall {
        let _ = write!(line, ", {} of the wall time with sampling and look-ups", percent(share));
    }
    let _ = write!(
        line,
        "; {} lost, {} damaged, {} failures",
        count(own.lost),
        count(own.damaged),
        count(own.failures)
    );
    if own.facts_lost > 0 {
        let _ = write!(line, ", {} facts lost", count(own.facts_lost));
    }
    if own.not_kept > 0 {
        let _ = write!(line, ", {} not kept on disk", count(own.not_kept));
    }
    line
}

/// How the program ended, in words.
#[must_use]
pub fn exit_words(exit: Option<Exit>) -> String {
    match exit {
        Some(Exit { signal: Some(signal), .. }) => format!("killed by signal {signal}"),
        Some(Exit { code: Some(code), .. }) => format!("exit code {code}"),
        _ => "end not seen".into(),
    }
}

fn emphasise(line: &str, layout: Layout) -> String {
    if layout.colour { format!("\x1b[1m{line}\x1b[0m") } else { line.to_owned() }
}

#[cfg(test)]
mod tests;
