//! Where each part stands on a terminal of any size.
//!
//! The tree is what a user came for: it is there on the smallest terminal. Kernels, the particulars of the chosen
//! session and the curves follow as there is room, and what no list needs makes the curves higher.

use super::rows::{chosen, entries, kernels};
use super::screen::Screen;
use ratatui::layout::Rect;

/// Lines about the chosen session.
const DETAILS: u16 = 3;
/// A heading and three rows: with less, a list of kernels says nothing.
const LEAST_LIST: u16 = 4;

/// The parts of the screen; one that has no room is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Areas {
    pub(super) title: Rect,
    pub(super) curves: Rect,
    pub(super) tree: Rect,
    pub(super) details: Rect,
    pub(super) kernels: Rect,
    pub(super) foot: Rect,
}

impl Areas {
    pub(super) fn of(screen: &Screen) -> Areas {
        let height = screen.area.height;
        let foot = u16::from(height > 2);
        let title = u16::from(height > 5);
        let rest = height - foot - title;
        let details = if rest >= 12 { DETAILS } else { 0 };
        let rows = |count: usize| u16::try_from(count).unwrap_or(u16::MAX).saturating_add(1);
        let wanted = rows(entries(screen).len());
        let shown = chosen(screen).map_or(0, |entry| kernels(screen, entry.session()).len());
        let listed = rows(shown).max(LEAST_LIST);
        let spare = rest.saturating_sub(wanted.saturating_add(listed).saturating_add(details));
        let curves = match rest {
            ..16 => 0,
            rest => spare.clamp((rest / 5).max(3), rest / 3),
        };
        let lists = rest - curves - details;
        let for_kernels = match lists {
            ..8 => 0,
            // At least half is the tree's, if it wants it; what it leaves is for the kernels.
            lists => lists.saturating_sub(wanted).max(listed.min(lists / 2)),
        };
        let mut y = screen.area.y;
        let mut next = |height: u16| {
            let area = Rect { y, height, ..screen.area };
            y += height;
            area
        };
        let (title, curves) = (next(title), next(curves));
        let (tree, details) = (next(lists - for_kernels), next(details));
        let (kernels, foot) = (next(for_kernels), next(foot));
        Areas { title, curves, tree, details, kernels, foot }
    }

    /// Rows of a list below its heading.
    pub(super) fn rows(area: Rect) -> usize {
        usize::from(area.height.saturating_sub(1))
    }
}
