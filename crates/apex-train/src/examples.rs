//! Makes examples of rows: features with a history, and what is to be predicted.
//!
//! A model must answer for a kernel it has never seen, one seen a few times and one known well, so each row is
//! shown with several histories. Whatever a row is shown with was measured elsewhere: its own time and those of
//! its own configuration are never in its history.

use crate::likeness::Launches;
use crate::random::Random;
use crate::rows::{Facts, Row};
use crate::split::Part;
use crate::transformer::Passage;
use apex_policy::predict::bound::{Bound, bound};
use apex_policy::predict::compared::Launch;
use apex_policy::predict::features::{COUNT, base, features};
use apex_policy::predict::likeness::Likeness;
use apex_policy::predict::neighbours::Neighbours;
use apex_policy::predict::online::Line;
use apex_policy::predict::question::{Device, History, Question};
use apex_policy::predict::scale::log2;
use std::collections::BTreeMap;

/// One row as models see it.
#[derive(Clone, Debug)]
pub struct Example {
    /// The place of its row.
    pub row: usize,
    /// What is known.
    pub features: [f32; COUNT],
    /// How often its kernel was measured before.
    pub seen: u32,
    /// The least time it can take, in nanoseconds.
    pub bound_nanos: f32,
    /// The time to expect of it, in nanoseconds.
    pub expected_nanos: f32,
    /// log2 of measured time over that.
    pub over_expected: f32,
    /// Measured shares of peaks, where counters were read: achieved occupancy, SM and DRAM throughput.
    pub shares: [Option<f32>; 3],
    /// What the kernel's own line says, in nanoseconds; 0 without a history.
    pub line_nanos: f32,
    /// The last time and the mean of the times that it was shown with, in nanoseconds.
    pub past: Option<(f64, f64)>,
}

impl Example {
    /// The measured time in nanoseconds.
    #[must_use]
    pub fn measured(&self) -> f64 {
        self.nanos(self.over_expected)
    }

    /// log2 of measured time over what the kernel's past says.
    #[must_use]
    pub fn over_base(&self) -> f32 {
        self.over_expected - base(&self.features)
    }

    /// A time from its place over the expected one.
    #[must_use]
    pub fn nanos(&self, over_expected: f32) -> f64 {
        f64::from(self.expected_nanos) * f64::from(over_expected).exp2()
    }
}

/// Which measurements of the same kernel an example may know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// None.
    Nothing,
    /// So many of the other rows of its kernel, chosen at random.
    Some(u32),
    /// All training rows of its kernel but those of its own fold.
    AllOthers,
}

const FOLDS: usize = 8;

/// Rows with what belongs to them, ready to be made into examples.
#[derive(Debug)]
pub struct Source<'a> {
    rows: &'a [Row],
    devices: Vec<Device>,
    bounds: Vec<Bound>,
    launches: Vec<Launch>,
    likeness: Likeness,
}

/// What is known of a kernel from some of its rows.
#[derive(Clone, Debug, Default)]
pub struct Known {
    line: Line,
    near: Neighbours,
    /// The last time and the mean of the times, in nanoseconds.
    past: Option<(f64, f64)>,
}

impl<'a> Source<'a> {
    /// Takes rows and the device that each ran on.
    #[must_use]
    pub fn new(rows: &'a [Row], device_of: impl Fn(&Row) -> Device) -> Source<'a> {
        let devices: Vec<Device> = rows.iter().map(device_of).collect();
        let seen = rows.iter().zip(&devices).map(|(row, device)| {
            let facts = row.facts();
            let question = question(row, device, &facts);
            (bound(&question), Launch::of(&question))
        });
        let (bounds, launches) = seen.unzip();
        Source { rows, devices, bounds, launches, likeness: Likeness::default() }
    }

    /// Takes what was learned of how alike launches are; histories are made with it from then on.
    pub fn set_likeness(&mut self, likeness: &Likeness) {
        self.likeness = likeness.clone();
    }

    /// The launches of every kernel of a part, with log2 of their times over what was expected.
    #[must_use]
    pub fn launches(&self, parts: &[Part], of: Part) -> Vec<Launches> {
        let mut found: BTreeMap<u64, Launches> = BTreeMap::new();
        for place in (0..self.rows.len()).filter(|&place| parts[place] == of) {
            let launch = (self.launches[place], self.over_expected(place));
            found.entry(self.rows[place].identity).or_default().push(launch);
        }
        found.into_values().collect()
    }

    fn over_expected(&self, place: usize) -> f32 {
        log2(self.rows[place].median_ns as f32 / self.bounds[place].expected())
    }

    /// The rows.
    #[must_use]
    pub fn rows(&self) -> &'a [Row] {
        self.rows
    }

    /// The bound of a row.
    #[must_use]
    pub fn bound(&self, row: usize) -> &Bound {
        &self.bounds[row]
    }

    /// An example of one row, with what is known of its kernel.
    #[must_use]
    pub fn example(&self, place: usize, known: &Known) -> Example {
        let (row, bound) = (&self.rows[place], &self.bounds[place]);
        let facts = row.facts();
        let near = known.near.near(&self.launches[place], &self.likeness);
        let history = History { near, ..known.line.history(bound) };
        let question = question(row, &self.devices[place], &facts);
        Example {
            row: place,
            features: features(&question, &history),
            seen: history.count,
            bound_nanos: bound.nanos,
            expected_nanos: bound.expected(),
            over_expected: self.over_expected(place),
            shares: [row.achieved_occupancy, row.sm_throughput, row.dram_throughput],
            line_nanos: known.line.nanos(bound).unwrap_or(0.0),
            past: known.past,
        }
    }

    /// What some rows tell of their kernel.
    #[must_use]
    pub fn known(&self, places: impl IntoIterator<Item = usize>) -> Known {
        let mut known = Known::default();
        let (mut last, mut sum, mut count) = (0.0, 0.0, 0.0);
        for place in places {
            let nanos = self.rows[place].median_ns;
            known.line.observe(&self.bounds[place], nanos as f32);
            known.near.observe(&self.launches[place], self.over_expected(place));
            (last, sum, count) = (nanos, sum + nanos, count + 1.0);
        }
        known.past = (count > 0.0).then(|| (last, sum / count));
        known
    }

    /// Examples of all rows of a part. Histories come from the training rows of the same kernel, for rows to judge by
    /// and rows that set the intervals also from the latter; for a part of unseen kernels, from the other rows of that
    /// part.
    #[must_use]
    pub fn examples(&self, parts: &[Part], of: Part, shown: Shown, seed: u64) -> Vec<Example> {
        let mut random = Random::new(seed);
        let pools = self.by_identity(|place| shows(parts[place], of), &mut random);
        let mut examples = Vec::new();
        for (identity, wanted) in self.by_identity(|place| parts[place] == of, &mut random) {
            let pool = pools.get(&identity).map_or(&[][..], Vec::as_slice);
            // The rows of one fold share what all others tell.
            let folds = if shows(of, of) { FOLDS } else { 1 };
            let seen_by = |fold: usize| {
                let others = pool.iter().copied().enumerate();
                let shown =
                    move |&(nth, place): &(usize, usize)| parts[place] != of || nth % folds != fold;
                others.filter(shown).map(|(_, place)| place)
            };
            let known: Vec<Known> = match shown {
                Shown::AllOthers => (0..folds).map(|fold| self.known(seen_by(fold))).collect(),
                _ => Vec::new(),
            };
            for place in wanted {
                examples.push(match shown {
                    Shown::Nothing => self.example(place, &Known::default()),
                    Shown::Some(count) => {
                        let others = self.others(place, pool, count, &mut random);
                        self.example(place, &self.known(others))
                    }
                    Shown::AllOthers => {
                        let nth = pool.iter().position(|&other| other == place).unwrap_or(0);
                        self.example(place, &known[nth % folds])
                    }
                });
            }
        }
        examples.sort_by_key(|example| example.row);
        examples
    }

    /// Every row of a part with at most so many launches of its kernel before it, chosen as for examples.
    #[must_use]
    pub fn passages(
        &self,
        parts: &[Part],
        of: Part,
        count: u32,
        seed: u64,
    ) -> Vec<(usize, Passage)> {
        let mut random = Random::new(seed);
        let pools = self.by_identity(|place| shows(parts[place], of), &mut random);
        let mut passages = Vec::new();
        for place in (0..self.rows.len()).filter(|&place| parts[place] == of) {
            let pool = pools.get(&self.rows[place].identity).map_or(&[][..], Vec::as_slice);
            let before = self.others(place, pool, count, &mut random);
            let launch = |place: usize| (self.launches[place].signature, self.over_expected(place));
            let (asked, truth) = launch(place);
            let before = before.into_iter().map(launch).collect();
            passages.push((place, Passage { asked, before, truth }));
        }
        passages
    }

    /// So many rows of the pool that have another configuration.
    fn others(&self, place: usize, pool: &[usize], count: u32, random: &mut Random) -> Vec<usize> {
        let own = &self.rows[place];
        let same = |other: usize| {
            let row = &self.rows[other];
            other == place
                || (row.shape(), row.dynamic_shared, &row.integers)
                    == (own.shape(), own.dynamic_shared, &own.integers)
        };
        let mut others = Vec::new();
        // Ever the same few rows may be drawn where a kernel has few: then the history is shorter.
        for _ in 0..4 * count {
            let Some(&other) = pool.get(random.below(pool.len())) else { break };
            if !same(other) && !others.contains(&other) && others.len() < count as usize {
                others.push(other);
            }
        }
        others
    }

    fn by_identity(
        &self,
        wanted: impl Fn(usize) -> bool,
        random: &mut Random,
    ) -> BTreeMap<u64, Vec<usize>> {
        let mut found: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for place in (0..self.rows.len()).filter(|&place| wanted(place)) {
            found.entry(self.rows[place].identity).or_default().push(place);
        }
        found.values_mut().for_each(|places| random.shuffle(places));
        found
    }
}

/// Whether rows of one part may be known when rows of another are asked for: rows to judge by are asked for after all
/// others of their kernel were measured, and rows that set the intervals alike, or these would be too wide.
fn shows(part: Part, of: Part) -> bool {
    match of {
        Part::CalibrateUnseen | Part::JudgeUnseen => part == of,
        Part::JudgeKnown | Part::CalibrateKnown => {
            matches!(part, Part::Train | Part::CalibrateKnown)
        }
        Part::Train => part == Part::Train,
    }
}

/// A row as a question.
pub(crate) fn question<'a>(row: &Row, device: &'a Device, facts: &'a Facts) -> Question<'a> {
    Question {
        device,
        kernel: &facts.kernel,
        shape: row.shape(),
        dynamic_shared: row.dynamic_shared,
        arguments: &facts.arguments,
        work: row.work(),
        walked: &facts.walked,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use apex_policy::Chip;

    /// Rows of a made-up device whose times follow a rule, to test machinery with; no model of them is kept.
    pub(crate) fn fixture(kernels: u32, each: u32) -> Vec<Row> {
        let mut random = Random::new(11);
        let mut rows = Vec::new();
        for kernel in 0..kernels {
            let slow = 1.0 + 3.0 * f64::from(random.unit());
            for nth in 0..each {
                let blocks = 1 + random.below(4_000) as u32;
                let block = 32 << random.below(5);
                let bytes = f64::from(blocks) * f64::from(block) * 48.0;
                let thin = if block < 128 { 1.6 } else { 1.0 };
                let noise = 1.0 + 0.02 * f64::from(random.normal());
                rows.push(Row {
                    kernel: format!("kernel{kernel}"),
                    entry: format!("kernel{kernel}"),
                    identity: u64::from(kernel) + 1,
                    device: "made up".into(),
                    major: 9,
                    multiprocessors: 132,
                    l2_bytes: 50 << 20,
                    grid_x: blocks,
                    grid_y: 1,
                    grid_z: 1,
                    block_x: block,
                    block_y: 1,
                    block_z: 1,
                    registers: 16 + kernel,
                    mix: format!("{},{}", 20 + kernel, kernel % 7),
                    integers: format!("{}", u64::from(nth)),
                    work_known: true,
                    pipe: "single".into(),
                    bytes_read: bytes,
                    runs: 20,
                    median_ns: (2_500.0_f64).max(1_000.0 + bytes / 4_000.0 * slow * thin) * noise,
                    sm_throughput: Some((0.8 / slow) as f32),
                    achieved_occupancy: Some(0.5),
                    ..Row::default()
                });
            }
        }
        rows
    }

    pub(crate) fn device(_: &Row) -> Device {
        let chip = Chip::for_capability(9, 0).unwrap();
        Device::from_attributes(chip, 132, 1_980_000, 4e12, 50 << 20)
    }

    #[test]
    fn nothing_of_a_row_is_in_its_own_history() {
        let rows = fixture(3, 40);
        let parts = vec![Part::Train; rows.len()];
        let source = Source::new(&rows, device);
        let cold = source.examples(&parts, Part::Train, Shown::Nothing, 1);
        assert!(cold.iter().all(|example| example.seen == 0 && example.line_nanos == 0.0));
        let known = source.examples(&parts, Part::Train, Shown::AllOthers, 1);
        assert!(known.iter().all(|example| example.seen == 35));
        let few = source.examples(&parts, Part::Train, Shown::Some(3), 1);
        assert!(few.iter().all(|example| example.seen <= 3));
        assert_eq!(known.len(), rows.len());
    }

    #[test]
    fn unseen_kernels_learn_from_their_own_rows_only() {
        let rows = fixture(2, 30);
        let parts: Vec<Part> = rows
            .iter()
            .map(|row| if row.identity == 1 { Part::Train } else { Part::JudgeUnseen })
            .collect();
        let source = Source::new(&rows, device);
        let examples = source.examples(&parts, Part::JudgeUnseen, Shown::Some(10), 1);
        assert_eq!(examples.len(), 30);
        assert!(examples.iter().all(|example| (8..=10).contains(&example.seen)));
    }
}
