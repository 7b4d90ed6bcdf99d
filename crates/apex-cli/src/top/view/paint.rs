//! Tones as the picture has them, and what every part draws alike: bars, columns, short numbers.

use apex_daemon::palette::Tone;
use apex_daemon::show::{count, percent};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Scrollbar, ScrollbarOrientation, ScrollbarState};

/// Draws tones, with colour or without.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint {
    pub(super) colour: bool,
}

impl Paint {
    pub(super) fn style(self, tone: Tone) -> Style {
        let style = match tone {
            Tone::Strong => Style::new().add_modifier(Modifier::BOLD),
            Tone::Faint => Style::new().add_modifier(Modifier::DIM),
            _ => Style::new(),
        };
        match tone.colour().filter(|_| self.colour) {
            Some(number) => style.fg(Color::Indexed(number)),
            None => style,
        }
    }

    pub(super) fn span(self, tone: Tone, text: impl Into<String>) -> Span<'static> {
        Span::styled(text.into(), self.style(tone))
    }

    pub(super) fn line(self, tone: Tone, text: impl Into<String>) -> Line<'static> {
        Line::from(self.span(tone, text))
    }

    /// The heading of a list; the one that the keys move in stands out.
    pub(super) fn heading(self, has_focus: bool) -> Style {
        let style = if has_focus { self.style(Tone::Accent) } else { Style::new() };
        let style = style.add_modifier(Modifier::REVERSED);
        if has_focus {
            style.add_modifier(Modifier::BOLD)
        } else {
            style.add_modifier(Modifier::DIM)
        }
    }

    /// The chosen row.
    pub(super) fn chosen(self, has_focus: bool) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        if has_focus { style.add_modifier(Modifier::REVERSED) } else { style }
    }

    /// A share in figures and as a bar of `width` columns.
    pub(super) fn share(self, share: Option<f64>, width: usize, tone: Tone) -> Vec<Span<'static>> {
        let Some(share) = share else {
            return vec![self.span(Tone::Faint, format!("{:>6}", "-"))];
        };
        let mut spans = vec![Span::raw(format!("{:>6} ", percent(share)))];
        spans.extend(self.bar(share, width, tone));
        spans
    }

    /// A bar: eighths of a column are filled, and what is left is dotted, so that it can be read without colour.
    pub(super) fn bar(self, share: f64, width: usize, tone: Tone) -> Vec<Span<'static>> {
        let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
        let mut full = "█".repeat(eighths / 8);
        full.push_str(["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8]);
        let rest = width - full.chars().count();
        vec![self.span(tone, full), self.span(Tone::Faint, "·".repeat(rest))]
    }
}

/// How full something is, as a tone.
pub(super) fn fullness(share: f64) -> Tone {
    match share {
        share if share >= 0.95 => Tone::Bad,
        share if share >= 0.8 => Tone::Warning,
        _ => Tone::Good,
    }
}

/// A rate in at most seven columns.
pub(super) fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate >= 999_999.5 => format!("{:.2} M", rate / 1e6),
        rate if rate > 0.0 && rate < 9.95 => format!("{rate:.1}"),
        rate => count(rate.round() as u64),
    }
}

/// How long something runs, in at most six columns.
pub(super) fn runs(nanos: u64) -> String {
    let seconds = nanos / 1_000_000_000;
    match seconds {
        ..100 => format!("{seconds} s"),
        100..6_000 => format!("{} min", seconds / 60),
        6_000..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// The heading of a list, and the place of the rows below it.
pub(super) fn below_heading(area: Rect) -> (Rect, Rect) {
    let height = area.height.min(1);
    let heading = Rect { height, ..area };
    (heading, Rect { y: area.y + height, height: area.height - height, ..area })
}

/// Where the rows in view stand among all, on the right edge; nothing where all are in view.
pub(super) fn scroll_bar(frame: &mut Frame<'_>, area: Rect, first: usize, all: usize) {
    let height = usize::from(area.height);
    if all > height && height > 0 {
        let state = ScrollbarState::new(all - height + 1).position(first);
        let bar =
            Scrollbar::new(ScrollbarOrientation::VerticalRight).begin_symbol(None).end_symbol(None);
        frame.render_stateful_widget(bar, area, &mut state.viewport_content_length(height));
    }
}

/// A word with the mark of the column that the list is sorted by.
pub(super) fn sorted(word: &str, is_sorted: bool) -> String {
    if is_sorted { format!("{word}↓") } else { word.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(share: f64) -> String {
        let spans = Paint { colour: false }.bar(share, 4, Tone::Good);
        spans.iter().map(|span| span.content.as_ref()).collect()
    }

    #[test]
    fn a_bar_fills_by_eighths_and_never_grows() {
        let bars = [0.0, 0.5, 0.53, 1.0, 7.0, f64::NAN].map(bar);
        assert_eq!(bars, ["····", "██··", "██▏·", "████", "████", "····"]);
    }

    #[test]
    fn numbers_fit_their_columns() {
        let rates = [0.0, 0.5, 12_345.4, 999_999.0, 2_345_678.0].map(rate);
        assert_eq!(rates, ["0", "0.5", "12,345", "999,999", "2.35 M"]);
        let times = [5, 99, 125, 7_200, 200_000].map(|seconds| runs(seconds * 1_000_000_000));
        assert_eq!(times, ["5 s", "99 s", "2 min", "2 h", "2 d"]);
    }

    #[test]
    fn without_colour_no_style_has_one() {
        for tone in Tone::ALL {
            assert_eq!(Paint { colour: false }.style(tone).fg, None);
            let expected = tone.colour().map(Color::Indexed);
            assert_eq!(Paint { colour: true }.style(tone).fg, expected);
        }
    }
}
