//! What the parts of a launch cost on a device, from its rows.
//!
//! Costs are the most likely ones, found as a kernel finds its own ([`apex_policy::predict::own_costs`]), only from
//! the launches of all kernels and with hardly a belief of what they were before. Errors count by their logarithm: a
//! row of ten microseconds counts as much as one of ten milliseconds, and rows that no parts explain (a loop over an
//! argument, a contended address) pull little. Costs are factors over the usual ones, so none is negative, and where
//! rows leave a cost open the usual one stays.

use apex_policy::predict::anatomy::{ALL_PARTS, parts_of};
use apex_policy::predict::bound::bound_of;
use apex_policy::predict::compared::split;
use apex_policy::predict::cost_factors::{Taken, of_device};
use apex_policy::predict::exact::exact;
use apex_policy::predict::parts::{Costs, LEAST, PARTS, USUAL};
use apex_policy::predict::question::{Question, Walked};

/// The costs that explain measured launches best, each given with its nanoseconds.
///
/// Parts that only launches have whose texts nobody walked are found afterwards, from the same launches as if nobody
/// had: all other costs are known by then.
#[must_use]
pub fn costs<'a>(measured: impl Iterator<Item = (Question<'a>, f64)>) -> Costs {
    let measured: Vec<(Question<'a>, f64)> = measured.filter(|(_, nanos)| *nanos > 0.0).collect();
    let found = refined(&measured, &USUAL, &[true; PARTS]);
    if !measured.iter().any(|(question, _)| question.walked.is_known()) {
        return found;
    }
    let mut open = [true; PARTS];
    for (question, _) in &measured {
        let counts = counts(question);
        open.iter_mut().zip(counts).for_each(|(open, count)| *open &= count == 0.0);
    }
    let unwalked: Vec<(Question<'a>, f64)> = measured
        .iter()
        .map(|(question, nanos)| (Question { walked: Walked::NONE, ..*question }, *nanos))
        .collect();
    refined(&unwalked, &found, &open)
}

/// Costs from those at hand; only open ones change.
fn refined(measured: &[(Question<'_>, f64)], from: &Costs, open: &[bool; PARTS]) -> Costs {
    let one = |(question, nanos): &(Question<'_>, f64)| {
        let mut all = [0.0; ALL_PARTS];
        all[..PARTS].copy_from_slice(&split(&counts(question), from));
        Taken { parts: all, log_nanos: nanos.log2() as f32 }
    };
    let taken: Vec<Taken> = measured.iter().map(one).collect();
    if taken.is_empty() {
        return *from;
    }
    let factors = of_device(&taken, open);
    std::array::from_fn(|part| match (open[part], from[part] > 0.0) {
        (false, _) => from[part],
        (true, true) => from[part] * factors[part].exp2() as f32,
        (true, false) => LEAST[part] * factors[part].exp2() as f32,
    })
}

fn counts(question: &Question<'_>) -> [f32; PARTS] {
    let exact = exact(question);
    parts_of(question, &exact, &bound_of(question, &exact).work)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::tests::{device, fixture};
    use crate::rows::Row;
    use apex_policy::predict::anatomy::anatomy;

    #[test]
    fn costs_explain_rows_that_follow_them_and_are_never_negative() {
        let rows = fixture(6, 80);
        let mut truth = device(&rows[0]);
        truth.costs = USUAL.map(|cost| cost * 3.0);
        let owned: Vec<_> = rows.iter().map(Row::facts).collect();
        let questions = || {
            rows.iter()
                .zip(&owned)
                .map(|(row, facts)| crate::examples::question(row, &truth, facts))
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
