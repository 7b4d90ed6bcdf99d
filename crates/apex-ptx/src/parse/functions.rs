//! Kernels, device functions and what stands between their parameters and their body.

use super::{Parsed, Parser};
use crate::lex::Kind;
use crate::tree::{Directive, Function, FunctionKind, Item, Linkage, Name, Variable, Verbatim};

impl Parser<'_> {
    /// A variable, several variables, or a function.
    pub(super) fn declaration(&mut self, items: &mut Vec<Item>) -> Parsed<()> {
        let line = self.line();
        let linkage = self.linkage()?;
        if self.take_dotted(".entry") {
            let function = self.function(FunctionKind::Entry, linkage, line)?;
            items.push(Item::Function(function));
        } else if self.take_dotted(".func") {
            let function = self.function(FunctionKind::Func, linkage, line)?;
            items.push(Item::Function(function));
        } else {
            let variables = self.variables(linkage, line)?;
            items.extend(variables.into_iter().map(Item::Variable));
        }
        Ok(())
    }

    fn function(&mut self, kind: FunctionKind, linkage: Linkage, line: u32) -> Parsed<Function> {
        let mut attributes = Vec::new();
        if self.kind() == Kind::Dotted && self.slice() == ".attribute" {
            attributes = self.attributes()?;
        }
        let returns = self.parameters()?;
        let name = self.word("the function's name")?;
        let params = self.parameters()?;
        let directives = self.directives()?;
        let body = match self.kind() {
            Kind::Sign(b'{') => Some(self.nested(Parser::block)?),
            _ => {
                self.expect(b';', "or a body after the function's head")?;
                None
            }
        };
        Ok(Function { kind, linkage, attributes, name, returns, params, directives, body, line })
    }

    /// `(.param .u64 a, ..)`, or nothing.
    pub(super) fn parameters(&mut self) -> Parsed<Vec<Variable>> {
        let mut parameters = Vec::new();
        if !self.take(b'(') || self.take(b')') {
            return Ok(parameters);
        }
        loop {
            let line = self.line();
            let mut parameter = self.variable_words(Linkage::Internal, line)?;
            self.named(&mut parameter)?;
            parameters.push(parameter);
            if !self.take(b',') {
                break;
            }
        }
        self.expect(b')', "at the end of the parameters")?;
        Ok(parameters)
    }

    pub(super) fn directives(&mut self) -> Parsed<Vec<Directive>> {
        let mut directives = Vec::new();
        while self.kind() == Kind::Dotted {
            directives.push(self.directive()?);
        }
        Ok(directives)
    }

    fn directive(&mut self) -> Parsed<Directive> {
        let (start, line) = (self.at, self.line());
        let word = self.slice();
        if word == ".pragma" {
            return Ok(Directive::Verbatim(self.verbatim(false)?));
        }
        self.advance();
        Ok(match word {
            ".maxntid" => Directive::MaxNtid(self.shape()?),
            ".reqntid" => Directive::ReqNtid(self.shape()?),
            ".reqnctapercluster" => Directive::ReqNctaPerCluster(self.shape()?),
            ".minnctapersm" => Directive::MinNctaPerSm(self.integer_in(word, 0, u32::MAX)?),
            ".maxnctapersm" => Directive::MaxNctaPerSm(self.integer_in(word, 0, u32::MAX)?),
            ".maxnreg" => Directive::MaxNreg(self.integer_in(word, 0, u32::MAX)?),
            ".maxclusterrank" => Directive::MaxClusterRank(self.integer_in(word, 0, u32::MAX)?),
            ".explicitcluster" => Directive::ExplicitCluster,
            ".blocksareclusters" => Directive::BlocksAreClusters,
            ".noreturn" => Directive::NoReturn,
            _ => {
                while matches!(self.kind(), Kind::Number | Kind::Text | Kind::Word)
                    || matches!(self.kind(), Kind::Sign(b',' | b'-' | b'+'))
                {
                    self.advance();
                }
                Directive::Verbatim(Verbatim { text: self.text_since(start), line })
            }
        })
    }

    fn shape(&mut self) -> Parsed<[u32; 3]> {
        let mut shape = [1; 3];
        for (place, side) in shape.iter_mut().enumerate() {
            if place > 0 && !self.take(b',') {
                break;
            }
            *side = self.integer_in("the side of a shape", 0, u32::MAX)?;
        }
        Ok(shape)
    }

    /// Names between commas, up to and with the semicolon.
    pub(super) fn names_list(&mut self, what: &str) -> Parsed<Vec<Name>> {
        let mut names = vec![self.word(what)?];
        while self.take(b',') {
            names.push(self.word(what)?);
        }
        self.expect(b';', "at the end of the list")?;
        Ok(names)
    }
}
