//! The bodies of functions.

use super::{Parsed, Parser, variables};
use crate::lex::Kind;
use crate::tree::{
    CallPrototype, Constant, Guard, Instruction, Linkage, Name, Registers, Statement, Type,
    Verbatim,
};

impl Parser<'_> {
    /// `{ .. }`.
    pub(super) fn block(&mut self) -> Parsed<Vec<Statement>> {
        let open = self.at;
        self.expect(b'{', "at the beginning of a block")?;
        let mut statements = Vec::new();
        while !self.take(b'}') {
            if self.kind() == Kind::End {
                return Err(self.error_at(open, "this brace is never closed".into()));
            }
            self.statement(&mut statements)?;
        }
        Ok(statements)
    }

    fn statement(&mut self, into: &mut Vec<Statement>) -> Parsed<()> {
        let statement = match self.kind() {
            Kind::Word if self.next_kind() == Kind::Sign(b':') => self.labelled()?,
            Kind::Word => Statement::Instruction(self.instruction(None)?),
            Kind::Sign(b'@') if self.next_kind() == Kind::Sign(b'@') => {
                Statement::Verbatim(self.old_debug_line()?)
            }
            Kind::Sign(b'@') => {
                let guard = self.guard()?;
                Statement::Instruction(self.instruction(Some(guard))?)
            }
            Kind::Sign(b'{') => Statement::Block(self.nested(Parser::block)?),
            Kind::Sign(b';') => {
                self.advance();
                return Ok(());
            }
            Kind::Dotted => return self.directive_statement(into),
            _ => return Err(self.expected("an instruction, a label or a directive")),
        };
        into.push(statement);
        Ok(())
    }

    fn labelled(&mut self) -> Parsed<Statement> {
        let line = self.line();
        let name = self.take_name();
        self.advance();
        if self.take_dotted(".branchtargets") {
            let targets = self.names_list("a label")?;
            return Ok(Statement::BranchTargets { name, targets, line });
        }
        if self.take_dotted(".calltargets") {
            let targets = self.names_list("a function")?;
            return Ok(Statement::CallTargets { name, targets, line });
        }
        if self.take_dotted(".callprototype") {
            return self.prototype(name, line).map(Statement::CallPrototype);
        }
        Ok(Statement::Label { name, line })
    }

    fn prototype(&mut self, name: Name, line: u32) -> Parsed<CallPrototype> {
        let returns = self.parameters()?;
        let nameless = self.word("`_` in place of the function's name")?;
        if &*nameless != "_" {
            return Err(self.error_at(self.at - 1, "a prototype's function is written `_`".into()));
        }
        let params = self.parameters()?;
        let directives = self.directives()?;
        self.expect(b';', "at the end of the prototype")?;
        Ok(CallPrototype { name, returns, params, directives, line })
    }

    fn directive_statement(&mut self, into: &mut Vec<Statement>) -> Parsed<()> {
        let line = self.line();
        match self.slice() {
            ".reg" => into.push(Statement::Registers(self.registers()?)),
            ".entry" | ".func" => return Err(self.expected("no function inside a function")),
            ".branchtargets" | ".calltargets" | ".callprototype" => {
                return Err(self.expected("a label before this directive"));
            }
            word if variables::begins_declaration(word) => {
                let linkage: Linkage = self.linkage()?;
                let variables = self.variables(linkage, line)?;
                into.extend(variables.into_iter().map(Statement::Variable));
            }
            _ => {
                let verbatim: Verbatim = self.verbatim(false)?;
                into.push(Statement::Verbatim(verbatim));
            }
        }
        Ok(())
    }

    fn registers(&mut self) -> Parsed<Registers> {
        let line = self.line();
        self.advance();
        let (mut ty, mut vector) = (None, None);
        while self.kind() == Kind::Dotted {
            let word = self.slice();
            match (word, Type::from_word(&word[1..])) {
                (_, Some(found)) if ty.is_none() => ty = Some(found),
                (".v2", _) => vector = Some(2),
                (".v4", _) => vector = Some(4),
                (".v8", _) => vector = Some(8),
                // The alignment of a register has no meaning, and no compiler writes it.
                _ => return Err(self.expected("the type of a register")),
            }
            self.advance();
        }
        let Some(ty) = ty else {
            return Err(self.expected("the type of a register"));
        };
        let mut names = Vec::new();
        loop {
            let name = self.word("the name of a register")?;
            let mut count = None;
            if self.take(b'<') {
                let at = self.at;
                // An expression would take the closing `>` for a comparison.
                match self.literal() {
                    Ok(Constant::Integer { bits, .. }) if bits <= u64::from(u32::MAX) => {
                        count = Some(bits as u32);
                    }
                    _ => return Err(self.error_at(at, "expected the number of registers".into())),
                }
                self.expect(b'>', "after the number of registers")?;
            }
            names.push((name, count));
            if !self.take(b',') {
                break;
            }
        }
        self.expect(b';', "at the end of the registers")?;
        Ok(Registers { ty, vector, names, line })
    }

    fn guard(&mut self) -> Parsed<Guard> {
        self.advance();
        let negated = self.take(b'!');
        let register = self.word("a predicate register")?;
        Ok(Guard { negated, register })
    }

    fn instruction(&mut self, guard: Option<Guard>) -> Parsed<Instruction> {
        let line = self.line();
        let opcode = self.word("an instruction")?;
        let mut modifiers = Vec::with_capacity(3);
        while self.kind() == Kind::Dotted {
            let word = self.name(&self.slice()[1..]);
            modifiers.push(word);
            self.advance();
        }
        let mut operands = Vec::with_capacity(3);
        if !self.take(b';') {
            loop {
                self.in_call = &*opcode == "call";
                operands.push(self.operand()?);
                if !self.take(b',') {
                    break;
                }
            }
            self.expect(b';', "at the end of the instruction")?;
        }
        Ok(Instruction { guard, opcode, modifiers, operands, line })
    }
}
