//! Several GPUs, unequally busy.
//!
//! Work that is spread evenly takes the mean of all devices' times instead of the longest: that is the most to
//! gain. Where the work cannot be divided otherwise nothing is.

use super::Rule;
use crate::advise::{Basis, Device, Evidence, Finding, Gain};
use crate::amounts::{nanos, percent};

pub(super) const RULE: Rule = Rule {
    name: "multi-gpu-imbalance",
    sees: "several devices with launches, the busiest a fifth or more above the mean",
    says: "divide the work evenly; gains at most the difference to the mean",
    find,
};

const ABOVE: f64 = 1.2;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let used: Vec<&Device> = evidence.devices.iter().filter(|device| device.launches > 0).collect();
    let most = used.iter().map(|device| device.busy_ns).fold(0.0, f64::max);
    let least = used.iter().map(|device| device.busy_ns).fold(f64::INFINITY, f64::min);
    let mean = used.iter().map(|device| device.busy_ns).sum::<f64>() / used.len().max(1) as f64;
    if used.len() < 2 || most < ABOVE * mean || mean <= 0.0 {
        return vec![];
    }
    let gain = Gain::up_to(1.0 - mean / most, Basis::Measured);
    vec![Finding::of(RULE.name, evidence.share(most), gain).saying(
        format!("{} GPUs are unequally busy", used.len()),
        format!(
            "the busiest has {} of kernels, the mean {}, the least busy {} ({} of the busiest)",
            nanos(most),
            nanos(mean),
            nanos(least),
            percent(least / most)
        ),
        "divide the work by the devices' speed, or let the idle ones take the next piece".into(),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_busy_device_of_two_is_seen() {
        let with = |busy: &[f64]| {
            let device = |&busy_ns: &f64| Device { busy_ns, launches: 10, ..Device::default() };
            let devices = busy.iter().map(device).collect();
            find(&Evidence { program_ns: 1e6, devices, ..Evidence::default() })
        };
        assert!((with(&[8e5, 2e5])[0].gain.high - 0.375).abs() < 1e-9);
        assert!(with(&[5e5, 5e5]).is_empty() && with(&[5e5]).is_empty());
    }
}
