//! Variables of the GPU's memory become the addresses where the original has them.
//!
//! A rewritten kernel in a module of its own would have a second copy of each variable. So it has none: every use of a
//! name becomes the number that the caller gives. What is used in a way that is not known here is refused. Constant
//! variables are read where they lie, which is memory of the GPU like any other ([`constant_space`]).

use super::{constant_space, edit};
use crate::code::Code;
use crate::roles::visit_names;
use crate::tree::{
    AddressBase, Constant, Function, Instruction, Item, Module, Name, Operand, Registers, Space,
    Statement, Type,
};

/// The register that holds an address for one instruction. No compiler names one so.
const ADDRESS: &str = "%apex_address";

/// The variables of a module that lie in the GPU's memory.
pub(super) fn used(module: &Module) -> Vec<Name> {
    let variables = module.variables().filter(|variable| is_told(variable.space));
    variables.map(|variable| variable.name.clone()).collect()
}

/// Whether the driver says where variables of this space lie.
fn is_told(space: Space) -> bool {
    matches!(space, Space::Global | Space::Const)
}

pub(super) fn fix(module: &mut Module, addresses: &[(Name, u64)]) -> Result<(), String> {
    let used = used(module);
    if used.is_empty() {
        return Ok(());
    }
    if let Some(name) = used.iter().find(|name| !addresses.iter().any(|(known, _)| known == *name))
    {
        return Err(format!("it uses a variable whose address is not known, {name}"));
    }
    if module.address_size != 64 {
        return Err("it uses variables and has addresses of 32 bits".to_owned());
    }
    for item in &mut module.items {
        if let Item::Function(function) = item {
            fix_function(function, addresses)?;
        }
    }
    module.items.retain(|item| match item {
        Item::Variable(variable) => !is_told(variable.space),
        _ => true,
    });
    Ok(())
}

fn fix_function(function: &mut Function, addresses: &[(Name, u64)]) -> Result<(), String> {
    let Ok(code) = Code::new(function) else { return Ok(()) };
    let address = |name: &Name| {
        let found = addresses.iter().find(|(known, _)| known == name);
        // A name of the body hides the module's.
        let hidden = code.register(name).is_some()
            || code.variables.iter().any(|own| own.name == *name)
            || code.labels.contains_key(name);
        found.map(|(_, address)| *address).filter(|_| !hidden)
    };
    let (mut wrong, mut is_changed) = (None, false);
    edit::edit(function, &mut |at, instruction| {
        let mut is_named = false;
        visit_names(&code.instructions[at], &mut |name, _| is_named |= address(name).is_some());
        let is_constant = constant_space::is_named(&instruction);
        if !is_named && !is_constant {
            return vec![instruction];
        }
        let global = match is_constant {
            true => constant_space::as_global(instruction.clone()),
            false => Some(instruction.clone()),
        };
        let named = |it: Instruction| if is_named { fixed(&it, &address) } else { Some(vec![it]) };
        match global.and_then(named) {
            Some(fixed) => {
                is_changed = true;
                fixed
            }
            None => {
                let what = instruction.full_opcode();
                wrong = Some(format!("it uses a variable in {what} (line {})", instruction.line));
                vec![instruction]
            }
        }
    });
    if let (true, Some(body)) = (is_changed, &mut function.body) {
        let names = vec![(Name::from(ADDRESS), None)];
        let registers = Registers { ty: Type::B64, vector: None, names, line: function.line };
        body.insert(0, Statement::Registers(registers));
    }
    wrong.map_or(Ok(()), Err)
}

fn number(address: u64) -> Operand {
    Operand::Constant(Constant::Integer { bits: address, unsigned: false })
}

fn fixed(
    instruction: &Instruction,
    address: &impl Fn(&Name) -> Option<u64>,
) -> Option<Vec<Instruction>> {
    let mov = |to: Operand, address: u64| Instruction {
        opcode: Name::from("mov"),
        modifiers: vec![Name::from("b64")],
        operands: vec![to, number(address)],
        ..instruction.clone()
    };
    let value = |operand: &Operand| match operand {
        Operand::Name(name) => address(name),
        Operand::SymbolOffset { name, offset } => Some(address(name)?.wrapping_add_signed(*offset)),
        _ => None,
    };
    let is_wide = instruction.has("u64") || instruction.has("b64") || instruction.has("s64");
    match (&*instruction.opcode, instruction.operands.as_slice()) {
        // An address in the GPU's memory is the same number as a generic one.
        ("mov" | "cvta", [to, source]) if is_wide => Some(vec![mov(to.clone(), value(source)?)]),
        ("ld" | "ldu" | "st" | "atom" | "red", operands) => {
            let mut changed = instruction.clone();
            let mut found = None;
            for (operand, new) in operands.iter().zip(&mut changed.operands) {
                if let Operand::Address { base: AddressBase::Name(name), offset } = operand
                    && let Some(at) = address(name)
                {
                    found = Some(at);
                    let base = AddressBase::Name(Name::from(ADDRESS));
                    *new = Operand::Address { base, offset: *offset };
                } else if value(operand).is_some() {
                    return None;
                }
            }
            let mut before = mov(Operand::Name(Name::from(ADDRESS)), found?);
            before.guard = None;
            Some(vec![before, changed])
        }
        _ => None,
    }
}
