//! Cuts PTX text into tokens.
//!
//! A dot belongs to the word behind it: `.global`, `.2d` and `.L2::cache_hint` are one token
//! each, wherever the blanks are, so directives and modifiers need no rules of their own. A
//! character that no PTX has becomes a token too, and the parser says where it met it: text in
//! a `.section` is kept as it is and may hold anything.

use crate::error::SyntaxError;

/// What a token is. Operators of two letters have their own kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `%r1`, `ld`, `$L__BB0_1`, `_`.
    Word,
    /// `.global`: the dot included.
    Dotted,
    /// `12`, `0x1F`, `0f3F800000`, `1.5e3`, `8.5`.
    Number,
    /// `"text"`: the quotes included.
    Text,
    /// One character.
    Sign(u8),
    /// `<<`
    ShiftLeft,
    /// `>>`
    ShiftRight,
    /// `<=`
    LessEqual,
    /// `>=`
    GreaterEqual,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `&&`
    And,
    /// `||`
    Or,
    /// The end of the text.
    End,
}

/// A token and where it stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) line: u32,
}

/// Cuts the whole text; the last token is [`Kind::End`].
pub(crate) fn lex(text: &str) -> Result<Vec<Token>, SyntaxError> {
    if u32::try_from(text.len()).is_err() {
        let message = "the text is longer than 4 GiB".to_string();
        return Err(SyntaxError { line: 1, column: 1, message });
    }
    let mut lexer = Lexer { bytes: text.as_bytes(), at: 0, line: 1 };
    let mut tokens = Vec::with_capacity(text.len() / 4);
    loop {
        lexer.skip_blanks()?;
        let token = lexer.token()?;
        tokens.push(token);
        if token.kind == Kind::End {
            return Ok(tokens);
        }
    }
}

/// The column of a byte offset, from 1.
pub(crate) fn column(text: &str, offset: usize) -> u32 {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    (before.len() - line_start) as u32 + 1
}

struct Lexer<'text> {
    bytes: &'text [u8],
    at: usize,
    line: u32,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn skip_blanks(&mut self) -> Result<(), SyntaxError> {
        loop {
            match self.peek(0) {
                b'\n' => {
                    self.line += 1;
                    self.at += 1;
                }
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.at += 1,
                b'/' if self.peek(1) == b'/' => {
                    let rest = &self.bytes[self.at..];
                    self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                }
                b'/' if self.peek(1) == b'*' => self.skip_block_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn skip_block_comment(&mut self) -> Result<(), SyntaxError> {
        let (start, line) = (self.at, self.line);
        self.at += 2;
        while self.at < self.bytes.len() {
            if self.peek(0) == b'*' && self.peek(1) == b'/' {
                self.at += 2;
                return Ok(());
            }
            self.line += u32::from(self.peek(0) == b'\n');
            self.at += 1;
        }
        Err(self.error(start, line, "this comment is never closed"))
    }

    fn token(&mut self) -> Result<Token, SyntaxError> {
        let (start, line) = (self.at, self.line);
        let kind = if start == self.bytes.len() { Kind::End } else { self.kind()? };
        Ok(Token { kind, start: start as u32, end: self.at as u32, line })
    }

    fn kind(&mut self) -> Result<Kind, SyntaxError> {
        let first = self.peek(0);
        Ok(match first {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' => self.word(),
            b'%' if is_word(self.peek(1)) => self.word(),
            b'0'..=b'9' => self.number(),
            b'.' if is_word(self.peek(1)) => self.dotted(),
            b'"' => self.quoted()?,
            _ => self.sign(first),
        })
    }

    fn word(&mut self) -> Kind {
        self.at += 1;
        self.skip_word();
        Kind::Word
    }

    fn skip_word(&mut self) {
        let rest = &self.bytes[self.at..];
        self.at += rest.iter().position(|byte| !is_word(*byte)).unwrap_or(rest.len());
    }

    fn dotted(&mut self) -> Kind {
        self.word();
        while self.peek(0) == b':' && self.peek(1) == b':' && is_word(self.peek(2)) {
            self.at += 2;
            self.skip_word();
        }
        Kind::Dotted
    }

    /// Digits and letters, one point between digits, and a sign behind a decimal exponent. What
    /// the letters mean, and whether they may stand there, is for who reads the number.
    fn number(&mut self) -> Kind {
        let start = self.at;
        self.skip_word();
        if self.bytes[start..self.at].iter().all(u8::is_ascii_digit)
            && self.peek(0) == b'.'
            && (!is_word(self.peek(1)) || self.peek(1).is_ascii_digit() || self.peek(1) == b'e')
        {
            self.at += 1;
            self.skip_word();
        }
        let digits = &self.bytes[start..self.at];
        let decimal = digits[..digits.len() - 1].iter().all(|b| b.is_ascii_digit() || *b == b'.');
        if decimal
            && matches!(digits.last(), Some(b'e' | b'E'))
            && matches!(self.peek(0), b'+' | b'-')
            && self.peek(1).is_ascii_digit()
        {
            self.at += 1;
            self.skip_word();
        }
        Kind::Number
    }

    fn quoted(&mut self) -> Result<Kind, SyntaxError> {
        let (start, line) = (self.at, self.line);
        self.at += 1;
        loop {
            match self.peek(0) {
                b'"' => {
                    self.at += 1;
                    return Ok(Kind::Text);
                }
                b'\\' if self.peek(1) != b'\n' => self.at += 2,
                b'\n' => return Err(self.error(start, line, "this string is never closed")),
                _ if self.at >= self.bytes.len() => {
                    return Err(self.error(start, line, "this string is never closed"));
                }
                _ => self.at += 1,
            }
            self.at = self.at.min(self.bytes.len());
        }
    }

    fn sign(&mut self, first: u8) -> Kind {
        let double = match (first, self.peek(1)) {
            (b'<', b'<') => Some(Kind::ShiftLeft),
            (b'>', b'>') => Some(Kind::ShiftRight),
            (b'<', b'=') => Some(Kind::LessEqual),
            (b'>', b'=') => Some(Kind::GreaterEqual),
            (b'=', b'=') => Some(Kind::Equal),
            (b'!', b'=') => Some(Kind::NotEqual),
            (b'&', b'&') => Some(Kind::And),
            (b'|', b'|') => Some(Kind::Or),
            _ => None,
        };
        if let Some(kind) = double {
            self.at += 2;
            return kind;
        }
        self.at += 1;
        // A letter outside ASCII is one token, so that slices of the text end between letters.
        while self.peek(0) & 0xc0 == 0x80 {
            self.at += 1;
        }
        Kind::Sign(first)
    }

    fn error(&self, offset: usize, line: u32, message: &str) -> SyntaxError {
        let text = core::str::from_utf8(self.bytes).unwrap_or_default();
        SyntaxError { line, column: column(text, offset), message: message.to_string() }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}
