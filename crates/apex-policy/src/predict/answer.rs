//! Puts the parts together: one question, one answer, and where each number came from.
//!
//! An exact repeat is answered with what was measured. A kernel that was measured in other shapes is answered by
//! the trees, which see its history, or by its own line where there are no trees. A kernel never seen goes to
//! the trees, else to the small network, else to what its parts cost on the device. No number goes out without its interval and
//! its basis: `exact` for arithmetic, `measured` for repeats, `model` for everything else.

use super::acquaintance::Acquaintance;
use super::bound::{Bound, bound, bound_of};
use super::compared::Launch;
use super::exact::{Exact, exact};
use super::features::{features, small_inputs};
use super::likeness::Likeness;
use super::neighbours::Neighbours;
use super::network::SmallNetwork;
use super::online::Lines;
use super::programs::{Rest, Said};
use super::question::{History, Near, Question};
use super::repeats::{Repeats, key};
use super::scale::log2;
use super::trees::Trees;
use std::collections::BTreeMap;

/// What kind of knowledge a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// It follows by arithmetic.
    Exact,
    /// The same launch was measured.
    Measured,
    /// A model says so.
    Model,
}

impl Basis {
    /// The word for it in reports and files.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Basis::Exact => "exact",
            Basis::Measured => "measured",
            Basis::Model => "model",
        }
    }
}

/// Which part an answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The table of exact repeats.
    Repeat,
    /// What an earlier run measured of the same launch.
    History,
    /// The forests for programs, by what their answer rests on.
    Programs(Rest),
    /// The kernel's own line.
    Line,
    /// The boosted trees.
    Trees,
    /// The small network.
    SmallNetwork,
    /// What its parts cost on the device, or the device's bound.
    Bound,
}

impl Source {
    /// The word for it in reports and files.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Source::Repeat => "repeat",
            Source::History => "history",
            Source::Programs(rest) => rest.word(),
            Source::Line => "line",
            Source::Trees => "trees",
            Source::SmallNetwork => "small-network",
            Source::Bound => "bound",
        }
    }
}

/// A predicted time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time {
    /// Nanoseconds.
    pub nanos: f32,
    /// Lower end of the 80 % interval.
    pub low: f32,
    /// Upper end of the 80 % interval.
    pub high: f32,
    /// What kind of knowledge it is.
    pub basis: Basis,
    /// Which part said it.
    pub source: Source,
}

impl Time {
    /// What the forests for programs say.
    #[must_use]
    pub fn of_program(said: &Said) -> Time {
        let source = Source::Programs(said.rest);
        Time::around(said.time.exp2(), said.half_width, Basis::Model, source)
    }

    fn around(nanos: f32, half_width: f32, basis: Basis, source: Source) -> Time {
        let factor = half_width.exp2();
        Time { nanos, low: nanos / factor, high: nanos * factor, basis, source }
    }
}

/// Shares of a peak that a model predicts; without a model, what the shape alone allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Utilisation {
    /// Warps active on average, as a share of the warp slots.
    pub achieved_occupancy: f32,
    /// Throughput of the multiprocessors.
    pub sm_throughput: f32,
    /// Throughput of device memory; not every model says.
    pub dram_throughput: Option<f32>,
    /// Which part said it.
    pub source: Source,
}

/// Everything that is said of one launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Occupancy, waves and block efficiency: exact.
    pub exact: Exact,
    /// The least time it can take.
    pub bound: Bound,
    /// The time.
    pub time: Time,
    /// How busy it keeps the device.
    pub utilisation: Utilisation,
}

/// The models at hand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Models<'a> {
    /// For kernels never seen, inside the program.
    pub small: Option<&'a SmallNetwork>,
    /// For all kernels, in the daemon.
    pub trees: Option<&'a Trees>,
}

/// What was measured in a program so far.
#[derive(Clone, Debug)]
pub struct Knowledge {
    /// Exact repeats.
    pub repeats: Repeats,
    /// The line of each kernel.
    pub lines: Lines,
    /// Remembered launches of each kernel; empty inside a program.
    near: BTreeMap<u64, Neighbours>,
    /// Kernels whose launches are remembered at most.
    remembered: usize,
}

/// What a kernel usually takes over what is expected, in log2, where no model is at hand, and how sure that is.
const USUAL: f32 = 0.0;
const UNSURE: f32 = 1.2;

impl Knowledge {
    /// Room for so many configurations and kernels, as a program has it.
    #[must_use]
    pub fn new(configurations: usize, kernels: usize) -> Knowledge {
        Knowledge {
            repeats: Repeats::new(configurations),
            lines: Lines::new(kernels),
            near: BTreeMap::new(),
            remembered: 0,
        }
    }

    /// The same with launches remembered, as the daemon has it.
    #[must_use]
    pub fn remembering(configurations: usize, kernels: usize) -> Knowledge {
        Knowledge { remembered: kernels, ..Knowledge::new(configurations, kernels) }
    }

    /// Takes in a measured time.
    pub fn learn(&mut self, question: &Question<'_>, nanos: f32) {
        self.repeats.observe(key(question), nanos);
        let (kernel, bound) = (question.kernel.identity, bound(question));
        self.lines.observe(kernel, &bound, nanos);
        if self.near.contains_key(&kernel) || self.near.len() < self.remembered {
            let over_expected = log2(nanos / bound.expected());
            self.near.entry(kernel).or_default().observe(&Launch::of(question), over_expected);
        }
    }

    /// What models see of the kernel's past.
    #[must_use]
    pub fn history(&self, question: &Question<'_>, bound: &Bound, likeness: &Likeness) -> History {
        let kernel = question.kernel.identity;
        let Some(line) = self.lines.find(kernel) else { return History::default() };
        let near = self.near.get(&kernel);
        let near = near.map_or_else(Near::default, |n| n.near(&Launch::of(question), likeness));
        History { near, ..line.history(bound) }
    }

    /// Answers a question.
    #[must_use]
    pub fn predict(&self, question: &Question<'_>, models: Models<'_>) -> Prediction {
        let exact = exact(question);
        let bound = bound_of(question, &exact);
        let mut prediction = self.modelled(question, exact, bound, models);
        if let Some(repeat) = self.repeats.find(key(question)) {
            prediction.time =
                Time::around(repeat.nanos, repeat.half_width, Basis::Measured, Source::Repeat);
        }
        prediction
    }

    fn modelled(
        &self,
        question: &Question<'_>,
        exact: Exact,
        bound: Bound,
        models: Models<'_>,
    ) -> Prediction {
        let line = self.lines.find(question.kernel.identity);
        let time = |over_expected: f32, half_width, source| {
            Time::around(bound.expected() * over_expected.exp2(), half_width, Basis::Model, source)
        };
        if let Some(trees) = models.trees {
            let history = self.history(question, &bound, &trees.likeness);
            let answer =
                trees.answer(&features(question, &history), Acquaintance::of(history.count));
            let learned = Utilisation {
                achieved_occupancy: answer.achieved_occupancy,
                sm_throughput: answer.sm_throughput,
                dram_throughput: Some(answer.dram_throughput),
                source: Source::Trees,
            };
            return Prediction {
                exact,
                bound,
                time: time(answer.over_expected, answer.half_width, Source::Trees),
                utilisation: if trees.knows_shares() {
                    learned
                } else {
                    from_shape(&exact, &bound)
                },
            };
        }
        let (mut guess, utilisation) = match models.small {
            Some(small) => {
                let answer = small.answer(&small_inputs(question, &exact, &bound));
                let utilisation = Utilisation {
                    achieved_occupancy: answer.achieved_occupancy,
                    sm_throughput: answer.sm_throughput,
                    dram_throughput: None,
                    source: Source::SmallNetwork,
                };
                let guess = time(answer.over_expected, answer.half_width, Source::SmallNetwork);
                let learned = small.knows_shares;
                (guess, if learned { utilisation } else { from_shape(&exact, &bound) })
            }
            None => (time(USUAL, UNSURE, Source::Bound), from_shape(&exact, &bound)),
        };
        if let Some(line) = line
            && let Some(nanos) = line.nanos(&bound)
        {
            guess = Time::around(nanos, line.half_width(), Basis::Model, Source::Line);
        }
        Prediction { exact, bound, time: guess, utilisation }
    }
}

/// What the shape alone allows: theoretical occupancy times wave fill, and the share of the bound that is
/// arithmetic.
fn from_shape(exact: &Exact, bound: &Bound) -> Utilisation {
    Utilisation {
        achieved_occupancy: exact.occupancy.fraction * exact.wave_fill,
        sm_throughput: (bound.compute_nanos / bound.nanos).clamp(0.0, 1.0),
        dram_throughput: Some((bound.memory_nanos / bound.nanos).clamp(0.0, 1.0)),
        source: Source::Bound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::question::{Arguments, Device, Kernel, Walked, Work};
    use crate::predict::{network, trees};
    use crate::{Chip, LaunchShape};

    fn ask(blocks: u32, check: impl FnOnce(&Question<'_>)) {
        let chip = Chip::for_capability(9, 0).unwrap();
        let device = Device::from_attributes(chip, 132, 1_980_000, 4.8e12, 60 << 20);
        let kernel = Kernel { identity: 42, registers: 32, ..Kernel::default() };
        let arguments = Arguments::of(&[u64::from(blocks) * 256], &[]);
        check(&Question {
            device: &device,
            kernel: &kernel,
            shape: LaunchShape { grid: [blocks, 1, 1], block: [256, 1, 1] },
            dynamic_shared: 0,
            arguments: &arguments,
            work: Some(Work { bytes: f64::from(blocks) * 3072.0, ..Work::default() }),
            walked: Walked::NONE,
        });
    }

    #[test]
    fn the_best_knowledge_answers() {
        let (small, trees) = (network::tests::sample(1), trees::tests::sample(1));
        let mut knowledge = Knowledge::new(64, 64);
        let source = |knowledge: &Knowledge, blocks, models| {
            let mut found = None;
            ask(blocks, |question| found = Some(knowledge.predict(question, models).time));
            found.unwrap()
        };
        let none = Models::default();
        let with_small = Models { small: Some(&small), trees: None };
        let with_both = Models { small: Some(&small), trees: Some(&trees) };
        assert_eq!(source(&knowledge, 1000, none).source, Source::Bound);
        assert_eq!(source(&knowledge, 1000, with_small).source, Source::SmallNetwork);
        assert_eq!(source(&knowledge, 1000, with_both).source, Source::Trees);
        ask(1000, |question| knowledge.learn(question, 7_000.0));
        let repeat = source(&knowledge, 1000, with_both);
        assert_eq!(
            (repeat.source, repeat.basis, repeat.nanos),
            (Source::Repeat, Basis::Measured, 7_000.0)
        );
        assert_eq!(source(&knowledge, 2000, with_small).source, Source::Line);
        assert_eq!(source(&knowledge, 2000, with_both).source, Source::Trees);
        for models in [none, with_small, with_both] {
            let time = source(&knowledge, 3000, models);
            assert!(time.low < time.nanos && time.nanos < time.high, "{time:?}");
        }
    }

    #[test]
    fn arithmetic_does_not_depend_on_models() {
        let small = network::tests::sample(1);
        let knowledge = Knowledge::new(64, 64);
        ask(1057, |question| {
            let with = knowledge.predict(question, Models { small: Some(&small), trees: None });
            let without = knowledge.predict(question, Models::default());
            assert_eq!(with.exact, without.exact);
            assert_eq!(with.exact.occupancy.fraction, 1.0);
            assert_eq!(with.exact.block_efficiency(), 1057.0 / 2112.0);
        });
    }
}
