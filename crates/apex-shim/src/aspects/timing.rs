//! Where a measured time goes: the wires between sampling, the table of times, the gate and the predictor.
//!
//! None of them knows another. Sampling measures and asks what was going on; this says what the answer means.

use super::moments::Copied;
use super::sample::{self, Around, Launched, Measured, Sample};
use super::{gate, predict};
use crate::state::extras::{self, Extra};
use crate::state::times::{self, LaunchKey};
use apex_core::KernelId;
use apex_core::event::{Direction, LaunchShape, TimeBasis};

/// What is around sampling in this process.
struct Others;

impl Around for Others {
    fn peace() -> u64 {
        gate::peace()
    }

    fn measured(measured: &Measured) {
        let &Measured { kernel, shape, nanos, hidden, basis, peace } = measured;
        let key = LaunchKey::of(kernel, &shape);
        // A launch that another program came upon says how long it waited, not how long it takes.
        let undisturbed = gate::is_peace(peace);
        let is_clear = undisturbed && basis == TimeBasis::EventPair && nanos > 0;
        let models_learn = is_clear && extras::has(Extra::Predictions);
        // Before the table has the new number.
        let foretold = if models_learn { predict::predicted_ns(kernel, &shape) } else { None };
        match (hidden, undisturbed) {
            (false, true) => times::learn(key, nanos),
            (false, false) => times::bound(key, nanos, gate::longest_wait_ns()),
            (true, _) => times::bound(key, nanos, nanos),
        }
        if models_learn {
            predict::measured(kernel, &shape, nanos, foretold);
        }
    }
}

/// The time that a launch is expected to take; `nodes` is 1 for a kernel. For a graph that was never timed each of its
/// nodes counts as one unknown kernel.
pub(super) fn expected_ns(kernel: KernelId, shape: &LaunchShape, nodes: u64) -> u64 {
    let is_foretold = nodes <= 1 && extras::has(Extra::Predictions);
    let foretold = if is_foretold { predict::predicted_ns(kernel, shape) } else { None };
    foretold.unwrap_or_else(|| times::expected_ns(LaunchKey::of(kernel, shape), nodes))
}

/// Before a launch: is it one to time?
#[inline(always)]
pub(super) fn before(stream: u64, handle: u64, shape: &LaunchShape) -> Option<Sample> {
    sample::before::<Others>(stream, handle, shape)
}

/// Right after a launch that is timed.
pub(super) fn after(sample: &Sample, launched: Launched) {
    sample::after::<Others>(sample, launched);
}

/// The program has waited: times of earlier launches are known.
#[inline(always)]
pub(super) fn waited() {
    sample::harvest::<Others>();
}

/// A copy that the program waited for has waited for the launches before it.
#[inline(always)]
pub(super) fn copied(copied: &Copied) {
    if copied.stream.is_none() && copied.direction != Direction::DeviceToDevice {
        waited();
    }
}
