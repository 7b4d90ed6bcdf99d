//! Which programs are put together.

use crate::arguments::BenchSched;
use anyhow::{Result, bail};

/// Programs that share a GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    /// Models that answer requests; the load is divided among them.
    pub(super) latency: &'static [&'static str],
    /// Models that are trained.
    pub(super) train: &'static [&'static str],
    /// Whether it is one of the protocol's pairs, whose means are promised.
    pub(super) core: bool,
    /// Coefficient of variation of the pauses between requests: at 1 they come by chance, above it in clusters.
    pub(super) cv: f64,
}

/// Every case, the most telling first.
const CASES: [Case; 12] = [
    apart("gpu-bound", &["bert-base-graph"], &["gpt2-medium"]),
    core("resnet-resnet", &["resnet50"], &["resnet50"]),
    core("bert-gpt2", &["bert-large"], &["gpt2-large"]),
    core("decode-bert", &["llama-decode"], &["bert-large"]),
    core("decode-graph-bert", &["llama-decode-graph"], &["bert-large"]),
    core("prefill-resnet", &["llama-prefill"], &["resnet50"]),
    Case { cv: 4.0, ..other("gpu-bound-bursty", &["bert-base-graph"], &["gpt2-medium"]) },
    other("two-training", &["bert-base-graph"], &["gpt2-medium", "resnet50"]),
    other("two-serving", &["bert-base-graph", "resnet50"], &["gpt2-medium"]),
    other("cpu-bound", &["bert-base-small"], &["gpt2-medium"]),
    other("bert-gemm", &["bert-large"], &["gemm16k"]),
    other("decode-stream", &["llama-decode"], &["stream"]),
];

type Models = &'static [&'static str];

const fn core(name: &'static str, latency: Models, train: Models) -> Case {
    Case { name, latency, train, core: true, cv: 1.0 }
}

/// With promises of its own: beside it nothing else would count in a mean.
const fn apart(name: &'static str, latency: Models, train: Models) -> Case {
    other(name, latency, train)
}

const fn other(name: &'static str, latency: Models, train: Models) -> Case {
    Case { name, latency, train, core: false, cv: 1.0 }
}

impl Case {
    /// Whether both sides can be two streams of one process.
    pub(super) fn is_pair(&self) -> bool {
        self.latency.len() == 1 && self.train.len() == 1
    }

    /// The turns. Each program runs alone, then all together, forth and back, so often, so that a drift of the clocks
    /// falls on all alike.
    pub(super) fn orders(&self, rounds: usize) -> Vec<Turns> {
        let count = self.latency.len() + self.train.len();
        let all = Turns::warm_up(self).runs;
        let only = |nth: usize| (0..count).map(|other| other == nth).collect::<Vec<bool>>();
        let mut forth: Vec<Vec<bool>> = (0..self.latency.len()).map(only).collect();
        forth.push(all);
        forth.extend((self.latency.len()..count).map(only));
        let turns = |way: usize| {
            let mut each = forth.clone();
            if way % 2 == 1 {
                each.reverse();
            }
            each.into_iter().map(move |runs| Turns { way: Some(way), ..Turns::of(runs) })
        };
        (0..2 * rounds).flat_map(turns).collect()
    }
}

/// One turn of every system.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    /// Which programs run, those that answer requests first.
    pub(super) runs: Vec<bool>,
    /// How often it has gone forth or back; none for the turn before those that count.
    way: Option<usize>,
}

impl Turns {
    fn of(runs: Vec<bool>) -> Turns {
        Turns { runs, way: None }
    }

    /// All run, before anything counts: nobody is measured while it learns its neighbour.
    pub(super) fn warm_up(case: &Case) -> Turns {
        Turns::of(vec![true; case.latency.len() + case.train.len()])
    }

    pub(super) fn warms_up(&self) -> bool {
        self.way.is_none()
    }

    pub(super) fn is_back(&self) -> bool {
        self.way.is_some_and(|way| way % 2 == 1)
    }

    pub(super) fn is_together(&self) -> bool {
        self.runs.iter().all(|runs| *runs)
    }

    /// A number that decides when requests come: at the same moments alone and together.
    pub(super) fn arrivals(&self) -> u64 {
        self.way.map_or(9, |way| way as u64)
    }
}

/// The cases that were asked for.
pub(super) fn chosen(arguments: &BenchSched) -> Result<Vec<Case>> {
    if arguments.only.is_empty() {
        return Ok(match (arguments.synthetic, arguments.quick) {
            (true, _) => vec![other("stand-in", &[""], &[""])],
            (_, true) => CASES[..1].to_vec(),
            _ => CASES.to_vec(),
        });
    }
    arguments.only.iter().map(|name| named(name)).collect()
}

/// The case of that name.
pub(super) fn named(name: &str) -> Result<Case> {
    match CASES.iter().find(|case| case.name == name) {
        Some(case) => Ok(*case),
        None => {
            let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
            bail!("no case is called {name}; there are {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pairs_of_the_protocol_are_core() {
        let core: Vec<&str> = CASES.iter().filter(|case| case.core).map(|case| case.name).collect();
        let protocol =
            ["resnet-resnet", "bert-gpt2", "decode-bert", "decode-graph-bert", "prefill-resnet"];
        assert_eq!(core, protocol);
        assert_eq!(CASES[0].name, "gpu-bound");
    }

    #[test]
    fn turns_go_forth_and_back() {
        let words = |case: &str| -> String {
            let case = named(case).unwrap();
            let word = |turn: Turns| {
                turn.runs.iter().map(|runs| if *runs { '1' } else { '0' }).collect::<String>()
            };
            case.orders(1).into_iter().map(word).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words("gpu-bound"), "10 11 01 01 11 10");
        assert_eq!(words("two-training"), "100 111 010 001 001 010 111 100");
        assert_eq!(words("two-serving"), "100 010 111 001 001 111 010 100");
        let turns = CASES[0].orders(2);
        let ways: Vec<u64> = turns.iter().map(Turns::arrivals).collect();
        assert_eq!(ways, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]);
        assert!(turns[3].is_back() && !turns[6].is_back() && !turns[0].warms_up());
        assert!(Turns::warm_up(&CASES[0]).warms_up() && Turns::warm_up(&CASES[0]).is_together());
    }
}
