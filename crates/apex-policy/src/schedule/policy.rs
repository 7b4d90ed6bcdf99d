//! The controller's half: what it sees of every program, and what it answers.
//!
//! A policy is one file and one line in [`super::choice`]. It is asked every few milliseconds, keeps what it
//! learned between the questions, and reads no clock: the time comes with the question.

use super::program::{Class, Sla};
use crate::gate::{Burst, Limits};

/// The device the programs share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Multiprocessors.
    pub sms: u32,
    /// Kernels of several programs may run at the same time (MPS). Without it the device changes between
    /// programs, and nothing runs beside anything.
    pub shared: bool,
    /// While shared, blocks of latency-critical programs are started first.
    pub prioritised: bool,
}

/// What is known of one program at this moment.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// Its slot on the page, below 64: its bit in [`Limits::yields_to`].
    pub slot: u8,
    /// Identity of the process, never used again for another (process id and start time in one number).
    pub key: u64,
    /// Its class, as granted.
    pub class: Class,
    /// Its weight among programs of its class, above 0; 1 where none was said.
    pub share: f32,
    /// Its promise.
    pub sla: Option<Sla>,
    /// The bursts that ended since the last question, oldest first.
    pub bursts: &'a [Burst],
    /// Since when a burst is open; none while idle.
    pub open_since_ns: Option<u64>,
    /// It asks that nothing ever runs beside its bursts.
    pub exclusive: bool,
    /// Predicted time of its work that is in flight.
    pub in_flight_ns: u64,
    /// Total of predicted time launched since it began, gated or not.
    pub admitted_ns: u64,
    /// Total of time that its launches have waited at the gate.
    pub waited_ns: u64,
    /// A launch of it waits at the gate now.
    pub waiting: bool,
}

/// The answer: limits for every program, in the order in which they were observed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// One for each observed program.
    pub programs: Vec<Limits>,
}

/// What a policy has learned of a latency-critical program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Belief {
    /// The program.
    pub key: u64,
    /// What a burst takes, in the mean.
    pub request_ns: f64,
    /// Kernels and graphs launched in one, in the mean.
    pub launches: f64,
    /// The part of a burst in which the device works for it.
    pub busy: f64,
    /// It launches one by one and leaves the device idle.
    pub paced: bool,
    /// The part of the promised limit in which others may run beside a request.
    pub shared: f64,
}

/// A way to share a GPU.
pub trait Policy: Send {
    /// The name it is chosen by.
    fn name(&self) -> &'static str;

    /// What is allowed from now on. `now_ns` never goes back between two questions.
    fn step(&mut self, now_ns: u64, device: &Device, programs: &[Observed<'_>]) -> Settings;

    /// What it has learned, if it learns.
    fn beliefs(&self) -> Vec<Belief> {
        Vec::new()
    }
}

/// The slots of the programs of a higher class, a bit each.
pub(super) fn above(program: &Observed<'_>, programs: &[Observed<'_>]) -> u64 {
    let higher = programs.iter().filter(|other| other.class > program.class);
    higher.fold(0, |slots, other| slots | bit(other))
}

/// The program's bit.
pub(super) fn bit(program: &Observed<'_>) -> u64 {
    1_u64.checked_shl(u32::from(program.slot)).unwrap_or(0)
}
