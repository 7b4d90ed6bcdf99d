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
const RECENT: usize = 96;
const RECENT_NS: u64 = 4_000_000_000;
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

/// Where a quantile of the responses stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Standing {
    /// With the neighbours, in nanoseconds.
    pub(super) response_ns: f64,
    /// Alone.
    pub(super) alone_ns: f64,
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

    /// Where the quantile stands; none before enough is known.
    pub(super) fn standing(&self, quantile: f64) -> Option<Standing> {
        if self.recent.len() < CLEAN_LEAST * 2 {
            return None;
        }
        let (first, last) = (self.recent.front()?.burst, self.recent.back()?.burst);
        // From one begin to another, so that the pauses are as many as the bursts.
        let span = last.start_ns.saturating_sub(first.start_ns).max(1) as f64;
        let counted = (self.recent.len() - 1) as f64;
        let lengths = |queued: bool| -> Vec<(f64, f64)> {
            let all = self.recent.iter().filter(|seen| seen.queued == queued);
            all.map(|seen| (seen.burst.length_ns() as f64, seen.alone_ns as f64)).collect()
        };
        let (fresh, queued) = (lengths(false), lengths(true));
        Some(match (fresh.len() >= CLEAN_LEAST, queued.len() >= CLEAN_LEAST) {
            (true, true) => play(&fresh, &queued, quantile, counted / span),
            _ => {
                let all = [fresh, queued].concat();
                play(&all, &all, quantile, counted / span)
            }
        })
    }
}

/// Requests of the queue that is played through.
const PLAYED: usize = 4_096;

/// The quantiles of the time from arrival to end, with arrivals by chance at that rate (per nanosecond), once
/// with the first and once with the second length of each pair: of a fresh one for a request that finds the
/// program idle, of a queued one for the others.
fn play(fresh: &[(f64, f64)], queued: &[(f64, f64)], quantile: f64, rate: f64) -> Standing {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut part = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        ((random >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    };
    // A server that is always busy has no finite queue; a little below that it is long enough.
    let mean = queued.iter().map(|(with, _)| with).sum::<f64>() / queued.len() as f64;
    let apart = (1.0 / rate).max(mean / 0.97);
    let mut waits = [0.0_f64; 2];
    let mut responses = [Vec::with_capacity(PLAYED), Vec::with_capacity(PLAYED)];
    for _ in 0..PLAYED {
        let lengths = if waits[0] > 0.0 { queued } else { fresh };
        let (with, alone) = lengths[(part() * lengths.len() as f64) as usize % lengths.len()];
        let until_next = -part().ln() * apart;
        for (nth, length) in [with, alone].into_iter().enumerate() {
            responses[nth].push(waits[nth] + length);
            waits[nth] = (waits[nth] + length - until_next).max(0.0);
        }
    }
    let [with, alone] = responses.map(|mut times| {
        let place = ((quantile * PLAYED as f64) as usize).min(PLAYED - 1);
        *times.select_nth_unstable_by(place, f64::total_cmp).1
    });
    Standing { response_ns: with, alone_ns: alone }
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
            })
            .collect()
    }

    #[test]
    fn a_disturbed_burst_is_measured_against_undisturbed_ones_of_its_size() {
        let mut watch = Watch::default();
        watch.observe(&bursts(20, 5_000_000, 100, 0));
        watch.observe(&bursts(20, 1_000_000, 10, 0));
        let before = watch.standing(0.5).unwrap();
        assert!((before.response_ns - before.alone_ns).abs() < 1.0);
        watch.observe(&bursts(50, 6_000_000, 100, 500_000));
        watch.observe(&bursts(50, 1_200_000, 10, 50_000));
        let after = watch.standing(0.5).unwrap();
        let ratio = after.response_ns / after.alone_ns;
        assert!((1.15..1.8).contains(&ratio), "{ratio}");
    }

    #[test]
    fn nothing_is_said_of_what_was_never_seen_alone() {
        let mut watch = Watch::default();
        watch.observe(&bursts(90, 5_000_000, 100, 1));
        assert_eq!(watch.standing(0.95), None);
        assert_eq!(watch.alone_ns(), None);
    }

    #[test]
    fn a_queue_makes_a_tail() {
        // Load one half: the measured pair had 19.3 ms where a burst took 6.4 ms.
        let tail = play(&[(6.4e6, 6.4e6)], &[(6.4e6, 6.4e6)], 0.95, 78e-9).response_ns;
        assert!((17.0e6..22.5e6).contains(&tail), "{tail}");
        // Nearly none at load 0.001, and a long one in overload.
        assert!(play(&[(1e3, 1e3)], &[(1e3, 1e3)], 0.95, 1e-6).response_ns < 1_100.0);
        assert!(play(&[(1e3, 500.0)], &[(1e3, 500.0)], 0.95, 2e-3).response_ns > 10_000.0);
    }
}
