//! What a latency-critical program loses to its neighbours, from its bursts alone.
//!
//! The length that a burst would have alone is learned from bursts that nothing disturbed, apart for every
//! size of burst, so that a mix of small and large requests is compared with itself. Requests that queue for
//! the program are not seen here, but their wait grows with its bursts: so a queue with arrivals by chance at the
//! same rate is played through, with the lengths measured and with those alone, both with the same arrivals.
//! A burst out of the queue follows the one before it so closely that nobody else came between: those lengths are
//! kept apart from the ones after a pause.

use super::colocate::QUEUED_NS;
use super::policy::Burst;
use std::collections::VecDeque;

/// Bursts that count.
const RECENT: usize = 192;
const RECENT_NS: u64 = 4_000_000_000;
/// Those that tell what is done now.
const LAST: usize = 16;
/// Undisturbed bursts of one size that are remembered, and how many are needed.
const CLEAN: usize = 24;
const CLEAN_LEAST: usize = 6;
/// Sizes are powers of two of launches.
const SIZES: usize = 16;

/// The bursts of one program.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    clean: [VecDeque<u64>; SIZES],
    recent: VecDeque<Seen>,
    last_end_ns: Option<u64>,
    /// Undisturbed bursts that others were compared with.
    drawn: usize,
}

/// A burst, its length alone, and whether it came out of a queue.
#[derive(Clone, Copy, Debug)]
struct Seen {
    burst: Burst,
    alone_ns: u64,
    queued: bool,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch {
            clean: std::array::from_fn(|_| VecDeque::new()),
            recent: VecDeque::new(),
            last_end_ns: None,
            drawn: 0,
        }
    }
}

/// Where a program stands to its goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Standing {
    /// The delay of every burst after a pause with which the quantile of the responses would be at the goal, in
    /// nanoseconds; 0 if it is above without any.
    pub(super) room_ns: f64,
    /// Of those bursts, in the mean: the length alone, the time of their own work, the delay, and what that was to come
    /// of: work they came upon, and work beside them.
    pub(super) length_ns: f64,
    pub(super) work_ns: f64,
    pub(super) delay_ns: f64,
    pub(super) ahead_ns: f64,
    pub(super) harm_ns: f64,
    /// The harm of the last of them.
    pub(super) last_harm_ns: f64,
}

impl Watch {
    pub(super) fn observe(&mut self, bursts: &[Burst]) {
        for burst in bursts {
            let clean = &mut self.clean[size(burst)];
            let length = burst.length_ns();
            let is_clean = burst.harm_ns == 0 && burst.ahead_ns <= length / 50;
            if is_clean {
                if clean.len() == CLEAN {
                    clean.pop_front();
                }
                clean.push_back(length);
            }
            let queued = self
                .last_end_ns
                .replace(burst.end_ns)
                .is_some_and(|ended| burst.start_ns.saturating_sub(ended) < QUEUED_NS);
            if clean.len() >= CLEAN_LEAST {
                // Bursts differ by themselves too: one that was disturbed is taken to have been, alone, as one of
                // those that were not, each in its turn.
                self.drawn = self.drawn.wrapping_add(1);
                let alone_ns = if is_clean { length } else { clean[self.drawn % clean.len()] };
                self.recent.push_back(Seen { burst: *burst, alone_ns, queued });
            }
        }
        let newest = self.recent.back().map_or(0, |seen| seen.burst.end_ns);
        while self.recent.len() > RECENT
            || self.recent.front().is_some_and(|seen| seen.burst.end_ns + RECENT_NS < newest)
        {
            self.recent.pop_front();
        }
    }

    /// The usual length of a burst alone.
    pub(super) fn alone_ns(&self) -> Option<u64> {
        let lengths: VecDeque<u64> = self.recent.iter().map(|seen| seen.alone_ns).collect();
        middle(&lengths)
    }

    /// Where the program stands to a goal that is worked out from the quantile alone; none before enough is known, or
    /// while no burst comes after a pause.
    pub(super) fn standing(&self, quantile: f64, goal: impl Fn(f64) -> f64) -> Option<Standing> {
        let (first, last) = (self.recent.front()?.burst, self.recent.back()?.burst);
        let of = |queued: bool| self.recent.iter().filter(move |seen| seen.queued == queued);
        if self.recent.len() < CLEAN_LEAST * 2 || of(false).count() < CLEAN_LEAST {
            return None;
        }
        // From one begin to another, so that the pauses are as many as the bursts.
        let span = last.start_ns.saturating_sub(first.start_ns).max(1) as f64;
        let rate = (self.recent.len() - 1) as f64 / span;
        let alone = |queued| -> Vec<f64> { of(queued).map(|seen| seen.alone_ns as f64).collect() };
        let fresh = alone(false);
        let queued: Vec<f64> = of(true).map(|seen| seen.burst.length_ns() as f64).collect();
        let goal_ns = goal(play(&fresh, &alone(true), 0.0, quantile, rate));
        let mean = |of_burst: &dyn Fn(&Seen) -> f64, bursts: usize| {
            let values = of(false).rev().take(bursts).map(of_burst);
            values.sum::<f64>() / bursts.min(fresh.len()) as f64
        };
        let length_ns = mean(&|seen| seen.alone_ns as f64, RECENT);
        // Finer where it is small.
        let most = MOST_ROOM * length_ns;
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            match play(&fresh, &queued, most * middle * middle, quantile, rate) <= goal_ns {
                true => low = middle,
                false => high = middle,
            }
        }
        Some(Standing {
            room_ns: most * low * low,
            length_ns,
            work_ns: mean(&|seen| seen.burst.work_ns as f64, RECENT),
            delay_ns: mean(&|seen| seen.burst.length_ns() as f64, RECENT) - length_ns,
            ahead_ns: mean(&|seen| seen.burst.ahead_ns as f64, RECENT),
            harm_ns: mean(&|seen| seen.burst.harm_ns as f64, RECENT),
            last_harm_ns: mean(&|seen| seen.burst.harm_ns as f64, LAST),
        })
    }
}

/// The longest delay that is looked for, in bursts, and how finely.
const MOST_ROOM: f64 = 4.0;
const HALVINGS: u32 = 8;

/// Requests of the queue that is played through.
const PLAYED: usize = 4_096;

/// The quantile of the time from arrival to end, with arrivals by chance at that rate (per nanosecond): a request that
/// finds the program idle takes one of the fresh lengths and the delay, another one of the queued ones if there are any.
fn play(fresh: &[f64], queued: &[f64], delay_ns: f64, quantile: f64, rate: f64) -> f64 {
    let queued = if queued.len() < CLEAN_LEAST { fresh } else { queued };
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut part = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        ((random >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    };
    // A server that is always busy has no finite queue; a little below that it is long enough.
    let mean = queued.iter().sum::<f64>() / queued.len() as f64;
    let apart = (1.0 / rate).max(mean / 0.97);
    let mut wait = 0.0_f64;
    let mut responses = Vec::with_capacity(PLAYED);
    for _ in 0..PLAYED {
        let (lengths, delay) = if wait > 0.0 { (queued, 0.0) } else { (fresh, delay_ns) };
        let length = lengths[(part() * lengths.len() as f64) as usize % lengths.len()] + delay;
        responses.push(wait + length);
        wait = (wait + length + part().ln() * apart).max(0.0);
    }
    let place = ((quantile * PLAYED as f64) as usize).min(PLAYED - 1);
    *responses.select_nth_unstable_by(place, f64::total_cmp).1
}

fn size(burst: &Burst) -> usize {
    (burst.launches.max(1).ilog2() as usize).min(SIZES - 1)
}

fn middle(values: &VecDeque<u64>) -> Option<u64> {
    if values.len() < CLEAN_LEAST {
        return None;
    }
    let mut sorted: Vec<u64> = values.iter().copied().collect();
    sorted.sort_unstable();
    Some(sorted[sorted.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bursts(count: u64, length_ns: u64, launches: u32, harm_ns: u64) -> Vec<Burst> {
        (0..count)
            .map(|nth| Burst {
                start_ns: nth * 10_000_000,
                end_ns: nth * 10_000_000 + length_ns,
                launches,
                ahead_ns: 0,
                harm_ns,
                work_ns: length_ns,
            })
            .collect()
    }

    #[test]
    fn a_disturbed_burst_is_measured_against_undisturbed_ones_of_its_size() {
        let mut watch = Watch::default();
        watch.observe(&bursts(20, 5_000_000, 100, 0));
        watch.observe(&bursts(20, 1_000_000, 10, 0));
        let before = watch.standing(0.5, |alone| alone * 1.2).unwrap();
        assert_eq!((before.delay_ns, before.harm_ns), (0.0, 0.0));
        assert!(before.room_ns > 300_000.0, "{before:?}");
        watch.observe(&bursts(100, 6_000_000, 100, 500_000));
        watch.observe(&bursts(100, 1_200_000, 10, 50_000));
        let after = watch.standing(0.5, |alone| alone * 0.9).unwrap();
        let ratio = after.delay_ns / after.length_ns;
        assert!((0.15..0.25).contains(&ratio), "{after:?}");
        assert!(after.harm_ns > 200_000.0 && (after.last_harm_ns - 50_000.0).abs() < 1.0);
        assert_eq!(after.room_ns, 0.0);
    }

    #[test]
    fn nothing_is_said_of_what_was_never_seen_alone() {
        let mut watch = Watch::default();
        watch.observe(&bursts(90, 5_000_000, 100, 1));
        assert_eq!(watch.standing(0.95, |alone| alone), None);
        assert_eq!(watch.alone_ns(), None);
    }

    #[test]
    fn a_queue_makes_a_tail() {
        // Load one half: the measured pair had 19.3 ms where a burst took 6.4 ms.
        let tail = |length: f64, rate| play(&[length], &[], 0.0, 0.95, rate);
        assert!((17.0e6..22.5e6).contains(&tail(6.4e6, 78e-9)), "{}", tail(6.4e6, 78e-9));
        // Nearly none at load 0.001, and a long one in overload.
        assert!(tail(1e3, 1e-6) < 1_100.0);
        assert!(tail(1e3, 2e-3) > 10_000.0);
        // Whoever comes to an idle program pays, and those who queue behind him.
        let delayed = play(&[6.4e6], &[], 1e6, 0.95, 78e-9);
        assert!((tail(6.4e6, 78e-9) + 0.5e6..26e6).contains(&delayed), "{delayed}");
    }
}
