//! Draws the screen of `apex top`.

use super::{Screen, Sort, Watched};
use apex_daemon::names::shorten;
use apex_daemon::show::{bytes, count, nanos, percent};
use apex_daemon::summary::KernelSummary;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Table, TableState};

pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    if screen.help {
        return frame.render_widget(help(), frame.area());
    }
    let sessions = u16::try_from(screen.sessions.len()).unwrap_or(u16::MAX).clamp(1, 6);
    let [top, middle, list, foot] = Layout::vertical([
        Constraint::Length(sessions + 3),
        Constraint::Length(3),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_sessions(frame, top, screen);
    if let Some(watched) = screen.sessions.get(screen.chosen) {
        frame.render_widget(details(watched), middle);
        draw_kernels(frame, list, screen, watched);
    } else {
        let text = "No session runs. Start one in another terminal: apex run -- CMD";
        frame.render_widget(Paragraph::new(text), middle);
    }
    frame.render_widget(foot_line(screen), foot);
}

fn draw_sessions(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let rows = screen.sessions.iter().map(|watched| {
        let summary = &watched.now.summary;
        Row::new([
            summary.session.clone(),
            nanos(watched.now.at_ns as f64),
            watched.kernels_per_second.map_or("-".into(), |rate| count(rate as u64)),
            watched.recent_busy.map_or("-".into(), percent),
            summary.gpu_busy.as_ref().map_or("-".into(), |busy| percent(busy.share)),
            bytes(summary.memory.device_live_bytes),
            summary.command.join(" "),
        ])
    });
    let widths = [
        Constraint::Length(24),
        Constraint::Length(8),
        Constraint::Length(11),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(10),
        Constraint::Min(10),
    ];
    let heading = ["session", "runs for", "kernels/s", "GPU now", "GPU all", "memory", "command"];
    let table = Table::new(rows, widths)
        .header(Row::new(heading).style(Style::new().add_modifier(Modifier::BOLD)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(Block::bordered().title(" apex top "));
    let mut state = TableState::default().with_selected(Some(screen.chosen));
    frame.render_stateful_widget(table, area, &mut state);
}

fn details(watched: &Watched) -> Paragraph<'static> {
    let summary = &watched.now.summary;
    let device = summary.devices.first().map_or("device not known", |device| device.name.as_str());
    let memory = &summary.memory;
    let churn = memory.churn_per_second.map_or("-".into(), |rate| format!("{rate:.0}/s"));
    let own = &summary.own;
    Paragraph::new(vec![
        Line::from(format!(
            " {device}; {} kernels, {} launches, {} graph launches; {} processes, {} threads",
            count(summary.kernels_executed),
            count(summary.launches),
            count(summary.graph_launches),
            summary.processes,
            summary.threads.len()
        )),
        Line::from(format!(
            " memory {} live, {} peak, allocations and frees {churn}; waited {}",
            bytes(memory.device_live_bytes),
            bytes(memory.device_peak_bytes),
            percent(summary.syncs.share_of_wall)
        )),
        Line::from(format!(
            " apex: {} events, {} lost, {} damaged, {} failures",
            count(own.events),
            count(own.lost),
            count(own.damaged),
            count(own.failures)
        )),
    ])
}

fn draw_kernels(frame: &mut Frame<'_>, area: Rect, screen: &Screen, watched: &Watched) {
    let width = usize::from(area.width).saturating_sub(60).max(24);
    let rows = kernels(screen, watched).into_iter().map(|kernel| {
        let (share, mean) = match &kernel.gpu {
            Some(gpu) => (percent(gpu.share), nanos(gpu.mean_ns)),
            None => ("-".into(), "-".into()),
        };
        let fit = kernel.fit.as_ref().map_or("-".into(), |fit| match fit.limiter.as_str() {
            "none" => percent(fit.occupancy),
            limiter => format!("{} {limiter}", percent(fit.occupancy)),
        });
        Row::new([share, count(kernel.calls), mean, fit, shorten(&kernel.name, width)])
    });
    let widths = [
        Constraint::Length(7),
        Constraint::Length(13),
        Constraint::Length(9),
        Constraint::Length(20),
        Constraint::Min(20),
    ];
    let table = Table::new(rows, widths)
        .header(
            Row::new(["time", "calls", "mean", "occupancy", "kernel"])
                .style(Style::new().add_modifier(Modifier::BOLD)),
        )
        .block(Block::bordered().title(format!(" kernels by {} ", screen.sort.word())));
    frame.render_widget(table, area);
}

fn kernels<'a>(screen: &Screen, watched: &'a Watched) -> Vec<&'a KernelSummary> {
    let wanted = screen.filter.to_lowercase();
    let mut kernels: Vec<&KernelSummary> = watched
        .now
        .summary
        .kernels
        .iter()
        .filter(|kernel| kernel.name.to_lowercase().contains(&wanted))
        .collect();
    let mean = |kernel: &KernelSummary| kernel.gpu.as_ref().map_or(-1.0, |gpu| gpu.mean_ns);
    match screen.sort {
        // They come by time.
        Sort::Time => {}
        Sort::Calls => kernels.sort_by_key(|kernel| u64::MAX - kernel.calls),
        Sort::Mean => kernels.sort_by(|a, b| mean(b).total_cmp(&mean(a))),
        Sort::Name => kernels.sort_by(|a, b| a.name.cmp(&b.name)),
    }
    kernels
}

fn foot_line(screen: &Screen) -> Line<'static> {
    if screen.typing {
        return Line::from(format!(" filter: {}_", screen.filter));
    }
    let filter = match screen.filter.as_str() {
        "" => String::new(),
        filter => format!("   only kernels with “{filter}”"),
    };
    Line::from(format!(" / filter   s sort   tab session   ? help   q quit{filter}"))
}

fn help() -> Paragraph<'static> {
    let lines = [
        "/      show only kernels whose name contains what you type; Esc shows all again",
        "s      sort kernels by time, calls, mean or name",
        "Tab    the next session (or the arrow keys)",
        "?      this page",
        "q      quit; the programs run on",
        "",
        "GPU now is over the last half second, GPU all since the first CUDA call; both are estimates",
        "from timed launches unless the session runs with --timing full.",
    ];
    Paragraph::new(lines.map(Line::from).to_vec()).block(Block::bordered().title(" keys "))
}
