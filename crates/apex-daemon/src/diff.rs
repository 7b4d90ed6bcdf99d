//! What changed between two sessions: the answer first, then the kernels whose time, count or share moved.
//!
//! The wall time has three parts that add up to it: kernels ran; the program waited while none ran; the rest is the
//! host's. Where kernels were not timed in both sessions, they are part of the waiting. The answer names the
//! part that has most of the difference. It names a kernel only where the kernels are that part, and where this one
//! is most of them in the same direction.
//!
//! Kernels are matched by name. A kernel without measured times is compared by its calls. Changes
//! below one per cent of the GPU time and of the calls are not listed: they are noise in most programs.

use crate::names::shorten;
use crate::show::{bytes, count, counted, nanos, percent};
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
    /// What the difference of the wall times consists of.
    pub split: Split,
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
    /// Time waited in synchronisations and blocking copies, in nanoseconds.
    pub waited_ns: Change,
    /// Events that are missing: counts are too low by as many.
    pub missing: Change,
    /// Kernels that changed, the largest change first.
    pub kernels: Vec<KernelChange>,
}

/// The difference of two wall times, in nanoseconds: the parts add up to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Split {
    /// Kernels ran; none where their time was not measured in both.
    pub gpu_ns: Option<f64>,
    /// The program waited and no kernel is known to have run, as in copies.
    pub waiting_ns: f64,
    /// The rest: the host's own work, or its sleep.
    pub host_ns: f64,
    /// `gpu`, `waiting` or `host`, where one of them is most of the difference.
    pub most: Option<&'static str>,
    /// The kernel that is most of it, where kernels are.
    pub kernel: Option<String>,
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
    let kernels = kernels(before, after);
    Difference {
        schema: SCHEMA,
        before: before.session.clone(),
        after: after.session.clone(),
        wall_ns: Change::of(before.wall_ns, after.wall_ns),
        split: split(before, after, &kernels),
        kernel_ns: both(kernel_ns(before), kernel_ns(after)),
        gpu_busy: both(busy(before), busy(after)),
        kernels_executed: Change::of(before.kernels_executed, after.kernels_executed),
        allocations: Change::of(allocations(before), allocations(after)),
        device_peak_bytes: Change::of(
            before.memory.device_peak_bytes,
            after.memory.device_peak_bytes,
        ),
        waited_ns: Change::of(before.waited_ns(), after.waited_ns()),
        missing: Change::of(before.own.missing(), after.own.missing()),
        kernels,
    }
}

/// Less than this share of the wall time is no difference to explain.
const NO_DIFFERENCE: f64 = 0.0005;

fn split(before: &Summary, after: &Summary, kernels: &[KernelChange]) -> Split {
    let busy = both(before.busy_ns(), after.busy_ns());
    let parts_before = parts(before, busy.map(|busy| busy.before));
    let parts_after = parts(after, busy.map(|busy| busy.after));
    let wall_ns = Change::of(before.wall_ns, after.wall_ns);
    let [gpu_ns, waiting_ns, host_ns] =
        [0, 1, 2].map(|nth: usize| parts_after[nth] - parts_before[nth]);
    let is_most = |part: f64, of: f64| of != 0.0 && part / of > 0.5;
    let differs = wall_ns.amount().abs() > NO_DIFFERENCE * wall_ns.before;
    let most = [("gpu", gpu_ns), ("waiting", waiting_ns), ("host", host_ns)]
        .into_iter()
        .filter(|&(_, part)| differs && is_most(part, wall_ns.amount()))
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))
        .map(|(name, _)| name);
    let explains = |kernel: &&KernelChange| {
        kernel.total_ns.is_some_and(|total| is_most(total.amount(), gpu_ns))
    };
    let kernel = kernels.iter().find(explains).filter(|_| most == Some("gpu"));
    let kernel = kernel.map(|kernel| kernel.name.clone());
    Split { gpu_ns: busy.map(|_| gpu_ns), waiting_ns, host_ns, most, kernel }
}

/// Time in which kernels ran, in which the program waited without any, and the rest of the wall time.
fn parts(summary: &Summary, busy_ns: Option<f64>) -> [f64; 3] {
    let wall_ns = summary.wall_ns as f64;
    let gpu_ns = busy_ns.unwrap_or(0.0).min(wall_ns);
    // Several threads may wait at once: together no longer than there is time.
    let waiting_ns = (summary.waited_ns() as f64 - gpu_ns).clamp(0.0, wall_ns - gpu_ns);
    [gpu_ns, waiting_ns, wall_ns - gpu_ns - waiting_ns]
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

/// Where most of the difference lies.
fn answer(split: &Split) -> String {
    let (part, place) = match (split.most, split.gpu_ns) {
        (Some("gpu"), Some(gpu_ns)) => (gpu_ns, "on the GPU"),
        (Some("waiting"), Some(_)) => (split.waiting_ns, "in waiting for what is no kernel"),
        (Some("waiting"), None) => (split.waiting_ns, "in waiting for the GPU"),
        (Some(_), _) => (split.host_ns, "on the host"),
        (None, _) => return String::new(),
    };
    let kernel = match &split.kernel {
        Some(name) => format!(", in {}", shorten(name, 40)),
        None => String::new(),
    };
    format!("; most of it {place}: {}{kernel}", signed(part))
}

fn signed(time: f64) -> String {
    let sign = match time {
        0.0 => "",
        time if time < 0.0 => "−",
        _ => "+",
    };
    format!("{sign}{}", nanos(time.abs()))
}

/// The answer in one line: how the wall time changed, and where.
#[must_use]
pub fn headline(difference: &Difference) -> String {
    format!("wall time {}{}", difference.wall_ns.words(nanos), answer(&difference.split))
}

/// The comparison as text.
#[must_use]
pub fn show(difference: &Difference, rows: usize, width: usize) -> String {
    let mut text = headline(difference);
    let Split { gpu_ns, waiting_ns, host_ns, .. } = &difference.split;
    let (waiting, host) = (signed(*waiting_ns), signed(*host_ns));
    let _ = match gpu_ns.map(signed) {
        Some(gpu) => writeln!(
            text,
            "\n  of it            GPU {gpu}, waiting without kernels {waiting}, host {host}"
        ),
        None => writeln!(
            text,
            "\n  of it            waiting for the GPU {waiting}, host {host} (kernels were not timed)"
        ),
    };
    if difference.missing.before + difference.missing.after > 0.0 {
        let missing = |number: f64| counted(number as u64, "event", "events");
        let words = difference.missing.words(missing);
        let _ = writeln!(text, "  missing          {words}; counts are at least what is said");
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
        let share = kernel_ns / wall_ns as f64;
        Summary {
            session: session.into(),
            wall_ns,
            gpu_phase_ns: wall_ns,
            kernels,
            gpu_busy: Some(Busy { kernel_ns: kernel_ns as u64, share, ..Busy::default() }),
            ..Summary::default()
        }
    }

    fn check(before: &Summary, after: &Summary, first: &str) {
        let text = show(&compare(before, after), 10, 120);
        assert_eq!(text.lines().next(), Some(first), "{text}");
    }

    #[test]
    fn a_sleep_on_the_host_is_not_explained_by_a_kernel() {
        let before = summary("a", 1_000_000, &[("step", 200, 2e5)]);
        let after = summary("b", 4_000_000, &[("step", 200, 1.2e5)]);
        let first = "wall time 1.00 ms → 4.00 ms (+300.0 %); most of it on the host: +3.08 ms";
        check(&before, &after, first);
        let text = show(&compare(&before, &after), 10, 120);
        assert!(
            text.contains("GPU −80.0 µs, waiting without kernels 0 ns, host +3.08 ms\n"),
            "{text}"
        );
        let split = compare(&before, &after).split;
        assert_eq!((split.most, split.kernel), (Some("host"), None));
    }

    #[test]
    fn a_kernel_is_named_where_its_sign_and_size_explain_the_gpu() {
        let before = summary("a", 1_000_000, &[("step", 10, 5e5), ("rest", 10, 1e5)]);
        let slower = summary("b", 1_400_000, &[("step", 10, 9e5), ("rest", 10, 1e5)]);
        let first =
            "wall time 1.00 ms → 1.40 ms (+40.0 %); most of it on the GPU: +400 µs, in step";
        check(&before, &slower, first);
        let first =
            "wall time 1.40 ms → 1.00 ms (-28.6 %); most of it on the GPU: −400 µs, in step";
        check(&slower, &before, first);
        // One has become faster, three others slower by more: none of them is most of it.
        let rest = [("a", 10, 2e5), ("b", 10, 2e5), ("c", 10, 2e5), ("step", 10, 3e5)];
        let several = summary("c", 1_300_000, &rest);
        let first = "wall time 1.00 ms → 1.30 ms (+30.0 %); most of it on the GPU: +300 µs";
        let text = show(&compare(&before, &several), 10, 120);
        assert!(text.starts_with(first) && !text.contains("in step"), "{text}");
    }

    #[test]
    fn waiting_without_kernels_is_a_part_of_its_own() {
        let before = summary("a", 1_000_000, &[("step", 10, 1e5)]);
        let mut after = summary("b", 2_000_000, &[("step", 10, 1e5)]);
        after.syncs.blocking_copies_ns = 1_050_000;
        let first = "wall time 1.00 ms → 2.00 ms (+100.0 %); \
                     most of it in waiting for what is no kernel: +950 µs";
        check(&before, &after, first);
        after.own.lost = 1;
        let text = show(&compare(&before, &after), 10, 120);
        assert!(
            text.contains("missing          0 events → 1 event; counts are at least"),
            "{text}"
        );
        after.gpu_busy = None;
        let first =
            "wall time 1.00 ms → 2.00 ms (+100.0 %); most of it in waiting for the GPU: +1.05 ms";
        check(&before, &after, first);
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
        assert!(text.starts_with("wall time 1.00 ms → 1.50 ms (+50.0 %); "), "{text}");
        assert!(text.contains("5 → 0 (-100.0 %)"), "{text}");
    }

    #[test]
    fn equal_sessions_do_not_differ() {
        let one = summary("a", 1_000, &[("same", 10, 5e5)]);
        assert!(compare(&one, &one).kernels.is_empty());
        check(&one, &one, "wall time 1.00 µs → 1.00 µs (same)");
    }
}
