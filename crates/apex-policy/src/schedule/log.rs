//! What a policy sees and believes, line by line, for whoever asks why programs wait.
//!
//! A policy that is logged decides as it would without. Every line is an object of JSON: a burst that ended; what was
//! learned of each program that others make way for, ten times a second; and every second what each program that yields
//! was given.

use super::policy::{Belief, Device, Observed, Policy, Settings};
use super::program::Class;
use crate::gate::Burst;

/// Between two lines of what is believed of a program.
const BELIEVED_EVERY_NS: u64 = 100_000_000;
/// Between two lines of what programs were given.
const GIVEN_EVERY_NS: u64 = 1_000_000_000;

/// A policy with a log.
pub struct Logged {
    policy: Box<dyn Policy>,
    write: Box<dyn FnMut(&str) + Send>,
    believed_ns: u64,
    given_ns: u64,
}

impl Logged {
    /// The same policy, whose lines go there.
    #[must_use]
    pub fn new(policy: Box<dyn Policy>, write: Box<dyn FnMut(&str) + Send>) -> Logged {
        Logged { policy, write, believed_ns: 0, given_ns: 0 }
    }
}

impl Policy for Logged {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn step(&mut self, now_ns: u64, device: &Device, programs: &[Observed<'_>]) -> Settings {
        for program in programs {
            for burst in program.bursts {
                (self.write)(&burst_line(program.key, burst));
            }
        }
        if now_ns >= self.given_ns + GIVEN_EVERY_NS {
            self.given_ns = now_ns;
            for program in programs.iter().filter(|program| program.class != Class::Latency) {
                (self.write)(&given_line(now_ns, program));
            }
        }
        let settings = self.policy.step(now_ns, device, programs);
        if now_ns >= self.believed_ns + BELIEVED_EVERY_NS {
            self.believed_ns = now_ns;
            for belief in self.policy.beliefs() {
                (self.write)(&belief_line(now_ns, &belief));
            }
        }
        settings
    }

    fn beliefs(&self) -> Vec<Belief> {
        self.policy.beliefs()
    }
}

fn burst_line(key: u64, burst: &Burst) -> String {
    let ms = |nanos: u64| nanos as f64 / 1e6;
    format!(
        r#"{{"program":{key},"burst_at_ms":{:.3},"ms":{:.3},"launches":{},"work_ms":{:.3},"came_upon_ms":{:.3}}}"#,
        ms(burst.start_ns),
        ms(burst.length_ns()),
        burst.launches,
        ms(burst.work_ns),
        ms(burst.ahead_ns),
    )
}

fn given_line(now_ns: u64, program: &Observed<'_>) -> String {
    let ms = |nanos: u64| nanos as f64 / 1e6;
    format!(
        r#"{{"program":{},"given_at_ms":{:.3},"work_ms":{:.3},"waited_ms":{:.3},"in_flight_ms":{:.3}}}"#,
        program.key,
        ms(now_ns),
        ms(program.admitted_ns),
        ms(program.waited_ns),
        ms(program.in_flight_ns),
    )
}

fn belief_line(now_ns: u64, belief: &Belief) -> String {
    format!(
        r#"{{"program":{},"at_ms":{:.3},"request_ms":{:.3},"launches_each":{:.1},"busy":{:.3},"paced":{},"shared":{:.3}}}"#,
        belief.key,
        now_ns as f64 / 1e6,
        belief.request_ns / 1e6,
        belief.launches,
        belief.busy,
        belief.paced,
        belief.shared,
    )
}

#[cfg(test)]
mod tests {
    use super::super::simulate::{Gate, Machine, gpu_bound_pair, simulate};
    use super::*;
    use crate::schedule::policy;
    use std::sync::{Arc, Mutex};

    #[test]
    fn a_logged_policy_decides_the_same_and_says_why() {
        let length_ns = 3_000_000_000;
        let programs = gpu_bound_pair(78.0, length_ns, 7);
        let run =
            |policy| simulate(&Machine::default(), &programs, Gate::Policy(policy), length_ns);
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = lines.clone();
        let write = Box::new(move |line: &str| kept.lock().unwrap().push(line.to_owned()));
        let logged = run(Box::new(Logged::new(policy("adaptive").unwrap(), write)));
        let plain = run(policy("adaptive").unwrap());
        assert_eq!(logged.programs[1].work_ns, plain.programs[1].work_ns);
        let lines = lines.lock().unwrap();
        let with = |name: &str| lines.iter().filter(|line| line.contains(name)).count();
        let requests = logged.programs[0].passes.len();
        assert!(with("burst_at_ms").abs_diff(requests) <= 2, "{} {requests}", with("burst_at_ms"));
        // Every 100 ms, once enough is known.
        assert!((15..=30).contains(&with("request_ms")), "{}", with("request_ms"));
        assert!((2..=3).contains(&with("given_at_ms")), "{}", with("given_at_ms"));
        assert!(lines.iter().all(|line| line.starts_with('{') && line.ends_with('}')));
    }
}
