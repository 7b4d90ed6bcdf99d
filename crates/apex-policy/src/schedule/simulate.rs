//! Several programs on one virtual GPU, under a policy, with a virtual clock.
//!
//! A program is a list of steps: time on its processor, launches, waits. The same state machines of the gate
//! ([`crate::gate`]) and the same [`super::Policy`] that run in the shim and the daemon decide here. So a policy is
//! compared and tested without hardware, and every run of the same seed is the same. What is modelled: one stream for each program,
//! launches that the program issues ahead, what a launch and a wait cost, and three ways of sharing the device
//! (`gpu`). What is not: clocks that fall under load, copies, memory running out.

mod gate;
mod gpu;
mod host;
mod outcome;
mod pairs;
mod random;
mod synthetic;
#[cfg(test)]
mod tests;

use super::{Bottleneck, Class, Policy, Sla};

pub use outcome::{Outcome, ProgramOutcome, percentile};
pub use pairs::{PAIRS, Pair};
pub use random::Random;
pub use synthetic::{Synthetic, Training, gpt2_training, gpu_bound_pair, random_mix};

/// One kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its time alone on the device.
    pub nanos: u64,
    /// The time of one of its blocks.
    pub block_ns: u64,
    /// Multiprocessors after which it stops gaining.
    pub sms: u32,
    /// What it presses on.
    pub bottleneck: Bottleneck,
}

/// One step of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Time on its own processor.
    Host(u64),
    /// Its input is copied to the device: a burst begins.
    Input,
    /// A launch: one kernel, or those of a graph.
    Launch(Vec<Kernel>),
    /// Waits until all that was launched has ended.
    Wait,
}

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: Class,
    /// Its weight among programs of its class.
    pub share: f32,
    /// Its promise.
    pub sla: Option<Sla>,
    /// When requests arrive; each is one pass. Without any the passes follow each other.
    pub arrivals: Option<Vec<u64>>,
    /// What it does for one request, or in one round; after the last comes the first again.
    pub passes: Vec<Vec<Step>>,
}

impl Program {
    /// Every launch of all passes.
    pub fn launches(&self) -> impl Iterator<Item = &[Kernel]> {
        self.passes.iter().flatten().filter_map(|step| match step {
            Step::Launch(kernels) => Some(kernels.as_slice()),
            _ => None,
        })
    }

    /// Time on the device of one pass, in the mean.
    #[must_use]
    pub fn work_ns(&self) -> u64 {
        let all: u64 = self.launches().flatten().map(|kernel| kernel.nanos).sum();
        all / self.passes.len().max(1) as u64
    }
}

/// How programs share the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One at a time, in turns.
    TimeSlice,
    /// Side by side, first come first served.
    Mps,
    /// Side by side, blocks of latency-critical programs first.
    MpsPriority,
}

/// How well the time of a launch is known before it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Prediction {
    /// Exactly.
    Exact,
    /// Off by a factor whose logarithm (base e) has this standard deviation; always the same for one launch.
    Spread(f64),
    /// Not at all: every launch is taken for one of so many nanoseconds.
    Same(u64),
}

/// The machine.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// How programs share it.
    pub mode: Mode,
    /// Its multiprocessors.
    pub sms: u32,
    /// How well times are predicted.
    pub prediction: Prediction,
    /// Whether the device itself waits at fences, so that programs launch ahead, or programs wait before launches.
    pub fences: bool,
    /// Decides all that is random.
    pub seed: u64,
}

impl Default for Machine {
    fn default() -> Machine {
        let (mode, prediction) = (Mode::MpsPriority, Prediction::Spread(0.2));
        Machine { mode, sms: 132, prediction, fences: true, seed: 1 }
    }
}

/// What stands before the launches of programs below the latency class.
pub enum Gate {
    /// A policy.
    Policy(Box<dyn Policy>),
    /// What a hundred lines would do: wait while a burst is open and for `guard_ns` after, with at most so
    /// many launches in flight, of which every `every`th is known to have ended.
    Crude {
        /// Launches in flight at most.
        launches: usize,
        /// An event after so many launches.
        every: usize,
        /// Time to wait after a burst.
        guard_ns: u64,
    },
}

/// Runs the programs side by side for `length_ns`.
#[must_use]
pub fn simulate(machine: &Machine, programs: &[Program], gate: Gate, length_ns: u64) -> Outcome {
    host::Run::new(machine, programs, gate).until(length_ns)
}
