//! What `apex run` does for a program that shares its GPU: gives it its class, keeps a controller while it
//! runs, and says in the end how it went.
//!
//! The page's directory is told to every program, so that one that asks for scheduling itself finds it; only
//! where a class was given, or a process has taken part, is there a controller.

use crate::arguments::Run;
use apex_core::knobs::Knobs;
use apex_daemon::progress::Progress;
use apex_daemon::read::Stored;
use apex_daemon::schedule::counts::{Counts, Totals};
use apex_daemon::schedule::grants::Grants;
use apex_daemon::schedule::keeper::{Keeper, Order};
use apex_daemon::schedule::mps::Mps;
use apex_daemon::schedule::propose::Rows;
use apex_daemon::schedule::{place, prepare};
use apex_daemon::show::{count, counted, nanos, percent};
use apex_daemon::speech::say;
use apex_daemon::summary::Summary;
use apex_policy::schedule::{Class, DEFAULT_POLICY, Sla, policy};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two looks at the counters.
const LOOK: Duration = Duration::from_millis(200);

/// So few launches make a request of a graph, and so many bursts show what is usual.
const GRAPH_LAUNCHES: u64 = 3;
const GRAPH_BURSTS: u64 = 32;

/// A program's part in sharing a GPU.
#[derive(Debug)]
pub(crate) struct Sharing {
    order: Order,
    keeper: Option<Keeper>,
    counts: Counts,
    mps: Option<Mps>,
    looked: Instant,
    variables: Vec<(&'static str, OsString)>,
}

impl Sharing {
    /// Prepares it; none where there is no place for a page. An error is a wrong call of apex.
    pub(crate) fn prepare(
        run: &Run,
        knobs: &Knobs,
        rings: &Path,
    ) -> Result<Option<Sharing>, String> {
        let class = match (run.class, knobs.class.as_deref()) {
            (Some(class), _) => Some(class),
            (None, word) => word.map(str::parse::<Class>).transpose()?,
        };
        let sla = match (run.sla, knobs.sla.as_deref()) {
            (Some(sla), _) => Some(sla),
            (None, word) => word.map(str::parse::<Sla>).transpose()?,
        };
        // A promise is what a latency program is for.
        let class = class.or(sla.map(|_| Class::Latency));
        let named = run.policy.as_deref().or(knobs.policy.as_deref()).unwrap_or(DEFAULT_POLICY);
        policy(named)?;
        let share = run.share.unwrap_or(knobs.share);
        if !(share > 0.0 && share <= 1_000.0) {
            return Err(format!("a share of {share} is none: give a weight above 0"));
        }
        if class.is_none() && (run.share.is_some() || run.policy.is_some()) {
            say("--share and --policy do nothing without --class: nothing is scheduled");
        }
        let directory = place(knobs.gate.clone(), |name| std::env::var_os(name).map(PathBuf::from));
        if class.is_none() && !run.mps {
            // Nobody may be there yet; a program that asks for it makes it.
            if prepare(&directory).is_err() {
                return Ok(None);
            }
        } else if let Err(error) = prepare(&directory) {
            say(&format!("{} cannot be used ({error}); nothing is scheduled", directory.display()));
            return Ok(None);
        }
        let mps = if run.mps {
            Mps::start(&directory).map_err(|sentence| say(&sentence)).ok()
        } else {
            class.and_then(|_| Mps::join(&directory))
        };
        let mut variables: Vec<(&'static str, OsString)> =
            vec![("APEX_GATE", directory.clone().into())];
        if let Some(class) = class {
            variables.push(("APEX_CLASS", class.word().into()));
            variables.push(("APEX_SHARE", share.to_string().into()));
        }
        if let Some(sla) = sla {
            variables.push(("APEX_SLA", sla.to_string().into()));
        }
        if let Some(mps) = &mps {
            let below = class == Some(Class::Batch);
            if class == Some(Class::Latency) {
                variables.push(("APEX_LAUNCH_PRIORITY", "1".into()));
            }
            variables.extend(
                mps.variables(below)
                    .into_iter()
                    .map(|(name, value)| (name, value.into_os_string())),
            );
        }
        let order = Order {
            directory: directory.clone(),
            policy: named.into(),
            grants: Grants::OfUser(nix::unistd::Uid::effective().as_raw()),
            mps: mps.is_some(),
            is_daemon: false,
            log: knobs.schedule_log.clone(),
        };
        let keeper = class.map(|_| Keeper::start(order.clone()));
        let counts = Counts::of(&directory, rings);
        Ok(Some(Sharing { order, keeper, counts, mps, looked: Instant::now(), variables }))
    }

    /// What the program is given.
    pub(crate) fn variables(&self) -> Vec<(&'static str, OsString)> {
        self.variables.clone()
    }

    /// Looks now and then while the program runs.
    pub(crate) fn look(&mut self) {
        if self.looked.elapsed() < LOOK {
            return;
        }
        self.looked = Instant::now();
        self.counts.look();
        if self.keeper.is_none() && self.counts.total().is_some() {
            self.keeper = Some(Keeper::start(self.order.clone()));
        }
        if let Some(keeper) = &mut self.keeper {
            keeper.take_notes().iter().for_each(|sentence| say(sentence));
        }
    }

    /// The program has ended. What is to be said of it, nothing if it took no part; and MPS, whose end may take a while
    /// that is not the program's.
    pub(crate) fn finish(mut self) -> (Option<String>, Option<Mps>) {
        self.counts.look();
        if let Some(keeper) = self.keeper.take() {
            keeper.stop().iter().for_each(|sentence| say(sentence));
        }
        let mps = self.mps.take();
        let with_mps = mps.is_some() || self.order.mps;
        (self.counts.total().map(|totals| sentence(&totals, with_mps)), mps)
    }
}

/// A sentence for the user of a program that was given no class and seems to answer requests.
pub(crate) fn proposal(summary: &Summary, session: &Path) -> Option<String> {
    // Reading back a long session would take longer than the sentence is worth.
    const MOST_CALLS: u64 = 200_000;
    const LEAST_WALL_NS: u64 = 500_000_000;
    let idle = summary.gpu_busy.as_ref().is_none_or(|busy| busy.share < 0.8);
    if !idle || summary.calls > MOST_CALLS || summary.wall_ns < LEAST_WALL_NS {
        return None;
    }
    let mut rows = Rows::default();
    Stored::open(session).ok()?.rows(&mut Progress::silent(), |row, _| rows.add(&row));
    let found = rows.proposal()?;
    Some(format!(
        "this program seems to answer requests: {} bursts of about {}, idle {} of the time; where others \
         share its GPU, run it with --class latency, and them with --class batch",
        count(found.bursts as u64),
        nanos(found.burst_ns as f64),
        percent(found.idle)
    ))
}

fn sentence(totals: &Totals, mps: bool) -> String {
    let Totals { class, launches, holds, admitted_ns, .. } = totals;
    let policy = if totals.policy.is_empty() { "no controller" } else { totals.policy.as_str() };
    let mps = mps || totals.mps;
    let mode = if mps { "with MPS" } else { "without MPS" };
    let mut text = format!(
        "shared the GPU as {class} under {policy}, {mode}: {} of {} waited, {} in all; {} of \
         predicted work admitted",
        count(*holds),
        counted(*launches, "launch", "launches"),
        nanos(totals.waited_ns as f64),
        nanos(*admitted_ns as f64)
    );
    let mut add = |words: String| text += &words;
    if totals.budget_ns > 0 && totals.budget_ns < u64::MAX / 2 {
        add(format!(", budget {} in flight", nanos(totals.budget_ns as f64)));
    }
    if totals.fences > 0 {
        add(format!(", {}", counted(totals.fences, "fence", "fences")));
    }
    if totals.bursts > 0 {
        add(format!(", {}", counted(totals.bursts, "burst", "bursts")));
    }
    if totals.overdue > 0 {
        add(format!(", {} after the longest wait", count(totals.overdue)));
    }
    if totals.failed_open > 0 {
        add(format!(", {} because the controller was gone", count(totals.failed_open)));
    }
    let is_graph = (1..=GRAPH_LAUNCHES).contains(&totals.burst_launches);
    if mps && is_graph && class == Class::Latency.word() && totals.bursts >= GRAPH_BURSTS {
        let launches = counted(totals.burst_launches, "launch", "launches");
        add(format!(
            "; a burst is {launches}: where that is a graph, try it without --mps, it is protected as well \
             and may be faster"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_answers_by_graphs_hears_that_it_needs_no_mps() {
        let hears = |totals: &Totals, mps| sentence(totals, mps).contains("without --mps");
        let graphs = Totals {
            bursts: 500,
            burst_launches: 2,
            class: Class::Latency.word().into(),
            ..Totals::default()
        };
        assert!(hears(&graphs, true));
        assert!(!hears(&graphs, false));
        assert!(!hears(&Totals { burst_launches: 640, ..graphs.clone() }, true));
        assert!(!hears(&Totals { class: Class::Batch.word().into(), ..graphs.clone() }, true));
        assert!(!hears(&Totals { bursts: 3, ..graphs }, true), "three say nothing");
    }
}
