//! Devices and kernels as models ask about them, by what the driver says of them.

use crate::summarise::chip;
use apex_core::facts;
use apex_policy::Carveout;
use apex_policy::predict::question::{Device, Kernel};

/// What memory gives where the driver does not say.
const BYTES_PER_SECOND: f32 = 1e12;

/// What the driver says of a kernel.
pub(crate) fn plain_kernel(facts: &facts::Kernel) -> Kernel {
    let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    Kernel {
        registers: small(facts.registers),
        static_shared: small(facts.static_shared),
        max_dynamic_shared: small(facts.max_dynamic_shared),
        local_bytes: small(facts.local),
        carveout: Carveout::from_attribute(i32::try_from(facts.carveout).unwrap_or(-1)),
        ..Kernel::default()
    }
}

/// A device that no model knows, by what it says of itself.
pub(crate) fn guessed(device: &facts::Device) -> Option<Device> {
    let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let (sms, clock) = (small(device.sms), small(device.clock_khz));
    Some(Device::from_attributes(chip(device)?, sms, clock, BYTES_PER_SECOND, device.l2))
}
