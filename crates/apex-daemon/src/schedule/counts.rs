//! What the scheduler did to the programs of one session, for its report.

use apex_core::gate_page::{self, BURSTS_KEPT, Files, Granted, Own, SLOTS, Said, Setting, Words};
use apex_policy::schedule::Class;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Counters of all processes of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Launches.
    pub launches: u64,
    /// Launches that were held.
    pub holds: u64,
    /// Time that threads were held, in nanoseconds.
    pub waited_ns: u64,
    /// Predicted time of all launches, in nanoseconds.
    pub admitted_ns: u64,
    /// Holds that ended because the controller was gone.
    pub failed_open: u64,
    /// Holds that ended because they were too long.
    pub overdue: u64,
    /// Events recorded to learn what is done.
    pub marks: u64,
    /// Places at which the GPU itself waits for others.
    pub fences: u64,
    /// Launches that were never asked about.
    pub exempt: u64,
    /// Bursts.
    pub bursts: u64,
    /// Launches of a usual burst: the middle of the last ones.
    #[serde(default)]
    pub burst_launches: u64,
    /// The last budget in flight, in nanoseconds; 0 if there was none.
    pub budget_ns: u64,
    /// The class that was granted.
    pub class: String,
    /// The policy that led last.
    pub policy: String,
    /// Programs ran under MPS.
    pub mps: bool,
}

/// Collects the counters of a session while its processes come and go.
#[derive(Debug)]
pub struct Counts {
    directory: PathBuf,
    session: u64,
    processes: BTreeMap<(String, u64), Totals>,
}

impl Counts {
    /// For the session with these rings.
    #[must_use]
    pub fn of(directory: &Path, rings: &Path) -> Counts {
        let session = gate_page::session_number(rings);
        Counts { directory: directory.to_owned(), session, processes: BTreeMap::new() }
    }

    /// Takes the counters as they stand.
    pub fn look(&mut self) {
        for files in Files::all(&self.directory) {
            let read = |path: PathBuf| Words::open(&path, false)?.read();
            let (Ok(programs), Ok(settings)) = (read(files.programs()), read(files.settings()))
            else {
                continue;
            };
            for slot in 0..SLOTS {
                let claim = programs[gate_page::own(slot, Own::Claim)];
                if claim != 0 && programs[gate_page::own(slot, Own::Session)] == self.session {
                    let totals = totals(&programs, &settings, slot);
                    let kept = self.processes.entry((files.gpu().to_owned(), claim)).or_default();
                    let budget_ns = totals.budget_ns.max(kept.budget_ns);
                    *kept = Totals { budget_ns, ..totals };
                }
            }
        }
    }

    /// All processes together; none if no process took part.
    #[must_use]
    pub fn total(&self) -> Option<Totals> {
        let mut all: Option<Totals> = None;
        for one in self.processes.values() {
            let all = all.get_or_insert_with(|| Totals {
                class: one.class.clone(),
                policy: one.policy.clone(),
                mps: one.mps,
                ..Totals::default()
            });
            all.launches += one.launches;
            all.holds += one.holds;
            all.waited_ns += one.waited_ns;
            all.admitted_ns += one.admitted_ns;
            all.failed_open += one.failed_open;
            all.overdue += one.overdue;
            all.marks += one.marks;
            all.fences += one.fences;
            all.exempt += one.exempt;
            if one.bursts > all.bursts {
                all.burst_launches = one.burst_launches;
            }
            all.bursts += one.bursts;
            all.budget_ns = all.budget_ns.max(one.budget_ns);
        }
        all
    }
}

/// The middle of the launches of the bursts that are kept.
fn usual_launches(programs: &[u64], slot: usize) -> u64 {
    let kept = programs[gate_page::own(slot, Own::Bursts)].min(BURSTS_KEPT as u64);
    let launches = |nth| gate_page::kept_burst(programs, slot, nth).launches;
    let mut launches: Vec<u64> = (0..kept).map(launches).collect();
    launches.sort_unstable();
    launches.get(launches.len() / 2).copied().unwrap_or(0)
}

/// The class of a program: as granted, or what it asks for until the controller has looked.
pub(super) fn class(said: &Said, granted: &Granted) -> Class {
    let asked = if granted.claim == said.claim { granted.class } else { said.class };
    u8::try_from(asked.wrapping_sub(1)).ok().and_then(Class::from_code).unwrap_or_default()
}

/// The name of the policy that leads.
pub(super) fn policy_name(settings: &[u64]) -> String {
    let words = settings[Setting::Policy as usize..][..4].iter();
    let bytes = words.flat_map(|word| word.to_le_bytes()).filter(u8::is_ascii_graphic);
    bytes.map(char::from).collect()
}

fn totals(programs: &[u64], settings: &[u64], slot: usize) -> Totals {
    let said = gate_page::said(programs, slot);
    let granted = gate_page::granted(settings, slot);
    let ours = granted.claim == said.claim;
    let gated = ours && granted.gated == 1;
    Totals {
        launches: said.launches,
        holds: said.holds,
        waited_ns: said.waited_ns,
        admitted_ns: said.admitted_ns,
        failed_open: said.failed_open,
        overdue: said.overdue,
        marks: said.marks,
        fences: programs[gate_page::own(slot, Own::Fence)] & 0xffff_ffff,
        exempt: said.exempt,
        bursts: said.bursts,
        burst_launches: usual_launches(programs, slot),
        budget_ns: if gated { granted.budget_ns } else { 0 },
        class: class(&said, &granted).word().into(),
        policy: policy_name(settings),
        mps: settings[gate_page::setting(Setting::Mps)] == 1,
    }
}
