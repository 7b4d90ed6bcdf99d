//! What launches cost the driver of this machine, kept where `apex run --fast` looks for it.
//!
//! The median of several turns, because a machine is now slow, now fast. A time that no driver takes is not kept.

use super::WORKER;
use super::worker::Order;
use crate::report::Report;
use crate::side::{Side, Under};
use anyhow::{Context, Result, bail};
use apex_core::launch_costs::{self, Costs};
use apex_daemon::progress::Progress;
use apex_daemon::session::create_private_directory;
use apex_daemon::user_setup::UserSetup;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const TURNS: usize = 5;

/// What one turn gave.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Turn {
    launch_ns: u64,
    graph_ns: u64,
    node_ns: u64,
    changed_ns: u64,
    build_ns: u64,
}

/// Measures and keeps.
pub(super) fn measure(under: Under, quick: bool) -> Result<Report> {
    let folder = UserSetup::read().sessions.directory().map(std::path::Path::to_owned);
    let folder = folder.context("there is no place to keep it: set APEX_STATE")?;
    let mut side = Side::alone(under, WORKER)?;
    let mut progress = Progress::on_stderr();
    let launches = if quick { 2_000 } else { 20_000 };
    let mut turns: Vec<Turn> = Vec::new();
    for turn in 0..TURNS {
        progress.step("measuring", turn + 1, TURNS);
        turns.push(side.does(Order::Costs { launches })?);
    }
    let about = side.about.clone();
    side.end()?;
    let middle = |of: fn(&Turn) -> u64| {
        let mut values: Vec<u64> = turns.iter().map(of).collect();
        values.sort_unstable();
        values[TURNS / 2]
    };
    let costs = Costs {
        device: about.device.clone(),
        driver: about.driver,
        launch_ns: middle(|turn| turn.launch_ns),
        graph_ns: middle(|turn| turn.graph_ns),
        node_ns: middle(|turn| turn.node_ns),
        changed_ns: middle(|turn| turn.changed_ns),
        build_ns: middle(|turn| turn.build_ns),
    };
    if !costs.is_possible() {
        bail!("what was measured cannot be ({costs:?}), so nothing is kept");
    }
    let file = folder.join(launch_costs::FILE);
    create_private_directory(&folder)
        .and_then(|()| launch_costs::keep(&file, &costs))
        .with_context(|| format!("{} cannot be written", file.display()))?;
    let Costs { launch_ns, graph_ns, node_ns, changed_ns, build_ns, .. } = costs;
    let row = json!({
        "launch_ns": launch_ns, "graph_ns": graph_ns, "node_ns": node_ns, "changed_ns": changed_ns,
        "build_ns": build_ns, "turns": turns,
    });
    Ok(Report {
        bench: "launch --calibrate",
        device: under.device(&about.device),
        driver: about.driver(),
        rows: vec![row],
        bars: Vec::new(),
        notes: vec![format!("kept in {}", file.display())],
    })
}

/// The costs as a table.
pub(super) fn print_rows(rows: &[Value]) {
    for row in rows {
        for (name, words) in [
            ("launch_ns", "a launch in a row"),
            ("graph_ns", "a launch of a graph, without its nodes"),
            ("node_ns", "a node of it"),
            ("changed_ns", "other parameters for a node"),
            ("build_ns", "building a graph, a node"),
        ] {
            println!("{:>10} ns  {words}", row[name].as_u64().unwrap_or(0));
        }
    }
}
