//! The sessions with their processes, one row each.

use super::paint::{Paint, below_heading, rate, runs, scroll_bar, sorted};
use crate::top::rows::{Entry, entries};
use crate::top::screen::{Focus, Order, Screen};
use apex_daemon::palette::Tone;
use apex_daemon::show::{bytes, percent};
use apex_daemon::watch::Rates;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Row, Table};

/// From this width on a session's id has a column of its own.
const WIDE: u16 = 120;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, screen: &Screen, paint: Paint) {
    let columns = columns(area.width);
    let has_focus = screen.focus == Focus::Tree;
    let all = entries(screen);
    let (heading, below) = below_heading(area);
    let words = columns.iter().map(|column| column.heading(screen.order));
    let widths: Vec<Constraint> = columns.iter().map(|column| column.width(area.width)).collect();
    let heading_row = Row::new(words).style(paint.heading(has_focus));
    frame
        .render_widget(Table::new([heading_row], &widths).style(paint.heading(has_focus)), heading);
    let shown = all.iter().enumerate().skip(screen.tree.first).take(usize::from(below.height));
    let rows = shown.map(|(nth, entry)| {
        let is_chosen = nth == screen.tree.chosen;
        // On the reversed row colours would be backgrounds.
        let ink = if is_chosen && has_focus { Paint { colour: false } } else { paint };
        let cells = columns.iter().map(|column| column.cell(entry, area.width, ink));
        let row = Row::new(cells.collect::<Vec<_>>());
        if is_chosen { row.style(paint.chosen(has_focus)) } else { row }
    });
    frame.render_widget(Table::new(rows.collect::<Vec<_>>(), &widths), below);
    scroll_bar(frame, below, screen.tree.first, all.len());
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Pid,
    Session,
    Runs,
    Launches,
    Gpu,
    Memory,
    Waiting,
    Command,
}

/// The narrower the terminal, the fewer columns; who it is and what it does remain.
fn columns(width: u16) -> Vec<Column> {
    use Column::{Command, Gpu, Launches, Memory, Pid, Runs, Session, Waiting};
    match width {
        ..44 => vec![Pid, Launches, Command],
        44..66 => vec![Pid, Launches, Gpu, Command],
        66..WIDE => vec![Pid, Runs, Launches, Gpu, Memory, Waiting, Command],
        _ => vec![Pid, Session, Runs, Launches, Gpu, Memory, Waiting, Command],
    }
}

fn bar_width(width: u16) -> usize {
    if width >= WIDE { 20 } else { 6 }
}

impl Column {
    fn heading(self, order: Order) -> Line<'static> {
        let right = |word: &str, by: Order| Line::from(sorted(word, by == order)).right_aligned();
        match self {
            Column::Pid => Line::from("  pid"),
            Column::Session => Line::from(sorted("session", order == Order::Start)),
            Column::Runs => Line::from("runs").right_aligned(),
            Column::Launches => right("launch/s", Order::Launches),
            Column::Gpu => Line::from(format!("   {}", sorted("GPU now", order == Order::Gpu))),
            Column::Memory => right("memory", Order::Memory),
            Column::Waiting => right("waits", Order::Waiting),
            Column::Command => Line::from("command"),
        }
    }

    fn width(self, width: u16) -> Constraint {
        match self {
            Column::Pid => Constraint::Length(10),
            Column::Session => Constraint::Length(24),
            Column::Runs => Constraint::Length(6),
            Column::Launches => Constraint::Length(9),
            Column::Gpu => Constraint::Length(7 + u16::try_from(bar_width(width)).unwrap_or(0)),
            Column::Memory => Constraint::Length(8),
            Column::Waiting => Constraint::Length(6),
            Column::Command => Constraint::Fill(1),
        }
    }

    fn cell(self, entry: &Entry<'_>, width: u16, paint: Paint) -> Line<'static> {
        let rates = match entry {
            Entry::Session(session, _) if session.is_silent() => None,
            Entry::Session(session, _) => session.rates,
            Entry::Process(session, process, _) => process.rates.filter(|_| !session.is_silent()),
        };
        let number = |of: &dyn Fn(Rates) -> String| {
            let line = match rates {
                Some(rates) => Line::from(of(rates)),
                None => paint.line(Tone::Faint, "-"),
            };
            line.right_aligned()
        };
        match self {
            Column::Pid => pid(entry, paint),
            Column::Session => match entry {
                Entry::Session(session, _) => Line::from(session.id().to_owned()),
                Entry::Process(..) => Line::default(),
            },
            Column::Runs => Line::from(runs(age_ns(entry))).right_aligned(),
            Column::Launches => number(&|rates| rate(rates.launches)),
            Column::Gpu => {
                let busy = rates.map(|rates| rates.busy);
                Line::from(paint.share(busy, bar_width(width), Tone::Good))
            }
            Column::Memory => Line::from(bytes(memory(entry))).right_aligned(),
            Column::Waiting => number(&|rates| percent(rates.waited)),
            Column::Command => command(entry, paint),
        }
    }
}

/// The process id at its place in the tree; of a session, that of its `apex run`.
fn pid(entry: &Entry<'_>, paint: Paint) -> Line<'static> {
    let (branch, pid) = match entry {
        Entry::Session(session, open) => {
            let folded = !open && !session.processes.is_empty();
            (if folded { "▸ " } else { "▾ " }, session.now.apex_pid)
        }
        Entry::Process(_, process, last) => (if *last { "└ " } else { "├ " }, process.now.pid),
    };
    Line::from(vec![paint.span(Tone::Faint, branch), Span::raw(pid.to_string())])
}

fn age_ns(entry: &Entry<'_>) -> u64 {
    let at_ns = entry.session().now.at_ns;
    entry.process().map_or(at_ns, |process| at_ns.saturating_sub(process.now.started_ns))
}

fn memory(entry: &Entry<'_>) -> u64 {
    match entry.process() {
        Some(process) => process.now.device_live_bytes,
        None => entry.session().now.summary.memory.device_live_bytes,
    }
}

fn command(entry: &Entry<'_>, paint: Paint) -> Line<'static> {
    match entry {
        Entry::Session(session, _) if session.is_silent() => Line::from(vec![
            paint.span(Tone::Warning, "silent "),
            Span::raw(without_folder(session.command())),
        ]),
        Entry::Session(session, _) => paint.line(Tone::Strong, without_folder(session.command())),
        Entry::Process(_, process, _) => Line::from(without_folder(process.command())),
    }
}

/// The command without the folder of its program, which would fill the column; the filter still finds it.
fn without_folder(command: String) -> String {
    let program = command.split(' ').next().unwrap_or_default();
    match program.rfind('/') {
        Some(end) => command[end + 1..].to_owned(),
        None => command,
    }
}
