//! What all rules about launch shapes share: which launches of a kernel are concerned, and how full they leave
//! the device.

use super::block::{Better, Launch, SIZES, better_block};
use super::evidence::{Evidence, Kernel, Shape};
use super::finding::{Basis, Change, Finding, Gain};
use crate::amounts::counted;
use crate::{Chip, KernelNeeds, LaunchFacts, LaunchShape, occupancy};

/// The launches of a kernel that a rule concerns.
pub(super) struct Concerned<'a> {
    pub(super) kernel: &'a Kernel,
    /// The shape that takes the most time.
    pub(super) shape: &'a Shape,
    pub(super) facts: LaunchFacts,
    /// Launches of all shapes concerned.
    pub(super) calls: u64,
    /// Their time as a share of the program's.
    pub(super) weight: f64,
    /// The mean over all shapes concerned, each with its time.
    pub(super) gain: Gain,
}

impl Concerned<'_> {
    /// A finding about these launches.
    pub(super) fn finding(
        &self,
        rule: &'static str,
        what: &str,
        why: String,
        action: String,
    ) -> Finding {
        let launches = counted(self.calls, "launch", "launches");
        Finding::of(rule, self.weight, self.gain)
            .saying(format!("{what} ({launches})"), why, action)
            .about(&self.kernel.name)
    }

    /// A finding whose remedy is another size of the block: the one that is judged best, else `guess`.
    pub(super) fn block_finding(
        &self,
        evidence: &Evidence,
        rule: &'static str,
        what: &str,
        why: String,
        guess: &str,
    ) -> Finding {
        let (better, _) = with_better_block(evidence, self.kernel, self.shape, 0.0);
        let threads = self.shape.shape.threads_per_block();
        let change = better.map(|better_threads| Change { threads, better_threads });
        Finding { change, ..self.finding(rule, what, why, take(better, guess)) }
    }

    /// Grid and block as people write them.
    pub(super) fn words(&self) -> String {
        let LaunchShape { grid, block } = self.shape.shape;
        let side = |sides: [u32; 3]| {
            let used = 3 - sides.iter().rev().take_while(|&&side| side == 1).count();
            let words: Vec<String> = sides[..used.max(1)].iter().map(u32::to_string).collect();
            words.join("×")
        };
        let several = |sides: [u32; 3]| if sides == [1; 3] { "" } else { "s" };
        format!("{} block{} of {} thread{}", side(grid), several(grid), side(block), several(block))
    }
}

/// For each kernel, the launches for which `gain` says something.
pub(super) fn concerned<'a>(
    evidence: &'a Evidence,
    gain: impl Fn(&Kernel, &Shape, &LaunchFacts) -> Option<Gain>,
) -> Vec<Concerned<'a>> {
    let mut found = Vec::new();
    for kernel in &evidence.kernels {
        let mut heaviest: Option<(&Shape, LaunchFacts, f64)> = None;
        let (mut calls, mut time, mut untimed) = (0, 0.0, 0.0);
        let mut sum = [0.0; 3];
        let mut basis = None;
        for shape in &kernel.shapes {
            let Some(facts) = evidence.facts(kernel, shape) else { continue };
            let Some(gain) = gain(kernel, shape, &facts) else { continue };
            // A shape without a time still has its part in the mean; a launch counts as a nanosecond there.
            let own = shape.gpu_ns.unwrap_or(0.0);
            let part = own.max(shape.calls as f64);
            time += own;
            untimed += part;
            calls += shape.calls;
            basis = Some(gain.basis);
            for (sum, value) in sum.iter_mut().zip([gain.expected, gain.low, gain.high]) {
                *sum += value * part;
            }
            if heaviest.is_none_or(|(_, _, most)| part > most) {
                heaviest = Some((shape, facts, part));
            }
        }
        let (Some((shape, facts, _)), Some(basis)) = (heaviest, basis) else { continue };
        let [expected, low, high] = sum.map(|sum| sum / untimed);
        found.push(Concerned {
            kernel,
            shape,
            facts,
            calls,
            weight: evidence.share(time),
            gain: Gain::about(expected, low, high, basis),
        });
    }
    found
}

/// A block size that the model expects to be faster, and the gain of which it is a part: at most what the
/// arithmetic allows, and expected as the model says, or not at all where it cannot judge.
pub(super) fn with_better_block(
    evidence: &Evidence,
    kernel: &Kernel,
    shape: &Shape,
    high: f64,
) -> (Option<u32>, Gain) {
    let better = better(evidence, kernel, shape);
    match better {
        Some(Better { threads, gain }) => {
            let high = high.max(gain);
            (Some(threads), Gain::about(gain, 0.0, high, Basis::Model))
        }
        None => (None, Gain::about(0.0, 0.0, high, Basis::Exact)),
    }
}

fn better(evidence: &Evidence, kernel: &Kernel, shape: &Shape) -> Option<Better> {
    let device = evidence.devices.get(shape.device)?;
    let launch = Launch {
        chip: device.chip.as_ref()?,
        sms: device.sms,
        needs: kernel.needs_with(shape.dynamic_shared)?,
        local_bytes: kernel.local_bytes,
        shape: shape.shape,
        mean_ns: shape.gpu_ns.map(|ns| ns / shape.calls.max(1) as f64),
    };
    let sizes: Vec<u32> =
        SIZES.iter().copied().filter(|&size| size <= kernel.max_threads).collect();
    better_block(&launch, &sizes)
}

/// What to say of a block size: the one that the model expects, or that it must be measured.
fn take(better: Option<u32>, guess: &str) -> String {
    match better {
        Some(threads) => {
            format!("launch blocks of {threads} threads, and as many fewer or more of them")
        }
        None => format!("{guess}; what it gains cannot be told beforehand here, so measure both"),
    }
}

/// The size among these that fills the warp slots best, and what that saves at most; none if nothing is saved.
pub(super) fn best_size(
    evidence: &Evidence,
    kernel: &Kernel,
    shape: &Shape,
    sizes: &[u32],
) -> Option<(u32, f64)> {
    let device = evidence.devices.get(shape.device)?;
    let (chip, needs) = (device.chip?, kernel.needs_with(shape.dynamic_shared)?);
    let of = |block| use_of_slots(&chip, device.sms, &needs, all_threads(&shape.shape), block);
    let sizes = sizes.iter().copied().filter(|&size| size <= kernel.max_threads);
    let best = sizes.max_by(|&a, &b| of(a).total_cmp(&of(b)))?;
    let gain = saved(of(shape.shape.threads_per_block()), of(best));
    (gain > 0.0).then_some((best, gain))
}

/// Threads of the whole grid.
pub(super) fn all_threads(shape: &LaunchShape) -> u64 {
    shape.blocks().saturating_mul(u64::from(shape.threads_per_block()))
}

/// How well a launch of `threads` threads in blocks of `block` uses the warp slots of a device while its waves
/// pass: theoretical occupancy times wave fill times lane fill.
pub(super) fn use_of_slots(
    chip: &Chip,
    sms: u32,
    needs: &KernelNeeds,
    threads: u64,
    block: u32,
) -> f64 {
    let occupancy = occupancy(chip, needs, block);
    let slots = u64::from(occupancy.blocks_per_sm) * u64::from(sms);
    if slots == 0 {
        return 0.0;
    }
    let blocks = threads.div_ceil(u64::from(block));
    let waves = blocks.div_ceil(slots).max(1);
    let lanes = u64::from(block.div_ceil(chip.warp_threads) * chip.warp_threads);
    let warps = (blocks * lanes) as f64 / f64::from(chip.warp_threads);
    let room = waves as f64 * f64::from(sms) * f64::from(chip.max_warps_per_sm());
    warps / room * (threads as f64 / (blocks * lanes) as f64)
}

/// The time that is saved if it shrinks as the use of slots grows.
pub(super) fn saved(now: f64, then: f64) -> f64 {
    if then > now && then > 0.0 { 1.0 - now / then } else { 0.0 }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::advise::Device;
    use crate::{Carveout, Limiter};

    /// An H200 and one kernel on it: 32 registers, no shared memory, 1 ms of a program of 2 ms.
    pub(in super::super) fn evidence(blocks: u32, threads: u32) -> Evidence {
        let needs = KernelNeeds {
            registers: 32,
            static_shared: 0,
            dynamic_shared: 0,
            max_dynamic_shared: 48 << 10,
            carveout: Carveout::Unset,
        };
        let shape = Shape {
            shape: LaunchShape { grid: [blocks, 1, 1], block: [threads, 1, 1] },
            dynamic_shared: 0,
            clustered: false,
            device: 0,
            calls: 100,
            gpu_ns: Some(1e6),
        };
        Evidence {
            program_ns: 2e6,
            phase_ns: 2e6,
            devices: vec![Device {
                name: "NVIDIA H200".into(),
                chip: Chip::for_capability(9, 0),
                sms: 132,
                memory_bytes: 141 << 30,
                busy_ns: 1e6,
                launches: 100,
            }],
            kernels: vec![Kernel {
                name: "step".into(),
                needs: Some(needs),
                local_bytes: 0,
                max_threads: 1024,
                shapes: vec![shape],
            }],
            ..Evidence::default()
        }
    }

    #[test]
    fn gains_of_several_shapes_are_weighed_by_their_time() {
        let mut one = evidence(1000, 48);
        let mut other = one.kernels[0].shapes[0];
        other.shape.block = [32, 1, 1];
        other.gpu_ns = Some(3e5);
        one.kernels[0].shapes.push(other);
        let all = concerned(&one, |_, shape, _| {
            let threads = shape.shape.threads_per_block();
            Some(Gain::up_to(if threads == 48 { 0.4 } else { 0.0 }, super::super::Basis::Exact))
        });
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].calls, 200);
        assert!((all[0].gain.high - 0.4 / 1.3).abs() < 1e-9);
        assert!((all[0].weight - 0.65).abs() < 1e-9);
        assert_eq!(all[0].facts.occupancy.limiter, Limiter::None);
        assert_eq!(all[0].words(), "1000 blocks of 48 threads");
    }

    #[test]
    fn one_of_a_kind_is_not_called_several() {
        let words = |blocks, threads| {
            let evidence = evidence(blocks, threads);
            concerned(&evidence, |_, _, _| Some(Gain::NONE))[0].words()
        };
        assert_eq!(words(1, 1), "1 block of 1 thread");
        assert_eq!(words(2, 1), "2 blocks of 1 thread");
    }

    #[test]
    fn a_full_device_is_fully_used() {
        let kernel = evidence(1, 1).kernels[0].needs.unwrap();
        let chip = Chip::for_capability(9, 0).unwrap();
        assert_eq!(use_of_slots(&chip, 132, &kernel, 132 * 2048, 256), 1.0);
        assert_eq!(use_of_slots(&chip, 132, &kernel, 132 * 2048 / 2, 256), 0.5);
        assert_eq!(use_of_slots(&chip, 132, &kernel, 132 * 2048, 0), 0.0);
    }
}
