//! Takes a launch apart: what each part of it costs, put together to the time to expect of a kernel never seen.
//!
//! A bound tells the least a launch can take; most launches take far longer, for reasons that its shape shows:
//! blocks must be started, each wave waits for its longest thread, the busiest multiprocessor issues for all its
//! warps, full or not, and bytes come from the cache or from beyond it. Every such part is a count that follows
//! from shape, work and what a warp does ([`Walked`](super::question::Walked); where nobody walked, from the
//! instruction mix), times a cost in nanoseconds that the device's own rows tell (`apex train fit`). Costs are never
//! negative, so more work never makes a launch shorter.
//!
//! Parts of one resource follow each other and add up. Resources work at the same time, so the slowest rules: a
//! grid of small blocks takes what starting them takes, with the same bytes in larger blocks what the bytes take,
//! and not both. Where two are about as slow they delay each other a little, which a norm of order four says.
//! Models correct this time; they see its groups too, because what a launch spends its time on says how it will
//! change.

mod counts;

use super::exact::Exact;
use super::parts::{GROUP_OF, GROUPS, Group, PARTS};
use super::question::{Question, Work};
pub use counts::parts_of;

/// Resources that work at the same time, beside the launch itself.
pub const RESOURCES: usize = 5;

/// The resource that a group occupies; the launch comes before all of them.
const RESOURCE_OF_GROUP: [usize; GROUPS] = {
    let mut of = [RESOURCES; GROUPS];
    of[Group::Blocks as usize] = 0;
    of[Group::Chain as usize] = 1;
    of[Group::ChainFlops as usize] = 1;
    of[Group::ChainBytes as usize] = 1;
    of[Group::Issue as usize] = 2;
    of[Group::IssueFlops as usize] = 2;
    of[Group::IssueBytes as usize] = 2;
    of[Group::Bytes as usize] = 3;
    of[Group::Beyond as usize] = 3;
    of[Group::Serial as usize] = 4;
    of
};

/// What repeating a kernel's text costs beside its [parts](super::parts::NAMES): the chain and the issue of its instructions, and
/// its atomics.
pub const REPEATED: usize = 3;

/// All parts, with those of a repeated text.
pub const ALL_PARTS: usize = PARTS + REPEATED;

/// The resource of each part; [`RESOURCES`] stands for the launch.
pub const RESOURCE_OF: [usize; ALL_PARTS] = {
    let mut of = [0; ALL_PARTS];
    let mut part = 0;
    while part < PARTS {
        of[part] = RESOURCE_OF_GROUP[GROUP_OF[part]];
        part += 1;
    }
    of[PARTS] = 1;
    of[PARTS + 1] = 2;
    of[PARTS + 2] = 4;
    of
};

/// The time of resources that work at the same time.
#[inline]
#[must_use]
pub fn slowest(resources: &[f32; RESOURCES]) -> f32 {
    let most = resources.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
    let square = |value: f32| value * value;
    let sum: f32 = resources.iter().map(|nanos| square(square(nanos / most))).sum();
    most * sum.sqrt().sqrt()
}

/// A launch's time by its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Anatomy {
    /// Nanoseconds of each [`Group`].
    pub groups: [f32; GROUPS],
    /// What they take together.
    pub nanos: f32,
}

impl Anatomy {
    /// Of groups that work as those of a launch do.
    #[inline]
    #[must_use]
    pub fn of(groups: [f32; GROUPS]) -> Anatomy {
        let mut found = Anatomy { groups, nanos: 0.0 };
        let nanos = groups[Group::Launch as usize] + slowest(&found.resources());
        found.nanos = nanos.max(1.0);
        found
    }

    /// Nanoseconds of each resource: starting blocks, the chain, the issue, bytes, and what is serial.
    #[inline]
    #[must_use]
    pub fn resources(&self) -> [f32; RESOURCES] {
        let mut resources = [0.0; RESOURCES];
        for (nanos, resource) in self.groups.iter().zip(RESOURCE_OF_GROUP).skip(1) {
            resources[resource] += nanos;
        }
        resources
    }

    /// A group as a share of all of them, as if each waited for the others.
    #[inline]
    #[must_use]
    pub fn share(&self, group: Group) -> f32 {
        self.groups[group as usize] / self.whole()
    }

    /// The share of what the threads themselves do, in a chain or side by side.
    #[inline]
    #[must_use]
    pub fn own_share(&self) -> f32 {
        let own = &self.groups[Group::Chain as usize..=Group::IssueBytes as usize];
        own.iter().sum::<f32>() / self.whole()
    }

    #[inline]
    fn whole(&self) -> f32 {
        self.groups.iter().sum::<f32>().max(1.0)
    }
}

/// Puts together what a launch costs.
#[inline]
#[must_use]
pub fn anatomy(question: &Question<'_>, exact: &Exact, work: &Work) -> Anatomy {
    let parts = parts_of(question, exact, work);
    let mut groups = [0.0; GROUPS];
    for ((count, cost), group) in parts.iter().zip(&question.device.costs).zip(GROUP_OF) {
        groups[group] += count * cost;
    }
    Anatomy::of(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::exact::exact;
    use crate::predict::parts::{NAMES, USUAL};
    use crate::predict::question::{Arguments, Device, Kernel, Mix, Walked};
    use crate::{Chip, LaunchShape};

    fn nanos(blocks: u32, threads: u32, bytes: f64) -> Anatomy {
        let chip = Chip::for_capability(9, 0).unwrap();
        let device = Device::from_attributes(chip, 132, 1_980_000, 4.8e12, 60 << 20);
        let mix = Mix { total: 20, load_global: 2, store_global: 1, ..Mix::default() };
        let kernel = Kernel { registers: 32, mix, ..Kernel::default() };
        let arguments = Arguments::default();
        let question = Question {
            device: &device,
            kernel: &kernel,
            shape: LaunchShape { grid: [blocks, 1, 1], block: [threads, 1, 1] },
            dynamic_shared: 0,
            arguments: &arguments,
            walked: Walked::NONE,
            work: Some(Work { bytes, ..Work::default() }),
        };
        anatomy(&question, &exact(&question), &question.work.unwrap())
    }

    #[test]
    fn more_work_and_worse_shapes_cost_more() {
        let good = nanos(4096, 256, 12e6);
        assert!(nanos(4096, 256, 120e6).nanos > 3.0 * good.nanos);
        // The same threads in blocks of one: each takes a whole warp.
        let narrow = nanos(4096 * 256, 1, 12e6);
        assert!(narrow.nanos > 20.0 * good.nanos, "{} {}", narrow.nanos, good.nanos);
        let by_group: f32 = narrow.groups.iter().sum();
        let largest = narrow.groups.iter().copied().fold(0.0, f32::max);
        assert!(narrow.nanos > largest && narrow.nanos < by_group, "{narrow:?}");
        assert!(narrow.groups[Group::Blocks as usize] > good.groups[Group::Blocks as usize]);
    }

    #[test]
    fn the_slowest_resource_rules() {
        let alone = slowest(&[100.0, 0.0, 0.0, 0.0, 0.0]);
        assert!((alone - 100.0).abs() < 1e-3, "{alone}");
        let beside = slowest(&[100.0, 40.0, 30.0, 1e-20, 0.0]);
        assert!((100.0..101.0).contains(&beside), "{beside}");
        let equal = slowest(&[1e12, 1e12, 0.0, 0.0, 0.0]);
        assert!((1.15e12..1.25e12).contains(&equal), "{equal}");
        assert!(slowest(&[0.0; RESOURCES]) < 1e-20);
    }

    #[test]
    fn an_empty_launch_costs_the_launch() {
        let least = nanos(1, 32, 0.0);
        assert!((1_500.0..3_000.0).contains(&least.nanos), "{least:?}");
        assert_eq!(NAMES.len(), PARTS);
        assert!(USUAL.iter().all(|cost| *cost >= 0.0));
    }
}
