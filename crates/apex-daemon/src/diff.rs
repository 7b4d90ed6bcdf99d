//! What changed between two sessions: the answer first, then the kernels whose time, count or share moved.
//!
//! Kernels are matched by name. A kernel without measured times is compared by its calls. Changes
//! below one per cent of the GPU time and of the calls are not listed: they are noise in most programs.

use crate::names::shorten;
use crate::show::{bytes, count, nanos, percent};
use crate::summary::{KernelSummary, SCHEMA, Summary};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The comparison of two sessions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// [`SCHEMA`].
    pub schema: u64,
    /// Id of the session compared with.
    pub before: String,
    /// Id of the session looked at.
    pub after: String,
    /// Wall time in nanoseconds.
    pub wall_ns: Change,
    /// Time of all kernels in nanoseconds.
    pub kernel_ns: Option<Change>,
    /// Share of the GPU phase in which kernels ran.
    pub gpu_busy: Option<Change>,
    /// Kernels executed.
    pub kernels_executed: Change,
    /// Allocations.
    pub allocations: Change,
    /// Most device memory held at once, in bytes.
    pub device_peak_bytes: Change,
    /// Time waited in synchronisations, in nanoseconds.
    pub waited_ns: Change,
    /// Kernels that changed, the largest change first.
    pub kernels: Vec<KernelChange>,
}

/// One number in both sessions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// In the session compared with.
    pub before: f64,
    /// In the session looked at.
    pub after: f64,
}

/// One kernel in both sessions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelChange {
    /// Its name, demangled.
    pub name: String,
    /// GPU time of all executions in nanoseconds, where measured in both or present in one only.
    pub total_ns: Option<Change>,
    /// Mean GPU time in nanoseconds.
    pub mean_ns: Option<Change>,
    /// Share of the session's GPU time.
    pub share: Option<Change>,
    /// Executions.
    pub calls: Change,
}

impl Change {
    fn of(before: u64, after: u64) -> Change {
        Change { before: before as f64, after: after as f64 }
    }

    fn amount(&self) -> f64 {
        self.after - self.before
    }

    fn words(&self, show: impl Fn(f64) -> String) -> String {
        let ratio = self.after / self.before - 1.0;
        let change = match ratio {
            ratio if !ratio.is_finite() => String::new(),
            ratio if ratio.abs() < 0.0005 => " (same)".into(),
            ratio => format!(" ({:+.1} %)", ratio * 100.0),
        };
        format!("{} → {}{change}", show(self.before), show(self.after))
    }
}

/// Compares two sessions.
#[must_use]
pub fn compare(before: &Summary, after: &Summary) -> Difference {
    let busy = |summary: &Summary| summary.gpu_busy.as_ref().map(|busy| busy.share);
    let kernel_ns = |summary: &Summary| summary.gpu_busy.as_ref().map(|busy| busy.kernel_ns as f64);
    let allocations =
        |summary: &Summary| summary.memory.kinds.iter().map(|kind| kind.allocations).sum();
    Difference {
        schema: SCHEMA,
        before: before.session.clone(),
        after: after.session.clone(),
        wall_ns: Change::of(before.wall_ns, after.wall_ns),
        kernel_ns: both(kernel_ns(before), kernel_ns(after)),
        gpu_busy: both(busy(before), busy(after)),
        kernels_executed: Change::of(before.kernels_executed, after.kernels_executed),
        allocations: Change::of(allocations(before), allocations(after)),
        device_peak_bytes: Change::of(
            before.memory.device_peak_bytes,
            after.memory.device_peak_bytes,
        ),
        waited_ns: Change::of(before.syncs.waited_ns, after.syncs.waited_ns),
        kernels: kernels(before, after),
    }
}

fn both(before: Option<f64>, after: Option<f64>) -> Option<Change> {
    Some(Change { before: before?, after: after? })
}

fn kernels(before: &Summary, after: &Summary) -> Vec<KernelChange> {
    let mut pairs: BTreeMap<&str, (Option<&KernelSummary>, Option<&KernelSummary>)> =
        BTreeMap::new();
    for kernel in &before.kernels {
        pairs.entry(&kernel.name).or_default().0 = Some(kernel);
    }
    for kernel in &after.kernels {
        pairs.entry(&kernel.name).or_default().1 = Some(kernel);
    }
    let all_ns: f64 = [before, after]
        .iter()
        .filter_map(|summary| summary.gpu_busy.as_ref())
        .map(|busy| busy.kernel_ns as f64)
        .fold(0.0, f64::max);
    let mut changes: Vec<KernelChange> = pairs
        .into_iter()
        .map(|(name, (before, after))| kernel_change(name, before, after))
        .filter(|change| matters(change, all_ns))
        .collect();
    let weight = |change: &KernelChange| change.total_ns.map_or(0.0, |total| total.amount().abs());
    changes.sort_by(|a, b| {
        let by_time = weight(b).total_cmp(&weight(a));
        by_time.then(b.calls.amount().abs().total_cmp(&a.calls.amount().abs()))
    });
    changes
}

fn kernel_change(
    name: &str,
    before: Option<&KernelSummary>,
    after: Option<&KernelSummary>,
) -> KernelChange {
    let calls = |kernel: Option<&KernelSummary>| kernel.map_or(0, |kernel| kernel.calls);
    // A kernel that is not there took no time; one that is there untimed took an unknown time.
    let time = |kernel: Option<&KernelSummary>,
                absent: Option<f64>,
                of: &dyn Fn(&crate::summary::GpuTime) -> f64| {
        match kernel {
            None => absent,
            Some(kernel) => kernel.gpu.as_ref().map(of),
        }
    };
    let change = |absent, of: &dyn Fn(&crate::summary::GpuTime) -> f64| {
        both(time(before, absent, of), time(after, absent, of))
    };
    KernelChange {
        name: name.to_owned(),
        total_ns: change(Some(0.0), &|gpu| gpu.total_ns),
        mean_ns: change(None, &|gpu| gpu.mean_ns),
        share: change(Some(0.0), &|gpu| gpu.share),
        calls: Change::of(calls(before), calls(after)),
    }
}

fn matters(change: &KernelChange, all_ns: f64) -> bool {
    let calls = change.calls.amount().abs() > 0.01 * change.calls.before.max(change.calls.after);
    let time = change.total_ns.is_some_and(|total| total.amount().abs() > 0.01 * all_ns);
    calls || time
}

/// The comparison as text.
#[must_use]
pub fn show(difference: &Difference, rows: usize, width: usize) -> String {
    let mut text = format!("wall time {}", difference.wall_ns.words(nanos));
    match difference.kernels.first() {
        Some(kernel) if kernel.total_ns.is_some_and(|total| total.amount() != 0.0) => {
            let amount = kernel.total_ns.map_or(0.0, |total| total.amount());
            let (sign, name) = (if amount < 0.0 { "−" } else { "+" }, shorten(&kernel.name, 40));
            let _ = writeln!(text, "; most of it on the GPU: {name} {sign}{}", nanos(amount.abs()));
        }
        _ => text.push('\n'),
    }
    if let Some(busy) = &difference.gpu_busy {
        let _ = writeln!(text, "  GPU busy         {}", busy.words(percent));
    }
    if let Some(kernel_ns) = &difference.kernel_ns {
        let _ = writeln!(text, "  kernel time      {}", kernel_ns.words(nanos));
    }
    let whole = |number: f64| count(number as u64);
    let _ = writeln!(text, "  kernels executed {}", difference.kernels_executed.words(whole));
    let _ = writeln!(text, "  allocations      {}", difference.allocations.words(whole));
    let memory = difference.device_peak_bytes.words(|number| bytes(number as u64));
    let _ = writeln!(text, "  peak memory      {memory}");
    let _ = writeln!(text, "  waited           {}", difference.waited_ns.words(nanos));
    if difference.kernels.is_empty() {
        text.push_str("  no kernel changed by more than one per cent\n");
    }
    for kernel in difference.kernels.iter().take(rows) {
        let time = kernel.total_ns.map_or("not timed".into(), |total| total.words(nanos));
        let calls = kernel.calls.words(whole);
        let room = width.saturating_sub(78).max(24);
        let _ = writeln!(text, "  {time:<36} calls {calls:<32} {}", shorten(&kernel.name, room));
    }
    if difference.kernels.len() > rows {
        let _ = writeln!(text, "  and {} more; --json shows all", difference.kernels.len() - rows);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{Busy, GpuTime};

    fn summary(session: &str, wall_ns: u64, kernels: &[(&str, u64, f64)]) -> Summary {
        let kernels: Vec<KernelSummary> = kernels
            .iter()
            .map(|&(name, calls, total_ns)| KernelSummary {
                name: name.into(),
                calls,
                gpu: Some(GpuTime {
                    total_ns,
                    mean_ns: total_ns / calls as f64,
                    ..GpuTime::default()
                }),
                ..KernelSummary::default()
            })
            .collect();
        let kernel_ns =
            kernels.iter().filter_map(|k| k.gpu.as_ref()).map(|g| g.total_ns).sum::<f64>();
        Summary {
            session: session.into(),
            wall_ns,
            kernels,
            gpu_busy: Some(Busy { kernel_ns: kernel_ns as u64, share: 0.5, ..Busy::default() }),
            ..Summary::default()
        }
    }

    #[test]
    fn the_largest_change_comes_first_and_noise_is_left_out() {
        let before =
            summary("a", 1_000_000, &[("same", 10, 5e5), ("slow", 10, 2e5), ("gone", 5, 1e5)]);
        let after =
            summary("b", 1_500_000, &[("same", 10, 5.01e5), ("slow", 10, 6e5), ("new", 3, 2e4)]);
        let difference = compare(&before, &after);
        let names: Vec<&str> = difference.kernels.iter().map(|k| k.name.as_str()).collect();
        assert_eq!(names, ["slow", "gone", "new"]);
        let text = show(&difference, 10, 120);
        let first = "wall time 1.00 ms → 1.50 ms (+50.0 %); most of it on the GPU: slow +400 µs\n";
        assert!(text.starts_with(first), "{text}");
        assert!(text.contains("5 → 0 (-100.0 %)"), "{text}");
    }

    #[test]
    fn equal_sessions_do_not_differ() {
        let one = summary("a", 1_000, &[("same", 10, 5e5)]);
        assert!(compare(&one, &one).kernels.is_empty());
    }
}
