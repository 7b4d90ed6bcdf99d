//! Three lines about the chosen session: what it runs on, its memory, and what apex itself saw and lost.

use super::paint::{Paint, fullness};
use crate::top::rows::Entry;
use apex_daemon::palette::Tone;
use apex_daemon::show::{bytes, count, percent};
use apex_daemon::watch::WatchedSession;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

const BAR: usize = 10;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, entry: &Entry<'_>, paint: Paint) {
    let session = entry.session();
    let lines = vec![what(session, paint), memory(session, paint), own(session, paint)];
    frame.render_widget(Paragraph::new(lines), area);
}

fn what(session: &WatchedSession, paint: Paint) -> Line<'static> {
    let summary = &session.now.summary;
    let device = summary.devices.first().map_or("device not known", |device| device.name.as_str());
    let more = match summary.devices.len() {
        ..2 => String::new(),
        devices => format!(" and {} more", devices - 1),
    };
    let graphs = match summary.graph_launches {
        0 => String::new(),
        graphs => format!(", {} graph launches", count(graphs)),
    };
    let fast = match &summary.fast {
        Some(fast) if fast.queued > 0 => {
            format!("; {} launches queued, {} in graphs", count(fast.queued), count(fast.in_graphs))
        }
        _ => String::new(),
    };
    let ended = match session.ended {
        0 => String::new(),
        1 => "; 1 process ended".into(),
        ended => format!("; {} processes ended", count(ended as u64)),
    };
    let kernels = count(summary.kernels_executed);
    Line::from(vec![
        Span::raw(" "),
        paint.span(Tone::Strong, session.id()),
        Span::raw(format!("  {device}{more}; {kernels} kernels{graphs}{fast}{ended}")),
    ])
}

fn memory(session: &WatchedSession, paint: Paint) -> Line<'static> {
    let summary = &session.now.summary;
    let memory = &summary.memory;
    let all: u64 = summary.devices.iter().map(|device| device.memory_bytes).sum();
    let mut spans = vec![Span::raw(" memory ")];
    if all > 0 {
        let share = memory.device_live_bytes as f64 / all as f64;
        spans.extend(paint.bar(share, BAR, fullness(share)));
        spans.push(Span::raw(" "));
    }
    let of = if all > 0 { format!(" of {}", bytes(all)) } else { String::new() };
    let churn = match memory.churn_per_second {
        Some(rate) if rate >= 0.5 => format!("; {rate:.0} allocations and frees/s"),
        _ => String::new(),
    };
    spans.push(Span::raw(format!(
        "{}{of}, peak {}; waited {}{churn}",
        bytes(memory.device_live_bytes),
        bytes(memory.device_peak_bytes),
        percent(summary.syncs.share_of_wall)
    )));
    Line::from(spans)
}

fn own(session: &WatchedSession, paint: Paint) -> Line<'static> {
    let own = &session.now.summary.own;
    let missing = own.lost + own.damaged + own.failures + own.not_kept;
    let tone = if missing > 0 { Tone::Warning } else { Tone::Faint };
    let mut spans = vec![paint.span(
        tone,
        format!(
            " apex: {} events, {} lost, {} damaged, {} failures",
            count(own.events),
            count(own.lost),
            count(own.damaged),
            count(own.failures)
        ),
    )];
    let errors: u64 = session.now.summary.errors.iter().map(|error| error.count).sum();
    if errors > 0 {
        spans.push(paint.span(Tone::Bad, format!("  the driver refused {} calls", count(errors))));
    }
    if session.is_silent() {
        spans.push(
            paint.span(Tone::Warning, "  no news: its apex run is stopped or gets no processor"),
        );
    }
    Line::from(spans)
}
