//! What a benchmark found, and how it is shown: a table with its bars, or one JSON object.

use anyhow::Result;
use serde::Serialize;
use std::process::ExitCode;

/// What one benchmark found.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) bench: &'static str,
    pub(crate) device: String,
    pub(crate) driver: String,
    pub(crate) rows: Vec<serde_json::Value>,
    pub(crate) bars: Vec<Bar>,
    pub(crate) notes: Vec<String>,
}

/// A promise and what became of it.
#[derive(Serialize)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) limit: f64,
    /// Whether the limit is the least that is promised, and not the most.
    pub(crate) at_least: bool,
    pub(crate) ok: bool,
}

impl Bar {
    /// A value that may be at most `limit`.
    pub(crate) fn at_most(name: String, value: f64, unit: &'static str, limit: f64) -> Bar {
        Bar { name, value, unit, limit, at_least: false, ok: value <= limit }
    }

    /// A value that must be at least `limit`.
    pub(crate) fn at_least(name: String, value: f64, unit: &'static str, limit: f64) -> Bar {
        Bar { name, value, unit, limit, at_least: true, ok: value >= limit }
    }
}

/// Prints the document, or rows and bars for people.
pub(crate) fn show(
    report: &Report,
    json: bool,
    print_rows: fn(&[serde_json::Value]),
) -> Result<ExitCode> {
    if json {
        println!("{}", serde_json::to_string_pretty(report)?);
        return Ok(ExitCode::SUCCESS);
    }
    print_rows(&report.rows);
    println!();
    for Bar { name, value, unit, limit, at_least, ok } in &report.bars {
        let word = if *ok { "holds" } else { "MISSED" };
        let side = if *at_least { "at least" } else { "at most" };
        println!("{word:<7} {name}: {value:.2} {unit} ({side} {limit} {unit})");
    }
    for note in &report.notes {
        println!("note: {note}");
    }
    Ok(ExitCode::SUCCESS)
}
