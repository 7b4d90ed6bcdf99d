//! Launches of programs as forests are shown them.

use super::{ZOO, program};
use crate::peaks::Peaks;
use crate::random::Random;
use crate::rows::Row;
use apex_policy::predict::programs::names::NameFacts;
use apex_policy::predict::programs::sight::Looped;
use apex_policy::predict::programs::{EVENTS_OVER_CUPTI, Past, Rest, Sight, Sighted, asked};
use apex_policy::predict::question::{Arguments, Device, Kernel, Mix, Question, Walked};
use apex_ptx::machine::Machine;
use apex_ptx::totals;
use std::collections::BTreeMap;

/// How much is known of a launch beside its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Known {
    /// Nothing.
    Shape,
    /// What its code says.
    Code,
    /// What it passed too, and what its warps do.
    All,
}

/// One launch as forests see it.
#[derive(Clone, Debug)]
pub(super) struct Example {
    pub(super) program: String,
    pub(super) features: Sighted,
    pub(super) rest: Rest,
    /// log2 of its time over what forests correct.
    pub(super) over_base: f32,
}

impl Example {
    /// Which forest answers.
    pub(super) fn forest(&self) -> usize {
        usize::from(self.rest == Rest::Others)
    }
}

/// One measured launch.
pub(super) struct Measured<'a> {
    pub(super) row: &'a Row,
    /// As it is seen with each of [`Known`].
    pub(super) sights: [Sight; 3],
    pub(super) time: f32,
}

/// Launches by program, kernel and how they were timed, in the order in which they came.
pub(super) struct Launches<'a>(pub(super) BTreeMap<(&'a str, u64, &'a str), Vec<Measured<'a>>>);

/// Launches of one kernel in one program that are shown at most.
const MOST_OF_KERNEL: usize = 48;

impl<'a> Launches<'a> {
    pub(super) fn of(rows: &[&'a Row], peaks: &BTreeMap<String, Peaks>) -> Launches<'a> {
        let mut found: BTreeMap<_, Vec<Measured<'a>>> = BTreeMap::new();
        for row in rows {
            let Some(device) = peaks.get(&row.device).and_then(Peaks::device) else { continue };
            let sights =
                [Known::Shape, Known::Code, Known::All].map(|known| sight(row, &device, known));
            let time = by_cupti(row).log2();
            let key = (program(row), row.identity, row.basis.as_str());
            found.entry(key).or_default().push(Measured { row, sights, time });
        }
        for launches in found.values_mut() {
            launches.sort_by_key(|one| one.row.order);
        }
        Launches(found)
    }

    /// Examples to grow from: each launch never measured, and after one, three and all others of its kernel.
    pub(super) fn examples(&self, seed: u64) -> Vec<Example> {
        let mut random = Random::new(seed ^ 0x511);
        let mut examples = Vec::new();
        for ((program, ..), launches) in &self.0 {
            let mut places: Vec<usize> = (0..launches.len()).collect();
            random.shuffle(&mut places);
            for &place in places.iter().take(MOST_OF_KERNEL) {
                for known in [Known::Shape, Known::Code, Known::All] {
                    let mut shown = vec![example(program, launches, place, &[], known)];
                    for count in [1, 3, MOST_OF_KERNEL] {
                        let others = others(place, &places, count, &mut random);
                        if !others.is_empty() {
                            shown.push(example(program, launches, place, &others, known));
                        }
                    }
                    examples.extend(shown);
                }
            }
        }
        examples
    }
}

/// So many other places, at random.
pub(super) fn others(
    place: usize,
    places: &[usize],
    count: usize,
    random: &mut Random,
) -> Vec<usize> {
    let mut others: Vec<usize> = places.iter().copied().filter(|other| *other != place).collect();
    random.shuffle(&mut others);
    others.truncate(count);
    others
}

/// A launch with what its kernel took in others.
pub(super) fn example(
    program: &str,
    launches: &[Measured<'_>],
    place: usize,
    others: &[usize],
    known: Known,
) -> Example {
    let own = &launches[place];
    let sight = &own.sights[known as usize];
    let past = past(launches, others, known);
    let (features, base, rest) = asked(sight, &past);
    Example { program: program.to_owned(), features, rest, over_base: own.time - base }
}

pub(super) fn past(launches: &[Measured<'_>], others: &[usize], known: Known) -> Past {
    let mut past = Past::default();
    for &other in others {
        let launch = &launches[other];
        past.observe(&launch.sights[known as usize], by_cupti(launch.row));
    }
    past
}

/// A row as it is seen with so much knowledge. What machine code says is preferred to the text, because most code has it.
pub(super) fn sight(row: &Row, device: &Device, known: Known) -> Sight {
    let machine = Machine::read(&row.machine);
    let mut kernel = row.kernel_facts();
    let mut looped = Looped::default();
    if let Some(machine) = &machine {
        kernel.mix = Mix::from_counts(&totals::of_machine(machine));
        looped = Looped::of_machine(totals::looped(machine));
    }
    // What was walked has a text.
    looped.has_text = !row.walked.is_empty();
    let (arguments, walked) = (row.arguments(), row.walked_facts());
    let mut question = Question::by_shape(device, &kernel, row.shape(), row.dynamic_shared);
    if known == Known::All {
        (question.arguments, question.walked) = (&arguments, &walked);
    } else {
        (question.arguments, question.walked) = (Arguments::NONE, Walked::NONE);
    }
    let bare = Kernel { mix: Mix::default(), ..kernel };
    if known == Known::Shape {
        (question.kernel, looped) = (&bare, Looped::default());
    }
    Sight::of(&question, looped, NameFacts::of(&row.kernel), row.source != ZOO)
}

/// What events tell of a row's time beyond what CUPTI does; rows of the zoo are times of another kind.
pub(super) fn over_cupti(row: &Row) -> f32 {
    if row.basis == "events" && row.source != ZOO { EVENTS_OVER_CUPTI } else { 0.0 }
}

/// A row's time as CUPTI would tell it, in nanoseconds.
fn by_cupti(row: &Row) -> f32 {
    (row.median_ns as f32 - over_cupti(row)).max(SHORTEST)
}

/// No launch takes less, in nanoseconds.
const SHORTEST: f32 = 300.0;
