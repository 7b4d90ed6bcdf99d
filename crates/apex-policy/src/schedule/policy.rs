//! The controller's half: what it sees of every program, and what it answers.
//!
//! A policy is one file and one line in [`policies`]. It is asked every few milliseconds, keeps what it
//! learned between the questions, and reads no clock: the time comes with the question.

use super::admit::Limits;
use super::log::Belief;
use super::program::{Class, Sla};

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

/// One burst of a program: from its first input copy or launch after a pause until it has waited for all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Burst {
    /// When it began.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Kernels and graphs launched in it: bursts with about as many are alike.
    pub launches: u32,
    /// Predicted time of others' work that was in flight when it began.
    pub ahead_ns: u64,
    /// Harm of others' work that was started beside it, as [`super::Admission::Go`] told.
    pub harm_ns: u64,
    /// Predicted time of others' work in flight when it ended: let go beside it and not done while it lasted.
    pub left_ns: u64,
    /// Predicted time of what was launched in it; in the rest of its length the device was not needed.
    pub work_ns: u64,
}

impl Burst {
    /// Its length.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
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
    /// Predicted length of its next or open burst; 0 where it is not known.
    pub predicted_burst_ns: u64,
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

/// A policy as it is chosen.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    make: fn() -> Box<dyn Policy>,
}

/// The name of the policy that is taken where none is named.
pub const DEFAULT_POLICY: &str = "adaptive";

/// Every policy.
pub const POLICIES: &[Choice] = &[
    Choice {
        name: "adaptive",
        about: "fills what latency-critical programs leave, beside them too, as far as their promise allows",
        make: || Box::<super::adaptive::Adaptive>::default(),
    },
    Choice {
        name: "priority",
        about: "waits while a higher class is active",
        make: || Box::<super::priority::Priority>::default(),
    },
    Choice {
        name: "deadline",
        about: "waits only while a promise is in danger",
        make: || Box::<super::deadline::Deadline>::default(),
    },
    Choice {
        name: "fair",
        about: "shares of GPU time by weight, without classes",
        make: || Box::<super::fair::Fair>::default(),
    },
    Choice { name: "none", about: "nobody waits", make: || Box::new(super::none::None) },
];

/// The policy of that name.
pub fn policy(name: &str) -> Result<Box<dyn Policy>, String> {
    let found = POLICIES.iter().find(|choice| choice.name == name);
    found.map(|choice| (choice.make)()).ok_or_else(|| {
        let names: Vec<&str> = POLICIES.iter().map(|choice| choice.name).collect();
        format!("`{name}` is no policy; there are {}", names.join(", "))
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_found_by_their_names() {
        assert_eq!(POLICIES[0].name, DEFAULT_POLICY);
        for choice in POLICIES {
            assert_eq!(policy(choice.name).unwrap().name(), choice.name);
        }
        assert!(policy("best").is_err_and(|sentence| sentence.contains("adaptive, priority")));
    }

    #[test]
    fn whoever_is_alone_is_open() {
        let device = Device { sms: 132, shared: true, prioritised: true };
        for class in [Class::Batch, Class::Normal, Class::Latency] {
            let alone = Observed {
                slot: 3,
                key: 1,
                class,
                share: 1.0,
                sla: None,
                bursts: &[],
                open_since_ns: None,
                predicted_burst_ns: 0,
                in_flight_ns: 0,
                admitted_ns: 0,
                waited_ns: 0,
                waiting: false,
            };
            for choice in POLICIES {
                let mut policy = policy(choice.name).unwrap();
                for step in 0..100 {
                    let settings = policy.step(step * 2_000_000, &device, &[alone]);
                    assert!(settings.programs[0].open, "{} {class}", choice.name);
                }
                assert!(policy.step(1_000_000_000, &device, &[]).programs.is_empty());
            }
        }
    }
}
