//! What the driver takes for launches here. Told once the driver has begun, because only then the device has a name.

use apex_policy::submit::Costs;
use std::sync::OnceLock;

static COSTS: OnceLock<Costs> = OnceLock::new();

/// The driver takes so long. What is told first counts.
pub fn expect(costs: Costs) {
    COSTS.set(costs).ok();
}

/// What was told, or what another machine's driver takes.
#[must_use]
pub fn known() -> Costs {
    COSTS.get().copied().unwrap_or_default()
}
