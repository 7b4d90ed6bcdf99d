//! What the programs that share a GPU do now, for whoever shows it.
//!
//! Nothing is written and nobody is led: the words of the page are read as they stand. A program keeps its last nine
//! bursts alone, too few for a percentile, so a watcher who looks again and again remembers those that it saw.

use super::counts::{class, policy_name};
use apex_core::gate_page::{
    self, BURSTS_KEPT, Files, Own, SLOTS, Setting, Shared, Words, claimed_by,
};
use apex_core::time::monotonic_nanos;
use apex_policy::gate::believed_ns;
use apex_policy::schedule::STALE_NS;
use serde::Serialize;
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

/// Bursts that are remembered of a program.
const BURSTS: usize = 1_000;

/// One GPU that programs share.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SharedGpu {
    /// Its UUID, only the digits.
    pub gpu: String,
    /// The policy that leads.
    pub policy: String,
    /// Programs run under MPS.
    pub mps: bool,
    /// A controller leads now; else every gate is open.
    pub led: bool,
    /// The programs.
    pub programs: Vec<Sharing>,
}

/// One program of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sharing {
    /// Process id.
    pub pid: u32,
    /// Its class: `latency`, `normal` or `batch`.
    pub class: String,
    /// Its launches ask at the gate.
    pub gated: bool,
    /// A burst of it is open.
    pub in_burst: bool,
    /// Bursts so far.
    pub bursts: u64,
    /// Bursts that `burst_ns` is of.
    pub bursts_seen: u64,
    /// The burst at the promised quantile of those that were seen, in nanoseconds; null before the first.
    pub burst_ns: Option<u64>,
    /// That quantile, from 0 to 1: 0.95 where nothing is promised.
    pub quantile: f64,
    /// The promised latency in nanoseconds; null where nothing is promised.
    pub promise_ns: Option<u64>,
    /// Launches.
    pub launches: u64,
    /// Launches that were held.
    pub holds: u64,
    /// Time that its threads were held, in nanoseconds.
    pub held_ns: u64,
    /// Threads that are held now.
    pub held_now: u64,
    /// Predicted time of its work on the GPU now, in nanoseconds.
    pub in_flight_ns: u64,
    /// Predicted time that it may have in flight, in nanoseconds; null where it is not gated.
    pub budget_ns: Option<u64>,
}

/// Looks at the pages of a directory.
#[derive(Debug)]
pub struct ScheduleWatch {
    directory: PathBuf,
    seen: HashMap<(String, u64), Seen>,
}

/// The bursts of one program that were seen.
#[derive(Debug, Default)]
struct Seen {
    count: u64,
    lengths_ns: VecDeque<u64>,
}

impl ScheduleWatch {
    /// For the pages in a directory ([`super::place`]).
    #[must_use]
    pub fn of(directory: &Path) -> ScheduleWatch {
        ScheduleWatch { directory: directory.to_owned(), seen: HashMap::new() }
    }

    /// The GPUs as they are shared now.
    pub fn look(&mut self) -> Vec<SharedGpu> {
        // Anybody could have made a directory that others may enter, and filled it.
        if gate_page::check_directory(&self.directory).is_err() {
            return Vec::new();
        }
        let files = Files::all(&self.directory);
        let found: Vec<SharedGpu> = files.iter().filter_map(|files| self.gpu(files)).collect();
        let is_there = |key: &(String, u64)| {
            let gpu = found.iter().find(|found| found.gpu == key.0);
            gpu.is_some_and(|gpu| gpu.programs.iter().any(|one| one.pid == claimed_by(key.1)))
        };
        self.seen.retain(|key, _| is_there(key));
        found
    }

    fn gpu(&mut self, files: &Files) -> Option<SharedGpu> {
        let programs = Words::open(&files.programs(), false).ok()?.read().ok()?;
        let settings = Words::open(&files.settings(), false).ok()?.read().ok()?;
        let setting = |word| settings[gate_page::setting(word)];
        let now_ns = monotonic_nanos();
        let taken = |slot: &usize| {
            let claim = programs[gate_page::own(*slot, Own::Claim)];
            claim != 0 && gate_page::is_alive(claim)
        };
        let slots = (0..SLOTS).filter(taken);
        Some(SharedGpu {
            gpu: files.gpu().to_owned(),
            policy: policy_name(&settings),
            mps: setting(Setting::Mps) == 1,
            led: now_ns.saturating_sub(setting(Setting::Heartbeat)) < STALE_NS,
            programs: slots
                .map(|slot| self.program(files.gpu(), &programs, &settings, slot, now_ns))
                .collect(),
        })
    }

    fn program(
        &mut self,
        gpu: &str,
        programs: &[u64],
        settings: &[u64],
        slot: usize,
        now_ns: u64,
    ) -> Sharing {
        let said = gate_page::said(programs, slot);
        let granted = gate_page::granted(settings, slot);
        let gated = granted.claim == said.claim && granted.gated == 1;
        let seen = self.seen.entry((gpu.to_owned(), said.claim)).or_default();
        seen.learn(programs, slot, said.bursts);
        let promised = (said.sla_ns > 0).then_some(said.sla_ns);
        let quantile = promised.map_or(0.95, |_| said.sla_micro as f64 / 1e6);
        Sharing {
            pid: claimed_by(said.claim),
            class: class(&said, &granted).word().into(),
            gated,
            in_burst: programs[Shared::BurstsOpen as usize] >> slot & 1 != 0,
            bursts: said.bursts,
            bursts_seen: seen.lengths_ns.len() as u64,
            burst_ns: seen.quantile(quantile),
            quantile,
            promise_ns: promised,
            launches: said.launches,
            holds: said.holds,
            held_ns: said.waited_ns,
            held_now: said.held_now,
            in_flight_ns: believed_ns(said.in_flight_ns, said.in_flight_at_ns, None, now_ns),
            budget_ns: gated.then_some(granted.budget_ns),
        }
    }
}

impl Seen {
    /// Takes in the bursts since the last look; of more than are kept, the last ones.
    fn learn(&mut self, programs: &[u64], slot: usize, count: u64) {
        let first = self.count.max(count.saturating_sub(BURSTS_KEPT as u64));
        for number in first..count.max(first) {
            let burst = gate_page::kept_burst(programs, slot, number);
            self.lengths_ns.push_back(burst.end_ns.saturating_sub(burst.start_ns));
        }
        self.count = count;
        let more = self.lengths_ns.len().saturating_sub(BURSTS);
        self.lengths_ns.drain(..more);
    }

    fn quantile(&self, quantile: f64) -> Option<u64> {
        let mut lengths: Vec<u64> = self.lengths_ns.iter().copied().collect();
        lengths.sort_unstable();
        let place = (quantile * lengths.len() as f64).ceil() as usize;
        lengths.get(place.clamp(1, lengths.len().max(1)) - 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apex_core::gate_page::{KeptBurst, Said, claim_word, process_state};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_program_is_shown_with_the_bursts_that_were_seen() {
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o700)).unwrap();
        let files = Files::of(place.path(), "gpu");
        files.create(0o600, 0o600).unwrap();
        let own = std::process::id();
        let claim = claim_word(own, process_state(own).unwrap().1);
        let words = Words::open(&files.programs(), true).unwrap();
        let mut watch = ScheduleWatch::of(place.path());
        assert!(watch.look()[0].programs.is_empty());
        for bursts in 1..=30 {
            let said = Said { claim, bursts, holds: 3, class: 1, sla_ns: 9_000, ..Said::default() };
            let said = Said { sla_micro: 900_000, ..said };
            words.write(gate_page::own(0, Own::Claim), &said.pack()).unwrap();
            let burst = KeptBurst { start_ns: 5, end_ns: 5 + bursts * 100, ..KeptBurst::default() };
            let row = gate_page::own(0, Own::BurstRing);
            let nth = (bursts as usize - 1) % BURSTS_KEPT;
            words.write(row + nth * burst.pack().len(), &burst.pack()).unwrap();
            watch.look();
        }
        let shown = watch.look();
        let program = &shown[0].programs[0];
        assert_eq!((program.pid, program.holds, program.bursts_seen), (own, 3, 30));
        assert_eq!((program.quantile, program.burst_ns), (0.9, Some(2_700)));
        assert_eq!((program.promise_ns, shown[0].led), (Some(9_000), false));
        words.write(gate_page::own(0, Own::Claim), &[0]).unwrap();
        assert!(watch.look()[0].programs.is_empty() && watch.seen.is_empty());
    }
}
