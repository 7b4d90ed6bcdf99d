//! What the turns of both sides gave, and what becomes of the promises.
//!
//! Both sides of a turn are measured next to each other, so rates are compared turn by turn and the median of these ratios
//! counts.

use super::Work;
use super::worker::Order;
use crate::report::Bar;
use crate::side::Side;
use anyhow::Result;
use serde::Deserialize;
use serde_json::{Value, json};

/// What is promised on a GPU.
const CALL_P50_NS: f64 = 100.0;
const CALL_P99_NS: f64 = 400.0;
const START_IDLE: f64 = 1.2;
const START_BUSY: f64 = 1.0;
const CHAIN: f64 = 4.0;
const BURSTS: f64 = 2.0;

/// What single calls took, and reading the clock in the same way.
#[derive(Deserialize)]
struct Calls {
    calls: Vec<f64>,
    clock: Vec<f64>,
}

/// All turns of both sides, the driver's first.
#[derive(Default)]
pub(super) struct Found {
    calls: [Vec<f64>; 2],
    clock: [Vec<f64>; 2],
    idle: [Vec<f64>; 2],
    busy: [Vec<f64>; 2],
    /// Launches a second, a turn each.
    chain: [Vec<f64>; 2],
    bursts: [Vec<f64>; 2],
    /// Of hand-made graphs, on the driver alone.
    graphs: Vec<f64>,
}

impl Found {
    pub(super) fn calls(&mut self, side: &mut Side, nth: usize, work: &Work) -> Result<()> {
        let Calls { calls, clock } = side.does(Order::Calls { blocks: work.blocks.max(1) })?;
        self.calls[nth].extend(calls);
        self.clock[nth].extend(clock);
        Ok(())
    }

    pub(super) fn turn(
        &mut self,
        sides: &mut [Side; 2],
        order: [usize; 2],
        work: &Work,
    ) -> Result<()> {
        for nth in order {
            let idle: Vec<f64> = sides[nth].does(Order::StartsIdle { times: work.starts })?;
            self.idle[nth].extend(idle);
            let busy: Vec<f64> = sides[nth].does(Order::StartsBusy { times: work.starts })?;
            self.busy[nth].extend(busy);
        }
        for nth in order {
            let seconds: f64 = sides[nth].does(Order::Chain { launches: work.launches })?;
            self.chain[nth].push(work.launches as f64 / seconds);
        }
        let seconds: f64 = sides[0].does(Order::Graphs { launches: work.launches })?;
        self.graphs.push(work.launches as f64 / seconds);
        for nth in order {
            let seconds: f64 = sides[nth].does(Order::Bursts { bursts: work.bursts })?;
            self.bursts[nth].push(work.bursts as f64 / seconds);
        }
        Ok(())
    }

    fn call_ns(&self, nth: usize, share: usize) -> f64 {
        (at(&self.calls[nth], share) - at(&self.clock[nth], 50)).max(0.0)
    }

    pub(super) fn rows(&self, queue: Option<&Value>) -> Vec<Value> {
        let mut rows = Vec::new();
        for (nth, side) in ["driver", "fast"].into_iter().enumerate() {
            let mut row = json!({
                "side": side,
                "call_p50_ns": self.call_ns(nth, 50), "call_p99_ns": self.call_ns(nth, 99),
                "clock_ns": at(&self.clock[nth], 50), "calls": self.calls[nth].len(),
            });
            if !self.chain[nth].is_empty() {
                row["start_idle_p50_ns"] = json!(at(&self.idle[nth], 50));
                row["start_idle_p99_ns"] = json!(at(&self.idle[nth], 99));
                row["start_busy_p50_ns"] = json!(at(&self.busy[nth], 50));
                row["chain_per_second"] = json!(at(&self.chain[nth], 50));
                row["bursts_per_second"] = json!(at(&self.bursts[nth], 50));
                row["chain_turns"] = json!(self.chain[nth]);
                row["burst_turns"] = json!(self.bursts[nth]);
            }
            if let Some(queue) = queue.filter(|_| side == "fast") {
                row["queue"] = queue.clone();
            }
            rows.push(row);
        }
        if !self.graphs.is_empty() {
            let turns = &self.graphs;
            rows.push(json!({
                "side": "graphs by hand", "chain_per_second": at(turns, 50), "chain_turns": turns,
            }));
        }
        rows
    }

    pub(super) fn bars(&self) -> Vec<Bar> {
        let start = |times: &[Vec<f64>; 2]| at(&times[1], 50) / at(&times[0], 50);
        vec![
            Bar::at_most(
                "a call with room in the queue, p50".into(),
                self.call_ns(1, 50),
                "ns",
                CALL_P50_NS,
            ),
            Bar::at_most(
                "a call with room in the queue, p99".into(),
                self.call_ns(1, 99),
                "ns",
                CALL_P99_NS,
            ),
            Bar::at_most(
                "start on an idle GPU, p50".into(),
                start(&self.idle),
                "of the driver's",
                START_IDLE,
            ),
            Bar::at_most(
                "from the first of 65 calls to the last start, p50".into(),
                start(&self.busy),
                "of the driver's",
                START_BUSY,
            ),
            Bar::at_least(
                "dependent launches in a plain loop".into(),
                of_turns(&self.chain),
                "times the driver's rate",
                CHAIN,
            ),
            Bar::at_least(
                "bursts of 20 launches and a wait".into(),
                of_turns(&self.bursts),
                "times the driver's rate",
                BURSTS,
            ),
        ]
    }
}

/// The median over turns, whose sides were measured next to each other.
fn of_turns(sides: &[Vec<f64>; 2]) -> f64 {
    let ratios: Vec<f64> =
        sides[0].iter().zip(&sides[1]).map(|(alone, fast)| fast / alone).collect();
    at(&ratios, 50)
}

/// The value below which so many of a hundred lie.
fn at(values: &[f64], share: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() * share / 100).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_come_from_the_rows() {
        let found = Found {
            calls: [vec![4_020.0; 100], vec![110.0; 100]],
            clock: [vec![20.0; 10], vec![20.0; 10]],
            idle: [vec![10_000.0], vec![11_000.0]],
            busy: [vec![100_000.0], vec![90_000.0]],
            chain: [
                vec![250_000.0, 200_000.0, 250_000.0],
                vec![1_000_000.0, 1_000_000.0, 500_000.0],
            ],
            bursts: [vec![10.0], vec![15.0]],
            graphs: vec![1_200_000.0],
        };
        let bars: Vec<(f64, bool)> = found.bars().iter().map(|bar| (bar.value, bar.ok)).collect();
        let expected =
            [(90.0, true), (90.0, true), (1.1, true), (0.9, true), (4.0, true), (1.5, false)];
        assert_eq!(bars, expected);
        let rows = found.rows(Some(&json!({"queued": 3})));
        assert_eq!((rows.len(), &rows[1]["queue"]["queued"]), (3, &json!(3)));
        assert!(rows[0].get("queue").is_none());
    }
}
