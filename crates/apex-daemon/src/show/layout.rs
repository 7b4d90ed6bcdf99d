//! How a report is laid out: its width, and whether it has colour.

use crate::palette::Tone;

/// How a report is laid out.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Characters of a line.
    pub width: usize,
    /// Emphasise with colour.
    pub colour: bool,
}

impl Layout {
    pub(super) fn paint(self, tone: Tone, text: &str) -> String {
        tone.paint(text, self.colour)
    }
}
