//! Makes evidence for the adviser from the rows of a session.
//!
//! Rows are seen once, in their order. What a rule needs beyond counts is the order of calls: which launches
//! repeat, what happened between them, what was outstanding when a call waited. Each part keeps a bounded amount:
//! what exceeds it is left out of the evidence, so a finding may be missing, never invented.

mod copies;
mod growth;
mod objects;
mod pairs;
mod reuse;
mod sequences;
mod streams;
mod waits;

use crate::known::Known;
use crate::names::Demangled;
use crate::progress::Progress;
use crate::read::Stored;
use crate::row::Row;
use crate::summarise::{ConfigKey, Tally};
use crate::summary::Summary;
use apex_core::event::What;
use apex_core::small_file::{MADE, read_text};
use apex_policy::advise::{Busy, Clocks, Evidence, Reuse};
use std::path::Path;

/// Reads a stored session and makes evidence of it.
pub fn evidence(stored: &mut Stored, progress: &mut Progress) -> Evidence {
    let summary = stored.summary(progress);
    let mut gatherer = Gatherer::new(summary.launches + summary.graph_launches);
    let (known, tally) = stored.replay(progress, |known, row| gatherer.add(known, row));
    let mut evidence = gatherer.finish(&known, &tally, &summary);
    evidence.clocks = clocks(&stored.directory);
    evidence
}

/// What the order of rows tells.
struct Gatherer {
    /// Launches of the whole session.
    total: u64,
    /// Launches so far.
    launched: u64,
    sequences: sequences::Sequences,
    objects: objects::Objects,
    copies: copies::Copies,
    pairs: pairs::Pairs,
    reuse: reuse::Reuse,
    streams: streams::Streams,
    waits: waits::Waits,
    growth: growth::Growth,
}

impl Gatherer {
    fn new(total: u64) -> Gatherer {
        Gatherer {
            total,
            launched: 0,
            sequences: sequences::Sequences::default(),
            objects: objects::Objects::default(),
            copies: copies::Copies::default(),
            pairs: pairs::Pairs::default(),
            reuse: reuse::Reuse::default(),
            streams: streams::Streams::default(),
            waits: waits::Waits::default(),
            growth: growth::Growth::default(),
        }
    }

    fn add(&mut self, known: &Known, row: &Row) {
        if !row.succeeded() {
            return;
        }
        let steady = self.launched * 4 >= self.total && self.launched > 0;
        let launch = launched(row);
        if launch.is_some() {
            self.launched += 1;
        }
        self.sequences.add(row, launch.as_ref());
        self.objects.add(known, row, steady, self.launched, self.total);
        self.copies.add(row);
        self.pairs.add(row, launch.as_ref());
        self.reuse.add(row);
        self.streams.add(row, launch.as_ref());
        self.waits.add(row, launch.is_some());
        self.growth.add(row, steady, self.launched);
    }

    fn finish(self, known: &Known, tally: &Tally, summary: &Summary) -> Evidence {
        let mut names = Demangled::default();
        let (devices, kernels) = tally.kernels_for_advice(known, &mut names);
        let (launches, graph_launches) = tally.launch_calls();
        let means = tally.means(known);
        let memory_bytes = devices.iter().map(|device| device.memory_bytes).max().unwrap_or(0);
        let (copies, uploads) = self.copies.finish();
        let (acts, graphs, late_loads) = self.objects.finish(known, tally);
        let (waits, stalls) = self.waits.finish();
        // A launch after a wait for everything found the GPU idle, whether it was timed or not.
        let drained = waits.drains as f64 / (launches.count + graph_launches.count).max(1) as f64;
        let has_pool = summary.fast.as_ref().is_some_and(|fast| fast.pool.is_some());
        let bound = summary.launch_bound.as_ref().map_or(0.0, |bound| bound.found_idle);
        let busy = summary.gpu_busy.as_ref().map(|busy| Busy {
            ns: busy.kernel_ns as f64,
            idle_launches: bound.max(drained).min(1.0),
            timed: busy.timed,
        });
        Evidence {
            soft: summary.soft,
            program_ns: summary.wall_ns as f64,
            phase_ns: summary.gpu_phase_ns as f64,
            busy,
            launches,
            graph_launches,
            waited_ns: summary.waited_ns() as f64,
            loading_ns: (summary.loads.host_ns + summary.loads.first_launch_ns) as f64,
            sequences: self.sequences.finish(known, &mut names),
            acts,
            reuse: if has_pool { Reuse::default() } else { self.reuse.finish() },
            graphs,
            copies,
            uploads,
            late_loads,
            pairs: self.pairs.finish(known, &means, &mut names),
            streams: self.streams.finish(&means),
            waits,
            stalls,
            growth: self.growth.finish(memory_bytes),
            clocks: None,
            devices,
            kernels,
        }
    }
}

/// The configuration of a launch that ran something; graphs have the kernel zero and their number as the grid.
fn launched(row: &Row) -> Option<ConfigKey> {
    let (kernel, shape) = match row.what {
        What::Launch(launch) if !launch.captured => (launch.kernel.0, launch.shape),
        What::GraphLaunch { graph, captured: false, .. } => {
            let grid = [graph, 0, 0];
            (0, apex_core::event::LaunchShape { grid, ..Default::default() })
        }
        _ => return None,
    };
    Some(ConfigKey { process: row.process, kernel, device: row.device, shape })
}

/// File of a session with the readings of the GPU's clocks: MHz now, MHz at most, reasons as a bit mask, use in
/// per cent; one reading in each line.
pub const CLOCKS_FILE: &str = "clocks.csv";

/// What the readings of the clocks say; nothing where there are none while the GPU was in use.
pub(crate) fn clocks(directory: &Path) -> Option<Clocks> {
    let text = read_text(&directory.join(CLOCKS_FILE), MADE).ok()?;
    read_clocks(&text)
}

fn read_clocks(text: &str) -> Option<Clocks> {
    // Bits that a GPU sets for heat, power and the machine's brakes; others stand for what users set themselves.
    const REASONS: [(u64, &str); 6] = [
        (0x04, "the power limit"),
        (0x08, "a hardware slow-down"),
        (0x20, "the GPU's temperature"),
        (0x40, "the GPU's temperature"),
        (0x80, "the machine's power brake"),
        (0x10, "another GPU of its group"),
    ];
    let (mut readings, mut throttled, mut sum, mut rated) = (0_u64, 0_u64, 0.0, 0.0_f64);
    let mut named = [0_u64; REASONS.len()];
    for line in text.lines() {
        let mut fields = line.split(',').map(str::trim);
        let mut number = || fields.next().and_then(|field| field.parse::<f64>().ok());
        let (Some(now), Some(most)) = (number(), number()) else { continue };
        let mask = fields.next().unwrap_or_default().trim_start_matches("0x").to_owned();
        let Ok(mask) = u64::from_str_radix(&mask, 16) else { continue };
        let used = fields.next().and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
        if used <= 0.0 {
            continue;
        }
        readings += 1;
        sum += now;
        rated = rated.max(most);
        let set = REASONS.iter().position(|(bit, _)| mask & bit != 0);
        throttled += u64::from(set.is_some());
        for ((bit, _), count) in REASONS.iter().zip(&mut named) {
            *count += u64::from(mask & bit != 0);
        }
    }
    if readings == 0 {
        return None;
    }
    let most = named.iter().zip(REASONS).max_by_key(|(count, _)| **count);
    Some(Clocks {
        rated_mhz: rated,
        mean_mhz: sum / readings as f64,
        throttled: throttled as f64 / readings as f64,
        reason: most.filter(|(count, _)| **count > 0).map_or("", |(_, (_, word))| word).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_while_the_gpu_was_idle_do_not_count() {
        let text = "345, 1980, 0x0000000000000001, 0\n1200, 1980, 0x0000000000000004, 99\n\
                    1400, 1980, 0x0000000000000000, 97\nnonsense\n";
        let found = read_clocks(text).unwrap();
        assert_eq!((found.rated_mhz, found.mean_mhz, found.throttled), (1980.0, 1300.0, 0.5));
        assert_eq!(found.reason, "the power limit");
        assert_eq!(read_clocks("345, 1980, 0x1, 0\n"), None);
    }
}
