//! The kernels of the chosen session.

use super::paint::{Paint, below_heading, scroll_bar, sorted};
use crate::top::rows::kernels;
use crate::top::screen::{Focus, Screen, Sort};
use apex_daemon::names::shorten;
use apex_daemon::palette::Tone;
use apex_daemon::show::{count, nanos, percent};
use apex_daemon::summary::KernelSummary;
use apex_daemon::watch::WatchedSession;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Row, Table};

pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    screen: &Screen,
    session: &WatchedSession,
    paint: Paint,
) {
    let has_focus = screen.focus == Focus::Kernels;
    let bar: u16 = if area.width >= 120 { 20 } else { 6 };
    let is_narrow = area.width < 66;
    let mut widths =
        vec![Constraint::Length(7 + bar), Constraint::Length(11), Constraint::Length(8)];
    let heading = |word: &str, by: Sort| sorted(word, screen.sort == by);
    let mut words = vec![
        Line::from(format!("     {}", heading("time", Sort::Time))),
        Line::from(heading("calls", Sort::Calls)).right_aligned(),
        Line::from(heading("mean", Sort::Mean)).right_aligned(),
    ];
    if !is_narrow {
        widths.push(Constraint::Length(15));
        words.push(Line::from("occupancy"));
    }
    widths.push(Constraint::Fill(1));
    words.push(Line::from(heading("kernel", Sort::Name)));
    let used = 7 + bar + 11 + 8 + 4 + if is_narrow { 0 } else { 16 };
    let room = usize::from(area.width.saturating_sub(used)).max(8);

    let (top, below) = below_heading(area);
    let style = paint.heading(has_focus);
    frame.render_widget(Table::new([Row::new(words).style(style)], &widths).style(style), top);
    let all = kernels(screen, session);
    let shown = all.iter().enumerate().skip(screen.kernels.first).take(usize::from(below.height));
    let rows = shown.map(|(nth, kernel)| {
        let is_chosen = has_focus && nth == screen.kernels.chosen;
        let ink = if is_chosen { Paint { colour: false } } else { paint };
        let share = kernel.gpu.as_ref().map(|gpu| gpu.share);
        let mean = kernel.gpu.as_ref().map_or("-".into(), |gpu| nanos(gpu.mean_ns));
        let mut cells = vec![
            Line::from(ink.share(share, usize::from(bar), Tone::Accent)),
            Line::from(count(kernel.calls)).right_aligned(),
            Line::from(mean).right_aligned(),
        ];
        if !is_narrow {
            cells.push(Line::from(occupancy(kernel)));
        }
        let tone = share.map_or(Tone::Plain, Tone::of_share);
        cells.push(ink.line(tone, shorten(&kernel.name, room)));
        let row = Row::new(cells);
        if is_chosen { row.style(paint.chosen(true)) } else { row }
    });
    frame.render_widget(Table::new(rows.collect::<Vec<_>>(), &widths), below);
    scroll_bar(frame, below, screen.kernels.first, all.len());
}

fn occupancy(kernel: &KernelSummary) -> String {
    kernel.fit.as_ref().map_or("-".into(), |fit| match fit.limiter.as_str() {
        "none" => percent(fit.occupancy),
        limiter => format!("{} {limiter}", percent(fit.occupancy)),
    })
}
