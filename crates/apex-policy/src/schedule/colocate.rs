//! The co-location rule: how much a burst is delayed by work that runs beside it.
//!
//! Fifteen kinds of kernels were run beside four programs of a preferred client of MPS on an H200
//! (`results/overlap-h200-2026-11-16.json`). What was seen is what stands here:
//!
//! 1. A burst that keeps the device busy (a graph) is delayed by 0.72 of what short blocks take and by up to 0.98 of
//!    what long ones do, whatever either presses on: of two that share a device each has about its part of it. So
//!    little is gained beside such a burst, and by long blocks nothing.
//! 2. A program that launches its kernels one by one and leaves the device idle for half of its time catches up. It is
//!    delayed only where one of its kernels waits for a block to end; blocks of matrix products hold a multiprocessor
//!    whole, several others share one and end one after the other.
//!
//! The rule turns that into nanoseconds of delay, so that one sum limits all of it, however it is made up. The outer
//! loop of the adaptive policy measures what the burst really lost and corrects it.

use super::admit::{View, Work};
use super::program::Bottleneck;

/// Delay per nanosecond of work beside a burst that keeps the device busy, in 256ths: of blocks that take no time, and
/// what is added for long ones, half of it at so many nanoseconds.
const SHARED: u64 = 184;
const SHARED_LONG: u64 = 67;
const SHARED_HALF_NS: u64 = 20_000;
/// Delay by blocks that the single kernels of a burst wait for: half of the work's time at so many nanoseconds, and the
/// least.
const COMPUTE_HALF_NS: u64 = 55_000;
const UNKNOWN_HALF_NS: u64 = 100_000;
const MEMORY_HALF_NS: u64 = 200_000;
const LEAST: u64 = 10;
/// The same of usual work, of both kinds.
const USUAL_SHARED: f64 = 0.85;
const USUAL_WAITED: f64 = 0.35;

/// A burst that begins so soon after the last was waiting for its end.
pub(super) const QUEUED_NS: u64 = 500_000;

/// The sum of harm that counts when a burst begins: none after a pause. A burst out of the queue has already waited
/// through what was done to those before it, so it begins with their harm, and the tail of the responses, which is
/// made of such bursts, pays for a disturbance once and not at each of them. While bursts of other programs of its
/// class are open nothing is forgotten either.
#[must_use]
pub fn harm_kept_ns(harm_ns: u64, others_open: bool, ended_ns: Option<u64>, now_ns: u64) -> u64 {
    let queued = ended_ns.is_some_and(|ended| now_ns.saturating_sub(ended) < QUEUED_NS);
    if others_open || queued { harm_ns } else { 0 }
}

/// How far a program feels what runs beside its bursts all the time, by how busy they keep the device: half of the time
/// idle is enough to catch up.
fn felt_256(busy_256: u64) -> u64 {
    busy_256.saturating_mul(2).clamp(256, 512) - 256
}

/// Predicted delay per nanosecond of usual work beside bursts that keep the device so busy.
pub(super) fn harm_per_work(busy: f64) -> f64 {
    let felt = felt_256((busy * 256.0) as u64) as f64 / 256.0;
    felt * USUAL_SHARED + (1.0 - felt) * USUAL_WAITED
}

/// Predicted delay of the open burst, were this work to run beside it.
#[inline]
#[must_use]
pub(super) fn harm_ns(view: &View, work: &Work) -> u64 {
    let block = work.block_ns.clamp(1, 1 << 50);
    let long_256 = |half_ns: u64| block * 256 / (block + half_ns);
    let shared = SHARED + SHARED_LONG * long_256(SHARED_HALF_NS) / 256;
    let waited = long_256(match work.bottleneck {
        Bottleneck::Compute => COMPUTE_HALF_NS,
        Bottleneck::Unknown => UNKNOWN_HALF_NS,
        Bottleneck::Memory => MEMORY_HALF_NS,
    });
    let busy = felt_256(view.limits.busy_256);
    let per_256 = ((busy * shared + (256 - busy) * waited) / 256).max(LEAST);
    let whole = work.predicted_ns / 256 * per_256 + work.predicted_ns % 256 * per_256 / 256;
    let device = u64::from(view.device_sms.max(1));
    // Multiprocessors that both need: only there does one wait for the other. A tenth remains in any case,
    // for the memory and the caches that all of them share.
    let both = u64::from(view.burst_sms)
        .saturating_add(u64::from(work.sms_needed))
        .saturating_sub(device)
        .min(u64::from(work.sms_needed).max(1));
    let overlap_256 = (both * 256 / u64::from(work.sms_needed).max(1)).clamp(26, 256);
    whole / 256 * overlap_256 + whole % 256 * overlap_256 / 256
}

#[cfg(test)]
mod tests {
    use super::super::admit::{Kind, Limits};
    use super::*;

    fn view(busy: f64, burst_sms: u32) -> View {
        View {
            limits: Limits { busy_256: (busy * 256.0) as u64, ..Limits::OPEN },
            controller_age_ns: 0,
            burst_open: true,
            idle_ns: 0,
            burst_left_ns: u64::MAX,
            next_burst_ns: u64::MAX,
            burst_sms,
            device_sms: 132,
            in_flight_ns: 0,
            harm_ns: 0,
            harm_before_ns: 0,
            admitted_ns: 0,
            waited_ns: 0,
        }
    }

    fn work(bottleneck: Bottleneck, block_us: u64, sms_needed: u32) -> Work {
        let (predicted_ns, block_ns) = (256_000, block_us * 1_000);
        Work { predicted_ns, block_ns, sms_needed, bottleneck, kind: Kind::Kernel }
    }

    /// Delay per nanosecond of work that takes the whole device.
    fn delay(busy: f64, bottleneck: Bottleneck, block_us: u64) -> f64 {
        harm_ns(&view(busy, 132), &work(bottleneck, block_us, 132)) as f64 / 256_000.0
    }

    #[test]
    fn it_says_what_was_measured() {
        use Bottleneck::{Compute, Memory};
        // (busy, of what, block in microseconds as its tiles let it be thought, delay / work): beside BERT as a graph, a decoding Llama as a graph, and
        // ResNet-50 launch by launch.
        let seen = [
            (1.0, Compute, 55, 0.98),
            (1.0, Compute, 55, 0.95),
            (1.0, Compute, 25, 0.85),
            (1.0, Memory, 3, 0.75),
            (1.0, Memory, 3, 0.78),
            (1.0, Memory, 48, 0.91),
            (1.0, Memory, 48, 0.88),
            (0.25, Compute, 55, 0.65),
            (0.25, Compute, 25, 0.26),
            (0.25, Memory, 3, 0.05),
            (0.25, Memory, 48, 0.19),
        ];
        for (busy, of, block, measured) in seen {
            let found = delay(busy, of, block);
            assert!(
                (found - measured).abs() < 0.16,
                "{found} for {measured}: {busy} {of:?} {block}"
            );
        }
    }

    #[test]
    fn work_in_the_free_part_of_the_device_harms_little() {
        let harm = |burst_sms, sms_needed| {
            harm_ns(&view(1.0, burst_sms), &work(Bottleneck::Compute, 1_000_000, sms_needed))
        };
        let whole = harm(132, 132);
        assert_eq!(harm(100, 64), whole / 2);
        assert!(harm(100, 32) <= whole / 9 && harm(0, 132) <= whole / 9);
        assert!(harm(132, 0) <= whole);
    }

    #[test]
    fn harm_is_forgotten_after_a_pause() {
        assert_eq!(harm_kept_ns(800, false, None, 1_000_000), 0);
        assert_eq!(harm_kept_ns(800, false, Some(0), QUEUED_NS), 0);
        assert_eq!(harm_kept_ns(800, false, Some(1), QUEUED_NS), 800);
        assert_eq!(harm_kept_ns(800, true, None, QUEUED_NS), 800);
    }

    #[test]
    fn short_blocks_give_way_sooner() {
        for busy in [0.0, 0.3, 0.7, 1.0] {
            let with_block = |block_us| delay(busy, Bottleneck::Unknown, block_us);
            assert!(with_block(0) > 0.0 && with_block(u64::MAX / 1_000) <= 1.0);
            assert!(with_block(2) <= with_block(20) && with_block(20) < with_block(200));
        }
    }
}
