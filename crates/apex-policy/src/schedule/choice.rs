//! The list of policies, by the names they are chosen by.

use super::adaptive::Adaptive;
use super::deadline::Deadline;
use super::fair::Fair;
use super::none;
use super::policy::Policy;
use super::priority::Priority;

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
        about: "fills the time that latency-critical programs leave, and theirs where they leave the device idle",
        make: || Box::<Adaptive>::default(),
    },
    Choice {
        name: "priority",
        about: "waits while a higher class is active",
        make: || Box::<Priority>::default(),
    },
    Choice {
        name: "deadline",
        about: "waits only while a promise is in danger",
        make: || Box::<Deadline>::default(),
    },
    Choice {
        name: "fair",
        about: "shares of GPU time by weight, without classes",
        make: || Box::<Fair>::default(),
    },
    Choice { name: "none", about: "nobody waits", make: || Box::new(none::None) },
];

/// The policy of that name.
pub fn policy(name: &str) -> Result<Box<dyn Policy>, String> {
    let found = POLICIES.iter().find(|choice| choice.name == name);
    found.map(|choice| (choice.make)()).ok_or_else(|| {
        let names: Vec<&str> = POLICIES.iter().map(|choice| choice.name).collect();
        format!("`{name}` is no policy; there are {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::super::policy::{Device, Observed};
    use super::super::program::Class;
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
                exclusive: false,
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
