//! The report: the answer first, our own cost last, ten to fifteen lines.
//!
//! Everything shown stands in the [`Summary`]; here it only becomes text. A number that was not measured
//! is called so, and where events are missing the first line says how many and every count is "at least". Where the
//! reader allows colour it says again what the words say: which shares matter, and what went wrong.

mod fast;
mod layout;
mod missing;
mod tables;

pub use apex_policy::amounts::{bytes, count, counted, nanos, percent};
pub use layout::Layout;
pub use tables::{By, table};

use crate::names::shorten;
use crate::palette::Tone;
use crate::summary::{Busy, Exit, Kept, KernelSummary, OwnSummary, Summary, UnderWay};
use missing::{at_least, cell, is_lossy, loss};
use std::fmt::Write as _;

const TOP_KERNELS: usize = 5;

/// The report at exit. `place` is where the session is kept.
#[must_use]
pub fn report(summary: &Summary, place: Option<&str>, layout: Layout) -> String {
    let mut lines = Vec::new();
    if summary.running {
        let so_far = nanos(summary.wall_ns as f64);
        lines.push(format!(
            "apex: still running, for {so_far} so far; what follows is of this moment"
        ));
    }
    if summary.calls == 0 {
        lines.push(layout.paint(Tone::Warning, &no_calls(summary)));
    } else {
        lines.push(layout.paint(Tone::Strong, &answer(summary)));
        lines.push(executed(summary, layout));
        lines.extend(kernel_lines(summary, layout));
        lines.extend(predicted_line(summary));
        lines.extend(memory_line(summary));
        lines.extend(copies_line(summary));
        lines.push(waiting_line(summary));
        lines.extend(errors_line(summary).map(|line| layout.paint(Tone::Bad, &line)));
    }
    lines.extend(under_way_line(summary).map(|line| layout.paint(Tone::Warning, &line)));
    let already_said = usize::from(summary.calls == 0 && !summary.running);
    let unrecorded = summary.unrecorded.iter().skip(already_said);
    lines.extend(unrecorded.map(|why| format!("  not recorded: {why}")));
    lines.extend(fast::lines(summary));
    if let Some(place) = place {
        lines.push(layout.paint(Tone::Faint, &kept_line(&summary.own, place)));
    }
    lines.push(layout.paint(own_tone(summary), &own_line(summary)));
    lines.join("\n") + "\n"
}

fn no_calls(summary: &Summary) -> String {
    let command = summary.command.first().map_or("the program", String::as_str);
    if summary.running {
        return format!("apex: no CUDA call was seen in {command} so far");
    }
    if let Some(why) = summary.unrecorded.first() {
        return format!(
            "apex: nothing was recorded in {} ({}): {why}",
            nanos(summary.wall_ns as f64),
            exit_words(summary.exit)
        );
    }
    format!(
        "apex: no CUDA call was seen in {} ({}); either {command} uses no CUDA, or it escapes the \
         preload: static, setuid, or started with a cleared environment",
        nanos(summary.wall_ns as f64),
        exit_words(summary.exit)
    )
}

fn answer(summary: &Summary) -> String {
    let lost = loss(&summary.own).map_or(String::new(), |words| words + "; ");
    let busy = match &summary.gpu_busy {
        Some(busy) => busy_words(busy, summary.gpu_phase_ns, is_lossy(summary)),
        None => format!("GPU busy not measured over {}", nanos(summary.gpu_phase_ns as f64)),
    };
    let bound = match &summary.launch_bound {
        Some(bound) => {
            let (least, share) = (at_least(summary), percent(bound.share));
            format!("launch-bound {least}{share} ({} timed)", count(bound.timed))
        }
        None => "launch-bound not measured".into(),
    };
    let soft = if summary.soft { " (the software GPU: times are this CPU's)" } else { "" };
    format!("apex: {lost}{busy}; {bound}{soft}")
}

fn busy_words(busy: &Busy, phase_ns: u64, lossy: bool) -> String {
    let phase = nanos(phase_ns as f64);
    if busy.basis == "cupti" {
        let least = if lossy { "at least " } else { "" };
        let share = percent(busy.share);
        return format!("GPU busy {least}{share} of {phase} (all kernels timed by CUPTI)");
    }
    let bound = match (busy.upper_bound, lossy) {
        (true, false) => "at most ",
        (false, true) => "at least about ",
        _ => "about ",
    };
    format!(
        "GPU busy {bound}{} of {phase} (from {}, {} of all covered)",
        percent(busy.share),
        counted(busy.timed, "timed launch", "timed launches"),
        percent(busy.covered)
    )
}

fn executed(summary: &Summary, layout: Layout) -> String {
    let least = at_least(summary);
    let open = summary.open_graph_launches;
    let launches = |number| counted(number, "launch", "launches");
    let mut line = format!(
        "  {}{} executed",
        if open > 0 { "at least " } else { least },
        counted(summary.kernels_executed, "kernel", "kernels")
    );
    if summary.graph_launches > 0 {
        let _ = write!(
            line,
            ": {least}{}, {least}{} through {least}{}",
            launches(summary.launches),
            count(summary.graph_kernels),
            counted(summary.graph_launches, "graph launch", "graph launches")
        );
    }
    if open > 0 {
        let _ = write!(
            line,
            " (in {} of them the GPU decided what else ran: conditional nodes, launches by kernels)",
            count(open)
        );
    }
    if summary.failed_launches > 0 {
        let _ = write!(line, "; {least}{} refused", launches(summary.failed_launches));
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
    let ended = if summary.running {
        "still running".into()
    } else {
        layout.paint(exit_tone(summary.exit), &exit_words(summary.exit))
    };
    let _ = write!(line, "; {ended}");
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
        let tone = kernel.gpu.as_ref().map_or(Tone::Faint, |gpu| Tone::of_share(gpu.share));
        let share = layout.paint(tone, &format!("{share:>6}"));
        format!(
            "  {share} {:>11} {mean:>9}  {:<30}  {}",
            cell(summary, kernel.calls),
            fit_words(kernel),
            shorten(&kernel.name, room)
        )
    };
    let heading = layout.paint(Tone::Faint, &(columns + "kernel"));
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
    let unknown = match predicted.not_known {
        0 => String::new(),
        some => format!(", {} not known", count(some)),
    };
    Some(format!(
        "  predicted within {} (median) of {} in {}, {} within 10 %, {} in their 80 % interval: {}{unknown}{models}",
        percent(predicted.median_error),
        counted(predicted.timed, "timed launch", "timed launches"),
        counted(predicted.configurations, "configuration", "configurations"),
        percent(predicted.within_10_percent),
        percent(predicted.in_interval),
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
    let least = at_least(summary);
    let churn = match memory.churn_per_second {
        Some(rate) => {
            format!("{least}{rate:.0} allocations and frees a second in the steady phase")
        }
        None => {
            let all: u64 = memory.kinds.iter().map(|kind| kind.allocations + kind.frees).sum();
            least.to_owned() + &counted(all, "allocation or free", "allocations and frees")
        }
    };
    // A lost allocation makes a peak too low, a lost free too high.
    let about = if is_lossy(summary) { "about " } else { "" };
    let peak = bytes(memory.device_peak_bytes);
    let peaks = kinds.join(", ");
    Some(format!("  memory: peak {about}{peak} on devices (peaks: {peaks}); {churn}"))
}

fn copies_line(summary: &Summary) -> Option<String> {
    if summary.copies.is_empty() {
        return None;
    }
    let least = at_least(summary);
    let words = summary.copies.iter().map(|copy| {
        let (volume, number) = (bytes(copy.bytes), count(copy.count));
        let mut words = format!("{} {least}{volume} in {least}{number}", copy.direction);
        if copy.pageable_count > 0 {
            let share = copy.pageable_bytes as f64 / (copy.bytes as f64).max(1.0);
            let _ = write!(words, " ({} pageable)", percent(share));
        }
        words
    });
    Some(format!("  copies: {}", words.collect::<Vec<_>>().join(", ")))
}

fn waiting_line(summary: &Summary) -> String {
    let (least, syncs) = (at_least(summary), &summary.syncs);
    let mut line = format!(
        "  waiting: {least}{} in {least}{}",
        nanos(syncs.waited_ns as f64),
        counted(syncs.count, "synchronisation", "synchronisations")
    );
    if syncs.blocking_copies > 0 {
        let _ = write!(
            line,
            " and {least}{} in {least}{}",
            nanos(syncs.blocking_copies_ns as f64),
            counted(syncs.blocking_copies, "blocking copy", "blocking copies")
        );
    }
    let _ = write!(line, ", {least}{} of the wall time", percent(syncs.share_of_wall));
    let loads = &summary.loads;
    let mut loading = Vec::new();
    if loads.count > 0 {
        let loaded = counted(loads.count, "module or library", "modules and libraries");
        loading.push(format!("{least}{} in {least}{loaded}", nanos(loads.host_ns as f64)));
    }
    if loads.first_launches > 0 {
        let kernels = counted(loads.first_launches, "kernel", "kernels");
        let launches = if loads.first_launches == 1 { "launch" } else { "launches" };
        let time = nanos(loads.first_launch_ns as f64);
        loading.push(format!("{least}{time} in the first {launches} of {least}{kernels}"));
    }
    if !loading.is_empty() {
        let _ = write!(line, "; loading: {}", loading.join(", "));
    }
    line
}

/// Where a program hung, or was when it was ended.
fn under_way_line(summary: &Summary) -> Option<String> {
    const MOST: usize = 3;
    let words = |call: &UnderWay| {
        let of =
            if summary.processes > 1 { format!(" of process {}", call.pid) } else { String::new() };
        let length =
            call.host_ns.map(|ns| format!(" for {}", nanos(ns as f64))).unwrap_or_default();
        format!("thread {}{of} was in {}{length}", call.tid, call.function)
    };
    let mut calls: Vec<String> = summary.under_way.iter().take(MOST).map(words).collect();
    let more = summary.under_way.len().saturating_sub(MOST);
    if more > 0 {
        calls.push(format!("{} more threads were in calls", count(more as u64)));
    }
    (!calls.is_empty()).then(|| format!("  when it ended, {}", calls.join(", ")))
}

fn errors_line(summary: &Summary) -> Option<String> {
    // The runtime calls the driver once more when the driver is gone: every program ends so.
    let at_exit = u16::try_from(apex_cuda::types::CUDA_ERROR_DEINITIALIZED).unwrap_or(0);
    let errors: Vec<_> = summary.errors.iter().filter(|error| error.result != at_exit).collect();
    if errors.is_empty() {
        return None;
    }
    let least = at_least(summary);
    let mut words: Vec<String> = errors
        .iter()
        .take(3)
        .map(|error| format!("{} {} × {least}{}", error.function, error.name, count(error.count)))
        .collect();
    if errors.len() > words.len() {
        let more = (errors.len() - words.len()) as u64;
        words.push(counted(more, "more kind", "more kinds"));
    }
    Some(format!("  errors: {}", words.join(", ")))
}

/// Where the session is kept, and what of it is not.
fn kept_line(own: &OwnSummary, place: &str) -> String {
    let missing = count(own.not_kept);
    match &own.kept {
        Kept::InPlace if own.not_kept == 0 => format!("  kept in {place}"),
        Kept::InPlace => format!("  kept in {place}, without {missing} events"),
        Kept::Waits(rings) => format!(
            "  not kept in {place}: {missing} events wait in {}; free some space, and the next apex command \
             keeps them",
            rings.display()
        ),
        Kept::Nowhere => {
            format!("  not kept in {place}: {missing} events are counted here and nowhere else")
        }
    }
}

fn own_line(summary: &Summary) -> String {
    let own = &summary.own;
    let mut line = format!("  apex itself: {}", counted(own.events, "event", "events"));
    if let Some(median) = own.median_ns {
        let _ = write!(line, ", {median:.0} ns each");
    }
    if let Some(share) = own.share_of_wall {
        let _ = write!(line, ", {} of the wall time with sampling and look-ups", percent(share));
    }
    let _ = write!(
        line,
        "; {} lost, {} damaged, {}",
        count(own.lost),
        count(own.damaged),
        counted(own.failures, "failure", "failures")
    );
    if own.facts_lost > 0 {
        let _ = write!(line, ", {} lost", counted(own.facts_lost, "fact", "facts"));
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

fn exit_tone(exit: Option<Exit>) -> Tone {
    match exit {
        Some(Exit { code: Some(0), signal: None }) => Tone::Good,
        Some(Exit { code: None, signal: None }) | None => Tone::Plain,
        Some(_) => Tone::Bad,
    }
}

fn own_tone(summary: &Summary) -> Tone {
    let own = &summary.own;
    let missing = own.lost + own.damaged + own.failures + own.facts_lost + own.not_kept;
    if missing > 0 { Tone::Warning } else { Tone::Faint }
}

#[cfg(test)]
mod tests;
