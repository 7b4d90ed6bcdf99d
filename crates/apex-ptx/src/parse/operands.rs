//! Operands of instructions.

use super::{Parsed, Parser};
use crate::lex::Kind;
use crate::tree::{AddressBase, Constant, Operand};

impl Parser<'_> {
    pub(super) fn operand(&mut self) -> Parsed<Operand> {
        let first = self.nested(Parser::single_operand)?;
        // A number has taken its own `|`, as part of a constant expression.
        if !self.take(b'|') {
            return Ok(first);
        }
        let second = self.nested(Parser::single_operand)?;
        Ok(Operand::Pair(Box::new(first), Box::new(second)))
    }

    fn single_operand(&mut self) -> Parsed<Operand> {
        let next_is_name = self.next_kind() == Kind::Word;
        match self.kind() {
            Kind::Word if self.slice() == "WARP_SZ" => self.constant().map(Operand::Constant),
            Kind::Word => self.named_operand(),
            Kind::Sign(b'[') => self.address(),
            Kind::Sign(b'{') => {
                let parts = self.operands_until(b'}')?;
                Ok(Operand::Vector(parts))
            }
            Kind::Sign(b'(') if self.begins_list() => {
                let parts = self.operands_until(b')')?;
                Ok(Operand::List(parts))
            }
            Kind::Sign(b'!') if next_is_name && !self.next_is_warp_size() => {
                self.advance();
                Ok(Operand::Not(self.take_name()))
            }
            Kind::Sign(b'-') if next_is_name && !self.next_is_warp_size() => {
                self.advance();
                let operand = self.nested(Parser::single_operand)?;
                Ok(Operand::Negative(Box::new(operand)))
            }
            Kind::Number | Kind::Dotted | Kind::Sign(b'(' | b'+' | b'-' | b'~' | b'!') => {
                self.constant().map(Operand::Constant)
            }
            _ => Err(self.expected("an operand")),
        }
    }

    /// Whether an opening parenthesis begins a list and no constant expression: the argument
    /// lists of calls, and whatever begins with a name, which no constant expression does.
    fn begins_list(&self) -> bool {
        self.in_call || (self.next_kind() == Kind::Word && !self.next_is_warp_size())
    }

    fn next_is_warp_size(&self) -> bool {
        let next = self.tokens[(self.at + 1).min(self.tokens.len() - 1)];
        &self.text[next.start as usize..next.end as usize] == "WARP_SZ"
    }

    fn named_operand(&mut self) -> Parsed<Operand> {
        let name = self.take_name();
        if &*name == "_" {
            return Ok(Operand::Sink);
        }
        match self.kind() {
            Kind::Dotted => {
                let member = self.name(&self.slice()[1..]);
                self.advance();
                Ok(Operand::Member(name, member))
            }
            Kind::Sign(b'+' | b'-') => {
                let offset = self.offset()?;
                Ok(Operand::SymbolOffset { name, offset })
            }
            Kind::Sign(b'[') => {
                self.advance();
                let mut index = None;
                let offset = if self.kind() == Kind::Word && self.slice() != "WARP_SZ" {
                    index = Some(self.take_name());
                    self.offset()?
                } else {
                    self.integer("the index of an element")?.cast_signed()
                };
                self.expect(b']', "after the index of an element")?;
                Ok(Operand::Element { name, index, offset })
            }
            _ => Ok(Operand::Name(name)),
        }
    }

    fn address(&mut self) -> Parsed<Operand> {
        self.advance();
        let mut parts = vec![self.address_part()?];
        while self.take(b',') {
            parts.push(self.address_part()?);
        }
        self.expect(b']', "at the end of the address")?;
        let address = match parts.pop() {
            Some(only @ Operand::Address { .. }) if parts.is_empty() => only,
            last => {
                parts.extend(last);
                Operand::AddressList(parts)
            }
        };
        if self.take_dotted(".unified") {
            return Ok(Operand::Unified(Box::new(address)));
        }
        Ok(address)
    }

    fn address_part(&mut self) -> Parsed<Operand> {
        match self.kind() {
            Kind::Sign(b'{') => Ok(Operand::Vector(self.operands_until(b'}')?)),
            Kind::Word if self.slice() != "WARP_SZ" => {
                let name = self.take_name();
                let offset = self.offset()?;
                Ok(Operand::Address { base: AddressBase::Name(name), offset })
            }
            _ => {
                let at = self.at;
                let Constant::Integer { bits, .. } = self.constant()? else {
                    return Err(self.error_at(at, "an address must be an integer".into()));
                };
                Ok(Operand::Address { base: AddressBase::Absolute, offset: bits.cast_signed() })
            }
        }
    }

    fn operands_until(&mut self, close: u8) -> Parsed<Vec<Operand>> {
        self.advance();
        let mut operands = Vec::new();
        if self.take(close) {
            return Ok(operands);
        }
        // Within the list of a call a parenthesis is arithmetic again.
        self.in_call = false;
        loop {
            operands.push(self.operand()?);
            if !self.take(b',') {
                break;
            }
        }
        self.expect(close, "at the end of the list")?;
        Ok(operands)
    }
}
