//! The screen is drawn into memory and compared; keys are fed as a terminal would.

use super::*;
use apex_daemon::summary::{Busy, GpuTime, KernelSummary, Summary};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn snapshot(at_ns: u64, executed: u64, kernel_ns: u64) -> Snapshot {
    let kernel = |name: &str, calls, mean_ns| KernelSummary {
        name: name.into(),
        calls,
        gpu: Some(GpuTime { mean_ns, share: 0.5, ..GpuTime::default() }),
        ..KernelSummary::default()
    };
    Snapshot {
        at_ns,
        apex_pid: 1,
        summary: Summary {
            session: "20260101-000000-1".into(),
            command: vec!["train".into()],
            kernels_executed: executed,
            gpu_busy: Some(Busy { share: 0.4, kernel_ns, ..Busy::default() }),
            kernels: vec![kernel("gemm", 5, 9e3), kernel("add", 50, 2e3)],
            ..Summary::default()
        },
    }
}

fn text(screen: &Screen) -> String {
    let mut terminal = Terminal::new(TestBackend::new(110, 16)).unwrap();
    terminal.draw(|frame| view::draw(frame, screen)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn rates_are_differences_of_two_snapshots() {
    let mut screen = Screen::default();
    screen.update(vec![snapshot(1_000_000_000, 100, 100_000_000)]);
    assert!(text(&screen).contains("gemm"));
    screen.update(vec![snapshot(1_500_000_000, 1_100, 350_000_000)]);
    let shown = text(&screen);
    assert!(shown.contains("2,000") && shown.contains("50 %") && shown.contains("40 %"), "{shown}");
    // The same snapshot again is no news: the rate stays.
    screen.update(vec![snapshot(1_500_000_000, 1_100, 350_000_000)]);
    assert!(text(&screen).contains("2,000"));
}

#[test]
fn the_filter_and_the_order_change_what_is_shown() {
    let mut screen = Screen::default();
    screen.update(vec![snapshot(1, 1, 1)]);
    let place = |shown: &str, name: &str| shown.find(name);
    let shown = text(&screen);
    assert!(place(&shown, "gemm") < place(&shown, " add "));
    screen.press(KeyCode::Char('s'));
    let shown = text(&screen);
    assert!(shown.contains("by calls") && place(&shown, " add ") < place(&shown, "gemm"));
    for key in "/gem".chars() {
        screen.press(KeyCode::Char(key));
    }
    let shown = text(&screen);
    assert!(shown.contains("filter: gem_") && !shown.contains(" add "));
    screen.press(KeyCode::Enter);
    screen.press(KeyCode::Esc);
    assert!(text(&screen).contains(" add "));
}

#[test]
fn keys_open_help_and_quit() {
    let mut screen = Screen::default();
    assert!(text(&screen).contains("No session runs"));
    screen.press(KeyCode::Char('?'));
    assert!(text(&screen).contains("the programs run on"));
    screen.press(KeyCode::Char('q'));
    assert!(screen.done);
}
