//! Trains the transformer that foresees allocations, and judges every method on programs that none has seen.
//!
//! Every third program, by name, is kept from training. The methods without training begin each program anew, as they would
//! in a process. Each window is shown with its classes renamed: so the network learns what repeats and not which sizes the
//! training programs had. Everything follows from the traces and a seed.

use crate::random::Random;
use apex_policy::foresee::{
    Attention, Class, Foreseeing, LENGTH, Markov, Method, Nothing, Replay, Score, Suffix, Trace,
    WEIGHTS, judge,
};
use apex_policy::predict::adam::Adam;
use serde::Serialize;

/// Windows in a step, and of a program in an epoch at most.
const BATCH: usize = 32;
const MOST_OF_PROGRAM: usize = 800;
/// One program in so many is never trained on.
const UNSEEN_EVERY: usize = 3;

/// How it is trained.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Times that all training programs are shown.
    pub epochs: usize,
    /// Decides first weights and order.
    pub seed: u64,
}

/// What came of one method on the unseen programs.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The method.
    pub method: String,
    /// Share of the allocations whose class was ranked first.
    pub hit_at_1: f64,
    /// Share of those whose class was among eight.
    pub hit_at_8: f64,
    /// Share for which the program waited for the driver.
    pub driver_calls_left: f64,
    /// Blocks made ahead of need, and those of them that nobody used.
    pub made_ahead: u64,
    /// Of those: never used.
    pub unused: u64,
    /// Bytes made ahead times seconds until they were used, in MiB s.
    pub wasted_mib_seconds: f64,
    /// The same shares, each program counting as much: hit at 1, hit at 8, driver calls left.
    pub mean_of_programs: [f64; 3],
}

/// All that came out.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Programs that were trained on.
    pub training: Vec<String>,
    /// Programs that the methods are judged on.
    pub unseen: Vec<String>,
    /// Allocations of those.
    pub allocations: u64,
    /// Weights of the transformer.
    pub parameters: usize,
    /// Its mean loss in each epoch.
    pub losses: Vec<f32>,
    /// One for each method.
    pub rows: Vec<Row>,
}

/// Trains and judges. After each epoch `progress` learns its number.
#[must_use]
pub fn foresee(traces: &[Trace], plan: &Plan, mut progress: impl FnMut(usize)) -> Report {
    let is_unseen = |nth: &usize| nth.is_multiple_of(UNSEEN_EVERY);
    let part = |unseen: bool| -> Vec<&Trace> {
        let part = traces.iter().enumerate().filter(|(nth, _)| is_unseen(nth) == unseen);
        part.map(|(_, trace)| trace).collect()
    };
    let (training, unseen) = (part(false), part(true));
    let (network, losses) = train(&training, plan, &mut progress);
    let methods: [&dyn Fn() -> Box<dyn Method>; 4] = [
        &|| Box::new(Nothing),
        &|| Box::new(Replay::default()),
        &|| Box::new(Markov::default()),
        &|| Box::new(Suffix::default()),
    ];
    let mut rows: Vec<Row> = methods
        .iter()
        .map(|fresh| {
            row(&unseen, &mut |trace| {
                let mut method = fresh();
                (judge(trace, &mut *method), method.name())
            })
        })
        .collect();
    rows.push(row(&unseen, &mut |trace| {
        let mut method = Foreseeing::new(&network);
        (judge(trace, &mut method), method.name())
    }));
    let names = |part: &[&Trace]| part.iter().map(|trace| trace.program.clone()).collect();
    let allocations = unseen.iter().map(|trace| trace.classes().count() as u64).sum();
    let (training, unseen) = (names(&training), names(&unseen));
    Report { training, unseen, allocations, parameters: WEIGHTS, losses, rows }
}

fn row(unseen: &[&Trace], judged: &mut dyn FnMut(&Trace) -> (Score, &'static str)) -> Row {
    let (mut all, mut means, mut name) = (Score::default(), [0.0; 3], "");
    let shares = |score: &Score| {
        let of = |count: u64| count as f64 / score.asked.max(1) as f64;
        [of(score.first), of(score.eight), of(score.driver_calls)]
    };
    for trace in unseen {
        let (score, method) = judged(trace);
        name = method;
        all = all.plus(score);
        let own = shares(&score);
        means.iter_mut().zip(own).for_each(|(mean, own)| *mean += own / unseen.len() as f64);
    }
    let [hit_at_1, hit_at_8, driver_calls_left] = shares(&all);
    Row {
        method: name.into(),
        hit_at_1,
        hit_at_8,
        driver_calls_left,
        made_ahead: all.ahead,
        unused: all.unused,
        wasted_mib_seconds: all.wasted_byte_seconds / f64::from(1 << 20),
        mean_of_programs: means,
    }
}

fn train(
    training: &[&Trace],
    plan: &Plan,
    progress: &mut dyn FnMut(usize),
) -> (Attention, Vec<f32>) {
    let mut random = Random::new(plan.seed);
    let mut network = Attention::fresh(|| random.normal());
    let mut adam = Adam::new(WEIGHTS);
    let programs: Vec<Vec<Class>> =
        training.iter().map(|trace| trace.classes().collect()).collect();
    let mut losses = Vec::new();
    for epoch in 0..plan.epochs {
        let mut windows = Vec::new();
        for (program, classes) in programs.iter().enumerate() {
            let mut ends: Vec<usize> = (1..classes.len()).collect();
            random.shuffle(&mut ends);
            windows.extend(ends.into_iter().take(MOST_OF_PROGRAM).map(|end| (program, end)));
        }
        random.shuffle(&mut windows);
        let done = epoch as f32 / plan.epochs.max(1) as f32;
        let rate = 3e-3 * (0.02 + 0.98 * 0.5 * (1.0 + (std::f32::consts::PI * done).cos()));
        let mut loss = 0.0;
        for batch in windows.chunks(BATCH) {
            let mut gradient = vec![0.0; WEIGHTS];
            for &(program, end) in batch {
                let classes = &programs[program];
                let (factor, more) = (random.bits() as u8 | 1, random.bits() as u8);
                let renamed = |&class: &Class| class.wrapping_mul(factor).wrapping_add(more);
                let window: Vec<Class> =
                    classes[end.saturating_sub(LENGTH)..end].iter().map(renamed).collect();
                let (next, share) = (renamed(&classes[end]), 1.0 / batch.len() as f32);
                loss += network.learn(&window, next, share, &mut gradient);
            }
            adam.step(&mut network.weights, &gradient, rate, 1e-4);
        }
        losses.push(loss / windows.len().max(1) as f32);
        progress(epoch + 1);
    }
    (network, losses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use apex_policy::foresee::Step;

    #[test]
    fn every_method_is_judged_on_programs_that_none_has_seen() {
        let trace = |name: usize| {
            let step = |nth: u64| Step {
                time_us: nth * 100,
                block: nth,
                bytes: 1024 << ((nth + name as u64) % 3),
            };
            Trace { program: format!("p{name}"), steps: (0..60).map(step).collect() }
        };
        let traces: Vec<Trace> = (0..6).map(trace).collect();
        let mut epochs = 0;
        let report = foresee(&traces, &Plan { epochs: 4, seed: 1 }, |_| epochs += 1);
        assert_eq!(
            (report.unseen, report.training.len(), epochs),
            (vec!["p0".into(), "p3".into()], 4, 4)
        );
        assert_eq!(report.rows.len(), 5);
        let [alone, replay, ..] = &report.rows[..] else { panic!("five rows") };
        assert_eq!((alone.driver_calls_left, alone.made_ahead), (1.0, 0));
        assert!(replay.hit_at_1 > 0.85 && replay.driver_calls_left < 0.2, "{replay:?}");
        assert!(report.rows[4].hit_at_8 > 0.8, "{:?}", report.rows[4]);
        assert!(report.losses[3] < report.losses[0]);
    }
}
