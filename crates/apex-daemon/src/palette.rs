//! What colours mean: every coloured text asks here by meaning, so that a warning looks alike everywhere.
//!
//! A tone adds to words and never stands in their place: who reads a file, or refuses colour, misses nothing. The
//! colours are the terminal's own sixteen, because a reader has chosen those to be legible on his background.

/// A meaning that a text may have beside its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Nothing special.
    Plain,
    /// What to read first.
    Strong,
    /// What can be passed over.
    Faint,
    /// As it should be.
    Good,
    /// Something is lost, or close to a limit.
    Warning,
    /// Something failed.
    Bad,
    /// A part of the picture itself: titles, keys, one of two curves.
    Accent,
}

impl Tone {
    /// All tones.
    pub const ALL: [Tone; 7] = [
        Tone::Plain,
        Tone::Strong,
        Tone::Faint,
        Tone::Good,
        Tone::Warning,
        Tone::Bad,
        Tone::Accent,
    ];

    /// Number of its colour in the terminal's palette; the text's own where there is none.
    #[must_use]
    pub fn colour(self) -> Option<u8> {
        match self {
            Tone::Plain | Tone::Strong | Tone::Faint => None,
            Tone::Bad => Some(1),
            Tone::Good => Some(2),
            Tone::Warning => Some(3),
            Tone::Accent => Some(6),
        }
    }

    /// How strong a share is said: large ones stand out, small ones step back.
    #[must_use]
    pub fn of_share(share: f64) -> Tone {
        match share {
            share if share >= 0.1 => Tone::Strong,
            share if share < 0.01 => Tone::Faint,
            _ => Tone::Plain,
        }
    }

    /// The text in this tone for a terminal; the text alone where `colour` is refused.
    #[must_use]
    pub fn paint(self, text: &str, colour: bool) -> String {
        let code = match (self, self.colour()) {
            (_, Some(number)) => 30 + number,
            (Tone::Strong, None) => 1,
            (Tone::Faint, None) => 2,
            (_, None) => return text.to_owned(),
        };
        if colour && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_tone_leaves_the_text_as_it_is() {
        for tone in Tone::ALL {
            assert_eq!(tone.paint("text", false), "text");
            assert_eq!(tone.paint("", true), "");
        }
    }

    #[test]
    fn each_tone_ends_what_it_begins() {
        assert_eq!(Tone::Plain.paint("text", true), "text");
        assert_eq!(Tone::Strong.paint("text", true), "\x1b[1mtext\x1b[0m");
        assert_eq!(Tone::Faint.paint("text", true), "\x1b[2mtext\x1b[0m");
        assert_eq!(Tone::Bad.paint("text", true), "\x1b[31mtext\x1b[0m");
        assert_eq!(Tone::Warning.paint("text", true), "\x1b[33mtext\x1b[0m");
    }

    #[test]
    fn a_share_is_said_as_strongly_as_it_is_large() {
        let tones = [0.5, 0.1, 0.05, 0.009].map(Tone::of_share);
        assert_eq!(tones, [Tone::Strong, Tone::Strong, Tone::Plain, Tone::Faint]);
    }
}
