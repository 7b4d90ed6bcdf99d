//! A queue with arrivals by chance, played through: what the lengths of requests make of the time from arrival to end.
//!
//! Every play has the same arrivals, so two of them differ by their lengths alone.

/// Fewer lengths than this say nothing: of requests out of a queue those after a pause then stand for them.
pub(super) const LEAST: usize = 6;
/// Requests of the queue that is played through.
const PLAYED: usize = 4_096;

/// The quantile of the time from arrival to end, with arrivals by chance at that rate (per nanosecond): a request that
/// finds the program idle takes one of the fresh lengths and the delay, another one of the queued ones if there are any.
pub(super) fn play(fresh: &[f64], queued: &[f64], delay_ns: f64, quantile: f64, rate: f64) -> f64 {
    let queued = if queued.len() < LEAST { fresh } else { queued };
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

#[cfg(test)]
mod tests {
    use super::*;

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
