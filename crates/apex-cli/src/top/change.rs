//! How keys and snapshots change the screen.
//!
//! Nothing here reads a file, a clock or the terminal: the same keys on the same snapshots give the same screen,
//! which is how it is tested. After each change the chosen row is looked for again by its name, because rows come,
//! go and change places; then it is scrolled into view.

use super::areas::Areas;
use super::rows::{Entry, chosen, entries, kernels};
use super::screen::{Chosen, Focus, Screen, Window};
use apex_daemon::live::{INTERVAL, Snapshot};
use apex_daemon::watch::{WatchedSession, follow};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;
use std::collections::HashSet;

impl Screen {
    /// Takes in what the running sessions say now.
    pub(super) fn update(&mut self, snapshots: Vec<Snapshot>) {
        let ended = follow(&mut self.sessions, snapshots, INTERVAL);
        self.ended = ended.or(self.ended.take());
        self.settle();
    }

    /// The terminal has this size from here on.
    pub(super) fn resize(&mut self, area: Rect) {
        self.area = area;
        self.settle();
    }

    /// What a key does.
    pub(super) fn press(&mut self, key: KeyEvent) {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => self.done = true,
            code if self.help => {
                let closes = ['q', '?', 'h'].map(KeyCode::Char);
                let others = [KeyCode::Esc, KeyCode::Enter, KeyCode::F(1)];
                self.help = !closes.contains(&code) && !others.contains(&code);
            }
            code if self.moves(code) => {}
            code if self.typing => self.type_filter(code, control),
            _ if control => {}
            code => self.command(code),
        }
        self.settle();
    }

    fn command(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char('q') => self.done = true,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.help = true,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('s') if self.focus == Focus::Kernels => self.sort = self.sort.next(),
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Tab | KeyCode::BackTab => self.focus = self.focus.other(),
            KeyCode::Enter | KeyCode::Char(' ') => self.fold(None),
            KeyCode::Left => self.fold(Some(true)),
            KeyCode::Right => self.fold(Some(false)),
            KeyCode::Esc => self.filter.clear(),
            _ => {}
        }
    }

    fn type_filter(&mut self, code: KeyCode, control: bool) {
        match code {
            KeyCode::Char('u') if control => self.filter.clear(),
            KeyCode::Char(letter) if !control => self.filter.push(letter),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Esc => {
                self.filter.clear();
                self.typing = false;
            }
            KeyCode::Enter => self.typing = false,
            _ => {}
        }
    }

    /// Moves within the list that has the focus; whether the key is one that moves.
    fn moves(&mut self, code: KeyCode) -> bool {
        let areas = Areas::of(self);
        let (area, rows) = match self.focus {
            Focus::Tree => (areas.tree, entries(self).len()),
            Focus::Kernels => (areas.kernels, self.kernel_rows()),
        };
        let page = Areas::rows(area).max(1);
        let window = match self.focus {
            Focus::Tree => &mut self.tree,
            Focus::Kernels => &mut self.kernels,
        };
        let last = rows.saturating_sub(1);
        window.chosen = match code {
            KeyCode::Up => window.chosen.saturating_sub(1),
            KeyCode::Down => (window.chosen + 1).min(last),
            KeyCode::PageUp => window.chosen.saturating_sub(page),
            KeyCode::PageDown => (window.chosen + page).min(last),
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => return false,
        };
        if self.focus == Focus::Tree && rows > 0 {
            self.choose_row();
        }
        true
    }

    /// Folds or unfolds the chosen session; `None` does what it is not.
    fn fold(&mut self, fold: Option<bool>) {
        if self.focus == Focus::Kernels {
            return;
        }
        let id = self.chosen.session.clone();
        if fold.unwrap_or(!self.folded.contains(&id)) {
            self.folded.insert(id);
            self.chosen.process = None;
        } else {
            self.folded.remove(&id);
        }
    }

    /// Takes the row under the cursor for the chosen one.
    fn choose_row(&mut self) {
        let chosen = entries(self).get(self.tree.chosen).map(chosen_by);
        let session_before = self.chosen.session.clone();
        self.chosen = chosen.unwrap_or_default();
        if self.chosen.session != session_before {
            self.kernels = Window::default();
        }
    }

    /// Finds the chosen row where it is now. A process that ended leaves its session chosen, and a session that
    /// ended the row that took its place.
    fn settle(&mut self) {
        let rows: Vec<Chosen> = entries(self).iter().map(chosen_by).collect();
        let of_session = Chosen { process: None, ..self.chosen.clone() };
        let find = |wanted: &Chosen| rows.iter().position(|row| row == wanted);
        let count = rows.len();
        let found = find(&self.chosen).or_else(|| find(&of_session));
        self.tree.chosen = found.unwrap_or(self.tree.chosen).min(count.saturating_sub(1));
        // While a filter hides everything, what was chosen is kept for the time after it.
        if count > 0 {
            self.choose_row();
        }
        let ids: HashSet<&str> = self.sessions.iter().map(WatchedSession::id).collect();
        self.folded.retain(|id| ids.contains(id.as_str()));
        let kernels = self.kernel_rows();
        self.kernels.chosen = self.kernels.chosen.min(kernels.saturating_sub(1));
        let areas = Areas::of(self);
        self.tree.show(count, Areas::rows(areas.tree));
        self.kernels.show(kernels, Areas::rows(areas.kernels));
    }

    fn kernel_rows(&self) -> usize {
        chosen(self).map_or(0, |entry| kernels(self, entry.session()).len())
    }
}

fn chosen_by(entry: &Entry<'_>) -> Chosen {
    let process = entry.process().map(|process| process.now.number);
    Chosen { session: entry.session().id().to_owned(), process }
}
