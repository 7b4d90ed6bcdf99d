//! A linked module as lowering sees it: names, homes of variables, and who calls whom.
//!
//! A function that can come back to itself, and one whose address is taken, is called; every
//! other one is taken in where it stands. A call through an address may reach every function
//! whose address is taken anywhere in the module.

use super::components::components;
use apex_ptx::tree::{
    Function, FunctionKind, Initializer, Instruction, Item, Module, Operand, Space, Statement,
    Type, Variable,
};
use std::collections::HashMap;

/// Where a variable of the module lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    /// At a host address.
    Memory(u64),
    /// In the static shared memory of every kernel that reaches it.
    Shared,
    /// At the start of the dynamic shared memory.
    DynamicShared,
    /// Declared and never defined.
    Nowhere,
}

/// What a name at module level means.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Symbol<'t> {
    /// A variable.
    Variable(&'t Variable),
    /// A function by its index.
    Function(usize),
}

/// The module.
pub(crate) struct Program<'t> {
    /// All functions, definitions where there are such.
    pub(crate) functions: Vec<&'t Function>,
    /// Functions whose address is taken.
    pub(crate) taken: Vec<usize>,
    names: HashMap<&'t str, Symbol<'t>>,
    homes: HashMap<usize, Home>,
    /// For each function, whether a call in it can lead back to it.
    recursive: Vec<bool>,
}

impl<'t> Program<'t> {
    /// Reads the module's names and calls. Homes are given later.
    pub(crate) fn new(module: &'t Module) -> Program<'t> {
        let mut program = Program {
            functions: Vec::new(),
            taken: Vec::new(),
            names: HashMap::new(),
            homes: HashMap::new(),
            recursive: Vec::new(),
        };
        for item in &module.items {
            program.enter(item);
        }
        for item in &module.items {
            if let Item::Alias { alias, target, .. } = item
                && let Some(symbol) = program.names.get(&**target).copied()
            {
                program.names.insert(alias, symbol);
            }
        }
        program.find_calls(module);
        program
    }

    fn enter(&mut self, item: &'t Item) {
        match item {
            Item::Variable(variable) => {
                let known = self.names.get(&*variable.name);
                let defined = matches!(known, Some(Symbol::Variable(other)) if is_defined(other));
                if !defined {
                    self.names.insert(&variable.name, Symbol::Variable(variable));
                }
            }
            Item::Function(function) => match self.names.get(&*function.name) {
                Some(Symbol::Function(index)) => {
                    if self.functions[*index].body.is_none() {
                        self.functions[*index] = function;
                    }
                }
                _ => {
                    let index = self.functions.len();
                    self.functions.push(function);
                    self.names.insert(&function.name, Symbol::Function(index));
                }
            },
            Item::Alias { .. } | Item::Verbatim(_) => {}
        }
    }

    /// What the name means.
    pub(crate) fn symbol(&self, name: &str) -> Option<Symbol<'t>> {
        self.names.get(name).copied()
    }

    /// Where the variable lives.
    pub(crate) fn home(&self, variable: &Variable) -> Home {
        self.homes.get(&key(variable)).copied().unwrap_or(Home::Nowhere)
    }

    /// Says where the variable lives.
    pub(crate) fn settle(&mut self, variable: &Variable, home: Home) {
        self.homes.insert(key(variable), home);
    }

    /// Whether a call in the function can lead back to it.
    pub(crate) fn is_recursive(&self, function: usize) -> bool {
        self.recursive[function]
    }

    /// Addresses of the module's texture, sampler or surface references.
    pub(crate) fn references(&self, ty: Type) -> Vec<u64> {
        let variables = self.names.values().filter_map(|symbol| match symbol {
            Symbol::Variable(variable) if variable.ty == ty => Some(*variable),
            _ => None,
        });
        let homes = variables.filter_map(|variable| match self.home(variable) {
            Home::Memory(address) => Some(address),
            _ => None,
        });
        let mut addresses: Vec<u64> = homes.collect();
        addresses.sort_unstable();
        addresses
    }

    fn find_calls(&mut self, module: &'t Module) {
        let count = self.functions.len();
        let mut taken = vec![false; count];
        let mut calls = vec![Vec::new(); count + 1];
        // What can be reached by address is behind one node more, so that edges stay few.
        let by_address = count;
        for variable in module.variables() {
            if let Some(init) = &variable.init {
                self.find_taken_in_initializer(init, &mut taken);
            }
        }
        for (index, function) in self.functions.iter().enumerate() {
            each_instruction(function.body.as_deref().unwrap_or_default(), &mut |instruction| {
                let mut rest = instruction.operands.as_slice();
                if &*instruction.opcode == "call" {
                    match callee(instruction).and_then(|name| self.names.get(name)) {
                        Some(Symbol::Function(callee)) => calls[index].push(*callee),
                        _ => calls[index].push(by_address),
                    }
                    rest = &[];
                }
                for operand in rest {
                    if let Operand::Name(name) = operand
                        && let Some(Symbol::Function(function)) = self.names.get(&**name)
                    {
                        taken[*function] = true;
                    }
                }
            });
            each_variable(function.body.as_deref().unwrap_or_default(), &mut |variable| {
                if let Some(init) = &variable.init {
                    self.find_taken_in_initializer(init, &mut taken);
                }
            });
        }
        self.taken = (0..count).filter(|index| taken[*index]).collect();
        calls[by_address].clone_from(&self.taken);
        let groups = components(&calls);
        let mut sizes = vec![0_u32; calls.len()];
        groups.iter().for_each(|group| sizes[*group] += 1);
        let alone = |function: usize| sizes[groups[function]] == 1;
        self.recursive = (0..count)
            .map(|function| !alone(function) || calls[function].contains(&function))
            .collect();
    }

    fn find_taken_in_initializer(&self, init: &Initializer, taken: &mut [bool]) {
        match init {
            Initializer::Symbol { name, .. } => {
                if let Some(Symbol::Function(function)) = self.names.get(&**name) {
                    taken[*function] = true;
                }
            }
            Initializer::List(list) => {
                list.iter().for_each(|part| self.find_taken_in_initializer(part, taken));
            }
            Initializer::Constant(_) | Initializer::Field(..) => {}
        }
    }
}

/// Whether this declaration is the variable itself.
pub(crate) fn is_defined(variable: &Variable) -> bool {
    variable.linkage != apex_ptx::tree::Linkage::Extern
        || (variable.space == Space::Shared && variable.dims.contains(&None))
}

/// Whether the function is a kernel with a body.
pub(crate) fn is_kernel(function: &Function) -> bool {
    function.kind == FunctionKind::Entry && function.body.is_some()
}

/// Shows every variable declared in a body, registers apart.
pub(crate) fn each_variable<'t>(body: &'t [Statement], visit: &mut dyn FnMut(&'t Variable)) {
    for statement in body {
        match statement {
            Statement::Variable(variable) => visit(variable),
            Statement::Block(inner) => each_variable(inner, visit),
            _ => {}
        }
    }
}

/// The name in a call that says whom: a function, or a register that holds an address.
pub(crate) fn callee(instruction: &Instruction) -> Option<&str> {
    instruction.operands.iter().find_map(|operand| match operand {
        Operand::Name(name) => Some(&**name),
        _ => None,
    })
}

fn each_instruction<'t>(body: &'t [Statement], visit: &mut dyn FnMut(&'t Instruction)) {
    for statement in body {
        match statement {
            Statement::Instruction(instruction) => visit(instruction),
            Statement::Block(inner) => each_instruction(inner, visit),
            _ => {}
        }
    }
}

/// A variable is known by where it stands in the tree: names of functions' variables repeat.
fn key(variable: &Variable) -> usize {
    std::ptr::from_ref(variable).addr()
}
