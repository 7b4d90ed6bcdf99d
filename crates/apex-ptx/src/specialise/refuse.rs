//! Which kernels are left alone, and what of a module belongs to one kernel.
//!
//! A rewritten kernel is loaded as a module of its own. So it may not have anything that lives in one place: variables
//! are told by their addresses, textures cannot be. It may not look at clocks, whose readings are its results, or call what the text does not have: `printf`, `malloc`, launches. What is not known here is refused.

use crate::code::Code;
use crate::mix::{Category, category};
use crate::roles::visit_names;
use crate::tree::{
    Function, Instruction, Item, Module, Name, Operand, Space, Statement, Type, Variable,
};
use std::collections::HashSet;

/// Special registers that say the same of a launch however it was compiled, or that no result can hang on.
const HARMLESS: &[&str] = &[
    "%tid",
    "%ntid",
    "%ctaid",
    "%nctaid",
    "%laneid",
    "%warpid",
    "%nwarpid",
    "%smid",
    "%nsmid",
    "%lanemask_eq",
    "%lanemask_le",
    "%lanemask_lt",
    "%lanemask_ge",
    "%lanemask_gt",
    "%dynamic_smem_size",
    "%total_smem_size",
    "%clusterid",
    "%nclusterid",
    "%cluster_ctaid",
    "%cluster_nctaid",
    "%cluster_ctarank",
    "%cluster_nctarank",
    "%is_explicit_cluster",
];

/// Whether a kernel can be rewritten.
///
/// # Errors
///
/// The reason why it is left alone.
pub fn left_alone(module: &Module, kernel: &str) -> Result<(), String> {
    for function in family(module, kernel)? {
        let name = &function.name;
        let code = Code::new(function).map_err(|error| format!("{name}: {error}"))?;
        if let Some(own) = code.variables.iter().find(|own| is_one_place(own)) {
            return Err(format!("{name} has a variable of its own, {}", own.name));
        }
        for instruction in &code.instructions {
            let line = instruction.line;
            check(module, &code, instruction)
                .map_err(|reason| format!("{name} {reason} (line {line})"))?;
        }
    }
    Ok(())
}

/// Whether there is one of it for all launches.
fn is_one_place(variable: &Variable) -> bool {
    !matches!(variable.space, Space::Local | Space::Param | Space::Shared | Space::Register)
}

fn check(module: &Module, code: &Code, instruction: &Instruction) -> Result<(), String> {
    let what = instruction.full_opcode();
    match (category(instruction), &*instruction.opcode) {
        (Category::Other, _) => {
            return Err(format!("has an instruction that is not known: {what}"));
        }
        (_, "brkpt") => return Err("stops for a debugger".to_owned()),
        _ => {}
    }
    let called = called(instruction);
    let mut wrong = None;
    visit_names(instruction, &mut |name, _| {
        if code.register(name).is_some() || wrong.is_some() {
            return;
        }
        if name.starts_with('%') && !code.labels.contains_key(name) {
            if !HARMLESS.contains(&&**name) {
                wrong = Some(format!("looks at {name}"));
            }
        } else if is_own(code, name) || called == Some(name) {
        } else if let Some(variable) = module.variables().find(|it| it.name == *name) {
            wrong = match variable.space {
                _ if matches!(variable.ty, Type::TexRef | Type::SamplerRef | Type::SurfRef) => {
                    Some(format!("uses a texture by its name, {name}"))
                }
                Space::Shared | Space::Global | Space::Const => None,
                _ => Some(format!("uses a texture by its name, {name}")),
            };
        } else if module.functions().any(|it| it.name == *name) {
            wrong = Some(format!("takes the address of a function, {name}"));
        }
    });
    wrong.map_or(Ok(()), Err)
}

/// Whether a name is the function's own: a label, a list, a variable.
fn is_own(code: &Code, name: &Name) -> bool {
    code.labels.contains_key(name)
        || code.branch_targets.contains_key(name)
        || code.call_targets.contains_key(name)
        || code.prototypes.contains_key(name)
        || code.variables.iter().any(|own| own.name == *name)
}

/// What a call names.
fn called(instruction: &Instruction) -> Option<&Name> {
    if &*instruction.opcode != "call" {
        return None;
    }
    instruction.operands.iter().find_map(|operand| match operand {
        Operand::Name(name) => Some(name),
        _ => None,
    })
}

/// A kernel and all functions that it calls, itself first.
fn family<'a>(module: &'a Module, kernel: &str) -> Result<Vec<&'a Function>, String> {
    let entry = super::entry(module, kernel).ok_or_else(|| {
        let kind = crate::tree::FunctionKind::Entry;
        let kernels = module.functions().filter(|it| it.kind == kind && it.body.is_some());
        let names: Vec<&str> = kernels.map(|it| &*it.name).collect();
        format!("there is no kernel {kernel}; the text has: {}", names.join(", "))
    })?;
    let mut found = vec![entry];
    let mut seen = HashSet::from([&entry.name]);
    let mut at = 0;
    while let Some(function) = found.get(at) {
        at += 1;
        let mut calls = Vec::new();
        each(function.body.as_deref().unwrap_or_default(), &mut |instruction| {
            calls.extend(called(instruction).map(|name| (name, instruction.line)));
        });
        for (name, line) in calls {
            if seen.contains(name) {
                continue;
            }
            let callee = module.functions().find(|it| it.name == *name && it.body.is_some());
            let callee = callee.ok_or_else(|| {
                format!("it calls {name}, which is not in the text (line {line})")
            })?;
            seen.insert(&callee.name);
            found.push(callee);
        }
    }
    Ok(found)
}

fn each<'a>(statements: &'a [Statement], visit: &mut impl FnMut(&'a Instruction)) {
    for statement in statements {
        match statement {
            Statement::Instruction(instruction) => visit(instruction),
            Statement::Block(inner) => each(inner, visit),
            _ => {}
        }
    }
}

/// The functions of a kernel, flat, itself first.
pub(super) fn flat(module: &Module, kernel: &str) -> Result<Vec<Code>, String> {
    let family = family(module, kernel)?;
    family.into_iter().map(|it| Code::new(it).map_err(|error| error.to_string())).collect()
}

/// A module with the kernel and what it needs, in the order of the text, and nothing for debuggers.
pub(super) fn reduced(module: &Module, kernel: &str) -> Result<Module, String> {
    let functions: HashSet<&Name> = family(module, kernel)?.iter().map(|it| &it.name).collect();
    let mut used = HashSet::new();
    for code in flat(module, kernel)? {
        for instruction in &code.instructions {
            visit_names(instruction, &mut |name, _| {
                if code.register(name).is_none() && !is_own(&code, name) {
                    used.insert(name.clone());
                }
            });
        }
    }
    let stays = |item: &&Item| match item {
        Item::Function(function) => functions.contains(&function.name),
        Item::Variable(variable) => used.contains(&variable.name),
        Item::Alias { .. } => false,
        Item::Verbatim(verbatim) => verbatim.directive() == ".pragma",
    };
    let mut items: Vec<Item> = module.items.iter().filter(stays).cloned().collect();
    for item in &mut items {
        if let Item::Function(Function { body: Some(body), .. }) = item {
            forget_lines(body);
        }
    }
    let target = module.target.iter().filter(|word| &***word != "debug").cloned().collect();
    Ok(Module { version: module.version, target, address_size: module.address_size, items })
}

fn forget_lines(statements: &mut Vec<Statement>) {
    statements.retain(|statement| match statement {
        Statement::Verbatim(verbatim) => verbatim.directive() != ".loc",
        _ => true,
    });
    for statement in statements {
        if let Statement::Block(inner) = statement {
            forget_lines(inner);
        }
    }
}
