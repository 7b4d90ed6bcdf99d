//! What the parts of a launch cost on a device, from its rows.
//!
//! Costs are found by least squares on relative errors under the rule that none is negative: a row of ten
//! microseconds counts as much as one of ten milliseconds, and nothing can make a launch shorter. Rows that no sum
//! of parts explains (a loop over an argument, a contended address) would pull every cost towards them, so rows are
//! weighed anew, round by round, until large errors count by their logarithm. A little pull towards the usual costs
//! decides where rows leave a cost open.

use apex_policy::predict::anatomy::{Costs, PARTS, USUAL, parts};
use apex_policy::predict::exact::{bound_of, exact};
use apex_policy::predict::question::Question;

const ROUNDS: usize = 30;
/// Sweeps over all costs within a round.
const SWEEPS: usize = 200;
/// The weight of the usual costs beside that of all rows.
const PULL: f64 = 0.003;
const LIGHTEST: f64 = 1e-3;

/// The costs that explain measured launches best, each given with its nanoseconds.
#[must_use]
pub fn costs<'a>(measured: impl Iterator<Item = (Question<'a>, f64)>) -> Costs {
    // Counts of parts over the measured time: times costs, they should add up to one.
    let rows: Vec<[f64; PARTS]> = measured
        .filter(|(_, nanos)| *nanos > 0.0)
        .map(|(question, nanos)| {
            let exact = exact(&question);
            let work = bound_of(&question, &exact).work;
            parts(&question, &exact, &work).map(|count| f64::from(count) / nanos)
        })
        .collect();
    if rows.is_empty() {
        return USUAL;
    }
    let unit: [f64; PARTS] = std::array::from_fn(|part| {
        let square = rows.iter().map(|row| row[part] * row[part]).sum::<f64>() / rows.len() as f64;
        square.sqrt().max(1e-30)
    });
    let usual: [f64; PARTS] = std::array::from_fn(|part| f64::from(USUAL[part]) * unit[part]);
    let mut found = usual;
    let mut weights = vec![1.0; rows.len()];
    for _ in 0..ROUNDS {
        solve(&rows, &weights, &unit, &usual, &mut found);
        for (row, weight) in rows.iter().zip(&mut weights) {
            let ratio = sum(row, &unit, &found).max(1e-6);
            let miss = (ratio - 1.0).powi(2).max(1e-9);
            *weight = (ratio.ln().abs() / miss).clamp(LIGHTEST, 400.0);
        }
    }
    std::array::from_fn(|part| (found[part] / unit[part]) as f32)
}

fn sum(row: &[f64; PARTS], unit: &[f64; PARTS], found: &[f64; PARTS]) -> f64 {
    (0..PARTS).map(|part| row[part] / unit[part] * found[part]).sum()
}

/// Least squares under the rule, one cost after the other until all stay.
fn solve(
    rows: &[[f64; PARTS]],
    weights: &[f64],
    unit: &[f64; PARTS],
    usual: &[f64; PARTS],
    found: &mut [f64; PARTS],
) {
    let mut square = [[0.0; PARTS]; PARTS];
    let mut right = [0.0; PARTS];
    for (row, weight) in rows.iter().zip(weights) {
        let row: [f64; PARTS] = std::array::from_fn(|part| row[part] / unit[part]);
        for a in 0..PARTS {
            right[a] += weight * row[a];
            for b in 0..PARTS {
                square[a][b] += weight * row[a] * row[b];
            }
        }
    }
    let pull = PULL * rows.len() as f64;
    for a in 0..PARTS {
        square[a][a] += pull;
        right[a] += pull * usual[a].min(10.0);
    }
    for _ in 0..SWEEPS {
        let mut moved: f64 = 0.0;
        for part in 0..PARTS {
            let others: f64 = (0..PARTS).map(|other| square[part][other] * found[other]).sum();
            let step = (right[part] - others) / square[part][part];
            let next = (found[part] + step).max(0.0);
            moved = moved.max((next - found[part]).abs());
            found[part] = next;
        }
        if moved < 1e-7 {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::tests::{device, fixture};
    use apex_policy::predict::anatomy::anatomy;

    #[test]
    fn costs_explain_rows_that_follow_them_and_are_never_negative() {
        let rows = fixture(6, 80);
        let mut truth = device(&rows[0]);
        truth.costs = USUAL.map(|cost| cost * 3.0);
        let owned: Vec<_> = rows.iter().map(|row| (row.kernel_facts(), row.arguments())).collect();
        let questions = || {
            rows.iter().zip(&owned).map(|(row, (kernel, arguments))| {
                crate::examples::question(row, &truth, kernel, arguments)
            })
        };
        let nanos = |question: &Question<'_>| {
            let exact = exact(question);
            f64::from(anatomy(question, &exact, &bound_of(question, &exact).work).nanos)
        };
        let found = costs(questions().map(|question| {
            let nanos = nanos(&question);
            (question, nanos)
        }));
        assert!(found.iter().all(|cost| *cost >= 0.0 && cost.is_finite()));
        let mut refound = truth;
        refound.costs = found;
        for question in questions() {
            let again = Question { device: &refound, ..question };
            let ratio = nanos(&again) / nanos(&question);
            assert!((0.9..1.1).contains(&ratio), "{ratio}");
        }
    }
}
