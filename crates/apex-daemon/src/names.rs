//! Kernel names as people read them.
//!
//! C++ and Rust names are demangled; a name that cannot be demangled is shown as it is. For a column
//! of a table, arguments go first, then namespaces, then the end: the function's own name is what a
//! reader knows it by, and its first template arguments tell it from its sisters.

use std::collections::HashMap;
use std::fmt::Write;

use cpp_demangle::DemangleOptions;

/// The most bytes of a demangled name. Names repeat their parts by number, so a short one can stand
/// for gigabytes; the longest of real libraries have some ten thousand.
const LONGEST: usize = 1 << 16;

/// The demangled name.
#[must_use]
pub fn demangle(mangled: &str) -> String {
    let mut name = Bounded(String::new());
    if let Ok(symbol) = rustc_demangle::try_demangle(mangled) {
        return match write!(name, "{symbol:#}") {
            Ok(()) => name.0,
            Err(_) => mangled.to_owned(),
        };
    }
    // The demangler recurses with the name's own nesting; a hostile name must not take the stack.
    if mangled.starts_with("_Z")
        && mangled.len() < 16_384
        && let Ok(symbol) = cpp_demangle::Symbol::new(mangled)
        && symbol.structured_demangle(&mut name, &DemangleOptions::new()).is_ok()
    {
        return name.0;
    }
    mangled.to_owned()
}

/// A text that takes no more than [`LONGEST`]: who writes on gets an error, and ends.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.0.len() + text.len() > LONGEST {
            return Err(std::fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Demangled names, each worked out once.
#[derive(Debug, Default)]
pub struct Demangled(HashMap<String, String>);

impl Demangled {
    /// The demangled name.
    pub fn name(&mut self, mangled: &str) -> &str {
        if !self.0.contains_key(mangled) {
            self.0.insert(mangled.to_owned(), demangle(mangled));
        }
        &self.0[mangled]
    }
}

/// The name in at most `width` characters.
#[must_use]
pub fn shorten(name: &str, width: usize) -> String {
    let plain = without_groups(name, '(', ')');
    let plain = plain.strip_prefix("void ").unwrap_or(&plain).trim();
    if plain.chars().count() <= width {
        return plain.to_owned();
    }
    let unqualified = without_namespaces(plain);
    if unqualified.chars().count() <= width {
        return unqualified;
    }
    unqualified.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Leaves out every `name::` before a name.
fn without_namespaces(name: &str) -> String {
    let mut kept = String::new();
    let mut word = 0;
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == ':' && letters.peek() == Some(&':') {
            letters.next();
            kept.truncate(word);
        } else {
            kept.push(letter);
            if !letter.is_alphanumeric() && letter != '_' {
                word = kept.len();
            }
        }
    }
    kept
}

/// Leaves out what stands between the outermost pairs. `(anonymous namespace)` is part of a name.
fn without_groups(name: &str, open: char, close: char) -> String {
    let name = name.replace("(anonymous namespace)::", "");
    let mut depth = 0_usize;
    let mut kept = String::new();
    let mut previous = ' ';
    for letter in name.chars() {
        // `->` and `operator<` are no brackets.
        if letter == open && !kept.ends_with("operator") {
            depth += 1;
        } else if letter == close && depth > 0 && previous != '-' {
            depth -= 1;
        } else if depth == 0 {
            kept.push(letter);
        }
        previous = letter;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mangled: &str, width: usize, expected: &str) {
        assert_eq!(shorten(&demangle(mangled), width), expected);
    }

    #[test]
    fn names_are_demangled_and_shortened() {
        check("_Z5saxpyifPfS_", 40, "saxpy");
        check("triton_poi_fused_add_0", 40, "triton_poi_fused_add_0");
        check("_ZN2at6native4copyIfEEvPT_", 40, "at::native::copy<float>");
        check("_ZN2at6native4copyIfEEvPT_", 16, "copy<float>");
        check("_ZN2at6native4copyIfEEvPT_", 8, "copy<fl…");
        check("_ZN12_GLOBAL__N_14workEv", 40, "work");
        check("a_very_long_name_that_does_not_fit", 16, "a_very_long_nam…");
        check("_Zbroken", 40, "_Zbroken");
    }

    /// Each class is a pair of the one before it, named by numbers: what it stands for doubles, while
    /// the name grows by some letters.
    fn doubled(levels: usize) -> String {
        const DIGITS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        // What a class is repeated as: `S_`, `S0_`, `S1_`; each takes two numbers, bare and with arguments.
        let number = |level: usize| match 2 * level + 1 {
            1 => "S0_".to_owned(),
            place if place <= 36 => format!("S{}_", DIGITS[place - 1] as char),
            place => {
                let place = place - 1;
                format!("S{}{}_", DIGITS[place / 36] as char, DIGITS[place % 36] as char)
            }
        };
        let mut name = "_Z1f1aIiiE".to_owned();
        for level in 0..levels {
            let class = char::from(b'b' + (level % 24) as u8);
            let below = number(level);
            name.push_str(&format!("1{class}I{below}{below}E"));
        }
        name
    }

    #[test]
    fn names_that_stand_for_too_much_are_left_as_they_are() {
        assert_eq!(demangle(&doubled(1)), "f(a<int, int>, b<a<int, int>, a<int, int> >)");
        let name = doubled(6);
        assert!(demangle(&name).len() > 1000, "{}", demangle(&name));
        for levels in [16, 24] {
            let name = doubled(levels);
            assert!(name.len() < 300);
            assert_eq!(demangle(&name), name);
        }
    }
}
