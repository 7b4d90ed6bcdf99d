//! A function's body as one straight list, with every name unique.
//!
//! Blocks are dissolved: what was declared inside braces gets the block's number behind its
//! name (`t` becomes `t$scope2`), so that analysis and lowering need no scopes. Names of the
//! outermost block, and of everything declared outside the function, stay as they are. Only
//! registers that are used get a number; a declaration of a million costs nothing.

use std::collections::HashMap;

use crate::roles::rename_names;
use crate::tree::{
    CallPrototype, Function, Instruction, Name, Operand, Registers, Space, Statement, Type,
    Variable, Verbatim,
};

/// A function's body, flattened.
#[derive(Debug, Clone, Default)]
pub struct Code {
    /// The instructions in the order of the text.
    pub instructions: Vec<Instruction>,
    /// The registers used, in the order of first use. Registers that are parameters are among them.
    pub registers: Vec<Register>,
    /// The variables declared in the body.
    pub variables: Vec<Variable>,
    /// For each label the instruction it stands before; one past the last at the end.
    pub labels: HashMap<Name, usize>,
    /// The lists of `.branchtargets`.
    pub branch_targets: HashMap<Name, Vec<Name>>,
    /// The lists of `.calltargets`.
    pub call_targets: HashMap<Name, Vec<Name>>,
    /// The prototypes of indirect calls.
    pub prototypes: HashMap<Name, CallPrototype>,
    /// Directives kept word for word, with the instruction each stands before.
    pub verbatim: Vec<(usize, Verbatim)>,
    numbers: HashMap<Name, RegisterId>,
}

/// The number of a register within its [`Code`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegisterId(pub u32);

/// A register as declared.
#[derive(Debug, Clone, PartialEq)]
pub struct Register {
    /// Its name, unique in the function.
    pub name: Name,
    /// The type it was declared with. See [`Type`] on how much it is worth.
    pub declared: Type,
    /// The length of a vector.
    pub vector: Option<u8>,
}

/// A body that is PTX by its shape but says something impossible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeError {
    /// The line.
    pub line: u32,
    /// What is wrong.
    pub message: String,
}

impl core::fmt::Display for CodeError {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(out, "line {}: {}", self.line, self.message)
    }
}

impl core::error::Error for CodeError {}

impl Code {
    /// Flattens a function; a declaration has no instructions.
    ///
    /// Branches must lead to labels of the function. A name that nobody declares here may be
    /// the module's or a special register, and stays as it is.
    pub fn new(function: &Function) -> Result<Code, CodeError> {
        let mut flattener = Flattener { scopes: vec![Scope::default()], ..Flattener::default() };
        for parameter in function.returns.iter().chain(&function.params) {
            let register = (parameter.space == Space::Register)
                .then_some(Shape { declared: parameter.ty, vector: parameter.vector });
            flattener.declare(&parameter.name, register, parameter.line)?;
        }
        flattener.block(function.body.as_deref().unwrap_or_default())?;
        flattener.code.check_targets()?;
        Ok(flattener.code)
    }

    /// The number of a register; `None` for every other name.
    pub fn register(&self, name: &str) -> Option<RegisterId> {
        self.numbers.get(name).copied()
    }

    /// The labels a branch may go to; empty for every other instruction.
    pub fn targets(&self, instruction: &Instruction) -> Vec<Name> {
        match (&*instruction.opcode, instruction.operands.as_slice()) {
            ("bra", [Operand::Name(label), ..]) => vec![label.clone()],
            ("brx", [_, Operand::Name(list), ..]) => {
                self.branch_targets.get(list).cloned().unwrap_or_default()
            }
            ("brx", [_, Operand::Vector(labels), ..]) => labels
                .iter()
                .filter_map(|label| match label {
                    Operand::Name(label) => Some(label.clone()),
                    _ => None,
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    fn check_targets(&self) -> Result<(), CodeError> {
        for instruction in &self.instructions {
            let targets = self.targets(instruction);
            let branch = matches!(&*instruction.opcode, "bra" | "brx");
            let missing = targets.iter().find(|label| !self.labels.contains_key(*label));
            let message = match missing {
                Some(label) => format!("no label {label} in this function"),
                None if branch && targets.is_empty() => "this branch has no target".to_string(),
                None => continue,
            };
            return Err(CodeError { line: instruction.line, message });
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Shape {
    declared: Type,
    vector: Option<u8>,
}

/// What a name of the text stands for.
#[derive(Clone)]
struct Binding {
    unique: Name,
    register: Option<Shape>,
}

/// The names of one block.
#[derive(Default)]
struct Scope {
    /// Behind every name declared here; empty in the outermost block.
    suffix: String,
    names: HashMap<Name, Binding>,
    /// `%r<5>` by its prefix.
    ranges: HashMap<Name, (u32, Shape)>,
}

#[derive(Default)]
struct Flattener {
    code: Code,
    scopes: Vec<Scope>,
    blocks: usize,
}

impl Flattener {
    fn block(&mut self, statements: &[Statement]) -> Result<(), CodeError> {
        // Labels and lists are seen in the whole block, also before the line they stand on.
        for statement in statements {
            match statement {
                Statement::Label { name, line }
                | Statement::BranchTargets { name, line, .. }
                | Statement::CallTargets { name, line, .. }
                | Statement::CallPrototype(CallPrototype { name, line, .. }) => {
                    self.declare(name, None, *line)?;
                }
                _ => {}
            }
        }
        statements.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), CodeError> {
        match statement {
            Statement::Label { name, .. } => {
                let label = self.unique(name);
                self.code.labels.insert(label, self.code.instructions.len());
            }
            Statement::Registers(registers) => self.registers(registers)?,
            Statement::Variable(variable) => {
                self.declare(&variable.name, None, variable.line)?;
                let name = self.unique(&variable.name);
                self.code.variables.push(Variable { name, ..variable.clone() });
            }
            Statement::Instruction(instruction) => {
                let mut instruction = instruction.clone();
                rename_names(&mut instruction, &mut |name| *name = self.unique(name));
                self.code.instructions.push(instruction);
            }
            Statement::Block(inner) => {
                self.blocks += 1;
                let suffix = format!("$scope{}", self.blocks);
                self.scopes.push(Scope { suffix, ..Scope::default() });
                self.block(inner)?;
                self.scopes.pop();
            }
            Statement::BranchTargets { name, targets, .. } => {
                let targets = targets.iter().map(|label| self.unique(label)).collect();
                let name = self.unique(name);
                self.code.branch_targets.insert(name, targets);
            }
            Statement::CallTargets { name, targets, .. } => {
                let name = self.unique(name);
                self.code.call_targets.insert(name, targets.clone());
            }
            Statement::CallPrototype(prototype) => {
                let name = self.unique(&prototype.name);
                self.code.prototypes.insert(name, prototype.clone());
            }
            Statement::Verbatim(verbatim) => {
                self.code.verbatim.push((self.code.instructions.len(), verbatim.clone()));
            }
        }
        Ok(())
    }

    fn registers(&mut self, registers: &Registers) -> Result<(), CodeError> {
        let shape = Shape { declared: registers.ty, vector: registers.vector };
        for (name, count) in &registers.names {
            let Some(count) = count else {
                self.declare(name, Some(shape), registers.line)?;
                continue;
            };
            let scope = self.innermost();
            if scope.ranges.insert(name.clone(), (*count, shape)).is_some() {
                return Err(twice(name, registers.line));
            }
        }
        Ok(())
    }

    fn innermost(&mut self) -> &mut Scope {
        if self.scopes.is_empty() {
            self.scopes.push(Scope::default());
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    fn declare(
        &mut self,
        name: &Name,
        register: Option<Shape>,
        line: u32,
    ) -> Result<(), CodeError> {
        let scope = self.innermost();
        let unique = if scope.suffix.is_empty() {
            name.clone()
        } else {
            Name::from(format!("{name}{}", scope.suffix))
        };
        let binding = Binding { unique, register };
        match scope.names.insert(name.clone(), binding) {
            // Prototypes leave the names of parameters open.
            Some(_) if &**name != "_" => Err(twice(name, line)),
            _ => Ok(()),
        }
    }

    /// The unique form of a name used here. A register gets its number with its first use.
    fn unique(&mut self, name: &Name) -> Name {
        let Some(Binding { unique, register }) = self.find(name) else {
            return name.clone();
        };
        if let Some(Shape { declared, vector }) = register
            && !self.code.numbers.contains_key(&unique)
        {
            let number = RegisterId(self.code.registers.len() as u32);
            self.code.numbers.insert(unique.clone(), number);
            self.code.registers.push(Register { name: unique.clone(), declared, vector });
        }
        unique
    }

    fn find(&mut self, name: &Name) -> Option<Binding> {
        for scope in self.scopes.iter_mut().rev() {
            if let Some(binding) = scope.names.get(name) {
                return Some(binding.clone());
            }
            let Some(shape) = in_ranges(&scope.ranges, name) else {
                continue;
            };
            let unique = match scope.suffix.as_str() {
                "" => name.clone(),
                suffix => Name::from(format!("{name}{suffix}")),
            };
            let binding = Binding { unique, register: Some(shape) };
            scope.names.insert(name.clone(), binding.clone());
            return Some(binding);
        }
        None
    }
}

/// Whether one of the ranges has this name: every split into prefix and number is tried, since
/// a prefix may end with a digit.
fn in_ranges(ranges: &HashMap<Name, (u32, Shape)>, name: &str) -> Option<Shape> {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    (name.len() - digits.min(10)..name.len()).find_map(|split| {
        let (prefix, number) = name.split_at(split);
        let (count, shape) = ranges.get(prefix)?;
        let plain = number == "0" || !number.starts_with('0');
        (plain && number.parse::<u32>().ok()? < *count).then_some(*shape)
    })
}

fn twice(name: &str, line: u32) -> CodeError {
    CodeError { line, message: format!("{name} is declared twice in the same block") }
}
