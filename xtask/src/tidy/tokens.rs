//! Rust source as words and marks, without comments, texts and what is compiled for tests only.
//!
//! Enough to see which names a file uses and whether it contains `unsafe`; no more is understood of the language.

/// A piece of source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name, a keyword or a number.
    Word(String),
    /// A sign of punctuation; `::` comes as two.
    Mark(char),
}

/// A token and the line it stands on, from 1.
pub(super) type Placed = (Token, usize);

/// All tokens of a source.
pub(super) fn tokens(source: &str) -> Vec<Placed> {
    let letters: Vec<char> = source.chars().collect();
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while let Some(&letter) = letters.get(at) {
        let end = match letter {
            '/' if letters.get(at + 1) == Some(&'/') => line_end(&letters, at),
            '/' if letters.get(at + 1) == Some(&'*') => comment_end(&letters, at),
            '"' => text_end(&letters, at + 1),
            '\'' => quote_end(&letters, at),
            _ if is_word(letter) => word_end(&letters, at),
            _ => at + 1,
        };
        if is_word(letter) {
            let word: String = letters[at..end].iter().collect();
            match prefixed_text_end(&letters, &word, end) {
                Some(end) => {
                    line += breaks(&letters[at..end]);
                    at = end;
                    continue;
                }
                None => found.push((Token::Word(word), line)),
            }
        } else if end == at + 1 && !letter.is_whitespace() {
            found.push((Token::Mark(letter), line));
        }
        line += breaks(&letters[at..end]);
        at = end;
    }
    found
}

/// The same without items and modules that stand behind `#[cfg(test)]`, and the names of such modules that have files of
/// their own.
pub(super) fn without_tests(tokens: &[Placed]) -> (Vec<Placed>, Vec<String>) {
    let mut kept = Vec::new();
    let mut modules = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_attribute = is_mark(tokens, at, '#') && is_mark(tokens, at + 1, '[');
        if !is_attribute || !is_for_tests(tokens, at + 2) {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        // Further attributes, then the item.
        let mut item = at;
        while is_mark(tokens, item, '#') {
            item = group_end(tokens, item + 1);
        }
        let end = item_end(tokens, item);
        let words = tokens[item..end].iter().filter_map(|(token, _)| match token {
            Token::Word(word) => Some(word.as_str()),
            Token::Mark(_) => None,
        });
        let mut words = words.skip_while(|word| *word != "mod").skip(1);
        if let (Some(name), None) = (words.next(), words.next()) {
            modules.push(name.to_owned());
        }
        at = end;
    }
    (kept, modules)
}

/// Whether the attribute whose words begin here is `cfg(test)` or `cfg(all(test, …))`.
fn is_for_tests(tokens: &[Placed], at: usize) -> bool {
    let word = |nth: usize| match tokens.get(at + nth) {
        Some((Token::Word(word), _)) => word.as_str(),
        _ => "",
    };
    word(0) == "cfg" && (word(2) == "test" || (word(2) == "all" && word(4) == "test"))
}

/// After the group in brackets that begins at `at`.
fn group_end(tokens: &[Placed], at: usize) -> usize {
    let mut depth = 0;
    for (nth, (token, _)) in tokens.iter().enumerate().skip(at) {
        match token {
            Token::Mark('(' | '[' | '{') => depth += 1,
            Token::Mark(')' | ']' | '}') => {
                depth -= 1;
                if depth == 0 {
                    return nth + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// After the item that begins at `at`: its semicolon, or its body.
fn item_end(tokens: &[Placed], mut at: usize) -> usize {
    while let Some((token, _)) = tokens.get(at) {
        match token {
            Token::Mark(';') => return at + 1,
            Token::Mark('{') => {
                let end = group_end(tokens, at);
                return if is_mark(tokens, end, ';') { end + 1 } else { end };
            }
            Token::Mark('(' | '[') => at = group_end(tokens, at),
            _ => at += 1,
        }
    }
    at
}

pub(super) fn is_mark(tokens: &[Placed], at: usize, mark: char) -> bool {
    tokens.get(at).is_some_and(|(token, _)| *token == Token::Mark(mark))
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn breaks(letters: &[char]) -> usize {
    letters.iter().filter(|letter| **letter == '\n').count()
}

fn line_end(letters: &[char], at: usize) -> usize {
    letters[at..].iter().position(|letter| *letter == '\n').map_or(letters.len(), |far| at + far)
}

fn word_end(letters: &[char], at: usize) -> usize {
    letters[at..].iter().position(|letter| !is_word(*letter)).map_or(letters.len(), |far| at + far)
}

fn comment_end(letters: &[char], mut at: usize) -> usize {
    let mut depth = 0;
    while at < letters.len() {
        match letters[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// After the text whose first letter stands at `at`.
fn text_end(letters: &[char], mut at: usize) -> usize {
    while let Some(letter) = letters.get(at) {
        match letter {
            '"' => return at + 1,
            '\\' => at += 2,
            _ => at += 1,
        }
    }
    letters.len()
}

/// After a letter in quotes; of a lifetime, after its name.
fn quote_end(letters: &[char], at: usize) -> usize {
    match (letters.get(at + 1), letters.get(at + 2)) {
        (Some('\\'), _) => {
            let close = letters.iter().skip(at + 3).position(|letter| *letter == '\'');
            close.map_or(letters.len(), |far| at + 4 + far)
        }
        (Some(_), Some('\'')) => at + 3,
        _ => word_end(letters, at + 1).max(at + 1),
    }
}

/// After the text that a word such as `r`, `b` or `cr` begins, if it begins one.
fn prefixed_text_end(letters: &[char], word: &str, end: usize) -> Option<usize> {
    if !["r", "b", "c", "br", "cr"].contains(&word) {
        return None;
    }
    let hashes = letters[end..].iter().take_while(|letter| **letter == '#').count();
    let open = end + hashes;
    if letters.get(open) != Some(&'"') || (hashes > 0 && !word.ends_with('r')) {
        return None;
    }
    if !word.ends_with('r') {
        return Some(text_end(letters, open + 1));
    }
    let closes = |at: &usize| {
        letters[*at] == '"'
            && letters[at + 1..].iter().take(hashes).filter(|it| **it == '#').count() == hashes
    };
    let close = (open + 1..letters.len()).find(closes)?;
    Some(close + 1 + hashes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> String {
        shown(&tokens(source))
    }

    fn shown(tokens: &[Placed]) -> String {
        let word = |(token, _): &Placed| match token {
            Token::Word(word) => word.clone(),
            Token::Mark(mark) => mark.to_string(),
        };
        tokens.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_texts_are_no_code() {
        assert_eq!(words("a // unsafe\nb /* c /* d */ e */ f"), "a b f");
        assert_eq!(words(r##"x("unsafe \" {", r#"un"safe"#, b"q", c"z") y"##), "x ( , , , ) y");
        assert_eq!(words(r"f('{', '\'', '\u{7b}', &'a b, 'static)"), "f ( , , , & b , )");
    }

    #[test]
    fn a_token_knows_its_line() {
        let lines: Vec<usize> = tokens("a\n\"x\ny\"\nb").iter().map(|(_, line)| *line).collect();
        assert_eq!(lines, [1, 4]);
    }

    #[test]
    fn what_is_for_tests_is_left_out() {
        let source = "use a; #[cfg(test)] use b::{c}; #[cfg(test)] mod tests; fn f() {} \
                      #[cfg(all(test, unix))] #[allow(x)] mod more { fn g() {} } #[cfg(unix)] fn h() {}";
        let (kept, modules) = without_tests(&tokens(source));
        assert_eq!(shown(&kept), "use a ; fn f ( ) { } # [ cfg ( unix ) ] fn h ( ) { }");
        assert_eq!(modules, ["tests"]);
    }
}
