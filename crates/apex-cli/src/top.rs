//! `apex top`: the running sessions of this user, twice a second.
//!
//! It reads the snapshots that each `apex run` leaves beside its rings, so it needs no connection to the
//! programs and costs them nothing. Rates are differences of two snapshots. The keys change only the
//! [`Screen`]; what is drawn follows from it alone, which is how it is tested.

mod view;

use crate::arguments::Top;
use crate::place::Place;
use crate::{print_page, say};
use apex_daemon::live::{INTERVAL, Snapshot, snapshots};
use apex_daemon::summary::SCHEMA;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use std::collections::HashMap;
use std::io::IsTerminal;
use std::process::ExitCode;

pub(crate) fn top(arguments: &Top) -> anyhow::Result<ExitCode> {
    let place = Place::of_this_user();
    if arguments.json {
        let document = serde_json::json!({"schema": SCHEMA, "sessions": snapshots(&place.rings)});
        return print_page((serde_json::to_string_pretty(&document)? + "\n").as_bytes());
    }
    if !std::io::stdout().is_terminal() {
        say("top needs a terminal; `apex top --json` prints what runs now");
        return Ok(ExitCode::FAILURE);
    }
    let mut terminal = ratatui::try_init()?;
    let mut screen = Screen::default();
    let done = loop {
        screen.update(snapshots(&place.rings));
        if let Err(error) = terminal.draw(|frame| view::draw(frame, &screen)) {
            break Err(error);
        }
        match next_key() {
            Ok(Some(key)) => screen.press(key),
            Ok(None) => {}
            Err(error) => break Err(error),
        }
        if screen.done {
            break Ok(());
        }
    };
    ratatui::restore();
    done?;
    Ok(ExitCode::SUCCESS)
}

fn next_key() -> std::io::Result<Option<KeyCode>> {
    if !event::poll(INTERVAL)? {
        return Ok(None);
    }
    Ok(match event::read()? {
        Event::Key(key) if key.kind == KeyEventKind::Press => {
            let interrupt =
                key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            Some(if interrupt { KeyCode::Char('q') } else { key.code })
        }
        _ => None,
    })
}

/// The order of the kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sort {
    #[default]
    Time,
    Calls,
    Mean,
    Name,
}

impl Sort {
    fn next(self) -> Sort {
        match self {
            Sort::Time => Sort::Calls,
            Sort::Calls => Sort::Mean,
            Sort::Mean => Sort::Name,
            Sort::Name => Sort::Time,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Sort::Time => "time",
            Sort::Calls => "calls",
            Sort::Mean => "mean",
            Sort::Name => "name",
        }
    }
}

/// Everything that decides what is drawn.
#[derive(Debug, Default)]
struct Screen {
    sessions: Vec<Watched>,
    chosen: usize,
    sort: Sort,
    filter: String,
    typing: bool,
    help: bool,
    done: bool,
}

/// A session with what it did since the snapshot before.
#[derive(Clone, Debug)]
struct Watched {
    now: Snapshot,
    kernels_per_second: Option<f64>,
    recent_busy: Option<f64>,
}

impl Screen {
    fn update(&mut self, snapshots: Vec<Snapshot>) {
        let mut before: HashMap<String, Watched> =
            self.sessions.drain(..).map(|w| (w.now.summary.session.clone(), w)).collect();
        for now in snapshots {
            let watched = match before.remove(&now.summary.session) {
                Some(old) if old.now.at_ns == now.at_ns => old,
                old => Watched::since(old.map(|old| old.now).as_ref(), now),
            };
            self.sessions.push(watched);
        }
        self.chosen = self.chosen.min(self.sessions.len().saturating_sub(1));
    }

    fn press(&mut self, key: KeyCode) {
        if self.typing {
            match key {
                KeyCode::Char(letter) => self.filter.push(letter),
                KeyCode::Backspace => {
                    self.filter.pop();
                }
                KeyCode::Esc => {
                    self.filter.clear();
                    self.typing = false;
                }
                KeyCode::Enter => self.typing = false,
                _ => {}
            }
            return;
        }
        match key {
            KeyCode::Char('q') => self.done = true,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('?') => self.help = !self.help,
            KeyCode::Esc => {
                self.filter.clear();
                self.help = false;
            }
            KeyCode::Tab | KeyCode::Down => {
                self.chosen = (self.chosen + 1) % self.sessions.len().max(1);
            }
            KeyCode::Up => self.chosen = self.chosen.saturating_sub(1),
            _ => {}
        }
    }
}

impl Watched {
    fn since(before: Option<&Snapshot>, now: Snapshot) -> Watched {
        let span = before.map_or(0, |before| now.at_ns.saturating_sub(before.at_ns)) as f64;
        let rate = |after: u64, before: u64| after.saturating_sub(before) as f64 / span;
        let timed = span > 0.0;
        let kernel_ns = |snapshot: &Snapshot| Some(snapshot.summary.gpu_busy.as_ref()?.kernel_ns);
        let before = before.filter(|_| timed);
        let kernels_per_second = before.map(|before| {
            rate(now.summary.kernels_executed, before.summary.kernels_executed) * 1e9
        });
        let recent_busy =
            before.and_then(|before| Some(rate(kernel_ns(&now)?, kernel_ns(before)?).min(1.0)));
        Watched { now, kernels_per_second, recent_busy }
    }
}

#[cfg(test)]
mod tests;
