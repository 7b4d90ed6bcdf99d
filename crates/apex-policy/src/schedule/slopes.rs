//! What a nanosecond of harm adds to a request, from each and the one before it of its size.
//!
//! Where more harm was predicted for the one, was it longer, and by how much? The same of work that it came upon. So
//! nothing has to be known of the program alone, and whatever else makes requests longer or shorter for a while (a
//! processor that changes its speed, a neighbour that takes its caches) is not taken for harm that holding launches back
//! could mend. A request that is longer for reasons of its own meets more work, as long as more may go beside it: there
//! harm is counted per time.
//!
//! Two slopes, by least squares over all such differences. What was seen fades with what is seen since and not with time:
//! a program that was alone for a while, or that answers seldom, is not a stranger.

/// What is thought before any was seen: delay per nanosecond of predicted harm, and per nanosecond of work it comes upon,
/// both with the weight of so many requests that differ by this part of their length.
const USUAL: [f64; 2] = [1.0, 0.5];
const USUAL_WEIGHT: f64 = 16.0 * 0.05 * 0.05;
/// Differences that count, about.
const COUNTED: f64 = 192.0;
/// One in what was met that is smaller, in parts of a usual request, says nothing of it.
const TOLD: f64 = 0.01;
/// What is shorter than this part of a usual request is none.
const SHORT: f64 = 0.1;
/// A request with this part of the harm that was allowed could not have met more.
const FULL: f64 = 0.8;

/// What one request met.
#[derive(Clone, Copy, Debug)]
pub(super) struct Met {
    pub(super) length_ns: f64,
    /// Predicted for it, by what ran beside it; of what was let go and was left when it ended; and how much there might
    /// have been.
    pub(super) harm_ns: f64,
    pub(super) left_ns: f64,
    pub(super) allowed_ns: f64,
    /// The work it came upon.
    pub(super) ahead_ns: f64,
}

impl Met {
    /// The harm predicted for it had it been so long: where more could have been done to a longer one.
    fn harm_at_ns(&self, length_ns: f64) -> f64 {
        match self.harm_ns + self.left_ns < FULL * self.allowed_ns {
            true => self.harm_ns * length_ns / self.length_ns.max(1.0),
            false => self.harm_ns,
        }
    }
}

/// What a nanosecond adds to a request: of predicted harm, and how sure that is, as a standard deviation; and of work
/// that it came upon.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Delay {
    pub(super) per_harm: f64,
    pub(super) doubt: f64,
    pub(super) per_ahead: f64,
}

/// Sums over differences between requests, which fade.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slopes {
    /// Products of (harm, ahead) with each other, and with the length.
    met: [[f64; 2]; 2],
    met_length: [f64; 2],
    /// Squares of what is not explained by them, in parts of a usual request, and how many.
    rest2: f64,
    rests: f64,
    /// The length of requests, without those that are far shorter than others.
    usual_ns: f64,
}

impl Slopes {
    /// One request and the next of its size.
    pub(super) fn observe(&mut self, before: &Met, next: &Met) {
        let length_ns = f64::midpoint(before.length_ns, next.length_ns);
        let usual_ns = if self.usual_ns == 0.0 { length_ns.max(1.0) } else { self.usual_ns };
        self.learn_length(usual_ns, length_ns);
        if !self.is_request(length_ns) {
            return;
        }
        let differs = |of: &dyn Fn(&Met) -> f64| of(next) - of(before);
        let met = [differs(&|it| it.harm_at_ns(length_ns)), differs(&|it| it.ahead_ns)];
        // What makes it longer by more than that is something else.
        let most = usual_ns + met[0].abs() + met[1].abs();
        let longer = differs(&|it| it.length_ns).clamp(-most, most);
        let delay = self.delay();
        let rest = longer - delay.per_harm * met[0] - delay.per_ahead * met[1];
        // While usual requests are not known it may be any number of them.
        add(&mut self.rest2, (rest / usual_ns).powi(2).min(1.0));
        add(&mut self.rests, 1.0);
        if met.iter().all(|it| it.abs() < TOLD * usual_ns) {
            return;
        }
        for row in 0..2 {
            add(&mut self.met_length[row], met[row] * longer);
            (0..2).for_each(|column| add(&mut self.met[row][column], met[row] * met[column]));
        }
    }

    /// Whether a burst of this length is one, as far as is known: programs also launch single kernels now and then.
    pub(super) fn is_request(&self, length_ns: f64) -> bool {
        length_ns >= SHORT * self.usual_ns
    }

    /// Longer ones count at once, but a single one for little; shorter ones count by their length.
    fn learn_length(&mut self, usual_ns: f64, length_ns: f64) {
        let (differs, step) = match length_ns > usual_ns {
            true => (length_ns.min(8.0 * usual_ns) - usual_ns, 1.0 / 8.0),
            false => (length_ns - usual_ns, length_ns / usual_ns / 64.0),
        };
        self.usual_ns = usual_ns + differs * step;
    }

    /// What is thought of it now: drawn towards what is usual while little was seen.
    pub(super) fn delay(&self) -> Delay {
        let usual2 = self.usual_ns.max(1.0).powi(2);
        let weight = USUAL_WEIGHT * usual2;
        let [[a, b], [_, d]] = self.met;
        let (a, d) = (a + weight, d + weight);
        let [x, y] = [0, 1].map(|row| self.met_length[row] + USUAL[row] * weight);
        let determinant = a * d - b * b;
        let per_harm = ((d * x - b * y) / determinant).max(0.0);
        let per_ahead = ((y - b * per_harm) / d).clamp(0.0, 1.0);
        let rest2 = self.rest2 / self.rests.max(1.0) * usual2;
        Delay { per_harm, per_ahead, doubt: (rest2 * d / determinant).sqrt() }
    }
}

/// Adds to a sum that fades.
fn add(sum: &mut f64, more: f64) {
    *sum += more - *sum / COUNTED;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(length_us: u64, harm_us: u64) -> Met {
        let [length_ns, harm_ns] = [length_us, harm_us].map(|it| it as f64 * 1e3);
        Met { length_ns, harm_ns, left_ns: 0.0, allowed_ns: 0.0, ahead_ns: 0.0 }
    }

    /// What is thought after requests of this length and harm, in microseconds.
    fn after(seen: impl IntoIterator<Item = Met>) -> Slopes {
        let seen: Vec<Met> = seen.into_iter().collect();
        let mut slopes = Slopes::default();
        seen.windows(2).for_each(|pair| slopes.observe(&pair[0], &pair[1]));
        slopes
    }

    /// The processor changes its speed all the time, slowly; and what harm there is adds these tenths of it.
    fn disturbed(effect: u64) -> impl Iterator<Item = Met> {
        (0..200).map(move |nth| {
            let harm_us = nth * nth % 7 * 300;
            met(5_000 + nth % 100 * 20 + effect * harm_us / 10, harm_us)
        })
    }

    #[test]
    fn harm_is_what_requests_with_more_of_it_take_longer() {
        for (effect, expected) in [(0, 0.0), (5, 0.5), (20, 2.0)] {
            let delay = after(disturbed(effect)).delay();
            assert!((delay.per_harm - expected).abs() < 0.25 && delay.doubt < 0.1, "{delay:?}");
        }
    }

    #[test]
    fn before_anything_was_seen_harm_is_thought_to_be_harmful() {
        let delay = after((0..40).map(|_| met(5_000, 0))).delay();
        assert!((delay.per_harm - USUAL[0]).abs() < 1e-6, "{delay:?}");
    }

    #[test]
    fn what_was_seen_is_not_forgotten_while_alone() {
        let alone = (0..2_000).map(|nth| met(5_000 + nth * nth % 11 * 20, 0));
        let delay = after(disturbed(2).chain(alone)).delay();
        assert!((delay.per_harm - 0.2).abs() < 0.2 && delay.doubt < 0.1, "{delay:?}");
        // Nor for what is too short to be a request, whatever was done to it.
        let short = (0..40).map(|nth| met(30, nth % 2 * 300));
        let delay = after(short.clone().chain(disturbed(8)).chain(short)).delay();
        assert!((delay.per_harm - 0.8).abs() < 0.2, "{delay:?}");
        // Nor because the machine stood still for once.
        let still = [met(5_000, 0), met(20_000_000, 700), met(5_000, 0)];
        let delay = after(disturbed(8).chain(still).chain(disturbed(8))).delay();
        assert!((delay.per_harm - 0.8).abs() < 0.2 && delay.doubt < 0.2, "{delay:?}");
        // But when it is no longer so.
        let delay = after(disturbed(2).chain((0..3).flat_map(|_| disturbed(12)))).delay();
        assert!((delay.per_harm - 1.2).abs() < 0.2, "{delay:?}");
    }

    #[test]
    fn what_came_before_the_first_requests_leaves_no_doubt() {
        let ahead_ns = |nth: u64| (nth % 2 * 100_000) as f64;
        let first = (0..40).map(|nth| Met { ahead_ns: ahead_ns(nth), ..met(0, 0) });
        let delay = after(first.clone().chain((0..20).map(|_| met(30_000, 0)))).delay();
        assert!(delay.doubt < 6.0, "{delay:?}");
        let delay = after(first.chain(disturbed(5))).delay();
        assert!(delay.doubt < 0.5, "{delay:?}");
    }

    #[test]
    fn longer_requests_that_meet_more_work_are_not_longer_for_it() {
        // Lengths that vary by themselves; a quarter of each is harm, but for one of 24 that is left in peace.
        let delay = |allowed_ns| {
            let seen = (0..960).map(|nth| {
                let length_us = 5_000 + nth * nth * 7_919 % 1_009 * 2;
                Met { allowed_ns, ..met(length_us, if nth % 24 == 23 { 0 } else { length_us / 4 }) }
            });
            after(seen).delay()
        };
        assert!(delay(1e7).per_harm < 0.25, "{:?}", delay(1e7));
        // Taken as they are they would be.
        assert!(delay(0.0).per_harm > 0.4, "{:?}", delay(0.0));
    }
}
