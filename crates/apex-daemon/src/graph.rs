//! Draws launches that became a graph: which depend on which, and where each would stand on one stream and with branches.
//!
//! The dependences are those that `apex run --fast=launch,overlap` found and told. How long a launch takes is its kernel's
//! mean in the session, so the lanes are a picture of the order and no measurement; what was measured stands in the title.

mod dot;
mod lanes;
mod perfetto;
mod svg;

use crate::summary::{SequenceSummary, Summary};
use lanes::Placed;

/// What is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picture {
    /// A picture for a browser.
    Svg,
    /// A graph for Graphviz.
    Dot,
    /// A trace for ui.perfetto.dev, with the dependences as flows.
    Perfetto,
}

/// A kernel whose time is not known is drawn as long as this.
const UNKNOWN_NS: f64 = 1_000.0;

/// A sequence with what its pictures need.
struct Drawn<'a> {
    sequence: &'a SequenceSummary,
    title: String,
    /// The kernel of each launch.
    names: Vec<&'a str>,
    chain: Vec<Placed>,
    branches: Vec<Placed>,
}

/// Draws one of the session's sequences, the first is number 1; without a number the one with the most to run at once.
///
/// # Errors
///
/// There is none of that number.
pub fn draw(summary: &Summary, number: Option<usize>, picture: Picture) -> Result<String, String> {
    let overlap = summary.fast.as_ref().and_then(|fast| fast.overlap.as_ref());
    let sequences = overlap.map(|overlap| overlap.sequences.as_slice()).unwrap_or_default();
    if sequences.is_empty() {
        return Err(
            "no launches of this session became a graph of which it is known what they touch; \
                    run the program with `apex run --fast=launch,overlap`"
                .into(),
        );
    }
    let drawn = |nth: usize| sequences.get(nth).map(|sequence| drawn(summary, nth, sequence));
    let found = match number {
        Some(number) => number.checked_sub(1).and_then(drawn),
        None => (0..sequences.len())
            .filter_map(drawn)
            .min_by(|one, other| one.share().total_cmp(&other.share())),
    };
    let count = sequences.len();
    let found =
        found.ok_or_else(|| format!("there is no such graph; the session has 1 to {count}"))?;
    Ok(match picture {
        Picture::Svg => svg::picture(&found),
        Picture::Dot => dot::picture(&found),
        Picture::Perfetto => perfetto::picture(&found),
    })
}

fn drawn<'a>(summary: &'a Summary, nth: usize, sequence: &'a SequenceSummary) -> Drawn<'a> {
    let mean = |name: &str| {
        let kernel = summary.kernels.iter().find(|kernel| kernel.name == name && !kernel.graph);
        kernel.and_then(|kernel| kernel.gpu.as_ref()).map_or(UNKNOWN_NS, |gpu| gpu.mean_ns)
    };
    let times: Vec<f64> = sequence.kernels.iter().map(|name| mean(name).max(1.0)).collect();
    let kernels = sequence.launches.iter().map(|&kernel| kernel as usize);
    let known = kernels.clone().all(|kernel| kernel < times.len());
    let kernels: Vec<usize> = if known { kernels.collect() } else { Vec::new() };
    let durations: Vec<f64> = kernels.iter().map(|&kernel| times[kernel]).collect();
    let names = kernels.iter().map(|&kernel| sequence.kernels[kernel].as_str()).collect();
    let mut before = vec![Vec::new(); durations.len()];
    for &[later, earlier, _] in &sequence.edges {
        if earlier < later && (later as usize) < before.len() {
            before[later as usize].push(earlier as usize);
        }
    }
    let in_a_row: Vec<Vec<usize>> =
        (0..durations.len()).map(|at| at.checked_sub(1).into_iter().collect()).collect();
    Drawn {
        title: title(nth, sequence),
        sequence,
        names,
        chain: lanes::placed(&durations, &in_a_row),
        branches: lanes::placed(&durations, &before),
    }
}

fn title(nth: usize, sequence: &SequenceSummary) -> String {
    let all = sequence.launches.len();
    let proven = all.saturating_sub(sequence.unproven.len());
    let micros = |nanos: u64| format!("{:.1} µs", nanos as f64 / 1e3);
    let timed = match sequence.outcome.as_str() {
        "" => "not timed".into(),
        _ => format!(
            "measured {} as a chain, {} with branches",
            micros(sequence.chain_ns),
            micros(sequence.branches_ns)
        ),
    };
    format!("graph {}: {all} launches, {proven} proven; {timed}", nth + 1)
}

impl Drawn<'_> {
    /// Of the chain's time, what the lanes take.
    fn share(&self) -> f64 {
        let end = |placed: &[Placed]| placed.iter().map(|it| it.end).fold(0.0, f64::max);
        end(&self.branches) / end(&self.chain).max(1.0)
    }

    /// Why it is not known what a launch touches.
    fn reason(&self, launch: usize) -> Option<&str> {
        let found = self.sequence.unproven.iter().find(|(nth, _)| *nth as usize == launch);
        found.map(|(_, reason)| reason.as_str())
    }

    /// The later launch, the earlier one and the kind of each edge.
    fn edges(&self) -> impl Iterator<Item = (usize, usize, u32)> {
        let all = self.sequence.edges.iter();
        let edges = all.map(|&[later, earlier, kind]| (later as usize, earlier as usize, kind));
        edges.filter(|&(later, earlier, _)| earlier < later && later < self.names.len())
    }
}

/// The kinds of an edge in the words of the field.
fn kinds(sum: u32) -> String {
    let words = [(1, "RAW"), (2, "WAR"), (4, "WAW")];
    let words: Vec<&str> =
        words.iter().filter(|(bit, _)| sum & bit != 0).map(|&(_, word)| word).collect();
    if words.is_empty() { "not proven".into() } else { words.join(", ") }
}

/// Its colour, by the first of its kinds.
fn colour(sum: u32) -> &'static str {
    match sum {
        _ if sum & 1 != 0 => "#1f6feb",
        _ if sum & 2 != 0 => "#d29922",
        _ if sum & 4 != 0 => "#8250df",
        _ => "#57606a",
    }
}

/// A name as columns have room for it: without its arguments.
fn short(name: &str) -> &str {
    name.split(['(', '<']).next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{FastSummary, OverlapSummary};

    /// Two launches that may run at once, and one that reads what both write.
    fn summary() -> Summary {
        let sequence = SequenceSummary {
            kernels: vec!["blur<3>(float*)".into(), "blend & mask".into()],
            launches: vec![0, 0, 1],
            unproven: Vec::new(),
            edges: vec![[2, 0, 1], [2, 1, 5]],
            outcome: "won".into(),
            chain_ns: 3_000,
            branches_ns: 2_100,
            ..SequenceSummary::default()
        };
        let overlap = OverlapSummary { sequences: vec![sequence], ..OverlapSummary::default() };
        let fast = FastSummary { overlap: Some(overlap), ..FastSummary::default() };
        Summary { fast: Some(fast), ..Summary::default() }
    }

    #[test]
    fn a_picture_has_every_launch_before_and_after_and_every_edge() {
        let svg = draw(&summary(), None, Picture::Svg).unwrap();
        assert_eq!(svg.matches("<rect class=\"launch\"").count(), 6);
        assert_eq!(svg.matches("<path").count(), 2);
        assert!(svg.contains("measured 3.0 µs as a chain, 2.1 µs with branches"), "{svg}");
        assert!(svg.contains("blend &amp; mask") && !svg.contains("blend & mask"), "{svg}");
    }

    #[test]
    fn graphviz_gets_nodes_and_edges() {
        let dot = draw(&summary(), Some(1), Picture::Dot).unwrap();
        assert!(dot.starts_with("digraph") && dot.ends_with("}\n"), "{dot}");
        assert!(dot.contains("launch1 -> launch3") && dot.contains("label=\"RAW, WAW\""), "{dot}");
    }

    #[test]
    fn perfetto_gets_lanes_and_flows() {
        let trace = draw(&summary(), None, Picture::Perfetto).unwrap();
        let trace: serde_json::Value = serde_json::from_str(&trace).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
        assert_eq!((of("X"), of("s"), of("f")), (6, 2, 2));
        let lanes: std::collections::BTreeSet<u64> = events
            .iter()
            .filter(|event| event["ph"] == "X" && event["pid"] == 2)
            .map(|event| event["tid"].as_u64().unwrap())
            .collect();
        assert_eq!(lanes.len(), 2);
    }

    #[test]
    fn what_is_not_there_is_said() {
        let none = draw(&Summary::default(), None, Picture::Dot).unwrap_err();
        assert!(none.contains("--fast=launch,overlap"), "{none}");
        let none = draw(&summary(), Some(2), Picture::Dot).unwrap_err();
        assert!(none.contains("1 to 1"), "{none}");
        assert!(draw(&summary(), Some(0), Picture::Dot).is_err());
    }
}
