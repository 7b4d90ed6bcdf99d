//! What a device does at most, by what it says of itself.

use apex_core::facts::Device;

/// Single-precision operations a second; a multiply-add is two.
pub(crate) fn flops_per_second(device: &Device) -> Option<f64> {
    let lanes = single_lanes(device.major, device.minor)? as f64;
    known(2.0 * lanes * device.sms as f64 * device.clock_khz as f64 * 1e3)
}

/// The same in double precision.
pub(crate) fn double_flops_per_second(device: &Device) -> Option<f64> {
    known(flops_per_second(device)? / device.double_ratio as f64)
}

/// Bytes a second between memory and multiprocessors: two words of its bus in a clock of the memory.
pub(crate) fn bytes_per_second(device: &Device) -> Option<f64> {
    known(device.memory_clock_khz as f64 * 1e3 * 2.0 * device.bus_bits as f64 / 8.0)
}

/// Single-precision multiply-adds of a multiprocessor in one clock, by the table of the CUDA programming guide.
fn single_lanes(major: u64, minor: u64) -> Option<u64> {
    match (major, minor) {
        (6, 0) | (7, _) | (8, 0) => Some(64),
        (6 | 8.., _) => Some(128),
        _ => None,
    }
}

fn known(rate: f64) -> Option<f64> {
    (rate.is_finite() && rate > 0.0).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_those_of_the_data_sheets() {
        let h200 = Device {
            major: 9,
            sms: 132,
            clock_khz: 1_980_000,
            memory_clock_khz: 3_201_000,
            bus_bits: 6016,
            double_ratio: 2,
            ..Device::default()
        };
        let near = |found: Option<f64>, sheet: f64| (found.unwrap() / sheet - 1.0).abs() < 0.02;
        assert!(near(flops_per_second(&h200), 66.9e12));
        assert!(near(double_flops_per_second(&h200), 33.5e12));
        assert!(near(bytes_per_second(&h200), 4.8e12));
        let a100 = Device { major: 8, sms: 108, clock_khz: 1_410_000, ..Device::default() };
        assert!(near(flops_per_second(&a100), 19.5e12));
        assert_eq!(double_flops_per_second(&a100), None);
        assert_eq!(bytes_per_second(&a100), None);
    }
}
