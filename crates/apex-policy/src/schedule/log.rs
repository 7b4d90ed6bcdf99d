//! What a policy sees and believes, line by line, for whoever asks why programs wait.
//!
//! A policy that is logged decides as it would without. Every line is an object of JSON: a burst that ended; what was
//! learned of a program that others make way for, each time it was learned anew; and every second what each program that
//! yields was given.

use super::policy::{Burst, Device, Observed, Policy, Settings};
use super::program::Class;
use std::collections::HashMap;

/// What a policy has learned of a latency-critical program. Times are nanoseconds; parts are those of a request alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Belief {
    /// The program.
    pub key: u64,
    /// When it was learned.
    pub at_ns: u64,
    /// What a request takes alone, in the mean.
    pub request_ns: f64,
    /// The time from arrival to end that is aimed at, for the quantile that counts.
    pub goal_ns: f64,
    /// How much longer requests after a pause may become, and all of them.
    pub room_ns: [f64; 2],
    /// What a nanosecond of predicted harm adds to a request, and the doubt of that.
    pub per_harm: [f64; 2],
    /// By which part the longest of twenty requests are longer by themselves.
    pub spread: f64,
    /// The part of a request in which the device works for it.
    pub busy: f64,
    /// What others gain per nanosecond by which they delay a request.
    pub gain: f64,
    /// The harm that was done lately.
    pub harm_ns: f64,
    /// The harm that may be done to requests after a pause, and to each: parts.
    pub allowed: [f64; 2],
    /// Work in flight at most, and how much of it bursts came upon.
    pub budget_ns: f64,
    /// See `budget_ns`.
    pub ahead_ns: f64,
}

/// Between two lines of what programs were given.
const GIVEN_EVERY_NS: u64 = 1_000_000_000;

/// A policy with a log.
pub struct Logged {
    policy: Box<dyn Policy>,
    write: Box<dyn FnMut(&str) + Send>,
    told_ns: HashMap<u64, u64>,
    given_ns: u64,
}

impl Logged {
    /// The same policy, whose lines go there.
    #[must_use]
    pub fn new(policy: Box<dyn Policy>, write: Box<dyn FnMut(&str) + Send>) -> Logged {
        Logged { policy, write, told_ns: HashMap::new(), given_ns: 0 }
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
        self.told_ns.retain(|key, _| programs.iter().any(|program| program.key == *key));
        for belief in self.policy.beliefs() {
            if self.told_ns.insert(belief.key, belief.at_ns) != Some(belief.at_ns) {
                (self.write)(&belief_line(&belief));
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
        r#"{{"program":{key},"burst_at_ms":{:.3},"ms":{:.3},"launches":{},"work_ms":{:.3},"harm_ms":{:.3},"left_ms":{:.3},"came_upon_ms":{:.3}}}"#,
        ms(burst.start_ns),
        ms(burst.length_ns()),
        burst.launches,
        ms(burst.work_ns),
        ms(burst.harm_ns),
        ms(burst.left_ns),
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

fn belief_line(belief: &Belief) -> String {
    let ms = |nanos: f64| nanos / 1e6;
    format!(
        r#"{{"program":{},"at_ms":{:.3},"request_ms":{:.3},"goal_ms":{:.3},"room_ms":{:.3},"room_each_ms":{:.3},"delay_per_harm":{:.3},"doubt":{:.3},"differ":{:.3},"busy":{:.3},"gain":{:.3},"harm_ms":{:.3},"allowed":{:.3},"allowed_each":{:.3},"budget_us":{:.1},"came_upon_us":{:.1}}}"#,
        belief.key,
        ms(belief.at_ns as f64),
        ms(belief.request_ns),
        ms(belief.goal_ns),
        ms(belief.room_ns[0]),
        ms(belief.room_ns[1]),
        belief.per_harm[0],
        belief.per_harm[1],
        belief.spread,
        belief.busy,
        belief.gain,
        ms(belief.harm_ns),
        belief.allowed[0],
        belief.allowed[1],
        belief.budget_ns / 1e3,
        belief.ahead_ns / 1e3,
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
        // A loop of 100 ms, once enough is known.
        assert!((15..=30).contains(&with("goal_ms")), "{}", with("goal_ms"));
        assert!((2..=3).contains(&with("given_at_ms")), "{}", with("given_at_ms"));
        assert!(lines.iter().all(|line| line.starts_with('{') && line.ends_with('}')));
    }
}
