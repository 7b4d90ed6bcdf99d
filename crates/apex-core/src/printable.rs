//! Shows foreign text as text: names of kernels, commands, paths, whatever apex did not write itself.
//!
//! A terminal obeys some characters instead of showing them: one name may clear the screen, change its title, or turn
//! round what follows. These are written as escapes of Rust; everything else stays as it is.

use std::borrow::Cow;

/// The text with every character escaped that a terminal would obey. A line may still end, and a tab stay.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if is_obeyed(letter) {
            shown.extend(letter.escape_unicode());
        } else {
            shown.push(letter);
        }
    }
    Cow::Owned(shown)
}

/// Control characters, and those that change the direction of writing.
fn is_obeyed(letter: char) -> bool {
    let turns = matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (letter.is_control() && !matches!(letter, '\n' | '\t'))
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        for (text, shown) in [
            ("plain µs\n\tline", "plain µs\n\tline"),
            ("\x1b[2Jgone", "\\u{1b}[2Jgone"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("a\rb\x07\x7f", "a\\u{d}b\\u{7}\\u{7f}"),
            ("turned\u{202e}round", "turned\\u{202e}round"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }
}
