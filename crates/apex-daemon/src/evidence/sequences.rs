//! Finds launches that repeat in a fixed order.
//!
//! Each thread's launches are kept as numbers of their configurations. A program that repeats itself has, towards
//! its end, a stretch that it had once before: the distance between the two is the period, and how long the
//! launches before agree with those one period earlier tells for how many rounds it held.

use crate::known::Known;
use crate::names::Demangled;
use crate::row::Row;
use crate::summarise::ConfigKey;
use apex_core::event::What;
use apex_policy::advise::Sequence;
use std::collections::HashMap;

/// The launches of every thread.
#[derive(Default)]
pub(super) struct Sequences {
    numbers: HashMap<ConfigKey, u32>,
    keys: Vec<ConfigKey>,
    threads: HashMap<(u32, u32), Thread>,
}

#[derive(Default)]
struct Thread {
    launches: Vec<u32>,
    host_ns: f64,
    timed: u64,
    /// Waits so far, at each launch.
    waits: Vec<u32>,
    waited: u32,
}

/// Launches of a thread that are kept: what comes later repeats what came before, or nothing does.
const MOST: usize = 1 << 20;
const MOST_KEYS: usize = 1 << 16;
/// The longest stretch that is compared at first.
const STRETCH: usize = 64;
/// Launches that may differ: a program does a little more now and then.
const AGREEING: f64 = 0.95;

impl Sequences {
    pub(super) fn add(&mut self, row: &Row, launch: Option<&ConfigKey>) {
        let Some(key) = launch else {
            if matches!(row.what, What::Sync { .. }) {
                self.threads.entry((row.process, row.tid)).or_default().waited += 1;
            }
            return;
        };
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        let full = self.numbers.len() >= MOST_KEYS;
        let number = match self.numbers.get(key) {
            Some(&number) => number,
            None if full => return,
            None => {
                self.numbers.insert(*key, next);
                self.keys.push(*key);
                next
            }
        };
        let thread = self.threads.entry((row.process, row.tid)).or_default();
        if thread.launches.len() < MOST {
            thread.launches.push(number);
            thread.waits.push(thread.waited);
            if let Some(host_ns) = row.host() {
                thread.host_ns += host_ns as f64;
                thread.timed += 1;
            }
        }
    }

    pub(super) fn finish(self, known: &Known, names: &mut Demangled) -> Vec<Sequence> {
        let mut found: Vec<Sequence> = self
            .threads
            .values()
            .filter_map(|thread| {
                let (period, rounds) = repetition(&thread.launches)?;
                let count = period * rounds;
                let end = thread.launches.len();
                let begin = end - count;
                let waits = thread.waits[end - 1] - thread.waits[begin];
                let mut kernels: Vec<String> = Vec::new();
                for &number in &thread.launches[end - period..] {
                    let key = &self.keys[number as usize];
                    let name = match known.kernel(key.process, key.kernel) {
                        Some(kernel) => names.name(&kernel.name).to_owned(),
                        None => format!("graph {}", key.shape.grid[0]),
                    };
                    if !kernels.contains(&name) && kernels.len() < 4 {
                        kernels.push(name);
                    }
                }
                Some(Sequence {
                    period: period as u64,
                    rounds: rounds as u64,
                    host_ns: thread.host_ns / thread.timed.max(1) as f64 * count as f64,
                    waits_per_round: f64::from(waits) / rounds as f64,
                    kernels,
                })
            })
            .collect();
        found.sort_by(|a, b| b.host_ns.total_cmp(&a.host_ns).then(b.period.cmp(&a.period)));
        found
    }
}

/// Period and rounds of what repeats up to the end of `launches`; nothing below four rounds.
fn repetition(launches: &[u32]) -> Option<(usize, usize)> {
    // What a program does last is often not what it did all the time.
    let end = launches.len() - launches.len() / 16;
    let launches = &launches[..end];
    let stretch = STRETCH.min(end / 4);
    if stretch < 2 {
        return None;
    }
    let tail = &launches[end - stretch..];
    let earlier = (0..end - stretch).rev().find(|&at| &launches[at..at + stretch] == tail)?;
    let period = end - stretch - earlier;
    let (mut agreeing, mut compared, mut longest) = (0_usize, 0_usize, 0_usize);
    for at in (period..end).rev() {
        compared += 1;
        agreeing += usize::from(launches[at] == launches[at - period]);
        if agreeing as f64 >= AGREEING * compared as f64 {
            longest = compared;
        }
    }
    let rounds = longest / period + 1;
    (rounds >= 4).then_some((period, rounds.min(end / period)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_period_is_found_and_noise_is_borne() {
        let mut launches: Vec<u32> = vec![9, 8, 7];
        for _ in 0..100 {
            launches.extend([1, 2, 3, 2]);
        }
        assert_eq!(repetition(&launches).map(|(period, _)| period), Some(4));
        launches[200] = 9;
        assert!(repetition(&launches).is_some_and(|(period, rounds)| period == 4 && rounds > 80));
    }

    #[test]
    fn what_does_not_repeat_is_no_sequence() {
        assert_eq!(repetition(&[]), None);
        assert_eq!(repetition(&[1, 2, 3]), None);
        let launches: Vec<u32> = (0..1000).collect();
        assert_eq!(repetition(&launches), None);
    }

    #[test]
    fn one_launch_again_and_again_has_the_period_one() {
        assert_eq!(repetition(&[5; 64]).map(|(period, _)| period), Some(1));
    }
}
