//! Directives that are kept word for word: where they end.

use super::{Parsed, Parser};
use crate::lex::Kind;
use crate::tree::Verbatim;

impl Parser<'_> {
    /// A directive word for word. `.loc` and `.file` end with their grammar, `.pragma` with its
    /// semicolon, any other with a semicolon or its line; at the top level braces may follow.
    pub(super) fn verbatim(&mut self, top_level: bool) -> Parsed<Verbatim> {
        let (start, line) = (self.at, self.line());
        let directive = self.slice();
        self.advance();
        match directive {
            ".loc" => self.location()?,
            ".file" => self.source_file()?,
            ".pragma" => {
                while self.kind() == Kind::Text || self.kind() == Kind::Sign(b',') {
                    self.advance();
                }
                self.expect(b';', "at the end of the pragma")?;
            }
            _ => {
                while self.line() == line && !self.at_line_end() {
                    self.advance();
                }
                if !self.take(b';') && top_level && self.kind() == Kind::Sign(b'{') {
                    self.skip_braces()?;
                }
            }
        }
        Ok(Verbatim { text: self.text_since(start), line })
    }

    fn at_line_end(&self) -> bool {
        matches!(self.kind(), Kind::End | Kind::Sign(b';' | b'{' | b'}'))
    }

    fn location(&mut self) -> Parsed<()> {
        for part in ["the file", "the line", "the column"] {
            self.number(part)?;
        }
        while self.kind() == Kind::Sign(b',') {
            self.advance();
            let word = self.word("`function_name` or `inlined_at`")?;
            match &*word {
                "function_name" => {
                    self.word("the function's label")?;
                    while matches!(self.kind(), Kind::Sign(b'+' | b'-')) {
                        self.advance();
                        self.number("an offset")?;
                    }
                }
                "inlined_at" => {
                    for part in ["the file", "the line", "the column"] {
                        self.number(part)?;
                    }
                }
                _ => return Err(self.expected("`function_name` or `inlined_at`")),
            }
        }
        Ok(())
    }

    fn source_file(&mut self) -> Parsed<()> {
        self.number("the file's index")?;
        if self.kind() != Kind::Text {
            return Err(self.expected("the file's name in quotes"));
        }
        self.advance();
        while self.take(b',') {
            self.number("the file's time or size")?;
        }
        Ok(())
    }

    fn skip_braces(&mut self) -> Parsed<()> {
        let (open, mut deep) = (self.at, 0_u32);
        loop {
            match self.kind() {
                Kind::Sign(b'{') => deep += 1,
                Kind::Sign(b'}') => deep -= 1,
                Kind::End => return Err(self.error_at(open, "this brace is never closed".into())),
                _ => {}
            }
            self.advance();
            if deep == 0 {
                return Ok(());
            }
        }
    }

    /// `@@DWARF ..`, the debug information of PTX before `.section`.
    pub(super) fn old_debug_line(&mut self) -> Parsed<Verbatim> {
        let (start, line) = (self.at, self.line());
        self.advance();
        if self.kind() != Kind::Sign(b'@') {
            return Err(self.expected("a second `@`, as in @@DWARF"));
        }
        while self.line() == line && self.kind() != Kind::End {
            self.advance();
        }
        Ok(Verbatim { text: self.text_since(start), line })
    }
}
