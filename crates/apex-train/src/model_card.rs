//! The model card: what each model is, what it was trained on and how well it does, on every split, beside what it
//! must beat. It is made from the report and nothing else, so it cannot say more than was measured.

use crate::baselines::Baselines;
use crate::fit::Report;
use crate::manifest::ModelFile;
use crate::metrics::{ShareScores, TimeScores};
use std::fmt::Write;

/// The card as a page.
#[must_use]
pub fn text(report: &Report, files: &[ModelFile], data_hash: &str) -> String {
    let mut card = String::from("# Models\n\n");
    let [train, calibrate_known, calibrate_unseen, judge_known, judge_unseen] = report.rows;
    let _ = writeln!(
        card,
        "`apex train fit` made these from the rows with FNV-1a {data_hash} and seed {}. {train} rows were trained on; \
         {calibrate_known} of known and {calibrate_unseen} of unseen kernels set the intervals; {judge_known} of known \
         and {judge_unseen} of unseen kernels judge, and no model has seen those.\n",
        report.seed
    );
    card.push_str(
        "Splits. **known**: configurations (grid, block, shared memory, arguments) that are held out of kernels \
         whose other configurations were measured; those of one kernel go to the parts by a hash, so they lie between \
         those seen. Known before such a row are those trained on and those that set the intervals. **unseen**: whole \
         kernels held out with all their variants; *after n* means that n launches of other configurations, drawn at \
         random, were measured before. Rows of one configuration are never in two parts. All rows know their \
         operations and bytes, as a recorded program seldom does, and what their warps do, by a walk through the \
         kernel's PTX with the launch's arguments.\n\n",
    );
    let _ = writeln!(card, "Unseen kernels: {}.\n", report.held_out_kernels.join(", "));
    card.push_str("| file | bytes | parameters |\n|---|---|---|\n");
    for file in files {
        let _ = writeln!(card, "| {} | {} | {} |", file.name, file.bytes, file.parameters);
    }
    card.push_str(
        "\n`parts` is what the parts of a launch, counted by that walk, cost on the device, ruled by the slowest resource; `line` is t = max(floor, a + work / \
         throughput) of one kernel; `likeness` is what the parts cost by the kernel's own launches, corrected by a \
         Gaussian process over those; `trees` correct it and are what apex answers with; the networks see the same \
         features; the transformer sees the kernel's last launches.\n\n## Time\n\nErrors are shares of the measured \
         time. Noise from run to run ",
    );
    let _ = writeln!(
        card,
        "{}; a repeat is predicted with a mean error of {} over {} rows.\n",
        percent(report.noise),
        percent(report.repeats.mean_error),
        report.repeats.rows
    );
    card.push_str(
        "| split | model | rows | mean | median | p90 | within 10 % | in 80 % interval | < 5 µs | 5 to 50 µs | longer \
         |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for judged in &report.judged {
        time_row(&mut card, &judged.split, &judged.model, &judged.time);
    }
    for (split, Baselines { last_value, kernel_mean, roofline }) in &report.baselines {
        for (name, time) in
            [("last value", last_value), ("kernel mean", kernel_mean), ("roofline", roofline)]
        {
            time_row(&mut card, split, name, time);
        }
    }
    shares(&mut card, report);
    let (asked, equal) = report.occupancy_equal;
    let _ = writeln!(
        card,
        "\n## Occupancy\n\nArithmetic, not learned: equal to the driver's answer on {equal} of {asked} rows.\n\n\
         Pictures: `predicted-measured.svg`, `loss-*.svg`."
    );
    card
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn time_row(card: &mut String, split: &str, model: &str, time: &TimeScores) {
    let by_duration = time.by_duration.map(|(rows, error)| match rows {
        0 => "-".to_owned(),
        _ => percent(error),
    });
    let _ = writeln!(
        card,
        "| {split} | {model} | {} | {} | {} | {} | {} | {} | {} |",
        time.rows,
        percent(time.mean_error),
        percent(time.median_error),
        percent(time.p90_error),
        percent(time.within_10_percent),
        time.coverage.map_or("-".into(), percent),
        by_duration.join(" | ")
    );
}

/// Shares of peaks, where counters were read.
fn shares(card: &mut String, report: &Report) {
    card.push_str("\n## Achieved occupancy and throughput\n\n");
    if report.judged.iter().all(|judged| judged.achieved_occupancy.rows == 0) {
        card.push_str("No row that judges has counters: nothing is claimed.\n");
        return;
    }
    card.push_str("| split | model | quantity | rows | mean error, points | R² | correlation |\n|---|---|---|---|---|---|---|\n");
    let mut row = |split: &str, model: &str, what: &str, found: &ShareScores| {
        if found.rows > 0 {
            let _ = writeln!(
                card,
                "| {split} | {model} | {what} | {} | {:.1} | {:.3} | {:.3} |",
                found.rows, found.mean_error_points, found.r_squared, found.correlation
            );
        }
    };
    let learned = |model: &str| !["parts", "line", "likeness", "transformer"].contains(&model);
    for judged in report.judged.iter().filter(|judged| learned(&judged.model)) {
        row(&judged.split, &judged.model, "achieved occupancy", &judged.achieved_occupancy);
        row(&judged.split, &judged.model, "SM throughput", &judged.sm_throughput);
        row(&judged.split, &judged.model, "DRAM throughput", &judged.dram_throughput);
    }
    for (split, found) in &report.occupancy_baseline {
        row(split, "theoretical times wave fill", "achieved occupancy", found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::Judged;

    #[test]
    fn every_score_stands_in_the_card() {
        let judged = |model: &str, split: &str, error: f64| Judged {
            model: model.into(),
            split: split.into(),
            time: TimeScores { rows: 7, mean_error: error, ..TimeScores::default() },
            achieved_occupancy: ShareScores { rows: 3, r_squared: 0.91, ..ShareScores::default() },
            sm_throughput: ShareScores::default(),
            dram_throughput: ShareScores::default(),
        };
        let report = Report {
            seed: 5,
            judged: vec![judged("trees", "known", 0.081), judged("line", "unseen after 10", 0.3)],
            held_out_kernels: vec!["copy".into()],
            ..Report::default()
        };
        let text = text(&report, &[], "00ff");
        for wanted in ["00ff", "seed 5", "8.1 %", "unseen after 10", "0.910", "copy"] {
            assert!(text.contains(wanted), "{wanted} is not in {text}");
        }
    }
}
