//! Writes a tree as PTX text.
//!
//! The text parses to the same tree again, lines apart, and means the same to ptxas. Numbers
//! are written so that no bit depends on anybody's rounding: floats in hexadecimal, offsets as
//! `+-4` (ptxas takes no other minus there), the smallest integer as a difference, because its
//! digits alone would be an unsigned number.

use core::fmt::{self, Display, Formatter, Write as _};

use crate::tree::{
    AddressBase, Attribute, CallPrototype, Constant, Directive, Function, FunctionKind,
    Initializer, Instruction, Item, Linkage, Module, Operand, PointerFacts, Registers, Space,
    Statement, Variable, Verbatim,
};

impl Display for Module {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(out, ".version {}.{}", self.version.0, self.version.1)?;
        writeln!(out, ".target {}", self.target.join(", "))?;
        writeln!(out, ".address_size {}", self.address_size)?;
        for item in &self.items {
            writeln!(out, "{item}")?;
        }
        Ok(())
    }
}

impl Display for Item {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Item::Variable(variable) => write!(out, "{variable};"),
            Item::Function(function) => write!(out, "{function}"),
            Item::Alias { alias, target, .. } => write!(out, ".alias {alias}, {target};"),
            Item::Verbatim(verbatim) => write!(out, "{verbatim}"),
        }
    }
}

impl Display for Verbatim {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl Linkage {
    fn prefix(self) -> &'static str {
        match self {
            Linkage::Internal => "",
            Linkage::Visible => ".visible ",
            Linkage::Extern => ".extern ",
            Linkage::Weak => ".weak ",
            Linkage::Common => ".common ",
        }
    }
}

impl Space {
    /// The PTX word, with its dot.
    pub fn word(self) -> &'static str {
        match self {
            Space::Register => ".reg",
            Space::SpecialRegister => ".sreg",
            Space::Const => ".const",
            Space::Global => ".global",
            Space::Local => ".local",
            Space::Param => ".param",
            Space::Shared => ".shared",
            Space::Texture => ".tex",
        }
    }
}

/// Without the semicolon, which parameters do not have.
impl Display for Variable {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}", self.linkage.prefix(), self.space.word())?;
        attributes(out, &self.attributes)?;
        if let Some(align) = self.align {
            write!(out, " .align {align}")?;
        }
        if let Some(vector) = self.vector {
            write!(out, " .v{vector}")?;
        }
        write!(out, " .{}", self.ty.word())?;
        if let Some(PointerFacts { space, align }) = self.pointer {
            out.write_str(" .ptr")?;
            if let Some(space) = space {
                write!(out, " {}", space.word())?;
            }
            if let Some(align) = align {
                write!(out, " .align {align}")?;
            }
        }
        write!(out, " {}", self.name)?;
        for length in &self.dims {
            match length {
                Some(length) => write!(out, "[{length}]")?,
                None => out.write_str("[]")?,
            }
        }
        match &self.init {
            Some(init) => write!(out, " = {init}"),
            None => Ok(()),
        }
    }
}

fn attributes(out: &mut Formatter<'_>, attributes: &[Attribute]) -> fmt::Result {
    if attributes.is_empty() {
        return Ok(());
    }
    out.write_str(" .attribute(")?;
    separated(out, attributes, |out, attribute| match attribute {
        Attribute::Managed => out.write_str(".managed"),
        Attribute::Unified(upper, lower) => write!(out, ".unified({upper}U, {lower}U)"),
        Attribute::Other(text) => out.write_str(text),
    })?;
    out.write_char(')')
}

impl Display for Initializer {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Initializer::Constant(constant) => write!(out, "{constant}"),
            Initializer::Symbol { name, generic, offset, mask } => {
                if let Some(mask) = mask {
                    write!(out, "0x{mask:X}(")?;
                }
                match generic {
                    true => write!(out, "generic({name})")?,
                    false => out.write_str(name)?,
                }
                plus(out, *offset)?;
                if mask.is_some() { out.write_char(')') } else { Ok(()) }
            }
            Initializer::List(list) => {
                out.write_char('{')?;
                separated(out, list, |out, value| write!(out, "{value}"))?;
                out.write_char('}')
            }
            Initializer::Field(name, value) => write!(out, "{name} = {value}"),
        }
    }
}

impl Display for Constant {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Constant::Integer { bits, unsigned: true } => write!(out, "{bits}U"),
            Constant::Integer { bits, unsigned: false } => signed(out, bits.cast_signed()),
            Constant::Float32(bits) => write!(out, "0f{bits:08X}"),
            Constant::Float64(bits) => write!(out, "0d{bits:016X}"),
        }
    }
}

fn signed(out: &mut Formatter<'_>, value: i64) -> fmt::Result {
    match value {
        i64::MIN => write!(out, "-{}-1", i64::MAX),
        _ => write!(out, "{value}"),
    }
}

/// `+4`, `+-4`, or nothing for 0.
fn plus(out: &mut Formatter<'_>, offset: i64) -> fmt::Result {
    if offset == 0 {
        return Ok(());
    }
    out.write_char('+')?;
    signed(out, offset)
}

impl Display for Function {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(self.linkage.prefix())?;
        out.write_str(match self.kind {
            FunctionKind::Entry => ".entry",
            FunctionKind::Func => ".func",
        })?;
        attributes(out, &self.attributes)?;
        if !self.returns.is_empty() {
            out.write_str(" (")?;
            separated(out, &self.returns, |out, value| write!(out, "{value}"))?;
            out.write_char(')')?;
        }
        write!(out, " {}(", self.name)?;
        for (place, param) in self.params.iter().enumerate() {
            write!(out, "{}\n    {param}", if place > 0 { "," } else { "" })?;
        }
        out.write_char(')')?;
        for directive in &self.directives {
            write!(out, "\n{directive}")?;
        }
        match &self.body {
            None => out.write_str(";\n"),
            Some(body) => {
                out.write_char('\n')?;
                block(out, body, 0)
            }
        }
    }
}

impl Display for Directive {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Directive::MaxNtid([x, y, z]) => write!(out, ".maxntid {x}, {y}, {z}"),
            Directive::ReqNtid([x, y, z]) => write!(out, ".reqntid {x}, {y}, {z}"),
            Directive::ReqNctaPerCluster([x, y, z]) => {
                write!(out, ".reqnctapercluster {x}, {y}, {z}")
            }
            Directive::MinNctaPerSm(count) => write!(out, ".minnctapersm {count}"),
            Directive::MaxNctaPerSm(count) => write!(out, ".maxnctapersm {count}"),
            Directive::MaxNreg(count) => write!(out, ".maxnreg {count}"),
            Directive::MaxClusterRank(rank) => write!(out, ".maxclusterrank {rank}"),
            Directive::ExplicitCluster => out.write_str(".explicitcluster"),
            Directive::BlocksAreClusters => out.write_str(".blocksareclusters"),
            Directive::NoReturn => out.write_str(".noreturn"),
            Directive::Verbatim(verbatim) => write!(out, "{verbatim}"),
        }
    }
}

fn block(out: &mut Formatter<'_>, statements: &[Statement], deep: usize) -> fmt::Result {
    writeln!(out, "{:deep$}{{", "")?;
    for statement in statements {
        match statement {
            Statement::Block(inner) => block(out, inner, deep + 4)?,
            Statement::Label { .. } => writeln!(out, "{statement}")?,
            _ => writeln!(out, "{:indent$}{statement}", "", indent = deep + 4)?,
        }
    }
    writeln!(out, "{:deep$}}}", "")
}

impl Display for Statement {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Statement::Label { name, .. } => write!(out, "{name}:"),
            Statement::Registers(registers) => write!(out, "{registers}"),
            Statement::Variable(variable) => write!(out, "{variable};"),
            Statement::Instruction(instruction) => write!(out, "{instruction}"),
            Statement::Block(statements) => block(out, statements, 0),
            Statement::BranchTargets { name, targets, .. } => {
                write!(out, "{name}: .branchtargets {};", targets.join(", "))
            }
            Statement::CallTargets { name, targets, .. } => {
                write!(out, "{name}: .calltargets {};", targets.join(", "))
            }
            Statement::CallPrototype(prototype) => write!(out, "{prototype}"),
            Statement::Verbatim(verbatim) => write!(out, "{verbatim}"),
        }
    }
}

impl Display for Registers {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(".reg")?;
        if let Some(vector) = self.vector {
            write!(out, " .v{vector}")?;
        }
        write!(out, " .{} ", self.ty.word())?;
        separated(out, &self.names, |out, (name, count)| match count {
            Some(count) => write!(out, "{name}<{count}>"),
            None => out.write_str(name),
        })?;
        out.write_char(';')
    }
}

impl Display for CallPrototype {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}: .callprototype ", self.name)?;
        if !self.returns.is_empty() {
            out.write_char('(')?;
            separated(out, &self.returns, |out, value| write!(out, "{value}"))?;
            out.write_str(") ")?;
        }
        out.write_str("_ (")?;
        separated(out, &self.params, |out, param| write!(out, "{param}"))?;
        out.write_char(')')?;
        for directive in &self.directives {
            write!(out, " {directive}")?;
        }
        out.write_char(';')
    }
}

impl Display for Instruction {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if let Some(guard) = &self.guard {
            write!(out, "@{}{} ", if guard.negated { "!" } else { "" }, guard.register)?;
        }
        out.write_str(&self.opcode)?;
        for modifier in &self.modifiers {
            write!(out, ".{modifier}")?;
        }
        if !self.operands.is_empty() {
            out.write_char(' ')?;
            separated(out, &self.operands, |out, operand| write!(out, "{operand}"))?;
        }
        out.write_char(';')
    }
}

impl Display for Operand {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Name(name) => out.write_str(name),
            Operand::Sink => out.write_char('_'),
            Operand::Member(name, member) => write!(out, "{name}.{member}"),
            Operand::Constant(constant) => write!(out, "{constant}"),
            Operand::SymbolOffset { name, offset } => {
                out.write_str(name)?;
                out.write_char('+')?;
                signed(out, *offset)
            }
            Operand::Address { .. } => {
                out.write_char('[')?;
                address_part(out, self)?;
                out.write_char(']')
            }
            Operand::Element { name, index: Some(index), offset } => {
                write!(out, "{name}[{index}")?;
                plus(out, *offset)?;
                out.write_char(']')
            }
            Operand::Element { name, index: None, offset } => {
                write!(out, "{name}[")?;
                signed(out, *offset)?;
                out.write_char(']')
            }
            Operand::AddressList(parts) => {
                out.write_char('[')?;
                separated(out, parts, address_part)?;
                out.write_char(']')
            }
            Operand::Unified(address) => write!(out, "{address}.unified"),
            Operand::Vector(parts) => {
                out.write_char('{')?;
                separated(out, parts, |out, part| write!(out, "{part}"))?;
                out.write_char('}')
            }
            Operand::List(parts) => {
                out.write_char('(')?;
                separated(out, parts, |out, part| write!(out, "{part}"))?;
                out.write_char(')')
            }
            Operand::Not(name) => write!(out, "!{name}"),
            Operand::Negative(operand) => write!(out, "-{operand}"),
            Operand::Pair(first, second) => write!(out, "{first}|{second}"),
        }
    }
}

/// What stands between the brackets of an address.
fn address_part(out: &mut Formatter<'_>, part: &Operand) -> fmt::Result {
    let Operand::Address { base, offset } = part else {
        return write!(out, "{part}");
    };
    match base {
        AddressBase::Name(name) => out.write_str(name)?,
        AddressBase::Absolute => return signed(out, *offset),
    }
    plus(out, *offset)
}

fn separated<T>(
    out: &mut Formatter<'_>,
    parts: &[T],
    each: impl Fn(&mut Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (place, part) in parts.iter().enumerate() {
        if place > 0 {
            out.write_str(", ")?;
        }
        each(out, part)?;
    }
    Ok(())
}
