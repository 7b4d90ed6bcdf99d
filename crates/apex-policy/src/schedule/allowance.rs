//! How much harm may be done to a burst, from what harm was seen to do.
//!
//! Where a program stands to its goal says how much longer its bursts may become ([`Standing::room_ns`]). What work
//! beside them really adds is not known beforehand: one that launches its kernels one by one hardly feels what runs
//! between them, one that launches a graph does, and the two differ by tens. So it is seen from the bursts
//! ([`Standing::per_harm`]), and room over that is the allowance, in bursts. It follows from what was seen and not from
//! the allowance before, so it does not swing.

use super::watch::Standing;

/// The most.
const MOST: f64 = 4.0;
/// The least delay per nanosecond of predicted harm that is believed.
const LEAST_DELAY: f64 = 0.02;
/// The harm that is tried first, in bursts, and more in the part of them in which the device waits; and how often the
/// harm that was done, and that was allowed, is aimed at next at most.
const FIRST: f64 = 0.05;
const FILL: f64 = 0.5;
const MOST_GROWTH: [f64; 2] = [2.0, 3.0];

/// The allowance with which the program would stand at its goal; none if what its bursts come upon is too much already.
pub(super) fn allowed(standing: &Standing, allowance: f64) -> f64 {
    let length_ns = standing.length_ns.max(1.0);
    let per_harm = (standing.per_harm + standing.doubt / 2.0).max(LEAST_DELAY);
    let harm_ns = standing.room_ns / per_harm;
    // What was never done is not known to be harmless. Where less is done than may be it is single pieces of work that
    // are too long, and the longest that may go beside bursts grow with the allowance.
    let first_ns = (FIRST + FILL * (1.0 - standing.busy())) * length_ns;
    let most_ns = MOST_GROWTH[0] * (standing.last_harm_ns + first_ns);
    let most_ns = most_ns.max(MOST_GROWTH[1] * allowance * length_ns);
    (harm_ns.min(most_ns) / length_ns).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bursts of 5 ms that keep the device busy, undisturbed, which may take 1 ms longer.
    const QUIET: Standing = Standing {
        goal_ns: 0.0,
        room_ns: 1e6,
        room_each_ns: 0.0,
        per_harm: 1.5,
        doubt: 0.0,
        spread: 0.0,
        length_ns: 5e6,
        launches: 100.0,
        work_ns: 5e6,
        last_harm_ns: 0.0,
    };

    fn check(standing: Standing, allowance: f64, expected: f64) {
        let found = allowed(&standing, allowance);
        assert!((found - expected).abs() < 0.011, "{found} instead of {expected}: {standing:?}");
    }

    #[test]
    fn a_little_is_tried_first_and_more_where_the_device_waits() {
        check(QUIET, 0.0, 0.1);
        check(Standing { work_ns: 2.5e6, room_ns: 9e6, ..QUIET }, 0.0, 0.6);
        check(Standing { work_ns: 0.0, room_ns: 9e6, ..QUIET }, 0.0, 1.1);
    }

    #[test]
    fn harm_that_was_seen_to_do_more_is_allowed_less() {
        let seen = |per_harm| Standing { last_harm_ns: 1e6, per_harm, ..QUIET };
        check(seen(1.0), 0.2, 0.2);
        check(seen(2.0), 0.2, 0.1);
        check(seen(0.2), 0.2, 0.6);
        check(seen(0.0), 4.0, MOST);
    }
}
