//! The least time that a launch can take, and the time to expect of it, without any model.
//!
//! The bound is the roofline: no launch is faster than its operations at peak rate, its bytes at peak rate, or an
//! empty kernel. Beside it stands what to expect, by what the launch's parts cost on the device ([`super::anatomy`]).

use super::anatomy::{Anatomy, anatomy};
use super::exact::{Exact, exact};
use super::parts::Group;
use super::question::{Mix, Pipe, Question, Work};

/// The least time a launch can take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Operations that the bound was made from.
    pub work: Work,
    /// Whether the work was known, and not estimated from the kernel's text.
    pub known: bool,
    /// Nanoseconds for the operations alone.
    pub compute_nanos: f32,
    /// Nanoseconds for the bytes alone.
    pub memory_nanos: f32,
    /// The whole bound: an empty kernel's time and the longer of both.
    pub nanos: f32,
    /// What the launch's parts cost: the time to expect where nothing was measured.
    pub anatomy: Anatomy,
}

impl Bound {
    /// The time to expect of a kernel never seen, in nanoseconds: what models correct.
    #[inline]
    #[must_use]
    pub fn expected(&self) -> f32 {
        self.anatomy.nanos
    }

    /// The part of the expected time that grows with the work.
    #[inline]
    #[must_use]
    pub fn work_nanos(&self) -> f32 {
        self.anatomy.nanos - self.fixed_nanos()
    }

    /// The part of the expected time that every launch has.
    #[inline]
    #[must_use]
    pub fn fixed_nanos(&self) -> f32 {
        self.anatomy.groups[Group::Launch as usize]
    }
}

/// Computes the bound. Where the work is not known, every thread is taken to execute the text once: too
/// little for a kernel with loops, which its history then corrects.
#[inline]
#[must_use]
pub fn bound(question: &Question<'_>) -> Bound {
    bound_of(question, &exact(question))
}

/// The same where it is known what the launch is.
#[inline]
#[must_use]
pub fn bound_of(question: &Question<'_>, exact: &Exact) -> Bound {
    let device = question.device;
    let known = question.work.is_some();
    let work = question.work.unwrap_or_else(|| {
        let threads =
            question.shape.blocks() as f64 * f64::from(question.shape.threads_per_block());
        estimated(&question.kernel.mix, threads)
    });
    let rate = device.flops_per_second
        * match work.pipe {
            Pipe::Single => 1.0,
            Pipe::Double => device.double_rate,
            Pipe::Tensor => device.tensor_rate,
        };
    let compute_nanos = (work.flops * 1e9 / f64::from(rate.max(1.0))) as f32;
    let memory_nanos = (work.bytes * 1e9 / f64::from(device.bytes_per_second.max(1.0))) as f32;
    let nanos = device.floor_nanos + compute_nanos.max(memory_nanos);
    let anatomy = anatomy(question, exact, &work);
    Bound { work, known, compute_nanos, memory_nanos, nanos, anatomy }
}

fn estimated(mix: &Mix, threads: f64) -> Work {
    let arithmetic = mix.float32 + mix.float16 + 2 * mix.float64 + 4 * mix.special + mix.integer;
    // A matrix instruction of a warp is worth some 4,096 operations, 128 a lane.
    let flops = f64::from(arithmetic) + 128.0 * f64::from(mix.tensor);
    Work {
        flops: flops * threads,
        bytes: f64::from(mix.global_bytes) * threads,
        pipe: Pipe::Single,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::question::{Arguments, Device, Kernel, Walked};
    use crate::{Chip, LaunchShape};

    fn h200() -> Device {
        let chip = Chip::for_capability(9, 0).unwrap();
        Device::from_attributes(chip, 132, 1_980_000, 4.8e12, 60 << 20)
    }

    #[test]
    fn the_bound_is_the_slower_of_both_rates() {
        let (device, arguments, kernel) = (h200(), Arguments::default(), Kernel::default());
        let mut question = Question {
            device: &device,
            kernel: &kernel,
            shape: LaunchShape { grid: [1, 1, 1], block: [32, 1, 1] },
            dynamic_shared: 0,
            arguments: &arguments,
            work: Some(Work { bytes: 4.8e6, ..Work::default() }),
            walked: Walked::NONE,
        };
        assert!((bound(&question).nanos - 3_000.0).abs() < 1.0);
        question.work = Some(Work { flops: 66.9e9, bytes: 4.8e6, pipe: Pipe::Single });
        let found = bound(&question);
        assert!(found.compute_nanos > 9e5 && found.nanos > found.compute_nanos);
        question.work = Some(Work { flops: 66.9e9, bytes: 4.8e6, pipe: Pipe::Double });
        assert!((bound(&question).compute_nanos / found.compute_nanos - 2.0).abs() < 1e-3);
        question.work = None;
        assert_eq!(bound(&question).nanos, 2_000.0);
    }
}
