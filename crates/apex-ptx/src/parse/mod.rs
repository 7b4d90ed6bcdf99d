//! Reads PTX text into a [`Module`].
//!
//! A plain descent over the tokens, with one token of lookahead nearly everywhere. The grammar
//! is that of PTX 6.0 to 9.x and of all compilers that write it; it is wider than ptxas's, for
//! it checks shapes and no types. Two rules hold throughout: what is read lands in the tree or
//! is an error, never dropped; and nesting deeper than [`DEEPEST`] is an error, so that neither
//! this parser nor who walks the tree can run out of stack.

mod constants;
mod cursor;
mod functions;
mod operands;
mod statements;
mod variables;
mod verbatim;

use std::collections::HashSet;

use crate::error::SyntaxError;
use crate::lex::{Kind, Token, lex};
use crate::tree::{Item, Module, Name};

/// How deep blocks, lists and constant expressions may nest, counted together.
pub const DEEPEST: u32 = 100;

type Parsed<T> = Result<T, SyntaxError>;

/// Reads one module. Zero bytes at the end, as images of modules have them, are no part of it.
pub fn parse(text: &str) -> Result<Module, SyntaxError> {
    let text = text.trim_end_matches('\0');
    let tokens = lex(text)?;
    Parser { text, tokens: &tokens, at: 0, depth: 0, in_call: false, names: HashSet::new() }
        .module()
}

struct Parser<'text> {
    text: &'text str,
    /// Never empty: the last is [`Kind::End`], and the place never moves past it.
    tokens: &'text [Token],
    at: usize,
    depth: u32,
    /// Whether the next operand is one of a call, where parentheses enclose arguments.
    in_call: bool,
    names: HashSet<Name>,
}

impl<'text> Parser<'text> {
    fn module(mut self) -> Parsed<Module> {
        let version = self.version()?;
        let target = self.target()?;
        let mut module = Module { version, target, address_size: 64, items: Vec::new() };
        if self.take_dotted(".address_size") {
            module.address_size = self.integer_in("the address size", 32, 64)?;
        }
        while self.kind() != Kind::End {
            self.item(&mut module.items)?;
        }
        Ok(module)
    }

    fn version(&mut self) -> Parsed<(u32, u32)> {
        if !self.take_dotted(".version") {
            return Err(self.expected("`.version` at the beginning of the module"));
        }
        let number = self.slice();
        let parts = number.split_once('.');
        let parsed =
            parts.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        let Some(version) = parsed.filter(|_| self.kind() == Kind::Number) else {
            return Err(self.expected("a version number such as 8.5"));
        };
        self.advance();
        Ok(version)
    }

    fn target(&mut self) -> Parsed<Vec<Name>> {
        if !self.take_dotted(".target") {
            return Err(self.expected("`.target` after the version"));
        }
        let mut target = vec![self.word("a target such as sm_90")?];
        while self.take(b',') {
            target.push(self.word("a further target option")?);
        }
        Ok(target)
    }

    fn item(&mut self, items: &mut Vec<Item>) -> Parsed<()> {
        if self.kind() == Kind::Sign(b'@') {
            let dwarf = self.old_debug_line()?;
            items.push(Item::Verbatim(dwarf));
            return Ok(());
        }
        if self.take(b';') {
            return Ok(());
        }
        if self.kind() != Kind::Dotted {
            return Err(self.expected("a directive"));
        }
        match self.slice() {
            ".alias" => {
                let alias = self.alias()?;
                items.push(alias);
                Ok(())
            }
            ".version" => Err(self.expected("only one module in a text")),
            word if variables::begins_declaration(word) => self.declaration(items),
            _ => {
                let verbatim = self.verbatim(true)?;
                items.push(Item::Verbatim(verbatim));
                Ok(())
            }
        }
    }

    fn alias(&mut self) -> Parsed<Item> {
        let line = self.line();
        self.advance();
        let alias = self.word("the alias")?;
        self.expect(b',', "between the alias and its function")?;
        let target = self.word("the function the alias stands for")?;
        self.expect(b';', "at the end of the alias")?;
        Ok(Item::Alias { alias, target, line })
    }
}
