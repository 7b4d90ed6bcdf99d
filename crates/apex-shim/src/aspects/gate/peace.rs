//! Whether a burst of another program came upon this one: a launch that was timed meanwhile took longer than alone.

use super::program::Gate;
use super::tally::Tally;
use super::view::bits;
use crate::state::thread;
use apex_core::gate_page::{Own, Shared};
use std::sync::atomic::Ordering;

/// Instead of a number of [`peace`].
const DISTURBED: u64 = u64::MAX;

/// A number that is the same later if no burst of another came upon this program in between: see [`is_peace`].
pub(crate) fn peace() -> u64 {
    match gate() {
        Some(gate) if !gate.is_left_alone() => {
            let open = gate.page.shared(Shared::BurstsOpen).load(Ordering::Relaxed);
            match open & gate.yields_to() {
                0 => 1 + u64::from(gate.page.wake_word()),
                _ => DISTURBED,
            }
        }
        _ => 0,
    }
}

/// The longest that one launch of this program is usually made to wait on the GPU: for two bursts of the program with
/// the longest ones.
pub(crate) fn longest_wait_ns() -> u64 {
    let Some(gate) = gate() else { return 0 };
    let usual = |slot| gate.page.own(slot, Own::UsualBurstNs).load(Ordering::Relaxed);
    bits(gate.yields_to()).map(usual).max().unwrap_or(0).saturating_mul(2)
}

/// Whether there was peace from the moment of that number until now.
pub(crate) fn is_peace(since: u64) -> bool {
    since == 0 || since != DISTURBED && since == peace()
}

/// The gate of the GPU whose context is current.
fn gate() -> Option<&'static Gate> {
    let gate =
        thread::current().map_or(core::ptr::null(), |thread| Tally::of(&mut thread.gate_room).gate);
    // SAFETY: null or a leaked box.
    unsafe { gate.as_ref() }
}
