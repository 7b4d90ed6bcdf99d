//! What the parts of a launch cost on a device, from its rows.
//!
//! Costs are the most likely ones, found as a kernel finds its own ([`apex_policy::predict::own_costs`]), only from
//! the launches of all kernels and with hardly a belief of what they were before. Errors count by their logarithm: a
//! row of ten microseconds counts as much as one of ten milliseconds, and rows that no parts explain (a loop over an
//! argument, a contended address) pull little. Costs are factors over the usual ones, so none is negative, and where
//! rows leave a cost open the usual one stays.

use apex_policy::predict::anatomy::{ALL_PARTS, Costs, LEAST, PARTS, USUAL, parts};
use apex_policy::predict::cost_factors::{Taken, of_device};
use apex_policy::predict::exact::{bound_of, exact};
use apex_policy::predict::own_costs::split;
use apex_policy::predict::question::Question;

/// The costs that explain measured launches best, each given with its nanoseconds.
#[must_use]
pub fn costs<'a>(measured: impl Iterator<Item = (Question<'a>, f64)>) -> Costs {
    let taken = measured.filter(|(_, nanos)| *nanos > 0.0).map(|(question, nanos)| {
        let exact = exact(&question);
        let work = bound_of(&question, &exact).work;
        let mut all = [0.0; ALL_PARTS];
        all[..PARTS].copy_from_slice(&split(&parts(&question, &exact, &work), &USUAL));
        Taken { parts: all, log_nanos: nanos.log2() as f32 }
    });
    let taken: Vec<Taken> = taken.collect();
    if taken.is_empty() {
        return USUAL;
    }
    let factors = of_device(&taken);
    let first = |part: usize| if USUAL[part] > 0.0 { USUAL[part] } else { LEAST[part] };
    std::array::from_fn(|part| first(part) * factors[part].exp2() as f32)
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
