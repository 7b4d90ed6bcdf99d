//! Kernel names as people read them.
//!
//! C++ and Rust names are demangled; a name that cannot be demangled is shown as it is. For a column
//! of a table, arguments go first, then namespaces, then the end: the function's own name is what a
//! reader knows it by, and its first template arguments tell it from its sisters.

use std::collections::HashMap;

/// The demangled name.
#[must_use]
pub fn demangle(mangled: &str) -> String {
    if let Ok(name) = rustc_demangle::try_demangle(mangled) {
        return format!("{name:#}");
    }
    // The demangler recurses with the name's own nesting; a hostile name must not take the stack.
    if mangled.starts_with("_Z")
        && mangled.len() < 16_384
        && let Ok(symbol) = cpp_demangle::Symbol::new(mangled)
        && let Ok(name) = symbol.demangle()
    {
        return name;
    }
    mangled.to_owned()
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
}
