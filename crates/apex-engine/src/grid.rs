//! A launch on its way: blocks, and the workers that run them.
//!
//! Workers take units (a cluster's blocks, or one block) from a counter. A unit that uses
//! up its slice goes to a queue and makes room for another, so blocks that wait for other
//! blocks come to an end; as many are alive at once as the device would hold, never more,
//! so a program that relies on it finds what it found on the hardware. A cooperative
//! launch has all its blocks alive from the start.

mod unit;

use crate::device::Device;
use crate::fault::Fault;
use crate::frame::FastTier;
use crate::interpret::facts::Facts;
use crate::kernel::Launch;
use crate::tiers::Choice;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use unit::{Unit, UnitState};

/// Bytes that blocks alive at once may hold, beyond the ones being run.
const ALIVE_BYTES: usize = 512 << 20;

/// The blocks of one launch. Any number of threads may call [`Self::work`] at the same time.
pub struct Grid {
    facts: Arc<Facts>,
    units: u64,
    chunk: u64,
    /// The next unit nobody has taken.
    next: AtomicU64,
    finished: AtomicU64,
    alive: AtomicUsize,
    alive_bytes: AtomicUsize,
    alive_limit: usize,
    suspended: Mutex<VecDeque<Box<Unit>>>,
    fault: Mutex<Option<Fault>>,
    instructions: AtomicU64,
    workers: AtomicU32,
}

impl std::fmt::Debug for Grid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grid")
            .field("kernel", &self.facts.kernel.name)
            .field("units", &self.units)
            .field("finished", &self.finished)
            .finish_non_exhaustive()
    }
}

impl Grid {
    /// Checks the launch and makes it ready to run.
    ///
    /// # Errors
    /// [`Fault::Unsupported`], [`Fault::InvalidLaunch`] or [`Fault::OutOfMemory`].
    pub fn new(launch: Launch, device: Arc<Device>) -> Result<Grid, Fault> {
        let choice = crate::tiers::choose(&launch, &device);
        Self::with(launch, device, choice)
    }

    /// As [`Self::new`], with the compiled form given; without one all is interpreted.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn with_fast_tier(
        launch: Launch,
        device: Arc<Device>,
        fast: Option<Arc<dyn FastTier>>,
    ) -> Result<Grid, Fault> {
        // Compiled code does not report what checked mode looks for.
        let fast = fast.filter(|fast| !device.checked && fast.suits(device.window, &launch.params));
        Self::with(launch, device, Choice { fast, later: None })
    }

    fn with(launch: Launch, device: Arc<Device>, choice: Choice) -> Result<Grid, Fault> {
        check(&launch, &device)?;
        let cooperative = launch.cooperative;
        let facts = Arc::new(Facts::new(launch, device, choice.fast, choice.later));
        let blocks: u64 = facts.grid.iter().map(|&n| u64::from(n)).product();
        let units = blocks / u64::from(facts.cluster_blocks());
        let identity = &facts.device.identity;
        let by_threads = identity.threads_per_multiprocessor / facts.threads().max(1);
        let per_sm = by_threads.clamp(1, identity.blocks_per_multiprocessor.max(1));
        let alive_limit = (identity.multiprocessors.max(1) * per_sm) as usize;
        let grid = Grid {
            units,
            chunk: if cooperative { 1 } else { (units / 256).clamp(1, 32) },
            next: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            alive: AtomicUsize::new(0),
            alive_bytes: AtomicUsize::new(0),
            alive_limit,
            suspended: Mutex::new(VecDeque::new()),
            fault: Mutex::new(None),
            instructions: AtomicU64::new(0),
            workers: AtomicU32::new(0),
            facts,
        };
        if cooperative {
            grid.start_all()?;
        }
        Ok(grid)
    }

    /// Makes every block of a cooperative launch alive.
    fn start_all(&self) -> Result<(), Fault> {
        let mut queue = lock(&self.suspended);
        for number in 0..self.units {
            let mut unit = Unit::new(&self.facts).ok_or(Fault::OutOfMemory)?;
            unit.start(number, 0);
            self.alive.fetch_add(1, Ordering::Relaxed);
            queue.push_back(unit);
        }
        self.next.store(self.units, Ordering::Relaxed);
        Ok(())
    }

    /// Runs blocks until none is left to take. True for exactly one caller: the one that
    /// finished the last block.
    pub fn work(&self) -> bool {
        let sm = self.workers.fetch_add(1, Ordering::Relaxed)
            % self.facts.device.identity.multiprocessors.max(1);
        let mut spare: Option<Box<Unit>> = None;
        loop {
            if self.facts.stop.load(Ordering::Relaxed) {
                return self.abandon();
            }
            // New blocks first, while the device would hold them; then those that wait.
            let room = self.alive.load(Ordering::Relaxed) < self.alive_limit
                && self.alive_bytes.load(Ordering::Relaxed) < ALIVE_BYTES;
            if room && let Some(range) = self.take() {
                if self.run_new(range, sm, &mut spare) {
                    return true;
                }
                continue;
            }
            let Some(unit) = lock(&self.suspended).pop_front() else {
                if !room && let Some(range) = self.take() {
                    if self.run_new(range, sm, &mut spare) {
                        return true;
                    }
                    continue;
                }
                return self.units == 0 && self.finished.fetch_add(1, Ordering::AcqRel) == 0;
            };
            self.alive.fetch_sub(1, Ordering::Relaxed);
            self.alive_bytes.fetch_sub(unit.bytes(), Ordering::Relaxed);
            if let Some(done) = self.run(unit) {
                spare = Some(done);
                if self.finish(1) {
                    return true;
                }
            }
        }
    }

    /// Asks the workers to stop at the next back edge.
    pub fn cancel(&self) {
        lock(&self.fault).get_or_insert(Fault::Cancelled);
        self.facts.stop.store(true, Ordering::Relaxed);
    }

    /// Why the launch failed, if it did; complete once [`Self::work`] has said true.
    pub fn fault(&self) -> Option<Fault> {
        if let Some(fault) = lock(&self.fault).clone() {
            return Some(fault);
        }
        let reports = self.facts.findings.reports();
        (!reports.is_empty()).then_some(Fault::Checked(reports))
    }

    /// Warp instructions executed so far.
    pub fn instructions(&self) -> u64 {
        self.instructions.load(Ordering::Relaxed)
    }

    /// Whether it looks at memory that others may change while it runs: then it may wait for other work.
    pub fn polls(&self) -> bool {
        self.facts.polls()
    }

    /// Takes the next units.
    fn take(&self) -> Option<Range<u64>> {
        if self.next.load(Ordering::Relaxed) >= self.units {
            return None;
        }
        let first = self.next.fetch_add(self.chunk, Ordering::Relaxed);
        (first < self.units).then(|| first..(first + self.chunk).min(self.units))
    }

    /// Runs units from their start; true when the last of the launch is done.
    fn run_new(&self, range: Range<u64>, sm: u32, spare: &mut Option<Box<Unit>>) -> bool {
        let mut done = 0;
        let mut next = range.start;
        while next < range.end {
            if self.facts.stop.load(Ordering::Relaxed) {
                done += range.end - next;
                break;
            }
            let Some(mut unit) = spare.take().or_else(|| Unit::new(&self.facts)) else {
                self.fail(Fault::OutOfMemory);
                done += range.end - next;
                break;
            };
            let (ended, state) = unit.run_row(next..range.end, sm);
            done += ended;
            // With the one that did not come to its end in this row.
            next += ended + u64::from(!matches!(state, UnitState::Done));
            let failed = matches!(state, UnitState::Failed(_));
            if let Some(unit) = self.account(unit, state) {
                *spare = Some(unit);
                done += u64::from(failed);
            }
        }
        self.finish(done)
    }

    /// Runs a unit for a slice; gives it back when it is over.
    fn run(&self, mut unit: Box<Unit>) -> Option<Box<Unit>> {
        let state = unit.run();
        self.account(unit, state)
    }

    /// Takes note of how a unit stopped; gives it back when it is over.
    fn account(&self, mut unit: Box<Unit>, state: UnitState) -> Option<Box<Unit>> {
        let interpreted = unit.take_instructions();
        self.instructions.fetch_add(interpreted, Ordering::Relaxed);
        self.facts.interpreted(interpreted);
        match state {
            UnitState::Done => Some(unit),
            UnitState::Suspended => {
                self.alive.fetch_add(1, Ordering::Relaxed);
                self.alive_bytes.fetch_add(unit.bytes(), Ordering::Relaxed);
                lock(&self.suspended).push_back(unit);
                None
            }
            UnitState::Failed(fault) => {
                self.fail(fault);
                Some(unit)
            }
        }
    }

    /// The first fault is the launch's.
    fn fail(&self, fault: Fault) {
        let mut first = lock(&self.fault);
        if first.is_none() {
            let mut reports = self.facts.findings.reports();
            *first = Some(if reports.is_empty() || matches!(fault, Fault::Cancelled) {
                fault
            } else {
                // What checked mode saw explains the fault better than the fault does.
                reports.truncate(64);
                Fault::Checked(reports)
            });
        }
        self.facts.stop.store(true, Ordering::Relaxed);
    }

    fn finish(&self, units: u64) -> bool {
        units != 0 && self.finished.fetch_add(units, Ordering::AcqRel) + units == self.units
    }

    /// After a fault: what nobody has run counts as finished.
    fn abandon(&self) -> bool {
        let next = self.next.swap(self.units, Ordering::Relaxed).min(self.units);
        let queued = lock(&self.suspended).drain(..).count() as u64;
        self.finish(self.units - next + queued)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check(launch: &Launch, device: &Device) -> Result<(), Fault> {
    let kernel = &launch.kernel;
    if let Some(reason) = &kernel.unsupported {
        return Err(Fault::Unsupported(format!("kernel {}: {reason}", kernel.name)));
    }
    let invalid =
        |reason: String| Err(Fault::InvalidLaunch(format!("kernel {}: {reason}", kernel.name)));
    let threads: u64 = launch.block.iter().map(|&n| u64::from(n)).product();
    if threads == 0 || threads > 1024 {
        return invalid(format!("{threads} threads per block"));
    }
    if launch.grid.contains(&0) || launch.cluster.contains(&0) {
        return invalid("an empty grid or cluster".into());
    }
    if (0..3).any(|axis| !launch.grid[axis].is_multiple_of(launch.cluster[axis])) {
        return invalid("the grid is no multiple of the cluster".into());
    }
    if (launch.params.len() as u64) < u64::from(kernel.param_bytes) {
        return invalid(format!(
            "{} bytes of parameters, not {}",
            launch.params.len(),
            kernel.param_bytes
        ));
    }
    let shared = u64::from(kernel.static_shared) + u64::from(launch.dynamic_shared);
    if shared > u64::from(device.identity.shared_per_block) {
        return invalid(format!("{shared} bytes of shared memory"));
    }
    Ok(())
}
