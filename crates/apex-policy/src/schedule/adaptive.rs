//! Makes way for programs that answer requests, and for those of them that leave the device idle does not.
//!
//! A program of the latency class is in one of two states.
//!
//! - **Strict**, the usual one. Beside its bursts, and for [`GUARD_NS`] after each, nothing of the others is let go.
//!   A graph, or launches that keep the device busy, lose nearly a nanosecond per nanosecond of others' work beside
//!   them (`results/sched/overlap-h200-2026-11-16.json`). So nothing is gained by letting it go now.
//! - **Paced**: it launches its kernels one by one and the device waits for it most of the time. Where blocks of its
//!   kernels are started first (MPS), it hardly feels the others, so nobody waits for it.
//!
//! A promise decides otherwise: others run beside the first part of each request. That part grows while more requests
//! keep the limit than promised, and shrinks with each that misses it.
//!
//! The ablation in `docs/policies.md` says what else was tried, and what it was worth.

use super::ledger::Ledger;
use super::policy::{Belief, Device, Observed, Policy, Settings, above, bit};
use super::priority::strict;
use super::program::{Class, Sla};
use super::rescue::Rescue;
use crate::gate::{AHEAD_NS, Burst, Limits};
use std::collections::HashMap;

// What halving and doubling each of them does to every pair is in `results/sched/constants-sim-2026-11-19.json`.

/// Nanoseconds of predicted work in flight while no burst is open; half of it lies between two fences. An open fence
/// costs the device 6.4 µs (measured on an H200), so half of this budget costs 1 %. A burst waits for what is left of
/// it, 0.3 ms in the mean. In the simulator half of it costs training up to 2 %, twice of it P95 up to 6 %.
const BUDGET_NS: u64 = 1_200_000;
/// Nanoseconds after a burst in which the next one of a queue may follow. A program with requests in its queue comes
/// back within 60 µs to 80 µs, the time of a few calls. In the simulator half of it makes P95 1.1 to 1.8 times as long, and
/// 200 times beside products of 12 ms; twice of it costs P95 up to 5 % and training up to 2 %.
const GUARD_NS: u64 = 100_000;
/// Nanoseconds from one launch to the next, in the mean, of a program that launches its kernels one by one. The slowest
/// seen on an H200 needs 90 µs (BERT-large in Python); a graph takes milliseconds. Half of it takes BERT-large for a
/// graph, which costs 44 % of the training beside it; twice of it changes no pair.
const PACED_NS: f64 = 150_000.0;
/// The part of its bursts in which the device works for a paced program, at most. With half of the time idle a program
/// catches up (measured on an H200 beside fifteen kinds of kernels); the measured ones have 0.1 to 0.45. In the simulator
/// half of it costs 52 % of the training beside ResNet-50; without it a program that is always behind has a P95 4.7
/// times as long.
const MOST_BUSY: f64 = 0.5;
/// Bursts after which a burst counts 1/e of what it counted at first: a third of a second to three seconds of the
/// measured programs. In the simulator neither half nor twice as many change any pair.
const COUNTED: f64 = 64.0;
/// Bursts before a program counts as known; strict until then. In the simulator 4 and 16 move P95 by 1.5 % at most.
const LEAST_BURSTS: u32 = 8;
/// Nanoseconds: a burst that begins so soon after the last one was in its queue; a few calls take a fifth of it. In the
/// simulator half and twice of it move P95 by 3 % at most, and training by 0.6 %.
const QUEUED_NS: u64 = 500_000;
/// By how much (a part of the limit) a request that misses its limit makes the part of it smaller that others may use; of
/// p95, 19 that keep it bring that back. In the simulator 0.05 has a P95 up to 4 % shorter, 0.2 one up to 6 % longer;
/// 0.02 gives 1.5 % less training, and 0.3 breaks one promise of three.
const STEP: f64 = 0.1;

/// The default.
#[derive(Debug, Default)]
pub(super) struct Adaptive {
    ledger: Ledger,
    rescue: Rescue,
    seen: HashMap<u64, Seen>,
}

/// What was seen of one latency-critical program. Sums fade with every burst.
#[derive(Clone, Debug, Default)]
struct Seen {
    bursts: u32,
    length_ns: f64,
    launches: f64,
    work_ns: f64,
    last_end_ns: Option<u64>,
    /// When the last one began, or the first of the queue that it was in.
    queue_from_ns: u64,
    /// The part of the promised limit in which others may run beside a request.
    shared: f64,
}

impl Policy for Adaptive {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn step(&mut self, now_ns: u64, device: &Device, programs: &[Observed<'_>]) -> Settings {
        self.seen.retain(|key, _| programs.iter().any(|program| program.key == *key));
        let (mut paced, mut shared) = (0, 0);
        for program in programs.iter().filter(|program| program.class == Class::Latency) {
            let seen = self.seen.entry(program.key).or_default();
            program.bursts.iter().for_each(|burst| seen.observe(burst, program.sla));
            match program.sla {
                _ if program.exclusive || seen.bursts < LEAST_BURSTS => {}
                Some(sla) if seen.may_share(now_ns, program.open_since_ns, sla) => {
                    shared |= bit(program);
                }
                None if device.prioritised && seen.is_paced() => paced |= bit(program),
                _ => {}
            }
        }
        let held =
            |program: &Observed<'_>| (above(program, programs) != 0).then_some(program.class as u8);
        let accounts = self.ledger.settle(now_ns, programs, held);
        let limits = programs.iter().zip(accounts).map(|(program, account)| {
            let above = above(program, programs);
            match above & !paced {
                _ if above == 0 => Limits::OPEN,
                // Only its share limits it.
                0 => account.limit(strict(0, AHEAD_NS, 0)),
                // Its fences stay, so that it can be held again in the middle of a burst.
                yields_to if yields_to & !shared == 0 => {
                    let limits = account.limit(strict(yields_to, BUDGET_NS, 0));
                    Limits { owed_ns: u64::MAX, ..limits }
                }
                yields_to => account.limit(strict(yields_to, BUDGET_NS, GUARD_NS)),
            }
        });
        let mut limits: Vec<Limits> = limits.collect();
        self.rescue.apply(now_ns, device, programs, &mut limits);
        Settings { programs: limits }
    }

    fn beliefs(&self) -> Vec<Belief> {
        let known = self.seen.iter().filter(|(_, seen)| seen.bursts >= LEAST_BURSTS);
        known.map(|(&key, seen)| seen.belief(key)).collect()
    }
}

impl Seen {
    fn observe(&mut self, burst: &Burst, sla: Option<Sla>) {
        // One that nobody waited for may have no length, and says nothing.
        if burst.length_ns() == 0 {
            return;
        }
        let add = |sum: &mut f64, more: f64| *sum += more - *sum / COUNTED;
        add(&mut self.length_ns, burst.length_ns() as f64);
        add(&mut self.launches, f64::from(burst.launches));
        add(&mut self.work_ns, burst.work_ns as f64);
        let arrived_ns = self.arrived_ns(burst.start_ns);
        if !self.is_queued(burst.start_ns) {
            self.queue_from_ns = burst.start_ns;
        }
        if let Some(sla) = sla {
            let missed = burst.end_ns.saturating_sub(arrived_ns) > sla.limit_ns;
            let part = 1.0 - f64::from(sla.quantile) - f64::from(u8::from(missed));
            self.shared = (self.shared + STEP * part).clamp(0.0, 1.0);
        }
        self.bursts = self.bursts.saturating_add(1);
        self.last_end_ns = Some(burst.end_ns);
    }

    /// Whether a burst that began then was in the queue behind the last one.
    fn is_queued(&self, start_ns: u64) -> bool {
        self.last_end_ns.is_some_and(|ended| start_ns.saturating_sub(ended) < QUEUED_NS)
    }

    /// About when the request arrived whose burst began then: of one out of a queue, in the middle between the begin of
    /// the queue and its own.
    fn arrived_ns(&self, start_ns: u64) -> u64 {
        if self.is_queued(start_ns) { self.queue_from_ns.midpoint(start_ns) } else { start_ns }
    }

    /// Whether others may run beside the open request, or may until one comes.
    fn may_share(&self, now_ns: u64, open_since_ns: Option<u64>, sla: Sla) -> bool {
        let arrived_ns = open_since_ns.map_or(now_ns, |since| self.arrived_ns(since));
        let passed_ns = now_ns.saturating_sub(arrived_ns) as f64;
        passed_ns < self.shared * sla.limit_ns as f64
    }

    /// Whether it launches one by one and leaves the device idle.
    fn is_paced(&self) -> bool {
        self.length_ns <= PACED_NS * self.launches && self.work_ns < MOST_BUSY * self.length_ns
    }

    fn belief(&self, key: u64) -> Belief {
        let counted = COUNTED * (1.0 - (1.0 - 1.0 / COUNTED).powf(f64::from(self.bursts)));
        Belief {
            key,
            request_ns: self.length_ns / counted,
            launches: self.launches / counted,
            busy: self.work_ns / self.length_ns,
            paced: self.is_paced(),
            shared: self.shared,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MPS: Device = Device { sms: 132, shared: true, prioritised: true };

    /// Requests of so many launches, 5 ms long, of which the device works for so much.
    fn requests(launches: u32, work_ms: f64) -> Vec<Burst> {
        let request = |nth: u64| Burst {
            start_ns: nth * 20_000_000,
            end_ns: nth * 20_000_000 + 5_000_000,
            launches,
            work_ns: (work_ms * 1e6) as u64,
            ..Burst::default()
        };
        (0..40).map(request).collect()
    }

    fn program(slot: u8, class: Class, bursts: &[Burst]) -> Observed<'_> {
        Observed {
            slot,
            key: u64::from(slot) + 1,
            class,
            share: 1.0,
            sla: None,
            bursts,
            open_since_ns: None,
            exclusive: false,
            in_flight_ns: 0,
            admitted_ns: 0,
            waited_ns: 0,
            waiting: true,
        }
    }

    /// What a batch program may beside one that answers requests.
    fn beside(device: Device, latency: Observed<'_>) -> Limits {
        let programs = [latency, program(1, Class::Batch, &[])];
        Adaptive::default().step(800_000_000, &device, &programs).programs[1]
    }

    #[test]
    fn only_a_paced_program_is_not_waited_for() {
        let yields = |device, launches, work_ms| {
            let requests = requests(launches, work_ms);
            let limits = beside(device, program(0, Class::Latency, &requests));
            assert!(!limits.open && limits.owed_ns == 0);
            limits.yields_to == 1
        };
        assert!(!yields(MPS, 175, 1.3));
        assert!(yields(MPS, 1, 1.3), "a graph");
        assert!(yields(MPS, 175, 3.0), "it keeps the device busy");
        assert!(yields(Device { prioritised: false, ..MPS }, 175, 1.3), "its blocks are not first");
    }

    #[test]
    fn who_asks_for_the_device_alone_has_it_and_so_has_a_stranger() {
        let requests = requests(175, 1.3);
        let latency = program(0, Class::Latency, &requests);
        assert_eq!(beside(MPS, Observed { exclusive: true, ..latency }).yields_to, 1);
        let few = Observed { bursts: &requests[..7], ..latency };
        assert_eq!(beside(MPS, few).yields_to, 1);
    }

    #[test]
    fn launches_that_nobody_waits_for_teach_nothing() {
        // A program is set up; then its requests take 5 ms, of which the device works for one.
        let setup = (0..600).map(|nth| Burst {
            start_ns: nth * 1_000,
            end_ns: nth * 1_000,
            launches: 9,
            work_ns: 9_000_000,
            ..Burst::default()
        });
        let bursts: Vec<Burst> = setup.chain(requests(175, 1.0)).collect();
        assert_eq!(beside(MPS, program(0, Class::Latency, &bursts)).yields_to, 0);
    }

    #[test]
    fn a_promise_is_shared_as_far_as_it_is_kept() {
        let requests = requests(1, 5.0);
        let shares = |limit: &str, passed_ms: Option<u64>| {
            let open_since_ns = passed_ms.map(|passed| 800_000_000 - passed * 1_000_000);
            let sla = limit.parse().ok();
            let latency = program(0, Class::Latency, &requests);
            beside(MPS, Observed { sla, open_since_ns, ..latency }).owed_ns == u64::MAX
        };
        // Forty requests within the limit give a fifth of it away.
        assert!(shares("p95=50ms", None) && shares("p95=50ms", Some(9)));
        assert!(!shares("p95=50ms", Some(11)));
        assert!(!shares("p95=4ms", None), "it is not kept even alone");
    }

    #[test]
    fn a_request_out_of_a_queue_has_waited() {
        let mut seen = Seen::default();
        let burst = |start_ns, end_ns| Burst { start_ns, end_ns, ..Burst::default() };
        [burst(0, 5_000_000), burst(5_100_000, 10_100_000)]
            .iter()
            .for_each(|burst| seen.observe(burst, None));
        assert_eq!(seen.arrived_ns(10_200_000), 5_100_000);
        assert_eq!(seen.arrived_ns(10_100_000 + QUEUED_NS), 10_100_000 + QUEUED_NS);
    }
}
