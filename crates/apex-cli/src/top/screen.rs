//! Everything that decides what is drawn.
//!
//! It is data alone; [`super::change`] says how keys and snapshots change it, [`super::rows`] which rows follow from it.

use apex_daemon::watch::WatchedSession;
use ratatui::layout::Rect;
use std::collections::HashSet;

/// The order of the kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Time,
    Calls,
    Mean,
    Name,
}

/// The order of sessions, and of the processes of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    #[default]
    Start,
    Gpu,
    Launches,
    Memory,
    Waiting,
}

/// The list that the keys move in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Focus {
    #[default]
    Tree,
    Kernels,
}

/// A row of the tree by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) session: String,
    pub(super) process: Option<u32>,
}

/// A list that scrolls: the chosen row and the first one in view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) chosen: usize,
    pub(super) first: usize,
}

/// What is shown and how.
#[derive(Debug, Default)]
pub(super) struct Screen {
    pub(super) sessions: Vec<WatchedSession>,
    pub(super) chosen: Chosen,
    pub(super) tree: Window,
    pub(super) kernels: Window,
    pub(super) focus: Focus,
    pub(super) folded: HashSet<String>,
    pub(super) order: Order,
    pub(super) sort: Sort,
    pub(super) filter: String,
    pub(super) typing: bool,
    pub(super) help: bool,
    pub(super) done: bool,
    /// The session that ended last.
    pub(super) ended: Option<String>,
    pub(super) area: Rect,
    pub(super) colour: bool,
}

impl Window {
    /// Scrolls as little as is needed for the chosen row to be in view, and leaves no room empty.
    pub(super) fn show(&mut self, rows: usize, height: usize) {
        let most = rows.saturating_sub(height);
        let least = (self.chosen + 1).saturating_sub(height.max(1));
        self.first = self.first.clamp(least, self.chosen.max(least)).min(most.max(least));
    }
}

impl Sort {
    pub(super) fn next(self) -> Sort {
        match self {
            Sort::Time => Sort::Calls,
            Sort::Calls => Sort::Mean,
            Sort::Mean => Sort::Name,
            Sort::Name => Sort::Time,
        }
    }
}

impl Order {
    pub(super) fn next(self) -> Order {
        match self {
            Order::Start => Order::Gpu,
            Order::Gpu => Order::Launches,
            Order::Launches => Order::Memory,
            Order::Memory => Order::Waiting,
            Order::Waiting => Order::Start,
        }
    }
}

impl Focus {
    pub(super) fn other(self) -> Focus {
        match self {
            Focus::Tree => Focus::Kernels,
            Focus::Kernels => Focus::Tree,
        }
    }
}
