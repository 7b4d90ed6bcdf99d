//! What is told of the devices without starting them, for the management library.

use core::sync::atomic::Ordering;

use apex_cuda::soft::DeviceFacts;

use crate::api::device::{bus, uuid};
use crate::machine::device::{DRIVER_VERSION, MACHINE, Plan};
use crate::run::scheduler::worker_count;

/// Writes what is known of a device; 0 where there is no device of that number.
///
/// # Safety
///
/// `facts` is null or can be written.
pub(crate) unsafe extern "C" fn tell_device(ordinal: u32, facts: *mut DeviceFacts) -> i32 {
    let told = std::panic::catch_unwind(|| facts_of(ordinal)).ok().flatten();
    match told {
        Some(told) if !facts.is_null() => {
            // SAFETY: not null, and the caller vouches for the rest.
            unsafe { facts.write_unaligned(told) };
            1
        }
        _ => 0,
    }
}

fn facts_of(ordinal: u32) -> Option<DeviceFacts> {
    let started = MACHINE.get().and_then(Option::as_ref);
    let device = started.and_then(|machine| machine.devices.get(ordinal as usize));
    let plan = Plan::from_settings();
    let identity = plan.identity;
    if u64::from(ordinal) >= plan.count {
        return None;
    }
    let mut name = [0; 96];
    for (place, byte) in name.iter_mut().zip(identity.name.bytes()) {
        *place = byte;
    }
    Some(DeviceFacts {
        name,
        uuid: uuid(ordinal as i32).bytes.map(|byte| byte as u8),
        place: [0, bus(ordinal as i32), 0],
        capability: [identity.capability.0, identity.capability.1],
        memory_bytes: device.map_or(plan.memory_bytes, |device| device.memory_bytes),
        used_bytes: device.map_or(0, |device| device.used_bytes.load(Ordering::Relaxed)),
        devices: plan.count as u32,
        workers: worker_count() as u32,
        clock_khz: identity.clock_khz,
        memory_clock_khz: identity.memory_clock_khz,
        bus_bits: identity.bus_bits,
        is_ecc: u32::from(identity.is_ecc),
        driver_version: DRIVER_VERSION,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_told_as_the_driver_tells_it() {
        let facts = facts_of(0).unwrap();
        assert!(facts.name.starts_with(b"apex software GPU ("));
        assert_eq!(facts.place, [0, 1, 0]);
        assert!(facts.uuid.starts_with(b"apex-softgpu"));
        assert!(facts.memory_bytes > 0 && facts.used_bytes <= facts.memory_bytes);
        assert_eq!(facts_of(facts.devices), None);
    }
}
