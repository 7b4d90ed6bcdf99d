//! Compares a session with a baseline: makes both sides from their rows, lets the policy decide, shows it.
//!
//! Of each kernel and shape a bounded number of measured times is kept, evenly over the session. The program's
//! own times are its wall time and those of sixteen even parts of its launches after the first quarter, which is
//! warm-up. Whether a kernel ran at all is told by its executions, not by its times.

use crate::names::{Demangled, shorten};
use crate::progress::Progress;
use crate::read::Stored;
use crate::show::{count, counted, nanos, percent};
use crate::summary::SCHEMA;
use apex_core::event::{LaunchShape, TimeBasis, What};
use apex_policy::advise::check::{Checked, Compared, Side, Subject, Verdict, check};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::Write as _;

/// A comparison as a document.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: u64,
    /// Id of the baseline.
    pub baseline: String,
    /// Id of the session looked at.
    pub session: String,
    /// `fine`, `regression` or `inconclusive`.
    pub verdict: &'static str,
    /// The slow-down that is borne, from 0 up.
    pub tolerance: f64,
    /// What was compared, the heaviest first.
    pub compared: Vec<ComparedDocument>,
    /// Sentences about what could not be compared.
    pub open: Vec<String>,
}

/// One thing that was compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedDocument {
    /// `wall-time`, `each-launch` (the program's time for one launch with all that belongs to it) or `kernel`.
    pub subject: &'static str,
    /// The kernel; null for the program.
    pub kernel: Option<String>,
    /// Its shape.
    pub shape: String,
    /// Median before, in nanoseconds.
    pub before_ns: f64,
    /// Median after.
    pub after_ns: f64,
    /// Times compared before and after.
    pub samples: (usize, usize),
    /// After over before, less one.
    pub slower: f64,
    /// Share of the baseline's kernel time; 1 for the program.
    pub weight: f64,
    /// One less the probability that chance makes such a difference; null for the wall time, of which there is one.
    pub confidence: Option<f64>,
    /// `fine`, `regression` or `inconclusive`.
    pub verdict: &'static str,
    /// Why it is slower, where it is.
    pub likely_cause: Option<&'static str>,
}

/// Compares two stored sessions.
pub fn of_sessions(
    baseline: &mut Stored,
    session: &mut Stored,
    tolerance: f64,
    progress: &mut Progress,
) -> (Document, Verdict) {
    let (before, after) = (side(baseline, progress), side(session, progress));
    let Checked { verdict, compared, open } = check(&before, &after, tolerance);
    let document = Document {
        schema: SCHEMA,
        baseline: baseline.record.id.clone(),
        session: session.record.id.clone(),
        verdict: verdict.word(),
        tolerance,
        compared: compared.iter().map(document).collect(),
        open,
    };
    (document, verdict)
}

fn document(one: &Compared) -> ComparedDocument {
    let (subject, kernel) = match &one.subject {
        Subject::WallTime => ("wall-time", None),
        Subject::EachLaunch => ("each-launch", None),
        Subject::Kernel(name) => ("kernel", Some(name.clone())),
    };
    ComparedDocument {
        subject,
        kernel,
        shape: one.shape.clone(),
        before_ns: one.median_ns.0,
        after_ns: one.median_ns.1,
        samples: one.samples,
        slower: one.slower,
        weight: one.weight,
        confidence: one.confidence,
        verdict: one.verdict.word(),
        likely_cause: one.cause.map(|cause| cause.words()),
    }
}

/// Parts of the launches after warm-up.
const PARTS: u64 = 16;

fn side(stored: &mut Stored, progress: &mut Progress) -> Side {
    let summary = stored.summary(progress);
    let total = summary.launches + summary.graph_launches;
    let mut parts = Parts::of(total);
    let mut times: HashMap<(u32, u32, LaunchShape), (u64, [Sample; TimeBasis::ALL.len()])> =
        HashMap::new();
    let (known, _) = stored.replay(progress, |_, row| match row.what {
        What::Launch(launch) if !launch.captured && row.succeeded() => {
            parts.launched(row.time_ns);
            if times.len() < MOST_SHAPES {
                let key = (row.process, launch.kernel.0, launch.shape);
                times.entry(key).or_default().0 += 1;
            }
        }
        What::GraphLaunch { captured: false, .. } if row.succeeded() => {
            parts.launched(row.time_ns);
        }
        What::GpuTime { kernel, shape, nanos, basis } => {
            if let Some((_, samples)) = times.get_mut(&(row.process, kernel.0, shape)) {
                samples[usize::from(basis.code())].add(nanos as f64);
            }
        }
        _ => {}
    });
    let clocks = crate::evidence::clocks(&stored.directory);
    let mut side = Side {
        devices: summary.devices.iter().map(|device| device.name.clone()).collect(),
        driver: summary.driver.clone().unwrap_or_default(),
        launches: total,
        parts_ns: parts.times,
        wall_ns: summary.wall_ns as f64,
        gpu_ns: summary.busy_ns(),
        waited_ns: summary.waited_ns() as f64,
        lost: summary.own.missing(),
        clock_mhz: clocks.as_ref().map(|clocks| clocks.mean_mhz),
        clock_reason: clocks.map(|clocks| clocks.reason).unwrap_or_default(),
        ..Side::default()
    };
    for kernel in summary.kernels.iter().filter(|kernel| !kernel.graph) {
        side.kernels.entry(kernel.name.clone()).or_default().calls += kernel.calls;
    }
    let mut names = Demangled::default();
    for ((process, kernel, shape), (calls, samples)) in times {
        let Some(facts) = known.kernel(process, kernel) else { continue };
        let best = [TimeBasis::Cupti, TimeBasis::EventPair, TimeBasis::EventPairIdle]
            .into_iter()
            .find(|basis| !samples[usize::from(basis.code())].kept.is_empty());
        let Some(basis) = best else { continue };
        let entry = side.kernels.entry(names.name(&facts.name).to_owned()).or_default();
        if entry.shapes.is_empty() {
            (entry.code, entry.registers) = (facts.image_hash, facts.registers);
        }
        let same = entry.shapes.entry(words(&shape)).or_default();
        same.calls += calls;
        same.basis = basis.word().into();
        same.times_ns.extend(&samples[usize::from(basis.code())].kept);
    }
    side
}

/// Kernels with their shapes that are told apart.
const MOST_SHAPES: usize = 1 << 16;

/// Some of many times, evenly spread: every second one goes when there are too many.
#[derive(Default)]
struct Sample {
    kept: Vec<f64>,
    every: u64,
    seen: u64,
}

const MOST_KEPT: usize = 512;

impl Sample {
    fn add(&mut self, nanos: f64) {
        self.every = self.every.max(1);
        if self.seen.is_multiple_of(self.every) {
            self.kept.push(nanos);
            if self.kept.len() > MOST_KEPT {
                let mut nth = 0;
                self.kept.retain(|_| {
                    nth += 1;
                    nth % 2 == 1
                });
                self.every *= 2;
            }
        }
        self.seen += 1;
    }
}

/// The time of even parts of the launches.
struct Parts {
    from: u64,
    each: u64,
    launched: u64,
    began_ns: u64,
    times: Vec<f64>,
}

impl Parts {
    fn of(total: u64) -> Parts {
        let from = total / 4;
        let each = (total - from) / PARTS;
        Parts { from, each, launched: 0, began_ns: 0, times: Vec::new() }
    }

    fn launched(&mut self, at_ns: u64) {
        let past = self.launched.checked_sub(self.from);
        self.launched += 1;
        let Some(past) = past.filter(|past| self.each > 0 && past.is_multiple_of(self.each)) else {
            return;
        };
        if past > 0 {
            self.times.push(at_ns.saturating_sub(self.began_ns) as f64 / self.each as f64);
        }
        self.began_ns = at_ns;
    }
}

fn words(shape: &LaunchShape) -> String {
    let LaunchShape { grid, block, dynamic_shared, .. } = shape;
    let mut words = format!(
        "{}x{}x{} blocks of {}x{}x{}",
        grid[0], grid[1], grid[2], block[0], block[1], block[2]
    );
    if *dynamic_shared > 0 {
        let _ = write!(words, ", {dynamic_shared} B shared");
    }
    words
}

/// The comparison as text.
#[must_use]
pub fn show(document: &Document, rows: usize, width: usize) -> String {
    let slow = document.compared.iter().filter(|one| one.verdict == "regression").count() as u64;
    let all = counted(document.compared.len() as u64, "comparison", "comparisons");
    let tolerance = percent(document.tolerance);
    let mut text = match document.verdict {
        "regression" if slow == 1 => {
            format!("regression: 1 of {all} is slower than {tolerance} allows\n")
        }
        "regression" => format!("regression: {slow} of {all} are slower than {tolerance} allows\n"),
        "fine" => format!("fine: nothing of {all} is slower than {tolerance} allows\n"),
        _ => format!("inconclusive: {all} do not decide it\n"),
    };
    let order = |one: &&ComparedDocument| (one.verdict != "regression", one.kernel.is_some());
    let mut shown: Vec<&ComparedDocument> = document.compared.iter().collect();
    shown.sort_by_key(order);
    for one in shown.iter().take(rows) {
        let name = match (one.subject, &one.kernel) {
            (_, Some(kernel)) => {
                format!("{} {}", shorten(kernel, width.saturating_sub(90).max(24)), one.shape)
            }
            ("wall-time", _) => "the program, wall time".into(),
            _ => "the program, for each launch".into(),
        };
        let basis = match one.confidence {
            Some(confidence) => format!(
                "confidence {:.1} %, {} and {} times",
                confidence * 100.0,
                count(one.samples.0 as u64),
                count(one.samples.1 as u64)
            ),
            None => "one run each".into(),
        };
        let cause = one.likely_cause.map_or(String::new(), |cause| format!("; likely {cause}"));
        let _ = writeln!(
            text,
            "  {:<12} {:>9} → {:>9} ({:+.1} %, {basis}, weight {}){cause}  {name}",
            one.verdict,
            nanos(one.before_ns),
            nanos(one.after_ns),
            one.slower * 100.0,
            percent(one.weight)
        );
    }
    if shown.len() > rows {
        let _ = writeln!(text, "  and {} more; --json shows all", shown.len() - rows);
    }
    for sentence in &document.open {
        let _ = writeln!(text, "  {sentence}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_even_and_leave_the_warm_up_out() {
        let mut parts = Parts::of(640);
        (0..640).for_each(|nth| parts.launched(nth * 100));
        assert_eq!(parts.times.len(), 15);
        assert!(parts.times.iter().all(|&time| (time - 100.0).abs() < 1e-9));
        let mut few = Parts::of(3);
        (0..3).for_each(|nth| few.launched(nth));
        assert!(few.times.is_empty());
    }

    #[test]
    fn a_sample_is_spread_over_all_times() {
        let mut sample = Sample::default();
        (0..100_000).for_each(|nth| sample.add(f64::from(nth)));
        assert!(sample.kept.len() <= MOST_KEPT && sample.kept.len() > MOST_KEPT / 4);
        assert!(sample.kept.last().is_some_and(|&last| last > 90_000.0));
    }
}
