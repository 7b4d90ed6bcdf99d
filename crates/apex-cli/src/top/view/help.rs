//! The page of the keys.

use super::paint::Paint;
use apex_daemon::palette::Tone;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

const KEYS: [(&str, &str); 9] = [
    ("↑ ↓ PgUp PgDn", "move; Home and End go to the first and the last row"),
    ("Tab", "the other list: processes above, kernels below"),
    ("Enter ← →", "fold and unfold the processes of a session"),
    ("s", "sort the list: by start, GPU, launches, memory, waiting;"),
    ("", "kernels by time, calls, mean, name"),
    ("/", "show only what contains a text: command, kernel, process id,"),
    ("", "device or session id; Enter keeps it, Esc shows all again"),
    ("?", "this page; q, Esc or Enter leaves it"),
    ("q", "quit; the programs run on"),
];

const NOTES: [&str; 5] = [
    "Launches, GPU now, waits and both curves are differences of two looks, half a second apart. GPU times are \
     estimates from timed launches, unless the session runs with --timing full.",
    "A row ▾ is a session, with the process id of its apex run; the rows below are the processes of it that call \
     CUDA. The curves are those of the chosen row.",
    "",
    "apex report SESSION shows the whole report of a session, also while it runs.",
    "apex top --json prints what runs once, for programs.",
];

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, paint: Paint) {
    let mut lines = vec![paint.line(Tone::Strong, "apex top: keys"), Line::default()];
    lines.extend(KEYS.map(|(key, does)| {
        Line::from(vec![paint.span(Tone::Accent, format!("{key:<15}")), Span::raw(does)])
    }));
    lines.push(Line::default());
    lines.extend(NOTES.map(Line::from));
    let place = Rect {
        x: area.x + area.width.min(1),
        width: area.width.saturating_sub(2).min(100),
        ..area
    };
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), place);
}
