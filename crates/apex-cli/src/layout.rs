//! How wide a page is, and whether it has colours: what the stream that it goes to allows.

use apex_daemon::show::Layout;
use std::io::IsTerminal;

/// The layout for a stream: a terminal's own width, and colour unless the user refuses it.
pub(crate) fn layout(stream: &impl IsTerminal) -> Layout {
    let own = || ratatui::crossterm::terminal::size().ok().map(|(columns, _)| columns.into());
    // Where nothing is a terminal the question starts a program, `tput`, and waits for it.
    let width = stream.is_terminal().then(own).flatten().unwrap_or(120);
    Layout { width, colour: coloured(stream) }
}

/// Whether a stream may have colour: it is a terminal that knows colours, and the user does not refuse them.
pub(crate) fn coloured(stream: &impl IsTerminal) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    stream.is_terminal() && !refused && !dumb
}
