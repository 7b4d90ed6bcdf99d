//! What the turns of all sides gave, and what becomes of the promises.
//!
//! The sides of a turn are measured next to each other, so loops are compared turn by turn and the median of these ratios
//! counts.

use super::Work;
use super::calls::How;
use super::worker::Order;
use crate::report::Bar;
use crate::side::Side;
use anyhow::Result;
use serde::Deserialize;
use serde_json::{Value, json};

/// How many sides there are.
pub(super) const SIDES: usize = 3;
/// What they are called in the rows.
pub(super) const NAMES: [&str; SIDES] = ["driver", "fast=memory", "fast"];
const DRIVER: usize = 0;
const MEMORY: usize = 1;

/// Bytes of the blocks that are allocated and freed.
const SIZES: [u64; 6] = [1 << 10, 64 << 10, 1 << 20, 4 << 20, 32 << 20, 256 << 20];
/// Bytes where a wait follows each pair.
const CYCLED: [u64; 2] = [1 << 20, 256 << 20];
/// A free that is timed while a kernel runs.
const BEHIND_BYTES: u64 = 16 << 20;
const KERNEL_NS: u64 = 10_000_000;

/// What is promised on a GPU.
const PAIR_P50_NS: f64 = 300.0;
const PAIR_P99_NS: f64 = 2_000.0;
const FREE_BEHIND_NS: f64 = 1_000.0;
const PEAK: f64 = 1.10;
/// Elements of the loop, with how many times the driver's rate is promised.
const LOOPS: [(u32, f64); 3] = [(10_000, 1.5), (100_000, 1.4), (1_000_000, 1.1)];

/// What single calls took, and reading the clock in the same way.
#[derive(Deserialize)]
struct Timed {
    took: Vec<f64>,
    clock: Vec<f64>,
}

/// Nanoseconds of all turns.
#[derive(Clone, Default)]
struct Times {
    took: Vec<f64>,
    clock: Vec<f64>,
}

impl Times {
    fn add(&mut self, timed: Timed) {
        self.took.extend(timed.took);
        self.clock.extend(timed.clock);
    }

    fn share(&self, share: usize) -> f64 {
        let clock = if self.clock.is_empty() { 0.0 } else { at(&self.clock, 50) };
        (at(&self.took, share) - clock).max(0.0)
    }
}

/// All turns of all sides, the driver's first.
#[derive(Default)]
pub(super) struct Found {
    pairs: [[Times; SIZES.len()]; SIDES],
    async_pairs: [[Times; SIZES.len()]; SIDES],
    cycles: [[Times; CYCLED.len()]; SIDES],
    behind: [Times; SIDES],
    /// Seconds, a turn each.
    loops: [[Vec<f64>; LOOPS.len()]; SIDES],
    async_loops: [[Vec<f64>; LOOPS.len()]; SIDES],
    /// Bytes of the device at most, where that can be seen, and those that the program asked for.
    peaks: [Option<(u64, u64)>; SIDES],
    /// What apex reports of each side.
    reports: [Option<Value>; SIDES],
}

impl Found {
    pub(super) fn turn(
        &mut self,
        sides: &mut [Side; SIDES],
        order: [usize; SIDES],
        work: &Work,
    ) -> Result<()> {
        for (size, bytes) in SIZES.into_iter().enumerate() {
            let times = work.pairs;
            for nth in order {
                let pairs = sides[nth].does(Order::Pairs { how: How::Plain, bytes, times })?;
                self.pairs[nth][size].add(pairs);
                let pairs = sides[nth].does(Order::Pairs { how: How::Async, bytes, times })?;
                self.async_pairs[nth][size].add(pairs);
            }
        }
        for (size, bytes) in CYCLED.into_iter().enumerate() {
            let times = work.cycles;
            for nth in order {
                let cycles = sides[nth].does(Order::Cycles { how: How::Async, bytes, times })?;
                self.cycles[nth][size].add(cycles);
            }
        }
        for nth in order {
            let times = work.frees_behind;
            let frees = Order::FreesBehind { bytes: BEHIND_BYTES, kernel_ns: KERNEL_NS, times };
            let took: Vec<f64> = sides[nth].does(frees)?;
            self.behind[nth].took.extend(took);
        }
        for (size, (elements, _)) in LOOPS.into_iter().enumerate() {
            let turns = work.loops;
            for nth in order {
                let plain = Order::Loop { how: How::Plain, elements, turns };
                self.loops[nth][size].push(sides[nth].does(plain)?);
                let ordered = Order::Loop { how: How::Async, elements, turns };
                self.async_loops[nth][size].push(sides[nth].does(ordered)?);
            }
        }
        Ok(())
    }

    /// What apex reports at a side's end.
    pub(super) fn ended(&mut self, nth: usize, report: Option<Value>) {
        self.reports[nth] = report;
    }

    pub(super) fn peak(&mut self, nth: usize, peak: Option<(u64, u64)>) {
        self.peaks[nth] = peak;
    }

    pub(super) fn rows(&self) -> Vec<Value> {
        let mut rows = Vec::new();
        let calls = |all: &dyn Fn(usize) -> Times| {
            sides(|nth| {
                let times = all(nth);
                json!({"p50": times.share(50), "p99": times.share(99), "times": times.took.len()})
            })
        };
        for (size, &bytes) in SIZES.iter().enumerate() {
            let sides = calls(&|nth| self.pairs[nth][size].clone());
            rows.push(row("pair p50 / p99", &bytes_in_words(bytes), "ns", sides));
        }
        for (size, &bytes) in SIZES.iter().enumerate() {
            let sides = calls(&|nth| self.async_pairs[nth][size].clone());
            rows.push(row("async pair p50 / p99", &bytes_in_words(bytes), "ns", sides));
        }
        for (size, &bytes) in CYCLED.iter().enumerate() {
            let sides = calls(&|nth| self.cycles[nth][size].clone());
            rows.push(row("async cycle p50 / p99", &bytes_in_words(bytes), "ns", sides));
        }
        let behind = calls(&|nth| self.behind[nth].clone());
        rows.push(row("free behind 10 ms p50 / p99", &bytes_in_words(BEHIND_BYTES), "ns", behind));
        for (what, all) in [("loop, turns", &self.loops), ("async loop, turns", &self.async_loops)]
        {
            for (size, (elements, _)) in LOOPS.into_iter().enumerate() {
                let sides = sides(
                    |nth| json!({"median": at(&all[nth][size], 50) * 1e3, "turns": all[nth][size]}),
                );
                rows.push(row(what, &format!("{elements} elements"), "ms", sides));
            }
        }
        if self.peaks.iter().all(Option::is_some) {
            let sides = sides(|nth| {
                let (device, asked) = self.peaks[nth].unwrap_or_default();
                json!({"median": device as f64 / f64::from(1 << 20), "asked_bytes": asked})
            });
            rows.push(row("peak of the device", "sizes that never come again", "MiB", sides));
        }
        let reports = sides(|nth| self.reports[nth].clone().unwrap_or(Value::Null));
        rows.push(row("report", "apex's own", "", reports));
        rows
    }

    pub(super) fn bars(&self) -> Vec<Bar> {
        let worst = |share| {
            let all = self.pairs[MEMORY].iter().map(|times| times.share(share));
            all.fold(0.0, f64::max)
        };
        let mut bars = vec![
            Bar::at_most("a pair, p50 of the worst size".into(), worst(50), "ns", PAIR_P50_NS),
            Bar::at_most("a pair, p99 of the worst size".into(), worst(99), "ns", PAIR_P99_NS),
            Bar::at_most(
                "a free behind a kernel of 10 ms, p50".into(),
                self.behind[MEMORY].share(50),
                "ns",
                FREE_BEHIND_NS,
            ),
        ];
        for (size, (elements, least)) in LOOPS.into_iter().enumerate() {
            let turns = self.loops[DRIVER][size].iter().zip(&self.loops[MEMORY][size]);
            let ratios: Vec<f64> = turns.map(|(driver, fast)| driver / fast).collect();
            let name = format!("the loop over {elements} elements");
            bars.push(Bar::at_least(name, at(&ratios, 50), "times the driver's rate", least));
        }
        if let (Some((driver, _)), Some((fast, _))) = (self.peaks[DRIVER], self.peaks[MEMORY]) {
            let ratio = fast as f64 / driver.max(1) as f64;
            bars.push(Bar::at_most("peak of the device".into(), ratio, "of the driver's", PEAK));
        }
        bars
    }
}

fn sides(of: impl Fn(usize) -> Value) -> [Value; SIDES] {
    core::array::from_fn(of)
}

fn row(what: &str, of: &str, unit: &str, sides: [Value; SIDES]) -> Value {
    let mut row = json!({"what": what, "of": of, "unit": unit});
    for (name, side) in NAMES.into_iter().zip(sides) {
        row[name] = side;
    }
    row
}

fn bytes_in_words(bytes: u64) -> String {
    if bytes < 1 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) }
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
        let mut found = Found::default();
        for (size, times) in found.pairs[MEMORY].iter_mut().enumerate() {
            let took = vec![120.0 + size as f64; 100];
            times.add(Timed { took, clock: vec![20.0; 10] });
        }
        found.pairs[MEMORY][0].took[98..].fill(3_020.0);
        found.behind[MEMORY].took = vec![900.0; 3];
        for (size, ratio) in [2.0, 1.4, 1.0].into_iter().enumerate() {
            found.loops[DRIVER][size] = vec![ratio; 3];
            found.loops[MEMORY][size] = vec![1.0, 1.0, 0.1];
        }
        found.peak(DRIVER, Some((1_000, 900)));
        found.peak(MEMORY, Some((1_120, 900)));
        let bars: Vec<(f64, bool)> = found.bars().iter().map(|bar| (bar.value, bar.ok)).collect();
        let expected = [
            (105.0, true),
            (3_000.0, false),
            (900.0, true),
            (2.0, true),
            (1.4, true),
            (1.0, false),
            (1.12, false),
        ];
        assert_eq!(bars, expected);
        found.peak(2, Some((1, 1)));
        let rows = found.rows();
        assert_eq!(rows[0]["fast=memory"]["p99"], json!(3_000.0));
        assert_eq!(rows[rows.len() - 2]["fast=memory"]["asked_bytes"], json!(900));
    }
}
