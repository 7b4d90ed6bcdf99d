//! Which processors the programs of a pair run on: each has its own, the same ones under every system.
//!
//! Programs that wait for Python are as fast as the processor that they happen to run on, and one whose core is shared with
//! the training is slower for as long as it lives. Systems are compared, not such luck: so the cores are divided among
//! the programs of a case, and those of other systems, which wait for their turns meanwhile, use the same ones.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::collections::BTreeMap;

/// The cores that this program may use, divided.
pub(super) struct Processors {
    /// Those of one core together.
    cores: Vec<Vec<usize>>,
}

impl Processors {
    /// As the kernel says; processors of which it says nothing are a core each.
    pub(super) fn here() -> Processors {
        let allowed = sched_getaffinity(Pid::this()).unwrap_or_else(|_| CpuSet::new());
        let is_allowed = |&processor: &usize| allowed.is_set(processor).unwrap_or(false);
        Processors::with((0..CpuSet::count()).filter(is_allowed), |processor| {
            let core = format!("/sys/devices/system/cpu/cpu{processor}/topology/core_cpus_list");
            std::fs::read_to_string(core).ok()
        })
    }

    /// Processors, and what those of one core have in common.
    fn with(
        processors: impl Iterator<Item = usize>,
        core_of: impl Fn(usize) -> Option<String>,
    ) -> Processors {
        let mut cores: Vec<Vec<usize>> = Vec::new();
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for processor in processors {
            let name = core_of(processor).unwrap_or_else(|| format!("of {processor}"));
            let place = *known.entry(name).or_insert(cores.len());
            if place == cores.len() {
                cores.push(Vec::new());
            }
            cores[place].push(processor);
        }
        Processors { cores }
    }

    /// Those of one of so many programs; none where there are too few for each to have its own.
    fn of(&self, nth: usize, programs: usize) -> Option<Vec<usize>> {
        let per_program = self.cores.len() / programs.max(1);
        let cores = self.cores.chunks(per_program.max(1)).nth(nth)?;
        (per_program > 0).then(|| cores.concat())
    }

    /// Puts a process that has just been started, and all that it will start, where it belongs. Where that fails it runs
    /// anywhere.
    pub(super) fn place(&self, process: u32, nth: usize, programs: usize) {
        let Some(own) = self.of(nth, programs) else { return };
        let mut set = CpuSet::new();
        let is_set = own.iter().all(|&processor| set.set(processor).is_ok());
        if let (true, Ok(process)) = (is_set, i32::try_from(process)) {
            let _ = sched_setaffinity(Pid::from_raw(process), &set);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_share_no_core() {
        // Processors 0 and 4 are one core, as 1 and 5, and so on.
        let eight = Processors::with(0..8, |processor| Some((processor % 4).to_string()));
        assert_eq!(eight.of(0, 2), Some(vec![0, 4, 1, 5]));
        assert_eq!(eight.of(1, 2), Some(vec![2, 6, 3, 7]));
        assert_eq!(eight.of(2, 3), Some(vec![2, 6]));
        assert_eq!(eight.of(0, 5), None);
        assert_eq!(Processors::with(3..5, |_| None).of(1, 2), Some(vec![4]));
    }

    #[test]
    fn a_program_is_where_it_was_put() {
        let here = Processors::here();
        let mut child = std::process::Command::new("sleep").arg("10").spawn().unwrap();
        here.place(child.id(), 0, 1);
        let set = sched_getaffinity(Pid::from_raw(child.id() as i32)).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        for processor in here.cores.concat() {
            assert!(set.is_set(processor).unwrap());
        }
    }
}
