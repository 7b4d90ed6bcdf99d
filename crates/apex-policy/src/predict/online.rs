//! The line of one kernel: t = max(floor, a + work / throughput), corrected by every measured time.
//!
//! A kernel that was measured in some shapes is predicted in others. Work is what the launch's parts are expected
//! to take beyond the launch itself, so the slope says how far from that the kernel runs. Small launches sit on a floor: a
//! line without one errs by tens of per cent there. Memory is bounded: measured times are kept as running
//! means for each octave of work, robustly, and the line is fitted anew over those few points.

use super::bound::Bound;
use super::question::{History, Near};
use super::repeats::widened;
use super::scale::log2;

/// Octaves of work, from a nanosecond to four seconds.
const POINTS: usize = 32;
/// Measurements of a point after which older ones fade.
const MEMORY: f32 = 16.0;
const FIRST_HALF_WIDTH: f32 = 0.6;
const NARROWEST: f32 = 0.015;
/// How far one measurement may pull a point, in log2, once the point is known.
const FURTHEST: f32 = 0.5;

#[derive(Clone, Copy, Debug, Default)]
struct Point {
    count: u16,
    log_work: f32,
    log_nanos: f32,
}

/// What is known of one kernel's times.
#[derive(Clone, Debug)]
pub struct Line {
    points: [Point; POINTS],
    floor: f32,
    offset: f32,
    slope: f32,
    half_width: f32,
    count: u32,
    last: f32,
    mean: f32,
    variance: f32,
}

impl Default for Line {
    fn default() -> Line {
        Line {
            points: [Point::default(); POINTS],
            floor: 0.0,
            offset: 0.0,
            slope: 1.0,
            half_width: FIRST_HALF_WIDTH,
            count: 0,
            last: 0.0,
            mean: 0.0,
            variance: 0.0,
        }
    }
}

impl Line {
    /// Times measured.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The time of a launch with this bound, in nanoseconds; none before the first measurement.
    #[inline]
    #[must_use]
    pub fn nanos(&self, bound: &Bound) -> Option<f32> {
        (self.count > 0).then(|| self.at(bound.work_nanos()))
    }

    /// Half of an 80 % interval, in log2.
    #[inline]
    #[must_use]
    pub fn half_width(&self) -> f32 {
        self.half_width
    }

    /// What models see of it, for a launch with this bound; what is near it is known elsewhere.
    #[must_use]
    pub fn history(&self, bound: &Bound) -> History {
        let line = self.nanos(bound).map_or(0.0, |nanos| log2(nanos / bound.expected()));
        History {
            count: self.count,
            last: self.last,
            mean: self.mean,
            spread: self.variance.max(0.0).sqrt(),
            line,
            near: Near::default(),
        }
    }

    /// Takes in a measured time of a launch with this bound.
    pub fn observe(&mut self, bound: &Bound, nanos: f32) {
        if !(nanos.is_finite() && nanos > 0.0 && bound.expected().is_finite()) {
            return;
        }
        let work = bound.work_nanos().max(1.0);
        if self.count > 0 {
            let error = log2(nanos / self.at(work));
            self.half_width =
                widened(self.half_width, error, self.count as f32).clamp(NARROWEST, 8.0);
        }
        self.count = self.count.saturating_add(1);
        let over_expected = log2(nanos / bound.expected());
        let share = 1.0 / (self.count as f32).min(256.0);
        let step = over_expected - self.mean;
        self.last = over_expected;
        self.mean += share * step;
        self.variance = (1.0 - share) * (self.variance + share * step * step);
        self.take(work, log2(nanos));
        self.fit(bound.fixed_nanos().max(1.0));
    }

    #[inline]
    fn at(&self, work: f32) -> f32 {
        (self.offset + self.slope * work).max(self.floor).max(1.0)
    }

    fn take(&mut self, work: f32, log_nanos: f32) {
        let log_work = log2(work);
        let point = &mut self.points[(log_work as usize).min(POINTS - 1)];
        point.count = point.count.saturating_add(1);
        let share = 1.0 / f32::from(point.count).min(MEMORY);
        let error = log_nanos - point.log_nanos;
        if point.count == 1 || (point.count <= 3 && error < -FURTHEST) {
            // What disturbs a measurement makes it longer: an early one far below is the truer.
            (point.log_work, point.log_nanos) = (log_work, log_nanos);
            return;
        }
        // Within an octave time grows no faster than work: only what is beyond that is an outlier.
        point.log_nanos += share * error.clamp(-1.0 - FURTHEST, 1.0 + FURTHEST);
        point.log_work += share * (log_work - point.log_work);
    }

    /// Tries every number of points as lying on the floor and keeps the line that fits all of them best.
    fn fit(&mut self, least: f32) {
        let mut best = f32::INFINITY;
        let mut found = [Point::default(); POINTS];
        let mut used = 0;
        for point in self.points.iter().filter(|point| point.count > 0) {
            found[used] = *point;
            used += 1;
        }
        let points = &found[..used];
        for flat in 0..points.len() {
            let floor = match flat {
                0 => least.min(points[0].log_nanos.exp2()),
                _ => mean_time(&points[..flat]),
            };
            let (offset, slope) = sloped(&points[flat..], least);
            let candidate = Line { floor, offset, slope, ..Line::default() };
            let error: f32 = points
                .iter()
                .map(|point| {
                    let error = log2(candidate.at(point.log_work.exp2())) - point.log_nanos;
                    error * error * f32::from(point.count.min(8))
                })
                .sum();
            // A longer floor must earn its place, or noise among small launches would make one.
            let error = error * (1.0 + 0.05 * flat as f32) + 1e-4 * flat as f32;
            if error < best {
                best = error;
                (self.floor, self.offset, self.slope) = (floor, offset, slope);
            }
        }
    }
}

/// The usual time of points that lie on the floor, in nanoseconds.
fn mean_time(points: &[Point]) -> f32 {
    let weights: f32 = points.iter().map(|point| f32::from(point.count)).sum();
    let sum: f32 = points.iter().map(|point| f32::from(point.count) * point.log_nanos).sum();
    (sum / weights).exp2()
}

/// Offset and slope that fit the points with the least relative error. The device's floor at no work counts a
/// little too: it decides where a single point, or points of one size, leave the slope open.
fn sloped(points: &[Point], least: f32) -> (f32, f32) {
    let smallest = points.first().map_or(1.0, |point| point.log_nanos.exp2());
    let prior = 0.05 / (smallest * smallest);
    let least = least.min(smallest);
    let mut sums = [prior, 0.0, 0.0, prior * least, 0.0];
    for point in points {
        let (time, at) = (point.log_nanos.exp2(), point.log_work.exp2());
        let weight = f32::from(point.count.min(8)) / (time * time);
        sums[0] += weight;
        sums[1] += weight * at;
        sums[2] += weight * at * at;
        sums[3] += weight * time;
        sums[4] += weight * at * time;
    }
    let [count, work, work_squared, time, work_time] = sums;
    let divisor = count * work_squared - work * work;
    let slope = if divisor > 0.0 { (count * work_time - work * time) / divisor } else { 0.0 };
    let offset = (time - slope * work) / count;
    if slope < 0.0 {
        (time / count, 0.0)
    } else if offset < 0.0 {
        (0.0, work_time / work_squared.max(f32::MIN_POSITIVE))
    } else {
        (offset, slope)
    }
}

/// The lines of all kernels of a program, in a table of fixed size.
#[derive(Clone, Debug)]
pub struct Lines {
    slots: Box<[(u64, Line)]>,
}

const WINDOW: usize = 8;

impl Lines {
    /// A table for about `kernels` kernels.
    #[must_use]
    pub fn new(kernels: usize) -> Lines {
        let slots = (kernels.max(WINDOW) * 2).next_power_of_two();
        Lines { slots: vec![(0, Line::default()); slots].into() }
    }

    /// The line of a kernel that was measured.
    #[inline]
    #[must_use]
    pub fn find(&self, kernel: u64) -> Option<&Line> {
        let slots = self.window(kernel).map(|place| &self.slots[place]);
        slots.into_iter().find(|(known, line)| *known == kernel && line.count > 0).map(|(_, l)| l)
    }

    /// Takes in a measured time. A full window gives up the kernel that was measured least.
    pub fn observe(&mut self, kernel: u64, bound: &Bound, nanos: f32) {
        let window = self.window(kernel);
        let known = window.iter().find(|&&place| {
            let (known, line) = &self.slots[place];
            *known == kernel && line.count > 0
        });
        let place = known.copied().unwrap_or_else(|| {
            let least = window.into_iter().min_by_key(|&place| self.slots[place].1.count);
            let place = least.unwrap_or(0);
            self.slots[place] = (kernel, Line::default());
            place
        });
        self.slots[place].1.observe(bound, nanos);
    }

    #[inline]
    fn window(&self, kernel: u64) -> [usize; WINDOW] {
        let mask = self.slots.len() - 1;
        let start = (kernel.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        std::array::from_fn(|nth| (start + nth) & mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::anatomy::Anatomy;
    use crate::predict::parts::{GROUPS, Group};
    use crate::predict::question::Work;

    fn bound(work_nanos: f32) -> Bound {
        let mut groups = [0.0; GROUPS];
        (groups[Group::Launch as usize], groups[Group::Bytes as usize]) = (2000.0, work_nanos);
        Bound {
            work: Work::default(),
            known: true,
            compute_nanos: 0.0,
            memory_nanos: work_nanos,
            nanos: 2000.0 + work_nanos,
            anatomy: Anatomy { groups, nanos: 2000.0 + work_nanos },
        }
    }

    /// A kernel with a floor and some noise; the same every time.
    fn truth(work: f32, nth: u32) -> f32 {
        let noise = ((nth.wrapping_mul(2_654_435_761) >> 16) as f32 / 65_536.0 - 0.5) * 0.04;
        (1_500.0 + 1.6 * work).max(4_000.0) * (1.0 + noise)
    }

    fn worst_error(line: &Line) -> f32 {
        let works = (4..24).map(|octave| (octave as f32).exp2());
        let error = |work: f32| {
            let expected = (1_500.0 + 1.6 * work).max(4_000.0);
            (line.nanos(&bound(work)).unwrap() / expected - 1.0).abs()
        };
        works.map(error).fold(0.0, f32::max)
    }

    #[test]
    fn ten_measurements_of_other_sizes_are_enough() {
        let mut line = Line::default();
        for nth in 0..10 {
            let work = (5.0 + 1.7 * nth as f32).exp2();
            line.observe(&bound(work), truth(work, nth));
        }
        assert!(worst_error(&line) < 0.15, "{}", worst_error(&line));
    }

    #[test]
    fn many_measurements_are_exact_and_the_interval_covers_four_of_five() {
        let mut line = Line::default();
        let (mut inside, mut asked) = (0, 0);
        for nth in 0..4_000_u32 {
            let work = (4.0 + (nth.wrapping_mul(40_503) % 2_000) as f32 / 100.0).exp2();
            let measured = truth(work, nth);
            if nth > 500 {
                let error = (measured / line.nanos(&bound(work)).unwrap()).log2().abs();
                inside += u32::from(error <= line.half_width());
                asked += 1;
            }
            line.observe(&bound(work), measured);
        }
        let coverage = inside as f32 / asked as f32;
        assert!((0.75..=0.85).contains(&coverage), "{coverage}");
        assert!(worst_error(&line) < 0.06, "{}", worst_error(&line));
    }

    #[test]
    fn one_measurement_scales_with_work() {
        let mut line = Line::default();
        line.observe(&bound(100_000.0), 202_000.0);
        let twice = line.nanos(&bound(200_000.0)).unwrap();
        assert!((twice / 402_000.0 - 1.0).abs() < 0.02, "{twice}");
    }

    #[test]
    fn outliers_are_borne() {
        let mut line = Line::default();
        for nth in 0..200 {
            let work = (8.0 + (nth % 12) as f32).exp2();
            let factor = if nth % 17 == 3 { 30.0 } else { 1.0 };
            line.observe(&bound(work), truth(work, nth) * factor);
        }
        assert!(worst_error(&line) < 0.35, "{}", worst_error(&line));
    }

    #[test]
    fn a_table_of_lines_keeps_kernels_apart() {
        let mut lines = Lines::new(8);
        assert!(lines.find(1).is_none());
        for _ in 0..3 {
            lines.observe(1, &bound(1_000.0), 5_000.0);
            lines.observe(2, &bound(1_000.0), 50_000.0);
        }
        let at = |kernel| lines.find(kernel).unwrap().nanos(&bound(1_000.0)).unwrap();
        assert!((at(1) / 5_000.0 - 1.0).abs() < 0.1 && (at(2) / 50_000.0 - 1.0).abs() < 0.1);
        for kernel in 3..10_000 {
            lines.observe(kernel, &bound(1.0), 1.0);
        }
        assert!(lines.find(1).is_some(), "what was measured often is kept");
    }
}
