//! The place in the tokens, and what can be asked and taken there.

use super::{DEEPEST, Parsed, Parser};
use crate::error::SyntaxError;
use crate::lex::{Kind, Token, column};
use crate::tree::Name;

impl<'text> Parser<'text> {
    pub(super) fn token(&self) -> Token {
        self.tokens[self.at]
    }

    pub(super) fn kind(&self) -> Kind {
        self.token().kind
    }

    pub(super) fn next_kind(&self) -> Kind {
        self.tokens.get(self.at + 1).map_or(Kind::End, |token| token.kind)
    }

    pub(super) fn line(&self) -> u32 {
        self.token().line
    }

    /// The text of the current token.
    pub(super) fn slice(&self) -> &'text str {
        let token = self.token();
        &self.text[token.start as usize..token.end as usize]
    }

    pub(super) fn text_since(&mut self, start: usize) -> Name {
        let last = self.at.saturating_sub(1).max(start);
        let (from, to) = (self.tokens[start].start as usize, self.tokens[last].end as usize);
        self.name(&self.text[from..to])
    }

    pub(super) fn advance(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    pub(super) fn take(&mut self, sign: u8) -> bool {
        let found = self.kind() == Kind::Sign(sign);
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn take_dotted(&mut self, word: &str) -> bool {
        let found = self.kind() == Kind::Dotted && self.slice() == word;
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn expect(&mut self, sign: u8, place: &str) -> Parsed<()> {
        if self.take(sign) {
            return Ok(());
        }
        Err(self.expected(&format!("`{}` {place}", char::from(sign))))
    }

    pub(super) fn word(&mut self, what: &str) -> Parsed<Name> {
        if self.kind() != Kind::Word {
            return Err(self.expected(what));
        }
        Ok(self.take_name())
    }

    /// Any number, which is passed over because its text is kept.
    pub(super) fn number(&mut self, what: &str) -> Parsed<()> {
        if self.kind() != Kind::Number {
            return Err(self.expected(what));
        }
        self.advance();
        Ok(())
    }

    /// The current token's text as a name.
    pub(super) fn take_name(&mut self) -> Name {
        let name = self.name(self.slice());
        self.advance();
        name
    }

    /// The one allocation that all equal names of this text share.
    pub(super) fn name(&mut self, text: &str) -> Name {
        if let Some(name) = self.names.get(text) {
            return name.clone();
        }
        let name = Name::from(text);
        self.names.insert(name.clone());
        name
    }

    /// Runs `inner` one level deeper.
    pub(super) fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == DEEPEST {
            let message = format!("nested deeper than {DEEPEST} levels");
            return Err(self.error_at(self.at, message));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    pub(super) fn expected(&self, what: &str) -> SyntaxError {
        let found = match self.kind() {
            Kind::End => "the end of the text".to_string(),
            _ => format!("`{}`", shortened(self.slice())),
        };
        self.error_at(self.at, format!("expected {what}, found {found}"))
    }

    pub(super) fn error_at(&self, token: usize, message: String) -> SyntaxError {
        let token = self.tokens[token];
        let column = column(self.text, token.start as usize);
        SyntaxError { line: token.line, column, message }
    }
}

/// A token as an error shows it: one that fills pages would hide the sentence.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 60;
    if text.chars().count() <= SHOWN {
        return text.to_string();
    }
    text.chars().take(SHOWN).chain("..".chars()).collect()
}
