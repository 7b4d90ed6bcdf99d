//! What a run of the simulator found.

use super::Program;

/// The programs of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How long it ran.
    pub length_ns: u64,
    /// Each program, in the order given.
    pub programs: Vec<ProgramOutcome>,
}

/// What one program got.
#[derive(Clone, Debug)]
pub struct ProgramOutcome {
    /// Its name.
    pub name: String,
    /// Every finished request or round: arrived, begun, ended.
    pub passes: Vec<(u64, u64, u64)>,
    /// From the first launch into an empty stream to the begin of its kernel, each time.
    pub first_waits_ns: Vec<u64>,
    /// The longest time that one launch waited at the gate.
    pub longest_wait_ns: u64,
    /// Time on the device, as if alone, of all kernels that ended.
    pub work_ns: u64,
    /// The same at every end of a kernel, for windows of time.
    progress: Vec<(u64, u64)>,
    pass_ns: u64,
}

impl ProgramOutcome {
    pub(super) fn new(program: &Program) -> ProgramOutcome {
        ProgramOutcome {
            name: program.name.clone(),
            passes: Vec::new(),
            first_waits_ns: Vec::new(),
            longest_wait_ns: 0,
            work_ns: 0,
            progress: vec![(0, 0)],
            pass_ns: program.work_ns().max(1),
        }
    }

    pub(super) fn did(&mut self, now_ns: u64, nanos: u64) {
        self.work_ns += nanos;
        self.progress.push((now_ns, self.work_ns));
    }

    /// Rounds done, parts of one included.
    #[must_use]
    pub fn rounds(&self) -> f64 {
        self.work_ns as f64 / self.pass_ns as f64
    }

    /// From arrival to end, of the requests that arrived after `from_ns`.
    #[must_use]
    pub fn responses_ns(&self, from_ns: u64) -> Vec<u64> {
        let late = self.passes.iter().filter(|pass| pass.0 >= from_ns);
        late.map(|(arrived, _, ended)| ended - arrived).collect()
    }

    /// From begin to end, of the requests that arrived after `from_ns`.
    #[must_use]
    pub fn services_ns(&self, from_ns: u64) -> Vec<u64> {
        let late = self.passes.iter().filter(|pass| pass.0 >= from_ns);
        late.map(|(_, begun, ended)| ended - begun).collect()
    }

    /// Work done from `from_ns` on.
    #[must_use]
    pub fn work_after(&self, from_ns: u64) -> u64 {
        let before = self.progress.partition_point(|(time, _)| *time < from_ns);
        self.work_ns - self.progress[before.saturating_sub(1)].1
    }

    /// The least work done in any window of that length between two moments.
    #[must_use]
    pub fn least_in_window(&self, window_ns: u64, from_ns: u64, end_ns: u64) -> u64 {
        let done_by = |time: u64| {
            let place = self.progress.partition_point(|(moment, _)| *moment <= time);
            self.progress[place.saturating_sub(1)].1
        };
        (from_ns..=end_ns.saturating_sub(window_ns))
            .step_by((window_ns / 40).max(1) as usize)
            .map(|from| done_by(from + window_ns) - done_by(from))
            .min()
            .unwrap_or(0)
    }
}

/// The value below which that part of the values lies; 0 of none.
#[must_use]
pub fn percentile(values: &[u64], part: f64) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let place = (part * sorted.len() as f64).ceil().max(1.0) as usize - 1;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0)
}
