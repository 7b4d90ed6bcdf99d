//! Grows the forests for programs from rows of real ones, and judges them on programs that none of them has seen.
//!
//! Rows are parted by program, and variants of one program (other formats, trained or not) stay together. Each launch is
//! shown in two situations: its kernel was never measured, or some of its other launches were. In each the forest sees all
//! that is known, the code alone, or the shape alone. Errors are learned from forests that did not see the program.
//! Intervals are widened until they hold four of five times, every program counting alike.

mod judge;
mod shown;

pub use judge::{Judged, Table, card, judge, lines};

use crate::Error;
use crate::boost::{self, Binned, Plan};
use crate::fit::{Announce, News};
use crate::peaks::Peaks;
use crate::random::named;
use crate::rows::Row;
use apex_policy::predict::programs::{Programs, Rest, Sighted};
use apex_policy::predict::trees::Forest;
use shown::{Example, Launches};
use std::collections::{BTreeMap, BTreeSet};

/// File of these forests in a folder of models.
pub const PROGRAMS_FILE: &str = "programs.safetensors";
/// File of their card, for people.
pub const CARD_FILE: &str = "programs.md";
/// File of the rows that they were grown from and are judged on.
pub const ROWS_FILE: &str = "programs-h200.parquet";

/// The word of their file that says which seed parted the programs.
pub const SEED_WORD: &str = "seed";

/// Of a hundred programs, so many judge. Families of operators and the zoo are no programs that anybody runs: they only teach.
const JUDGED: u64 = 35;
/// What the names of families of operators begin with.
const OPERATORS: &str = "operators-";
/// Parts that programs are grown without, in turn.
const FOLDS: u64 = 4;
/// The share of times that intervals must hold.
const SHARE: f32 = 0.8;
const LEAST_DOUBT: f32 = 0.02;
const GOLDEN: usize = 4;

/// What to grow.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Where everything random comes from.
    pub seed: u64,
    /// Trees of each forest.
    pub trees: usize,
}

/// Forests with examples that their file keeps.
#[derive(Debug)]
pub struct Grown {
    /// The model.
    pub programs: Programs,
    /// Features that the file keeps as examples.
    pub golden: Vec<Sighted>,
}

/// The program of a row: variants of one model are one program, families of operators and kernels of the zoo are each their
/// own.
#[must_use]
pub fn program(row: &Row) -> &str {
    match row.source.as_str() {
        ZOO => &row.kernel,
        source if source.starts_with(OPERATORS) => source,
        source => source.split('-').next().unwrap_or(source),
    }
}

/// The source of rows of the zoo.
const ZOO: &str = "zoo";

/// Whether a row is kept to judge by: all of a program's are, or none.
#[must_use]
pub fn is_judged(row: &Row, seed: u64) -> bool {
    let teaches = row.source == ZOO || row.source.starts_with(OPERATORS);
    !teaches && named(seed, program(row)) % 100 < JUDGED
}

/// Grows the forests from the programs that do not judge.
pub fn grow(
    rows: &[Row],
    peaks: &BTreeMap<String, Peaks>,
    options: &Options,
    announce: &mut Announce<'_>,
) -> Result<Grown, Error> {
    let used = |row: &&Row| row.is_usable() && !is_judged(row, options.seed);
    let rows: Vec<&Row> = rows.iter().filter(used).collect();
    let names: BTreeSet<&str> = rows.iter().map(|row| program(row)).collect();
    if names.len() < 2 * FOLDS as usize {
        let needed = 2 * FOLDS as usize;
        return Err(Error::TooFew { what: "programs", found: names.len(), needed });
    }
    let launches = Launches::of(&rows, peaks);
    let examples = launches.examples(options.seed);
    announce(News::Found(&format!("{} examples of {} programs", examples.len(), names.len())));
    let fold = |example: &Example| named(options.seed ^ 5, &example.program) % FOLDS;
    // Answers of forests that did not see the program.
    let mut left = vec![0.0; examples.len()];
    for apart in 0..FOLDS {
        announce(News::Step {
            what: "forests without a part:",
            done: apart as usize + 1,
            all: FOLDS as usize,
        });
        let others: Vec<&Example> = examples.iter().filter(|one| fold(one) != apart).collect();
        let forests = pair(&others, options, apart);
        for (example, left) in examples.iter().zip(&mut left).filter(|(one, _)| fold(one) == apart)
        {
            *left = example.over_base - forests[example.forest()].predict(&example.features);
        }
    }
    let all: Vec<&Example> = examples.iter().collect();
    announce(News::Step { what: "forests of all programs:", done: 1, all: 1 });
    let [never, measured] = pair(&all, options, 99);
    let widening = widening(&examples, &left, fold, options);
    let programs =
        Programs { forests: [never, measured, doubt(&all, &left, options, 99)], widening };
    let step = examples.len().div_ceil(GOLDEN).max(1);
    let golden = examples.iter().step_by(step).map(|example| example.features).collect();
    Ok(Grown { programs, golden })
}

/// The forests for kernels never measured and for others.
fn pair(examples: &[&Example], options: &Options, salt: u64) -> [Forest; 2] {
    [0, 1].map(|nth| {
        let own: Vec<&Example> =
            examples.iter().copied().filter(|one| one.forest() == nth).collect();
        let targets: Vec<f32> = own.iter().map(|one| one.over_base).collect();
        let seed = options.seed ^ (0x9_0000 + salt * 8 + nth as u64);
        forest(&own, &targets, options.trees, seed)
    })
}

/// How far off answers are, as they were for forests that did not see the program.
fn doubt(examples: &[&Example], left: &[f32], options: &Options, salt: u64) -> Forest {
    let targets: Vec<f32> = left.iter().map(|error| error.abs().min(6.0)).collect();
    forest(examples, &targets, options.trees / 2, options.seed ^ (0xd_0000 + salt))
}

fn forest(examples: &[&Example], targets: &[f32], trees: usize, seed: u64) -> Forest {
    let features: Vec<&Sighted> = examples.iter().map(|one| &one.features).collect();
    let plan = Plan {
        rate: 0.06,
        least_rows: 24,
        calm: 8.0,
        row_share: 0.6,
        feature_share: 0.4,
        large_error: 1.0,
        ..Plan::usual(trees, seed)
    };
    boost::grow(&plan, &Binned::new(&features), targets, |_, _| {})
}

/// What the doubt is multiplied with so that intervals hold: by doubts that did not see the program either, every program
/// counting alike.
fn widening(
    examples: &[Example],
    left: &[f32],
    fold: impl Fn(&Example) -> u64,
    options: &Options,
) -> [f32; Rest::ALL.len()] {
    let mut scores: BTreeMap<Rest, BTreeMap<&str, Vec<f32>>> = BTreeMap::new();
    for apart in 0..FOLDS {
        let is_other = |one: &Example| fold(one) != apart;
        let others: Vec<&Example> = examples.iter().filter(|one| is_other(one)).collect();
        let errors: Vec<f32> = examples
            .iter()
            .zip(left)
            .filter(|(one, _)| is_other(one))
            .map(|(_, error)| *error)
            .collect();
        let doubt = doubt(&others, &errors, options, apart);
        for (example, left) in examples.iter().zip(left).filter(|(one, _)| fold(one) == apart) {
            let score = left.abs() / doubt.predict(&example.features).max(LEAST_DOUBT);
            scores
                .entry(example.rest)
                .or_default()
                .entry(&example.program)
                .or_default()
                .push(score);
        }
    }
    Rest::ALL.map(|rest| scores.get(&rest).map_or(1.5, quantile))
}

/// The factor that holds the share of scores, each program having the same weight.
fn quantile(programs: &BTreeMap<&str, Vec<f32>>) -> f32 {
    let weighed = programs.values().flat_map(|scores| {
        let weight = 1.0 / scores.len() as f32;
        scores.iter().map(move |score| (*score, weight))
    });
    let mut weighed: Vec<(f32, f32)> = weighed.collect();
    weighed.sort_by(|a, b| a.0.total_cmp(&b.0));
    // One program more may lie outside: the promise is for programs that are not here.
    let wanted = SHARE * (programs.len() as f32 + 1.0);
    let mut sum = 0.0;
    let found = weighed.iter().find(|(_, weight)| {
        sum += weight;
        sum >= wanted
    });
    found.or(weighed.last()).map_or(1.5, |(score, _)| score.max(0.2))
}

#[cfg(test)]
mod tests;
