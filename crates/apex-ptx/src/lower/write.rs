//! Writes what stands in an instruction's place.
//!
//! Rewritings are PTX text with places to fill, so that each can be read beside the ISA: `$0` is the instruction's first
//! operand, `$name` is given with the text, and `?t` is a register or label of the block alone. The instruction's guard
//! goes to every line; where lines have guards or labels of their own, it goes around the block.

use super::scope::Scopes;
use crate::tree::{AddressBase, Instruction, Operand, Statement, Type};

/// What a rewriting may look at beside its instruction.
pub(super) struct Around<'a> {
    pub(super) prefix: &'a str,
    pub(super) scopes: &'a Scopes,
}

/// What stands in an instruction's place, or why nothing can.
pub(super) type Written = Result<Vec<Statement>, String>;

impl Around<'_> {
    /// Fills the places of a text and reads it.
    pub(super) fn write(&self, it: &Instruction, text: &str, places: &[(&str, &str)]) -> Written {
        let filled = self.fill(it, text, places)?;
        let mut statements = read(&filled)?;
        let steers = statements.iter().any(|statement| match statement {
            Statement::Label { .. } => true,
            Statement::Instruction(one) => one.guard.is_some(),
            _ => false,
        });
        if let Some(guard) = &it.guard {
            if steers {
                let (label, not) =
                    (format!("{}end", self.prefix), if guard.negated { "" } else { "!" });
                let skip = format!("@{not}{} bra {label};", guard.register);
                statements = read(&format!("{skip}\n{filled}\n{label}:"))?;
            } else {
                for statement in &mut statements {
                    if let Statement::Instruction(one) = statement {
                        one.guard = Some(guard.clone());
                    }
                }
            }
        }
        set_line(&mut statements, it.line);
        Ok(if statements.len() == 1 { statements } else { vec![Statement::Block(statements)] })
    }

    fn fill(
        &self,
        it: &Instruction,
        text: &str,
        places: &[(&str, &str)],
    ) -> Result<String, String> {
        let mut filled = String::with_capacity(2 * text.len());
        let mut rest = text;
        while let Some(at) = rest.find(['$', '?']) {
            filled.push_str(&rest[..at]);
            let behind = &rest[at + 1..];
            let end = behind.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            let (name, after) = behind.split_at(end.unwrap_or(behind.len()));
            let given = places.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
            match (given, name.parse::<usize>()) {
                _ if name.is_empty() => filled.push_str(&rest[at..=at]),
                _ if rest.as_bytes()[at] == b'?' => {
                    filled.push_str(self.prefix);
                    filled.push_str(name);
                }
                (Some(value), _) => filled.push_str(value),
                (None, Ok(nth)) => {
                    let operand = it.operands.get(nth).ok_or("has fewer operands than known")?;
                    filled.push_str(&operand.to_string());
                }
                // A name of the text, as `$L__BB0_2`.
                (None, Err(_)) => filled.push_str(&rest[at..=at + name.len()]),
            }
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    /// The 32-bit or 64-bit address of an operand in brackets, as text for a `mov`: its base, its offset and whether its
    /// base is a register of 64 bits.
    pub(super) fn address<'o>(&self, operand: &'o Operand) -> Result<(&'o str, i64, bool), String> {
        match operand {
            Operand::Address { base: AddressBase::Name(name), offset } => {
                let wide = match self.scopes.register(name) {
                    Some(ty) => ty.bytes() == 8,
                    None => true,
                };
                Ok((name, *offset, wide))
            }
            _ => Err("the address is not of a form that is known here".into()),
        }
    }

    /// Bytes of a register; nothing for other operands.
    pub(super) fn bytes(&self, operand: &Operand) -> Option<u32> {
        match operand {
            Operand::Name(name) => self.scopes.register(name).map(Type::bytes),
            _ => None,
        }
    }
}

/// The statements of a text.
fn read(text: &str) -> Written {
    let whole =
        format!(".version 9.0\n.target sm_90\n.address_size 64\n.func f() {{\n{text}\n}}\n");
    let module = crate::parse(&whole)
        .map_err(|error| format!("apex wrote what is no PTX, please report it ({error})"))?;
    Ok(module.functions().next().and_then(|it| it.body.clone()).unwrap_or_default())
}

fn set_line(statements: &mut [Statement], to: u32) {
    for statement in statements {
        match statement {
            Statement::Instruction(it) => it.line = to,
            Statement::Registers(it) => it.line = to,
            Statement::Label { line, .. } => *line = to,
            Statement::Block(inner) => set_line(inner, to),
            _ => {}
        }
    }
}

/// The words of an instruction without some, each with its dot: for the text of a rewriting.
pub(super) fn words_without(it: &Instruction, left_out: impl Fn(&str) -> bool) -> String {
    let kept = it.modifiers.iter().filter(|word| !left_out(word));
    kept.map(|word| format!(".{word}")).collect()
}

/// The same instruction without some of its words.
pub(super) fn without(it: &Instruction, left_out: impl Fn(&str) -> bool) -> Vec<Statement> {
    let mut plain = it.clone();
    plain.modifiers.retain(|word| !left_out(word));
    vec![Statement::Instruction(plain)]
}

/// An operand with bytes added to its address.
pub(super) fn moved(operand: &Operand, bytes: i64) -> Result<Operand, String> {
    match operand {
        Operand::Address { base, offset } => {
            let offset = offset.checked_add(bytes).ok_or("its address is beyond 64 bits")?;
            Ok(Operand::Address { base: base.clone(), offset })
        }
        Operand::Unified(inner) => Ok(Operand::Unified(Box::new(moved(inner, bytes)?))),
        _ => Err("the address is not of a form that is known here".into()),
    }
}
