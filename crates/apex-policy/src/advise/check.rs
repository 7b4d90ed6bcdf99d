//! Has a program become slower than it was, by how much, how sure is that, and why?
//!
//! Times of one kernel with one shape are compared as two samples: the slow-down is the ratio of their medians,
//! the confidence comes from their ranks (Mann and Whitney), which ask nothing of how times are distributed. The
//! program itself is compared by the time that even parts of its launches took. A slow-down is a regression if it
//! exceeds the tolerance and chance would show it in less than one of twenty comparisons of this size; many
//! comparisons demand more of each. Beside them stands the wall time, which alone has what happens before, between and
//! after the launches. There is one of each session, so it counts as slower only beyond what runs of one
//! program differ by. What cannot be decided is said to be so, and why.

use crate::amounts::counted;
use std::collections::BTreeMap;

/// One session, as far as it is compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// Names of the devices.
    pub devices: Vec<String>,
    /// The driver's version.
    pub driver: String,
    /// Plain launches and graph launches.
    pub launches: u64,
    /// Nanoseconds that even parts of the launches took, for each launch.
    pub parts_ns: Vec<f64>,
    /// From its start to its end, in nanoseconds.
    pub wall_ns: f64,
    /// Time of it in which kernels ran, where that was measured.
    pub gpu_ns: Option<f64>,
    /// Time waited for the GPU.
    pub waited_ns: f64,
    /// Events that were lost: launches may be missing.
    pub lost: u64,
    /// Kernels by name.
    pub kernels: BTreeMap<String, KernelTimes>,
    /// Mean clock while the GPU was busy, in MHz; none where it was not read.
    pub clock_mhz: Option<f64>,
    /// Why the clock was lower than it could be; empty for no reason.
    pub clock_reason: String,
}

/// Measured times of one kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelTimes {
    /// Executions, timed or not, those through graphs included.
    pub calls: u64,
    /// Hash of its code; 0 where it was not seen.
    pub code: u64,
    /// Registers of one thread.
    pub registers: u64,
    /// By shape, as text: launches and some of the measured times in nanoseconds.
    pub shapes: BTreeMap<String, ShapeTimes>,
}

/// Measured times of one kernel with one shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShapeTimes {
    /// Launches.
    pub calls: u64,
    /// How the times were taken.
    pub basis: String,
    /// Some of the measured times in nanoseconds.
    pub times_ns: Vec<f64>,
}

/// What a comparison comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not slower than the tolerance allows.
    Fine,
    /// Slower, for certain.
    Regression,
    /// Not enough is known.
    Inconclusive,
}

impl Verdict {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Fine => "fine",
            Verdict::Regression => "regression",
            Verdict::Inconclusive => "inconclusive",
        }
    }
}

/// Why something became slower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The kernel's code is not the same.
    ChangedCode,
    /// The kernel is launched with other shapes.
    ChangedConfiguration,
    /// The program launches more or less than before.
    ChangedWork,
    /// The GPU's clock was lower.
    Throttling,
    /// Something else used the GPU: the fastest times are as before, the others are not.
    Neighbour,
    /// The program took longer outside its kernels.
    Host,
    /// Nothing that is known explains it.
    Unknown,
}

impl Cause {
    /// The words for it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Cause::ChangedCode => "changed code",
            Cause::ChangedConfiguration => "changed configuration",
            Cause::ChangedWork => "changed work",
            Cause::Throttling => "throttling",
            Cause::Neighbour => "neighbour",
            Cause::Host => "host",
            Cause::Unknown => "unknown",
        }
    }
}

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The program from its start to its end.
    WallTime,
    /// The program, by the time of one launch with all that belongs to it.
    EachLaunch,
    /// A kernel of this name.
    Kernel(String),
}

/// One thing that was compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// What it is.
    pub subject: Subject,
    /// A kernel's shape; empty for the program, and for a kernel whose shapes changed.
    pub shape: String,
    /// Median time before and after, in nanoseconds.
    pub median_ns: (f64, f64),
    /// Times that were compared.
    pub samples: (usize, usize),
    /// After over before, less one: 0.1 is a tenth slower.
    pub slower: f64,
    /// Share of the session's measured kernel time before; 1 for the program.
    pub weight: f64,
    /// One less the probability that chance makes such a difference; none where there is one time of each.
    pub confidence: Option<f64>,
    /// What it comes to.
    pub verdict: Verdict,
    /// Why, where it is slower.
    pub cause: Option<Cause>,
}

/// The whole comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// What all of it comes to.
    pub verdict: Verdict,
    /// What was compared, the heaviest first.
    pub compared: Vec<Compared>,
    /// Sentences about what could not be compared.
    pub open: Vec<String>,
}

/// Fewer times than this say nothing.
const FEWEST: usize = 5;
/// How often chance may raise an alarm.
const ALARMS: f64 = 0.05;
/// Kernels below this share of the time are shown, and decide nothing.
const MATTERS: f64 = 0.02;
/// A clock lower by this much explains a slow-down.
const LOWER_CLOCK: f64 = 0.03;
/// Wall times of one program may differ by so much from run to run: a machine that is shared, files that are read
/// for the first time. Assumed, on the wide side: what is missed here the launches show.
const RUNS_DIFFER: f64 = 0.25;
/// The part of a slower wall time that must lie outside kernels and waiting for the host to be its cause.
const MOST_OF_IT: f64 = 0.5;

/// Compares a session with the baseline. `tolerance` is the slow-down that is borne, such as 0.05.
#[must_use]
pub fn check(before: &Side, after: &Side, tolerance: f64) -> Checked {
    let mut open = Vec::new();
    if before.devices != after.devices {
        open.push(format!(
            "the devices differ ({} before, {} after): times cannot be compared",
            before.devices.join(", "),
            after.devices.join(", ")
        ));
        return Checked { verdict: Verdict::Inconclusive, compared: Vec::new(), open };
    }
    if before.driver != after.driver {
        open.push(format!("the driver was {} and is {}", before.driver, after.driver));
    }
    let mut compared = Vec::new();
    compared.extend(samples(Subject::WallTime, &[before.wall_ns], &[after.wall_ns]));
    compared.extend(samples(Subject::EachLaunch, &before.parts_ns, &after.parts_ns));
    compared.iter_mut().for_each(|one| one.weight = 1.0);
    let all: f64 = before.kernels.values().map(total_ns).sum();
    for (name, old) in &before.kernels {
        let weight = if all > 0.0 { total_ns(old) / all } else { 0.0 };
        let new = after.kernels.get(name).filter(|new| new.calls > 0);
        match new {
            Some(new) if new.is_timed() => {
                compared.extend(kernel(name, weight, old, new, &mut open));
            }
            _ if weight >= MATTERS => open.push(not_compared(name, old, new, after.lost)),
            _ => {}
        }
    }
    let comparisons = compared.len().max(1) as f64;
    for one in &mut compared {
        decide(one, before, after, tolerance, ALARMS / comparisons);
    }
    compared.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    let matters = |one: &&Compared| one.weight >= MATTERS;
    let any = |verdict| compared.iter().filter(matters).any(|one| one.verdict == verdict);
    // A wall time that is no slower by far says nothing of the rest.
    let of_launches = |one: &&Compared| matters(one) && one.subject != Subject::WallTime;
    let decided =
        compared.iter().filter(of_launches).any(|one| one.verdict != Verdict::Inconclusive);
    let verdict = if any(Verdict::Regression) {
        Verdict::Regression
    } else if any(Verdict::Inconclusive) || !decided {
        Verdict::Inconclusive
    } else {
        Verdict::Fine
    };
    Checked { verdict, compared, open }
}

fn total_ns(kernel: &KernelTimes) -> f64 {
    let of = |shape: &ShapeTimes| median(&shape.times_ns).unwrap_or(0.0) * shape.calls as f64;
    kernel.shapes.values().map(of).sum()
}

impl KernelTimes {
    fn is_timed(&self) -> bool {
        self.shapes.values().any(|shape| !shape.times_ns.is_empty())
    }
}

/// Why a kernel that was timed before has no time to compare it with.
fn not_compared(name: &str, old: &KernelTimes, new: Option<&KernelTimes>, lost: u64) -> String {
    let before = counted(old.calls, "time", "times");
    let lost = match lost {
        0 => String::new(),
        lost => format!(" ({} lost)", counted(lost, "event was", "events were")),
    };
    match new {
        Some(new) => format!(
            "{name} ran {before} before and {} now{lost}, but none of these was timed",
            counted(new.calls, "time", "times")
        ),
        None => format!("{name} ran {before} before and was not launched now{lost}"),
    }
}

/// Compares a kernel shape by shape; where no shape is left, its mean over all of them.
fn kernel(
    name: &str,
    weight: f64,
    old: &KernelTimes,
    new: &KernelTimes,
    open: &mut Vec<String>,
) -> Vec<Compared> {
    let all = total_ns(old).max(1.0);
    let mut found = Vec::new();
    for (shape, before) in &old.shapes {
        let Some(after) = new.shapes.get(shape) else { continue };
        if before.basis != after.basis {
            open.push(format!(
                "{name} {shape} was timed by {}, now by {}",
                before.basis, after.basis
            ));
            continue;
        }
        let subject = Subject::Kernel(name.to_owned());
        if let Some(one) = samples(subject, &before.times_ns, &after.times_ns) {
            let own = median(&before.times_ns).unwrap_or(0.0) * before.calls as f64;
            found.push(Compared {
                shape: shape.clone(),
                weight: weight * own / all,
                cause: changed_code(old, new).or(one.cause),
                ..one
            });
        }
    }
    if found.is_empty() {
        let times = |kernel: &KernelTimes| -> Vec<f64> {
            kernel.shapes.values().flat_map(|shape| shape.times_ns.iter().copied()).collect()
        };
        let subject = Subject::Kernel(name.to_owned());
        if let Some(one) = samples(subject, &times(old), &times(new)) {
            found.push(Compared {
                weight,
                cause: changed_code(old, new).or(Some(Cause::ChangedConfiguration)),
                ..one
            });
        }
    }
    found
}

fn changed_code(old: &KernelTimes, new: &KernelTimes) -> Option<Cause> {
    let seen = old.code != 0 && new.code != 0;
    ((seen && old.code != new.code) || old.registers != new.registers).then_some(Cause::ChangedCode)
}

/// Two samples with their medians and the confidence that they differ; the verdict is still open.
fn samples(subject: Subject, before: &[f64], after: &[f64]) -> Option<Compared> {
    let (old, new) = (median(before)?, median(after)?);
    let is_one = before.len().max(after.len()) == 1;
    let disturbed = matches!(subject, Subject::Kernel(_)) && lowest(after) <= lowest(before) * 1.02;
    Some(Compared {
        subject,
        shape: String::new(),
        median_ns: (old, new),
        samples: (before.len(), after.len()),
        slower: if old > 0.0 { new / old - 1.0 } else { 0.0 },
        weight: 0.0,
        confidence: (!is_one).then(|| confidence(before, after)),
        verdict: Verdict::Inconclusive,
        cause: disturbed.then_some(Cause::Neighbour),
    })
}

fn decide(one: &mut Compared, before: &Side, after: &Side, tolerance: f64, alarms: f64) {
    let is_wall_time = one.subject == Subject::WallTime;
    let tolerance = if is_wall_time { tolerance.max(RUNS_DIFFER) } else { tolerance };
    let enough = is_wall_time || one.samples.0.min(one.samples.1) >= FEWEST;
    let sure = is_wall_time || one.confidence.is_some_and(|confidence| confidence >= 1.0 - alarms);
    let other_work = before.launches.abs_diff(after.launches) as f64
        > 0.01 * before.launches.max(after.launches) as f64;
    one.verdict = match () {
        () if !enough => Verdict::Inconclusive,
        () if one.slower <= tolerance => Verdict::Fine,
        // It may take longer as a whole because it does more.
        () if is_wall_time && other_work => Verdict::Inconclusive,
        () if sure => Verdict::Regression,
        () => Verdict::Inconclusive,
    };
    // What `samples` and `kernel` saw stays unless something explains it better.
    let clock = before.clock_mhz.zip(after.clock_mhz);
    let throttled = clock.is_some_and(|(old, new)| new < old * (1.0 - LOWER_CLOCK))
        || (!after.clock_reason.is_empty() && before.clock_reason.is_empty());
    let of_program = !matches!(one.subject, Subject::Kernel(_));
    one.cause = (one.slower > tolerance).then(|| match one.cause {
        Some(cause @ (Cause::ChangedCode | Cause::ChangedConfiguration)) => cause,
        _ if throttled => Cause::Throttling,
        _ if of_program && other_work => Cause::ChangedWork,
        _ if of_program && host_is_slower(before, after) => Cause::Host,
        Some(cause) => cause,
        None => Cause::Unknown,
    });
}

/// Most of what the program takes longer was spent neither in kernels nor in waiting.
fn host_is_slower(before: &Side, after: &Side) -> bool {
    let are_timed = before.gpu_ns.is_some() && after.gpu_ns.is_some();
    let host_ns = |side: &Side| {
        let gpu_ns = side.gpu_ns.filter(|_| are_timed).unwrap_or(0.0);
        side.wall_ns - gpu_ns.max(side.waited_ns).min(side.wall_ns)
    };
    host_ns(after) - host_ns(before) > MOST_OF_IT * (after.wall_ns - before.wall_ns)
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The time that a tenth stays below.
fn lowest(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 10).copied().unwrap_or(0.0)
}

/// One less the two-sided probability that two samples of one distribution have ranks so far apart: Mann and
/// Whitney's test by its normal approximation, with ties and the half-step correction.
fn confidence(before: &[f64], after: &[f64]) -> f64 {
    let (n, m) = (before.len() as f64, after.len() as f64);
    if before.is_empty() || after.is_empty() {
        return 0.0;
    }
    let mut all: Vec<(f64, bool)> = before.iter().map(|&value| (value, false)).collect();
    all.extend(after.iter().map(|&value| (value, true)));
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut ranks, mut ties, mut at) = (0.0, 0.0, 0);
    while at < all.len() {
        let end = at + all[at..].iter().take_while(|(value, _)| *value == all[at].0).count();
        let tied = (end - at) as f64;
        let rank = (at + 1 + end) as f64 / 2.0;
        ranks += rank * all[at..end].iter().filter(|(_, later)| *later).count() as f64;
        ties += tied * tied * tied - tied;
        at = end;
    }
    let u = ranks - m * (m + 1.0) / 2.0;
    let total = n + m;
    let variance = n * m / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)).max(1.0));
    if variance <= 0.0 {
        return 0.0;
    }
    let z = ((u - n * m / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
    error_function(z / std::f64::consts::SQRT_2)
}

/// The error function of a number from 0 up, to seven digits (Abramowitz and Stegun 7.1.26).
fn error_function(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let sum = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592]
        .iter()
        .fold(0.0, |sum, factor| (sum + factor) * t);
    1.0 - sum * (-x * x).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(middle: f64, count: u32) -> Vec<f64> {
        (0..count).map(|nth| middle * (1.0 + 0.01 * f64::from(nth % 5))).collect()
    }

    fn side(kernels: &[(&str, f64, u32)]) -> Side {
        let kernels = kernels.iter().map(|&(name, middle, count)| {
            let shape =
                ShapeTimes { calls: 100, basis: "cupti".into(), times_ns: times(middle, count) };
            let shapes = BTreeMap::from([("64 x 256".to_owned(), shape)]);
            (name.to_owned(), KernelTimes { calls: 100, code: 7, registers: 32, shapes })
        });
        let devices = vec!["H200".into()];
        Side { devices, wall_ns: 1e6, kernels: kernels.collect(), ..Side::default() }
    }

    fn verdict(before: &Side, after: &Side) -> (Verdict, Option<Cause>) {
        let checked = check(before, after, 0.05);
        (checked.verdict, checked.compared.iter().find_map(|one| one.cause))
    }

    #[test]
    fn a_slower_kernel_is_a_regression_and_noise_is_not() {
        let before = side(&[("step", 1000.0, 40), ("rest", 500.0, 40)]);
        assert_eq!(verdict(&before, &before).0, Verdict::Fine);
        let after = side(&[("step", 1200.0, 40), ("rest", 500.0, 40)]);
        assert_eq!(verdict(&before, &after), (Verdict::Regression, Some(Cause::Unknown)));
        assert_eq!(verdict(&after, &before).0, Verdict::Fine, "faster is fine");
        let little = side(&[("step", 1030.0, 40), ("rest", 500.0, 40)]);
        assert_eq!(verdict(&before, &little).0, Verdict::Fine, "within the tolerance");
    }

    #[test]
    fn a_few_times_decide_nothing() {
        let before = side(&[("step", 1000.0, 3)]);
        assert_eq!(verdict(&before, &side(&[("step", 2000.0, 3)])).0, Verdict::Inconclusive);
        assert_eq!(verdict(&Side::default(), &Side::default()).0, Verdict::Inconclusive);
        let mut elsewhere = before.clone();
        elsewhere.devices = vec!["A100".into()];
        assert_eq!(verdict(&before, &elsewhere).0, Verdict::Inconclusive);
    }

    #[test]
    fn causes_follow_what_changed() {
        let before = side(&[("step", 1000.0, 40)]);
        let slow = side(&[("step", 1500.0, 40)]);
        let mut code = slow.clone();
        code.kernels.get_mut("step").unwrap().code = 8;
        assert_eq!(verdict(&before, &code), (Verdict::Regression, Some(Cause::ChangedCode)));
        let mut shape = slow.clone();
        let kernel = shape.kernels.get_mut("step").unwrap();
        let times = kernel.shapes.remove("64 x 256").unwrap();
        kernel.shapes.insert("32 x 512".into(), times);
        let configuration = (Verdict::Regression, Some(Cause::ChangedConfiguration));
        assert_eq!(verdict(&before, &shape), configuration);
        let (mut cool, mut hot) = (before.clone(), slow);
        (cool.clock_mhz, hot.clock_mhz) = (Some(1980.0), Some(1300.0));
        assert_eq!(verdict(&cool, &hot), (Verdict::Regression, Some(Cause::Throttling)));
        let mut disturbed = before.clone();
        let shape = disturbed.kernels.get_mut("step").unwrap().shapes.get_mut("64 x 256").unwrap();
        shape.times_ns.iter_mut().skip(16).for_each(|time| *time *= 1.6);
        assert_eq!(verdict(&before, &disturbed), (Verdict::Regression, Some(Cause::Neighbour)));
    }

    #[test]
    fn the_program_is_compared_by_parts_of_its_launches() {
        let with = |middle| Side { parts_ns: times(middle, 16), launches: 100, ..Side::default() };
        let checked = check(&with(1000.0), &with(1300.0), 0.05);
        assert_eq!(checked.verdict, Verdict::Regression);
        let each = checked.compared.iter().find(|one| one.subject == Subject::EachLaunch).unwrap();
        assert!(each.confidence.is_some_and(|confidence| confidence > 0.99), "{each:?}");
        let more = Side { launches: 200, ..with(1300.0) };
        assert_eq!(verdict(&with(1000.0), &more).1, Some(Cause::ChangedWork));
    }

    #[test]
    fn a_program_that_sleeps_is_slower_though_its_kernels_are_not() {
        let with = |wall_ns| Side {
            wall_ns,
            gpu_ns: Some(2e5),
            parts_ns: times(1000.0, 16),
            ..side(&[("step", 1000.0, 40)])
        };
        assert_eq!(verdict(&with(1e6), &with(1.2e7)), (Verdict::Regression, Some(Cause::Host)));
        assert_eq!(verdict(&with(1.2e7), &with(1e6)).0, Verdict::Fine, "faster is fine");
        assert_eq!(verdict(&with(1e6), &with(1.2e6)).0, Verdict::Fine, "as runs differ");
        let more = (Verdict::Inconclusive, Some(Cause::ChangedWork));
        assert_eq!(verdict(&with(1e6), &Side { launches: 9, ..with(1.2e7) }), more);
        let waits = Side { gpu_ns: None, waited_ns: 1.1e7, ..with(1.2e7) };
        assert_eq!(verdict(&with(1e6), &waits), (Verdict::Regression, Some(Cause::Unknown)));
        // A part of the launches that stands still is no neighbour on the GPU.
        let mut slow = with(1.2e7);
        slow.parts_ns.iter_mut().skip(8).for_each(|part| *part *= 2.0);
        let checked = check(&with(1e6), &slow, 0.05);
        assert!(
            checked.compared.iter().all(|one| one.cause != Some(Cause::Neighbour)),
            "{checked:?}"
        );
    }

    #[test]
    fn a_kernel_that_was_not_timed_has_not_stopped_running() {
        let before = side(&[("step", 1000.0, 40), ("rest", 500.0, 40)]);
        let mut after = before.clone();
        after.kernels.get_mut("step").unwrap().shapes.clear();
        let open = check(&before, &after, 0.05).open;
        assert_eq!(
            open,
            ["step ran 100 times before and 100 times now, but none of these was timed"]
        );
        after.kernels.remove("step");
        let open = check(&before, &after, 0.05).open;
        assert_eq!(open, ["step ran 100 times before and was not launched now"]);
        after.lost = 1;
        let open = check(&before, &after, 0.05).open;
        assert!(open[0].ends_with("was not launched now (1 event was lost)"), "{open:?}");
    }

    #[test]
    fn confidence_agrees_with_tables() {
        // n = m = 10 without overlap: z = (50 - 0.5) / sqrt(175), p = 0.000183.
        let low: Vec<f64> = (0..10).map(f64::from).collect();
        let high: Vec<f64> = (10..20).map(f64::from).collect();
        assert!((confidence(&low, &high) - (1.0 - 0.000_183)).abs() < 2e-6);
        assert!(confidence(&low, &low) < 0.05);
        assert_eq!(confidence(&[1.0; 5], &[1.0; 5]), 0.0);
    }
}
