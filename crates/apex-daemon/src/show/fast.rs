//! What `--fast` did: where the launches went and what that gave, and what became of freed memory.

use super::missing::at_least;
use super::{bytes, count, counted, nanos, percent};
use crate::summary::{FastSummary, OverlapSummary, PoolSummary, SpecialisedSummary, Summary};
use apex_core::queue_counts::Reason;
use std::fmt::Write as _;

/// Reasons that are named; the rest are said together.
const MOST_REASONS: usize = 3;

pub(super) fn lines(summary: &Summary) -> Vec<String> {
    let Some(fast) = &summary.fast else { return Vec::new() };
    let is_on = |wanted: &str| fast.words.split(',').any(|word| word == wanted);
    let mut lines = Vec::new();
    if !is_on("launch") {
        // Nothing was to wait.
    } else if fast.has_queue {
        let direct: u64 = fast.direct.iter().map(|direct| direct.launches).sum();
        lines.push(where_they_went(fast, direct));
        lines.extend(what_it_gave(fast, at_least(summary)));
    } else {
        let why = if is_on("strict") {
            "strict, so each call waited for the driver's answer"
        } else {
            "the program has one processor, shares the GPU under the scheduler, or CUDA_LAUNCH_BLOCKING is set"
        };
        lines.push(format!("  fast: no launch waited in a queue: {why}"));
    }
    if let Some(found) = fast.overlap.as_ref().filter(|overlap| overlap.looked > 0) {
        lines.push(overlap(found));
        lines.extend(order_kept(found));
    }
    lines.extend(fast.pool.and_then(pool));
    lines.extend(fast.specialised.as_ref().map(specialised));
    lines
}

fn overlap(overlap: &OverlapSummary) -> String {
    let mut line = format!(
        "  fast: {} launched in {} with branches; what they touch is proven of {} of {} in new graphs",
        counted(overlap.beside, "kernel", "kernels"),
        counted(overlap.branched, "graph", "graphs"),
        count(overlap.proven),
        count(overlap.looked),
    );
    for (nth, one) in overlap.unproven.iter().take(MOST_REASONS).enumerate() {
        let sign = if nth == 0 { "; not of others: " } else { ", " };
        let _ = write!(line, "{sign}{} {}", one.reason, count(one.launches));
    }
    if overlap.fell_back > 0 {
        let _ = write!(line, "; {} as a chain, as branches did not hold", count(overlap.fell_back));
    }
    if overlap.kept > 0 {
        let (graphs, saved) =
            (counted(overlap.kept, "graph", "graphs"), nanos(overlap.saved_ns as f64));
        let _ = write!(line, "; branches are faster in {graphs} and took about {saved} less");
    }
    line
}

/// Why launches keep their order: hazards by kind, and kernels of which nothing is proven.
fn order_kept(overlap: &OverlapSummary) -> Option<String> {
    let kinds = [
        ("read after write", overlap.read_after_write),
        ("write after read", overlap.write_after_read),
        ("write after write", overlap.write_after_write),
    ];
    let kinds = kinds.iter().filter(|(_, pairs)| *pairs > 0);
    let mut said: Vec<String> =
        kinds.map(|(kind, pairs)| format!("{kind} {}", count(*pairs))).collect();
    let kernels = overlap.kernels.iter().take(MOST_REASONS);
    said.extend(kernels.map(|it| format!("{} not proven ({})", it.kernel, it.reason)));
    (!said.is_empty()).then(|| format!("  fast: order kept in new graphs: {}", said.join(", ")))
}

fn specialised(found: &SpecialisedSummary) -> String {
    let mut line = format!(
        "  fast: {} compiled again for what they are called with, {} kept",
        counted(found.tried, "kernel", "kernels"),
        count(found.won)
    );
    if found.left > 0 {
        let _ = write!(line, ", {} left alone", count(found.left));
    }
    if found.won > 0 {
        let launches = counted(found.launches, "launch", "launches");
        let saved = nanos(found.saved_ns as f64);
        let _ = write!(line, "; {launches} ran them and took about {saved} less");
    }
    line
}

/// What memory it handed out again; nothing where it did none of that.
fn pool(pool: PoolSummary) -> Option<String> {
    let mut said = Vec::new();
    if pool.served > 0 {
        let all = counted(pool.served + pool.asked, "allocation", "allocations");
        said.push(format!("{} of {all} served from freed memory", count(pool.served)));
        let (peak, held) = (bytes(pool.peak_bytes), bytes(pool.held_bytes));
        said.push(format!("{held} held at most, where the program alone had {peak}"));
    }
    if pool.kept_pools > 0 {
        let pools = counted(pool.kept_pools, "stream-ordered pool", "stream-ordered pools");
        said.push(format!("{pools} kept what was freed"));
    }
    if said.is_empty() {
        return None;
    }
    if pool.given_back > 0 {
        let blocks = counted(pool.given_back, "block", "blocks");
        said.push(format!("{blocks} given back to the driver"));
    }
    if pool.stream_waits > 0 {
        let times = counted(pool.stream_waits, "time", "times");
        said.push(format!("a stream waited for another {times} because of it"));
    }
    Some(format!("  fast: {}", said.join("; ")))
}

fn where_they_went(fast: &FastSummary, direct: u64) -> String {
    let all = counted(fast.queued + direct, "launch", "launches");
    let mut line = format!("  fast: {} of {all} queued", count(fast.queued));
    if fast.graph_launches > 0 {
        let _ = write!(
            line,
            ", {} of them sent as {}",
            count(fast.in_graphs),
            counted(fast.graph_launches, "graph launch", "graph launches")
        );
    }
    if direct > 0 {
        let _ = write!(line, "; {} directly: {}", count(direct), reasons(fast));
    }
    line
}

fn reasons(fast: &FastSummary) -> String {
    let words = |word: &str| {
        let known = Reason::ALL.iter().find(|reason| reason.word() == word);
        known.map_or(word.to_owned(), |reason| reason.words().to_owned())
    };
    let named = fast.direct.iter().take(MOST_REASONS);
    let mut said: Vec<String> = named
        .map(|direct| format!("{} {}", count(direct.launches), words(&direct.reason)))
        .collect();
    let more: u64 = fast.direct.iter().skip(MOST_REASONS).map(|direct| direct.launches).sum();
    if more > 0 {
        said.push(format!("{} for other reasons", count(more)));
    }
    said.join(", ")
}

fn what_it_gave(fast: &FastSummary, least: &str) -> Option<String> {
    let mut said = Vec::new();
    if let Some(lag) = fast.lag_ns {
        said.push(format!("a queued launch was sent {} (median) after its call", nanos(lag)));
    }
    if fast.graphs > 0 {
        let changed = fast.changed_nodes as f64 / (fast.in_graphs as f64).max(1.0);
        let made = counted(fast.graphs, "graph", "graphs");
        said.push(format!(
            "{made} made, {} of their nodes changed between launches",
            percent(changed)
        ));
    }
    if let Some(saved) = fast.saved_ns.filter(|_| fast.graphs > 0) {
        let basis = match fast.costs {
            Some(costs) if costs.measured_here => "as launches cost here",
            _ => "as launches cost an H200",
        };
        let (word, time) = if saved < 0 {
            ("lost", saved.unsigned_abs())
        } else {
            ("saved", saved.unsigned_abs())
        };
        said.push(format!("about {} of launching {word}, {basis}", nanos(time as f64)));
    }
    if fast.failed > 0 {
        let calls = counted(fast.failed, "queued call", "queued calls");
        said.push(format!("{least}{calls} refused by the driver"));
    }
    (!said.is_empty()).then(|| format!("  fast: {}", said.join("; ")))
}
