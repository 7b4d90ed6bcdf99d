//! The last minute of the chosen session or process: launches and how busy the GPU was.
//!
//! Launches are drawn up to the most of the minute, which the title says; how busy the GPU was, up to all of it.

use super::paint::{Paint, rate};
use crate::top::rows::Entry;
use apex_daemon::palette::Tone;
use apex_daemon::show::percent;
use apex_daemon::watch::{History, Rates};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::Sparkline;

/// Steps of a bar's height: more than any terminal can show.
const STEPS: f64 = 100_000.0;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, entry: &Entry<'_>, paint: Paint) {
    let (history, rates) = match entry.process() {
        Some(process) => (&process.history, process.rates),
        None => (&entry.session().history, entry.session().rates),
    };
    let [launches, busy] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(2).areas(area);
    let curve = Curve { history, now: rates, paint };
    curve.draw(frame, launches, "launches/s", Tone::Accent, |one| one.launches, rate, None);
    curve.draw(frame, busy, "GPU busy", Tone::Good, |one| one.busy, percent, Some(1.0));
}

struct Curve<'a> {
    history: &'a History,
    now: Option<Rates>,
    paint: Paint,
}

impl Curve<'_> {
    #[allow(clippy::too_many_arguments, reason = "what tells one curve from the other")]
    fn draw(
        &self,
        frame: &mut Frame<'_>,
        area: Rect,
        name: &str,
        tone: Tone,
        of: fn(&Rates) -> f64,
        words: fn(f64) -> String,
        most: Option<f64>,
    ) {
        let [title, bars] = Layout::vertical([Constraint::Max(1), Constraint::Fill(1)]).areas(area);
        let curve = self.history.curve(usize::from(bars.width), of);
        let peak = curve.iter().flatten().copied().fold(0.0, f64::max);
        let paint = self.paint;
        let heading = match self.now {
            Some(now) => Line::from(vec![
                paint.span(tone, format!(" {name} ")),
                paint.span(Tone::Strong, words(of(&now))),
                paint.span(Tone::Faint, format!("  peak {} in 60 s", words(peak))),
            ]),
            None => Line::from(vec![
                paint.span(tone, format!(" {name} ")),
                paint.span(Tone::Faint, "not yet known"),
            ]),
        };
        frame.render_widget(heading, title);
        let top = most.unwrap_or(peak).max(f64::MIN_POSITIVE);
        // What is there but small shows as the least bar, what is not there as nothing.
        let step = |value: f64| (value / top * STEPS).min(STEPS) as u64;
        let data: Vec<Option<u64>> = curve.iter().map(|part| part.map(step)).collect();
        let sparkline = Sparkline::default().data(data).max(STEPS as u64).style(paint.style(tone));
        frame.render_widget(sparkline, bars);
    }
}
