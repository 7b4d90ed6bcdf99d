//! The screen is drawn into memory and compared; keys are fed as a terminal would.

use super::rows::{chosen, entries};
use super::screen::Screen;
use super::view;
use apex_daemon::live::Snapshot;
use apex_daemon::summary::{
    Busy, DeviceSummary, Fit, GpuTime, KernelSummary, MemorySummary, OwnSummary, ProcessSummary,
    Summary, SyncSummary,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::style::Color;

const HALF_SECOND: u64 = 500_000_000;

/// A session of two processes that do the same every half second: the first 1,000 launches and 0.2 s of GPU time,
/// the second 500 and 0.05 s.
fn snapshot(nth: u64, number: u32) -> Snapshot {
    let at_ns = nth * HALF_SECOND;
    let kernel = |name: &str, calls, mean_ns, share| KernelSummary {
        name: name.into(),
        calls,
        gpu: Some(GpuTime { mean_ns, share, ..GpuTime::default() }),
        fit: Some(Fit { occupancy: 0.75, limiter: "registers".into(), ..Fit::default() }),
        ..KernelSummary::default()
    };
    let process = |rank: u32, launches, kernel_ns| ProcessSummary {
        number: rank,
        pid: 1_000 * number + rank,
        executable: "/usr/bin/python3".into(),
        arguments: vec!["/usr/bin/python3".into(), "train.py".into(), format!("--rank={rank}")],
        started_ns: HALF_SECOND,
        launches: nth * launches,
        kernels_executed: nth * launches,
        kernel_ns: nth * kernel_ns,
        given_ns: nth * kernel_ns,
        device_live_bytes: 1 << 30,
        waited_ns: nth * HALF_SECOND / 4,
        ..ProcessSummary::default()
    };
    Snapshot {
        at_ns,
        apex_pid: 100 + number,
        given_ns: nth * 250_000_000,
        summary: Summary {
            session: format!("20260101-000000-{}", 100 + number),
            started_unix_ns: u64::from(number),
            command: vec!["torchrun".into(), "train.py".into()],
            devices: vec![DeviceSummary {
                name: "NVIDIA H200".into(),
                memory_bytes: 141 << 30,
                ..DeviceSummary::default()
            }],
            processes: 3,
            kernels_executed: nth * 1_500,
            launches: nth * 1_500,
            gpu_busy: Some(Busy { share: 0.4, kernel_ns: nth * 250_000_000, ..Busy::default() }),
            kernels: vec![
                kernel("void gemm<float, 128>(float*)", 5_000, 9e3, 0.8),
                kernel("add", 50_000, 2e3, 0.005),
            ],
            memory: MemorySummary {
                device_live_bytes: 2 << 30,
                device_peak_bytes: 3 << 30,
                churn_per_second: Some(12.0),
                ..MemorySummary::default()
            },
            syncs: SyncSummary {
                waited_ns: nth * HALF_SECOND / 2,
                share_of_wall: 0.5,
                ..SyncSummary::default()
            },
            own: OwnSummary { events: nth * 1_600, ..OwnSummary::default() },
            ..Summary::default()
        },
        processes: vec![
            process(0, 1_000, 200_000_000),
            process(1, 500, 50_000_000),
            ProcessSummary { ended_ns: Some(7), ..process(2, 0, 0) },
        ],
        ..Snapshot::default()
    }
}

fn screen(width: u16, height: u16) -> Screen {
    let mut screen = Screen { colour: true, ..Screen::default() };
    screen.resize(Rect::new(0, 0, width, height));
    screen
}

/// After a minute and a half of one session.
fn watched(width: u16, height: u16) -> Screen {
    let mut screen = screen(width, height);
    for nth in 1..180 {
        screen.update(vec![snapshot(nth, 1)]);
    }
    screen
}

/// Many sessions, each with two processes.
fn crowded(sessions: u32) -> Screen {
    let mut screen = screen(80, 24);
    for nth in 1..4 {
        screen.update((0..sessions).map(|number| snapshot(nth, number)).collect());
    }
    screen
}

fn picture(screen: &Screen) -> Buffer {
    let mut terminal =
        Terminal::new(TestBackend::new(screen.area.width, screen.area.height)).unwrap();
    terminal.draw(|frame| view::draw(frame, screen)).unwrap();
    terminal.backend().buffer().clone()
}

fn text(screen: &Screen) -> String {
    let buffer = picture(screen);
    let line = |y| {
        let cells = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned() + "\n"
    };
    (0..buffer.area.height).map(line).collect()
}

/// Compares with the picture that is kept; `UPDATE_EXPECT=1` renews it, and the difference is read.
fn check(name: &str, screen: &Screen) {
    let path = format!("{}/src/top/pictures/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let drawn = text(screen);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &drawn).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert_eq!(drawn, kept, "{name}; renew with UPDATE_EXPECT=1");
}

fn press(screen: &mut Screen, code: KeyCode) {
    screen.press(KeyEvent::from(code));
}

fn types(screen: &mut Screen, letters: &str) {
    letters.chars().for_each(|letter| press(screen, KeyCode::Char(letter)));
}

fn pid_of_chosen(screen: &Screen) -> u32 {
    let entry = chosen(screen).unwrap();
    entry.process().map_or(entry.session().now.apex_pid, |process| process.now.pid)
}

#[test]
fn the_pictures_are_as_they_are_kept() {
    check("80x24", &watched(80, 24));
    check("200x50", &watched(200, 50));
    check("40x10", &watched(40, 10));
    check("empty", &screen(80, 24));
    let mut help = screen(80, 24);
    press(&mut help, KeyCode::Char('?'));
    check("help", &help);
}

#[test]
fn rates_are_differences_of_two_snapshots() {
    let mut screen = screen(80, 24);
    screen.update(vec![snapshot(1, 1)]);
    assert!(text(&screen).contains("not yet known"));
    screen.update(vec![snapshot(2, 1)]);
    let shown = text(&screen);
    assert!(shown.contains("launches/s 3,000") && shown.contains("GPU busy 50 %"), "{shown}");
    // Each process has its own.
    for words in ["1000", "2,000", "40 %", "1001", "1,000", "10 %", "25 %"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(!shown.contains("1002"), "a process that ended is only counted: {shown}");
    // The same snapshot again is no news: the rate stays, until it is too old to be one.
    screen.update(vec![snapshot(2, 1)]);
    assert!(text(&screen).contains("3,000"));
    (0..6).for_each(|_| screen.update(vec![snapshot(2, 1)]));
    assert!(text(&screen).contains("no news"), "{}", text(&screen));
    screen.update(vec![snapshot(3, 1)]);
    assert!(!text(&screen).contains("no news"));
}

#[test]
fn the_curves_are_those_of_the_chosen_row() {
    let mut screen = watched(80, 24);
    assert!(text(&screen).contains("launches/s 3,000"));
    press(&mut screen, KeyCode::Down);
    assert!(text(&screen).contains("launches/s 2,000"), "{}", text(&screen));
    press(&mut screen, KeyCode::Down);
    assert!(text(&screen).contains("launches/s 1,000"));
}

#[test]
fn the_list_scrolls_and_the_chosen_row_stays_in_view() {
    let mut screen = crowded(30);
    let rows = entries(&screen).len();
    assert_eq!(rows, 90);
    let is_in_view = |screen: &Screen| {
        let pid = pid_of_chosen(screen).to_string();
        text(screen).lines().any(|line| line.contains(&format!(" {pid} ")))
    };
    let mut seen = std::collections::HashSet::new();
    for _ in 0..rows {
        assert!(is_in_view(&screen), "{}", text(&screen));
        seen.insert(pid_of_chosen(&screen));
        press(&mut screen, KeyCode::Down);
    }
    assert_eq!(seen.len(), rows);
    let last = pid_of_chosen(&screen);
    for (key, expected) in [(KeyCode::Home, 100), (KeyCode::End, last)] {
        press(&mut screen, key);
        assert_eq!((pid_of_chosen(&screen), is_in_view(&screen)), (expected, true));
    }
    press(&mut screen, KeyCode::PageUp);
    assert!(pid_of_chosen(&screen) != last && is_in_view(&screen));
    let before = screen.tree.chosen;
    press(&mut screen, KeyCode::PageUp);
    press(&mut screen, KeyCode::PageDown);
    assert_eq!(screen.tree.chosen, before);
    // A smaller terminal keeps it in view too.
    screen.resize(Rect::new(0, 0, 80, 8));
    assert!(is_in_view(&screen), "{}", text(&screen));
}

#[test]
fn curves_grow_only_where_no_row_needs_the_room() {
    // Three sessions with two processes each: heading and nine rows, and the least list of kernels.
    let screen = crowded(3);
    let shown = text(&screen);
    for pid in [100, 101, 102, 0, 1, 1000, 1001, 2000, 2001] {
        assert!(shown.contains(&format!(" {pid} ")), "{pid}: {shown}");
    }
    // All are in view, so there is no bar beside them; of more there is.
    assert!(!shown.contains("║"), "{shown}");
    assert!(text(&crowded(9)).contains("║"));
}

#[test]
fn the_kernels_scroll_for_themselves() {
    let mut screen = screen(80, 24);
    let mut many = snapshot(1, 1);
    let kernel =
        |nth| KernelSummary { name: format!("kernel_{nth:02}"), ..KernelSummary::default() };
    many.summary.kernels = (0..40).map(kernel).collect();
    screen.update(vec![many]);
    press(&mut screen, KeyCode::Tab);
    press(&mut screen, KeyCode::End);
    let shown = text(&screen);
    assert!(shown.contains("kernel_39") && !shown.contains("kernel_00"), "{shown}");
    press(&mut screen, KeyCode::Home);
    assert!(text(&screen).contains("kernel_00"));
    assert_eq!(screen.tree.chosen, 0);
}

#[test]
fn the_choice_follows_its_row_and_outlives_it() {
    let mut screen = crowded(3);
    (0..4).for_each(|_| press(&mut screen, KeyCode::Down));
    assert_eq!(pid_of_chosen(&screen), 1000);
    // Another session comes before it.
    let mut other = snapshot(4, 9);
    other.summary.started_unix_ns = 0;
    screen.update([other.clone()].into_iter().chain((0..3).map(|n| snapshot(4, n))).collect());
    assert_eq!(pid_of_chosen(&screen), 1000);
    // The process ends: its session is chosen. The session ends: the row that took its place.
    let mut ended = snapshot(5, 1);
    ended.processes[0].ended_ns = Some(5);
    screen.update(vec![other.clone(), snapshot(5, 0), ended, snapshot(5, 2)]);
    assert_eq!(pid_of_chosen(&screen), 101);
    screen.update(vec![other, snapshot(6, 0), snapshot(6, 2)]);
    assert_eq!(pid_of_chosen(&screen), 102);
    screen.update(Vec::new());
    assert!(text(&screen).contains("apex report 20260101-000000-"), "{}", text(&screen));
}

#[test]
fn the_filter_searches_everything() {
    let mut screen = crowded(3);
    let shown = |screen: &mut Screen, words: &str| {
        press(screen, KeyCode::Esc);
        types(screen, "/");
        types(screen, words);
        press(screen, KeyCode::Enter);
        entries(screen).len()
    };
    // A session with both processes; one process with its session; a session by its kernels alone.
    for (words, rows) in [
        ("20260101-000000-101", 3),
        ("TORCHRUN", 9),
        ("h200", 9),
        ("1001", 2),
        ("rank=1", 6),
        ("/usr/bin/python", 9),
        ("gemm", 3),
        ("nowhere", 0),
    ] {
        assert_eq!(shown(&mut screen, words), rows, "{words}");
    }
    assert!(text(&screen).contains("Nothing contains “nowhere”"), "{}", text(&screen));
    shown(&mut screen, "gemm");
    let picture = text(&screen);
    assert!(picture.contains("gemm<float, 128>") && !picture.contains(" add"), "{picture}");
    // Where the filter means something else, all kernels are shown.
    shown(&mut screen, "h200");
    assert!(text(&screen).contains(" add"));
    press(&mut screen, KeyCode::Esc);
    assert_eq!(entries(&screen).len(), 9);
}

#[test]
fn letters_of_a_filter_are_no_commands() {
    let mut screen = watched(80, 24);
    types(&mut screen, "/q?s");
    assert_eq!((screen.done, screen.help, screen.filter.as_str()), (false, false, "q?s"));
    press(&mut screen, KeyCode::Backspace);
    assert!(text(&screen).contains("filter: q?"), "{}", text(&screen));
    screen.press(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL));
    assert_eq!((screen.filter.as_str(), screen.typing), ("", true));
    screen.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    assert!(screen.done);
}

#[test]
fn q_in_the_help_closes_the_help() {
    for closes in [KeyCode::Char('q'), KeyCode::Esc, KeyCode::Char('?'), KeyCode::Enter] {
        let mut screen = watched(80, 24);
        press(&mut screen, KeyCode::Char('?'));
        assert!(text(&screen).contains("the programs run on"));
        press(&mut screen, closes);
        assert_eq!((screen.help, screen.done), (false, false), "{closes:?}");
        press(&mut screen, KeyCode::Char('q'));
        assert!(screen.done);
    }
}

#[test]
fn sessions_fold_and_both_lists_are_sorted() {
    let mut screen = crowded(2);
    press(&mut screen, KeyCode::Down);
    press(&mut screen, KeyCode::Left);
    assert_eq!((entries(&screen).len(), pid_of_chosen(&screen)), (4, 100));
    assert!(text(&screen).contains("▸ 100"));
    press(&mut screen, KeyCode::Enter);
    assert_eq!(entries(&screen).len(), 6);
    let place = |screen: &Screen, word: &str| text(screen).find(word);
    press(&mut screen, KeyCode::Tab);
    assert!(place(&screen, "gemm<") < place(&screen, " add"));
    press(&mut screen, KeyCode::Char('s'));
    assert!(place(&screen, "gemm<") > place(&screen, " add"), "by calls");
    press(&mut screen, KeyCode::Tab);
    press(&mut screen, KeyCode::Char('s'));
    assert!(text(&screen).contains("GPU now↓"), "{}", text(&screen));
}

#[test]
fn no_size_is_too_small() {
    let mut screens = vec![screen(0, 0), watched(0, 0), crowded(9)];
    let mut typing = watched(0, 0);
    types(&mut typing, "/nowhere");
    let mut help = screen(0, 0);
    press(&mut help, KeyCode::Char('?'));
    screens.extend([typing, help]);
    for screen in &mut screens {
        let sizes =
            [(0, 0), (1, 1), (2, 3), (7, 5), (19, 6), (43, 2), (65, 13), (66, 18), (300, 9)];
        for (width, height) in sizes {
            screen.resize(Rect::new(0, 0, width, height));
            for key in [KeyCode::PageDown, KeyCode::Up, KeyCode::Tab, KeyCode::End] {
                press(screen, key);
            }
            picture(screen);
        }
    }
}

#[test]
fn a_program_cannot_write_to_the_terminal() {
    let mut screen = screen(80, 24);
    let mut hostile = snapshot(1, 1);
    let escape = "\x1b]0;owned\x07\x1b[2J\r\n".to_owned();
    hostile.summary.command = vec![escape.clone()];
    hostile.summary.kernels[0].name.clone_from(&escape);
    hostile.summary.devices[0].name.clone_from(&escape);
    hostile.processes[0].arguments = vec![escape];
    screen.update(vec![hostile]);
    let buffer = picture(&screen);
    assert!(buffer.content.iter().all(|cell| !cell.symbol().contains(char::is_control)));
}

#[test]
fn without_colour_no_cell_has_one() {
    let coloured = |screen: &Screen| {
        let plain =
            |cell: &ratatui::buffer::Cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset);
        picture(screen).content.iter().any(|cell| !plain(cell))
    };
    let mut screen = watched(80, 24);
    assert!(coloured(&screen));
    let with = text(&screen);
    screen.colour = false;
    assert!(!coloured(&screen));
    assert_eq!(text(&screen), with);
    press(&mut screen, KeyCode::Char('?'));
    assert!(!coloured(&screen));
}
