//! Draws the screen.
//!
//! What is drawn follows from the [`Screen`] alone. A program's own text, such as its command or a kernel's name, can
//! send nothing to the terminal: it goes into cells, and these take no control characters.

mod curves;
mod details;
mod help;
mod kernels;
mod paint;
mod tree;

use super::areas::Areas;
use super::rows::{chosen, entries};
use super::screen::{Focus, Screen};
use apex_daemon::palette::Tone;
use apex_daemon::show::{bytes, count};
use paint::{Paint, rate};
use ratatui::Frame;
use ratatui::layout::{Alignment, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    let paint = Paint { colour: screen.colour };
    if screen.help {
        return help::draw(frame, screen.area, paint);
    }
    let areas = Areas::of(screen);
    frame.render_widget(title(screen, paint), areas.title);
    match chosen(screen) {
        Some(entry) => {
            curves::draw(frame, areas.curves, &entry, paint);
            tree::draw(frame, areas.tree, screen, paint);
            details::draw(frame, areas.details, &entry, paint);
            kernels::draw(frame, areas.kernels, screen, entry.session(), paint);
        }
        None => empty(frame, areas, screen, paint),
    }
    frame.render_widget(foot(screen, paint), areas.foot);
}

/// All sessions together.
fn title(screen: &Screen, paint: Paint) -> Line<'static> {
    let sessions = screen.sessions.len();
    let processes: usize = screen.sessions.iter().map(|session| session.processes.len()).sum();
    let launches: f64 =
        screen.sessions.iter().filter_map(|session| session.rates).map(|one| one.launches).sum();
    let memory: u64 =
        screen.sessions.iter().map(|one| one.now.summary.memory.device_live_bytes).sum();
    let of = |number: usize, word: &str| {
        format!("{number} {word}{}", if number == 1 { "" } else { "s" })
    };
    let processes = match processes {
        1 => "1 process".into(),
        processes => format!("{processes} processes"),
    };
    Line::from(vec![
        paint.span(Tone::Strong, " apex top"),
        Span::raw(format!("   {}, {processes}   ", of(sessions, "session"))),
        paint.span(Tone::Accent, format!("{} launches/s", rate(launches))),
        Span::raw(format!("   {} on devices", bytes(memory))),
    ])
}

/// What to do where nothing can be shown.
fn empty(frame: &mut Frame<'_>, areas: Areas, screen: &Screen, paint: Paint) {
    let area = areas.curves.union(areas.kernels).union(areas.tree);
    let lines = if screen.sessions.is_empty() {
        let mut lines = vec![
            paint.line(Tone::Strong, "No program of yours runs under apex now."),
            Line::default(),
            Line::from("Start one in another terminal, and it appears here within a second:"),
            Line::default(),
            paint.line(Tone::Accent, "apex run -- python train.py"),
        ];
        if let Some(ended) = &screen.ended {
            lines.extend([
                Line::default(),
                Line::from("The last one has ended; its report:"),
                Line::default(),
                paint.line(Tone::Accent, format!("apex report {ended}")),
            ]);
        }
        lines
    } else {
        let hidden = screen.sessions.len();
        vec![
            paint.line(Tone::Strong, format!("Nothing contains “{}”.", screen.filter)),
            Line::default(),
            Line::from(format!("Esc shows all again ({} hidden).", count(hidden as u64))),
        ]
    };
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).min(area.height);
    let y = area.y + (area.height - height) / 3;
    let place = Rect { y, height, ..area };
    let text = Paragraph::new(lines).alignment(Alignment::Center).wrap(Wrap { trim: true });
    frame.render_widget(text, place);
}

/// The keys, or the filter while it is typed.
fn foot(screen: &Screen, paint: Paint) -> Line<'static> {
    if screen.typing {
        let rows = match entries(screen).len() {
            1 => "1 row".into(),
            rows => format!("{rows} rows"),
        };
        return Line::from(vec![
            paint.span(Tone::Accent, " filter: "),
            Span::raw(screen.filter.clone()),
            paint.span(Tone::Strong, "▏"),
            paint.span(Tone::Faint, format!("  {rows}   Enter keeps it   Esc shows all")),
        ]);
    }
    let list = match screen.focus {
        Focus::Tree => "kernels",
        Focus::Kernels => "processes",
    };
    let keys = [
        ("q", "quit"),
        ("?", "help"),
        ("/", "filter"),
        ("s", "sort"),
        ("Tab", list),
        ("Enter", "fold"),
    ];
    let mut spans = vec![Span::raw(" ")];
    if !screen.filter.is_empty() {
        spans.push(paint.span(Tone::Warning, format!("only “{}” ", screen.filter)));
        spans.push(paint.span(Tone::Accent, "Esc"));
        spans.push(Span::raw(" all   "));
    }
    for (key, does) in keys {
        spans.push(paint.span(Tone::Accent, key));
        spans.push(Span::raw(format!(" {does}   ")));
    }
    Line::from(spans)
}
