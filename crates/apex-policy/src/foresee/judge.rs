//! Plays a trace through a pool of exact sizes, with blocks that are made ahead of need.
//!
//! After each allocation the likeliest next classes are looked at. Where no block of the size that this class had last lies
//! idle one is made, if idle blocks stay within the pool's own bound. It is there when the driver has had time for it.
//! What it costs is its bytes for as long as nobody has them.

use super::methods::Method;
use super::trace::{Class, Trace, class_of};
use std::collections::HashMap;

/// Classes that are ranked.
const RANKED: usize = 8;
/// Classes for which blocks are made ahead.
const AHEAD: usize = 2;
/// What an allocation takes the driver: 46 µs on an H200.
const DRIVER_US: u64 = 46;
/// Idle bytes are a tenth of the program's peak or so many, as in the pool.
const LEAST_IDLE_BYTES: u64 = 32 << 20;

/// What became of a trace, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    /// Allocations.
    pub asked: u64,
    /// Of those: the class that was ranked first came.
    pub first: u64,
    /// One of the eight that were ranked came.
    pub eight: u64,
    /// Allocations for which the program had to wait for the driver.
    pub driver_calls: u64,
    /// Blocks made ahead.
    pub ahead: u64,
    /// Of those: never used.
    pub unused: u64,
    /// Bytes of such blocks times seconds until they were used, or to the end.
    pub wasted_byte_seconds: f64,
}

impl Score {
    /// Both together.
    #[must_use]
    pub fn plus(self, more: Score) -> Score {
        Score {
            asked: self.asked + more.asked,
            first: self.first + more.first,
            eight: self.eight + more.eight,
            driver_calls: self.driver_calls + more.driver_calls,
            ahead: self.ahead + more.ahead,
            unused: self.unused + more.unused,
            wasted_byte_seconds: self.wasted_byte_seconds + more.wasted_byte_seconds,
        }
    }
}

/// A block that nobody has.
#[derive(Clone, Copy)]
struct Idle {
    /// From when on it can be had.
    ready_us: u64,
    is_ahead: bool,
}

#[derive(Default)]
struct Pool {
    live: HashMap<u64, u64>,
    idle: HashMap<u64, Vec<Idle>>,
    live_bytes: u64,
    idle_bytes: u64,
    peak_bytes: u64,
    score: Score,
}

/// Plays a trace. The method must be fresh.
#[must_use]
pub fn judge(trace: &Trace, method: &mut dyn Method) -> Score {
    let mut pool = Pool::default();
    let mut sizes: HashMap<Class, u64> = HashMap::new();
    for step in &trace.steps {
        if step.bytes == 0 {
            pool.freed(step.block, step.time_us);
            continue;
        }
        let class = class_of(step.bytes);
        let ranked = method.ranked(RANKED);
        pool.score.asked += 1;
        pool.score.first += u64::from(ranked.first() == Some(&class));
        pool.score.eight += u64::from(ranked.contains(&class));
        pool.allocated(step.block, step.bytes, step.time_us);
        method.seen(class);
        sizes.insert(class, step.bytes);
        for class in method.ranked(AHEAD) {
            if let Some(&bytes) = sizes.get(&class) {
                pool.make_ahead(bytes, step.time_us);
            }
        }
    }
    let end_us = trace.steps.last().map_or(0, |step| step.time_us);
    pool.end(end_us)
}

impl Pool {
    fn allocated(&mut self, block: u64, bytes: u64, now_us: u64) {
        let idle = self.idle.entry(bytes).or_default();
        // What the program freed is there at once, so it goes first.
        let nth = idle.iter().position(|idle| !idle.is_ahead);
        let nth = nth.or_else(|| idle.iter().position(|idle| idle.ready_us <= now_us));
        match nth.map(|nth| idle.swap_remove(nth)) {
            Some(idle) => {
                self.idle_bytes -= bytes;
                if idle.is_ahead {
                    self.waste(bytes, now_us - idle.ready_us);
                }
            }
            None => self.score.driver_calls += 1,
        }
        self.live.insert(block, bytes);
        self.live_bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
    }

    fn freed(&mut self, block: u64, now_us: u64) {
        let Some(bytes) = self.live.remove(&block) else { return };
        self.live_bytes -= bytes;
        self.idle_bytes += bytes;
        self.idle.entry(bytes).or_default().push(Idle { ready_us: now_us, is_ahead: false });
    }

    fn make_ahead(&mut self, bytes: u64, now_us: u64) {
        let is_there = self.idle.get(&bytes).is_some_and(|idle| !idle.is_empty());
        let allowed = (self.peak_bytes / 10).max(LEAST_IDLE_BYTES);
        if is_there || self.idle_bytes + bytes > allowed {
            return;
        }
        self.score.ahead += 1;
        self.idle_bytes += bytes;
        let ready_us = now_us + DRIVER_US;
        self.idle.entry(bytes).or_default().push(Idle { ready_us, is_ahead: true });
    }

    fn waste(&mut self, bytes: u64, for_us: u64) {
        self.score.wasted_byte_seconds += bytes as f64 * for_us as f64 / 1e6;
    }

    fn end(mut self, end_us: u64) -> Score {
        for (bytes, idle) in core::mem::take(&mut self.idle) {
            for idle in idle.into_iter().filter(|idle| idle.is_ahead) {
                self.score.unused += 1;
                self.waste(bytes, end_us.saturating_sub(idle.ready_us));
            }
        }
        self.score
    }
}

#[cfg(test)]
mod tests {
    use super::super::methods::{Nothing, Replay};
    use super::super::trace::Step;
    use super::*;

    fn trace(steps: &[(u64, u64, u64)]) -> Trace {
        let steps = steps.iter().map(|&(time_us, block, bytes)| Step { time_us, block, bytes });
        Trace { program: "test".into(), steps: steps.collect() }
    }

    #[test]
    fn the_pool_alone_serves_what_was_freed() {
        let steps = [(0, 1, 512), (10, 1, 0), (20, 2, 512), (30, 3, 512), (40, 4, 600)];
        let score = judge(&trace(&steps), &mut Nothing);
        assert_eq!((score.asked, score.driver_calls, score.ahead), (4, 3, 0));
    }

    #[test]
    fn growth_that_repeats_is_made_ahead_if_there_is_time() {
        let grows = |gap| {
            let steps: Vec<_> = (0..10).map(|nth| (nth * gap, nth, 4096)).collect();
            judge(&trace(&steps), &mut Replay::default())
        };
        let score = grows(1_000);
        assert_eq!((score.driver_calls, score.ahead, score.unused), (1, 10, 1));
        assert_eq!((score.first, score.eight), (9, 9));
        let waited = 9.0 * 4096.0 * (1_000.0 - DRIVER_US as f64) / 1e6;
        assert!((score.wasted_byte_seconds - waited).abs() < 1e-9, "{score:?}");
        // In a hurry what is made ahead comes too late for half of them.
        assert_eq!(grows(30).driver_calls, 6);
    }
}
