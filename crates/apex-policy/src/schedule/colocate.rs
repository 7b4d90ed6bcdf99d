//! The co-location rule: how much a burst is delayed by work that runs beside it.
//!
//! Two kernels that press on different parts of the GPU share it well, two that press on the same part share
//! it as two people share a chair; and work that needs few multiprocessors leaves the rest alone. The rule
//! turns that into nanoseconds of delay, so that one sum limits all of it, however it is made up. The outer
//! loop of the adaptive policy measures what the burst really lost and sets that limit, so the numbers here
//! decide which work goes first, not how much goes in all.

use super::admit::{View, Work};
use super::program::Bottleneck;

/// What work gains on the device, while a burst's kernels run, in the time between two of them: their last
/// waves. Blocks that are longer than this hold up the next kernel, and that is harm.
const FILL_NS: u64 = 12_000;

/// Delay per nanosecond of work beside a burst, in 256ths, where the work takes the whole device.
const SAME: u64 = 230;
const DIFFERENT: u64 = 90;
const UNKNOWN: u64 = 160;

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

/// Predicted delay of the open burst, were this work to run beside it.
#[inline]
#[must_use]
pub(super) fn harm_ns(view: &View, work: &Work) -> u64 {
    let per_256 = match (view.burst_bottleneck, work.bottleneck) {
        (Bottleneck::Unknown, _) | (_, Bottleneck::Unknown) => UNKNOWN,
        (burst, work) if burst == work => SAME,
        _ => DIFFERENT,
    };
    let whole = (work.predicted_ns / 256).saturating_mul(per_256)
        + (work.predicted_ns % 256) * per_256 / 256;
    let block = work.block_ns.clamp(1, 1 << 50);
    let held_256 = (block * 256).div_ceil(block + FILL_NS).clamp(26, 256);
    let whole = whole / 256 * held_256 + whole % 256 * held_256 / 256;
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

    fn view(burst_bottleneck: Bottleneck, burst_sms: u32) -> View {
        View {
            limits: Limits::OPEN,
            controller_age_ns: 0,
            burst_open: true,
            idle_ns: 0,
            burst_left_ns: u64::MAX,
            next_burst_ns: u64::MAX,
            burst_bottleneck,
            burst_sms,
            device_sms: 132,
            in_flight_ns: 0,
            harm_ns: 0,
            admitted_ns: 0,
            waited_ns: 0,
        }
    }

    fn work(bottleneck: Bottleneck, sms_needed: u32) -> Work {
        let (predicted_ns, block_ns) = (256_000, u64::MAX);
        Work { predicted_ns, block_ns, sms_needed, bottleneck, kind: Kind::Kernel }
    }

    fn harm(burst: Bottleneck, burst_sms: u32, on: Bottleneck, sms_needed: u32) -> u64 {
        harm_ns(&view(burst, burst_sms), &work(on, sms_needed))
    }

    #[test]
    fn unlike_work_harms_less_than_like_work() {
        use Bottleneck::{Compute, Memory, Unknown};
        let whole = |burst, work| harm(burst, 132, work, 132);
        assert_eq!(whole(Compute, Compute), 230_000);
        assert_eq!(whole(Compute, Memory), 90_000);
        assert_eq!(whole(Memory, Compute), whole(Compute, Memory));
        assert_eq!(whole(Unknown, Memory), 160_000);
    }

    #[test]
    fn work_in_the_free_part_of_the_device_harms_little() {
        use Bottleneck::Compute;
        assert_eq!(harm(Compute, 100, Compute, 32), 230_000 / 256 * 26 + 230_000 % 256 * 26 / 256);
        assert_eq!(harm(Compute, 100, Compute, 64), 115_000);
        assert!(harm(Compute, 0, Compute, 132) < 25_000);
        assert!(harm(Compute, 132, Compute, 0) <= 230_000);
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
        let with_block = |block_ns| {
            let view = view(Bottleneck::Compute, 132);
            harm_ns(&view, &Work { block_ns, ..work(Bottleneck::Compute, 132) })
        };
        assert_eq!(with_block(FILL_NS), 115_000);
        assert!(with_block(2_000) < with_block(20_000) && with_block(20_000) < with_block(200_000));
        assert!(with_block(u64::MAX) <= 230_000 && with_block(0) > 0);
    }
}
