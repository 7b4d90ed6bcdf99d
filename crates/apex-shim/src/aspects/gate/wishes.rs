//! What the program asked for by itself, in place of what it was started with.

use apex_core::gate_page::Own;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Latency that the program asked for, in nanoseconds; 0 if it did not.
static SLA_NS: AtomicU64 = AtomicU64::new(0);
/// Nothing shall run beside this program's bursts.
static EXCLUSIVE: AtomicBool = AtomicBool::new(false);

/// The program asks for this.
pub(super) fn wish(sla_ns: u64, exclusive: bool) {
    SLA_NS.store(sla_ns, Ordering::Relaxed);
    EXCLUSIVE.store(exclusive, Ordering::Relaxed);
}

/// Tells a slot what was asked for.
pub(super) fn tell(own: impl Fn(Own, u64)) {
    let sla_ns = SLA_NS.load(Ordering::Relaxed);
    if sla_ns > 0 {
        own(Own::SlaNs, sla_ns);
        own(Own::SlaMicro, 950_000);
    }
    own(Own::Exclusive, u64::from(EXCLUSIVE.load(Ordering::Relaxed)));
}
