//! Judges the forests on programs that they have not seen, beside plain baselines.

use super::shown::{Known, Launches, Measured, over_cupti, past};
use super::{is_judged, program};
use crate::metrics::{Pair, TimeScores, time_scores};
use crate::peaks::Peaks;
use crate::rows::Row;
use apex_policy::predict::bound::bound;
use apex_policy::predict::programs::{Past, Programs, Rest};
use apex_policy::predict::question::Question;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How one way of knowing did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// What was known, in words.
    pub split: String,
    /// The forests.
    pub forests: TimeScores,
    /// The share of answers that were numbers.
    pub answered: f64,
    /// The median over programs of the median error in each.
    pub program_median: f64,
    /// The share of times inside intervals, every program counting alike.
    pub by_program: Option<f64>,
    /// The last time of the kernel; of one never measured the median of all times that forests were grown from.
    pub last_value: TimeScores,
    /// The mean of the kernel's times, likewise.
    pub kernel_mean: TimeScores,
    /// The roofline of what is taken to move for each thread, times one constant.
    pub roofline: TimeScores,
}

/// All that was judged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Programs that judged.
    pub programs: Vec<String>,
    /// Rows of them, and their kernels.
    pub rows: usize,
    /// Kernels among these.
    pub kernels: usize,
    /// Programs, rows and kernels that forests were grown from.
    pub grown_from: [usize; 3],
    /// The scores.
    pub judged: Vec<Judged>,
}

/// Of so many launches of a kernel before one, how many are known to it.
type Before = fn(usize) -> usize;

/// Launches by what an answer rests on that knows no time of the kernel.
type Wanted = fn(Rest) -> bool;

/// Judges forests that were grown with this seed. `again` has rows of other runs of the same programs.
#[must_use]
pub fn judge(
    programs: &Programs,
    rows: &[Row],
    again: &[Row],
    peaks: &BTreeMap<String, Peaks>,
    seed: u64,
) -> Table {
    let usable: Vec<&Row> = rows.iter().filter(|row| row.is_usable()).collect();
    let (judged, grown): (Vec<&Row>, Vec<&Row>) =
        usable.into_iter().partition(|row| is_judged(row, seed));
    let names =
        |rows: &[&Row]| rows.iter().map(|row| program(row).to_owned()).collect::<BTreeSet<_>>();
    let kernels =
        |rows: &[&Row]| rows.iter().map(|row| row.identity).collect::<BTreeSet<_>>().len();
    let constants = Constants::of(&grown, peaks);
    let launches = Launches::of(&judged, peaks);
    let mut table = Table {
        programs: names(&judged).into_iter().collect(),
        rows: judged.len(),
        kernels: kernels(&judged),
        grown_from: [names(&grown).len(), grown.len(), kernels(&grown)],
        judged: Vec::new(),
    };
    let ways: [(&str, Known, Before); 3] = [
        ("first sight", Known::All, |_| 0),
        ("after 1", Known::All, |nth| nth.min(1)),
        ("after 3", Known::All, |nth| nth.min(3)),
    ];
    for (word, known, before) in ways {
        let parts: [(&str, Wanted); 2] = [
            ("code with PTX", |rest| rest == Rest::Walk),
            ("machine code only", |rest| rest == Rest::Mix),
        ];
        for (part, wanted) in parts {
            let asked = Asked { programs, launches: &launches, known, before, wanted };
            table.judged.push(asked.judged(&format!("{part}, {word}"), &constants));
        }
    }
    let first: Before = |_| 0;
    let code = Asked {
        programs,
        launches: &launches,
        known: Known::Code,
        before: first,
        wanted: |_| true,
    };
    table.judged.push(code.judged("code alone, first sight", &constants));
    let shape = Asked { known: Known::Shape, ..code };
    table.judged.push(shape.judged("shape alone, first sight", &constants));
    table.judged.extend(second_runs(&judged, again));
    table.judged.extend(shipped(&judged, &grown));
    table
}

/// One way of asking.
#[derive(Clone, Copy)]
struct Asked<'a> {
    programs: &'a Programs,
    launches: &'a Launches<'a>,
    known: Known,
    /// How many of the kernel's launches before it are known to one.
    before: Before,
    /// Which launches, by what an answer without any time of the kernel rests on.
    wanted: Wanted,
}

/// What a launch took and what was said.
struct Answer<'a> {
    program: &'a str,
    pair: Pair,
    is_known: bool,
    last: f64,
    mean: f64,
    roofline: f64,
}

impl Asked<'_> {
    fn judged(&self, split: &str, constants: &Constants) -> Judged {
        let mut answers = Vec::new();
        for ((program, ..), launches) in &self.launches.0 {
            for place in 0..launches.len() {
                answers.extend(self.answer(program, launches, place, constants));
            }
        }
        let known: Vec<&Answer<'_>> = answers.iter().filter(|one| one.is_known).collect();
        let scores = |nanos: fn(&Answer<'_>) -> f64| {
            let pair =
                |one: &Answer<'_>| Pair { predicted: nanos(one), half_width: None, ..one.pair };
            time_scores(&answers.iter().map(pair).collect::<Vec<_>>())
        };
        Judged {
            split: split.into(),
            forests: time_scores(&known.iter().map(|one| one.pair).collect::<Vec<_>>()),
            answered: known.len() as f64 / answers.len().max(1) as f64,
            program_median: program_median(&known),
            by_program: by_program(&known),
            last_value: scores(|one| one.last),
            kernel_mean: scores(|one| one.mean),
            roofline: scores(|one| one.roofline),
        }
    }

    /// A launch with as many of the kernel's launches before it as there were; of a kernel's first ones only those count
    /// that have as many as are asked for.
    fn answer<'b>(
        &self,
        program: &'b str,
        launches: &[Measured<'_>],
        place: usize,
        constants: &Constants,
    ) -> Option<Answer<'b>> {
        let launch = &launches[place];
        let sight = &launch.sights[self.known as usize];
        let bare = self.programs.answer(sight, &Past::default());
        let wanted = (self.before)(usize::MAX);
        let count = (self.before)(place);
        if !(self.wanted)(bare.rest) || count < wanted {
            return None;
        }
        let others: Vec<usize> = (place - count..place).collect();
        let said = self.programs.answer(sight, &past(launches, &others, self.known));
        let said = said.longer_by(over_cupti(launch.row));
        let times: Vec<f64> = others.iter().map(|&other| launches[other].row.median_ns).collect();
        let usual = constants.usual;
        let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
        Some(Answer {
            program,
            pair: Pair {
                predicted: f64::from(said.time).exp2(),
                measured: launch.row.median_ns,
                half_width: Some(f64::from(said.half_width)),
            },
            is_known: said.is_known(),
            last: times.last().copied().unwrap_or(usual),
            mean: if times.is_empty() { usual } else { mean },
            roofline: constants.roofline(launch.row),
        })
    }
}

/// The median over programs of the median error in each.
fn program_median(answers: &[&Answer<'_>]) -> f64 {
    let mut errors: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for answer in answers {
        let error = (answer.pair.predicted / answer.pair.measured - 1.0).abs();
        errors.entry(answer.program).or_default().push(error);
    }
    median(errors.into_values().map(median).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The mean over programs of the share of times inside the intervals.
fn by_program(answers: &[&Answer<'_>]) -> Option<f64> {
    let mut shares: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for answer in answers {
        let Pair { predicted, measured, half_width } = answer.pair;
        let inside = (predicted / measured).log2().abs() <= half_width?;
        let share = shares.entry(answer.program).or_default();
        *share = (share.0 + f64::from(u8::from(inside)), share.1 + 1.0);
    }
    let mean = shares.values().map(|(inside, all)| inside / all).sum::<f64>();
    (!shares.is_empty()).then(|| mean / shares.len() as f64)
}

/// What baselines take from the rows that forests were grown from.
struct Constants {
    /// Median time.
    usual: f64,
    /// Median of time over the roofline, in log2.
    over_roofline: f64,
    peaks: BTreeMap<String, Peaks>,
}

impl Constants {
    fn of(rows: &[&Row], peaks: &BTreeMap<String, Peaks>) -> Constants {
        let mut constants = Constants { usual: 1.0, over_roofline: 0.0, peaks: peaks.clone() };
        let over = rows.iter().map(|row| (row.median_ns / constants.bound(row)).log2()).collect();
        constants.over_roofline = median(over);
        constants.usual = median(rows.iter().map(|row| row.median_ns).collect()).max(1.0);
        constants
    }

    fn bound(&self, row: &Row) -> f64 {
        let Some(device) = self.peaks.get(&row.device).and_then(Peaks::device) else { return 1.0 };
        let kernel = row.kernel_facts();
        let question = Question::by_shape(&device, &kernel, row.shape(), row.dynamic_shared);
        f64::from(bound(&question).nanos)
    }

    fn roofline(&self, row: &Row) -> f64 {
        self.bound(row) * self.over_roofline.exp2()
    }
}

/// The key by which a launch of one run is found in another.
fn key(row: &Row) -> (u64, [u32; 3], [u32; 3], u32, &str) {
    let shape = row.shape();
    (row.identity, shape.grid, shape.block, row.dynamic_shared, &row.basis)
}

/// The first launches of a second run, by what the first measured.
fn second_runs(judged: &[&Row], again: &[Row]) -> Option<Judged> {
    let first: HashMap<_, &Row> =
        judged.iter().map(|row| ((&row.source, key(row)), *row)).collect();
    let pairs: Vec<Pair> = again
        .iter()
        .filter(|row| row.is_usable() && row.first_ns > 0.0)
        .filter_map(|row| {
            let known = first.get(&(&row.source, key(row)))?;
            Some(Pair { predicted: known.median_ns, measured: row.first_ns, half_width: None })
        })
        .collect();
    remembered("second run, first launches", &pairs)
}

/// Launches by what was measured of the same code and shape in programs that forests were grown from, as a history that
/// comes with apex knows them.
fn shipped(judged: &[&Row], grown: &[&Row]) -> Option<Judged> {
    let known: HashMap<_, &Row> = grown.iter().map(|row| (key(row), *row)).collect();
    let machine_only = judged.iter().filter(|row| row.walked.is_empty());
    let pairs: Vec<Pair> = machine_only
        .filter_map(|row| {
            let known = known.get(&key(row))?;
            Some(Pair { predicted: known.median_ns, measured: row.first_ns, half_width: None })
        })
        .collect();
    remembered("machine code only, by the history of other programs", &pairs)
}

fn remembered(split: &str, pairs: &[Pair]) -> Option<Judged> {
    let scores = time_scores(pairs);
    (!pairs.is_empty()).then(|| Judged {
        split: split.into(),
        forests: scores.clone(),
        answered: 1.0,
        program_median: scores.median_error,
        by_program: None,
        last_value: scores.clone(),
        kernel_mean: scores,
        roofline: TimeScores::default(),
    })
}

/// The card of the forests: what they were grown from, how they were judged, and the table.
#[must_use]
pub fn card(table: &Table, data: &str, seed: u64) -> String {
    let [programs, rows, kernels] = table.grown_from;
    let mut card = format!(
        "# Forests for launches of programs\n\n`apex train programs` grew these from the rows with FNV-1a {data} and seed \
         {seed}: {rows} rows of {kernels} kernels in {programs} programs, families of operators and kernels of the zoo counted as \
         programs. Judged on {} rows of {} kernels in programs that no forest has seen: {}.\n\nErrors are shares of the \
         measured time. *First sight*: no launch of the kernel was measured; *after n*: n launches in other shapes were. *Code \
         with PTX* was walked with what launches passed; of *machine code only* its operations are counted. *Answered*: the \
         share of launches of which a time was said; of the others nothing is known. Intervals and *programs* count every \
         program alike.\n\n\
         | what was known | rows | median | programs' median | within 10 % | in 80 % interval | answered | last value | \
         kernel mean | roofline |\n|---|---|---|---|---|---|---|---|---|---|\n",
        table.rows,
        table.kernels,
        table.programs.join(", ")
    );
    for one in table.judged.iter().filter(|one| one.forests.rows > 0) {
        let time = &one.forests;
        let remembered = one.by_program.is_none();
        let or_none = |share: f64| if remembered { "-".into() } else { percent(share) };
        card.push_str(&format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
            one.split,
            time.rows,
            percent(time.median_error),
            or_none(one.program_median),
            percent(time.within_10_percent),
            one.by_program.map_or("-".into(), percent),
            percent(one.answered),
            or_none(one.last_value.median_error),
            or_none(one.kernel_mean.median_error),
            or_none(one.roofline.median_error)
        ));
    }
    card
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// The table, for people.
#[must_use]
pub fn lines(table: &Table) -> Vec<String> {
    let [programs, rows, kernels] = table.grown_from;
    let mut lines = vec![
        format!(
            "grown from {rows} rows of {kernels} kernels in {programs} programs; judged on {} rows of {} kernels in: {}",
            table.rows,
            table.kernels,
            table.programs.join(", ")
        ),
        format!(
            "{:<52} {:>6} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8}  {:>9} {:>9} {:>9}",
            "what was known",
            "rows",
            "median",
            "programs'",
            "±10 %",
            "in 80 %",
            "programs",
            "answered",
            "last",
            "mean",
            "roofline"
        ),
    ];
    for one in &table.judged {
        let time = &one.forests;
        let or_none = |share: Option<f64>| share.map_or("-".into(), percent);
        lines.push(format!(
            "{:<52} {:>6} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8}  {:>9} {:>9} {:>9}",
            one.split,
            time.rows,
            percent(time.median_error),
            percent(one.program_median),
            percent(time.within_10_percent),
            or_none(time.coverage),
            or_none(one.by_program),
            percent(one.answered),
            percent(one.last_value.median_error),
            percent(one.kernel_mean.median_error),
            percent(one.roofline.median_error)
        ));
    }
    lines
}
