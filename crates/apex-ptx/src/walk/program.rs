//! A function made ready for the walk: its instructions as steps, and its loops.
//!
//! Only what decides ways and addresses is followed: integers, comparisons, predicates. Floats, loaded values and
//! whatever is not known here become unknown, which is always true.

use std::collections::HashMap;

use super::decode::{arithmetic, costs, flops, is_float};
use super::memory::SharedSpace;
use super::step::{Act, Loop, Memory, RegisterIndex, Source, Special, Step};
use crate::code::Code;
use crate::mix::{Category, category};
use crate::tree::{
    AddressBase, Constant, Function, Instruction, Name, Operand, Space, Type, Variable,
};

/// A walk remembers all registers of a few turns of every loop: with more than these it is not begun.
const MOST_REGISTERS: usize = 4096;

/// A function ready to be walked.
#[derive(Debug, Clone, Default)]
pub struct Program {
    pub(super) steps: Vec<Step>,
    pub(super) registers: usize,
    /// Bytes of local memory that it declares.
    pub(super) local_bytes: u64,
    /// Which parameters are pointers.
    pub(super) pointers: Vec<bool>,
    /// Loops, innermost of those that share an instruction first.
    pub(super) loops: Vec<Loop>,
}

impl Program {
    /// Decodes a function. `variables` are those of its module.
    #[must_use]
    pub fn new<'a>(
        function: &Function,
        variables: impl Iterator<Item = &'a Variable>,
    ) -> Option<Program> {
        let code =
            Code::new(function).ok().filter(|code| code.registers.len() <= MOST_REGISTERS)?;
        let parameters =
            function.params.iter().enumerate().map(|(at, p)| (p.name.clone(), at)).collect();
        let mut shared = SharedSpace::default();
        variables.for_each(|variable| shared.place(variable));
        code.variables.iter().for_each(|variable| shared.place(variable));
        let decoder = Decoder { code: &code, parameters, shared };
        let mut steps: Vec<Step> = code.instructions.iter().map(|i| decoder.step(i)).collect();
        let mut loops: Vec<Loop> = steps
            .iter()
            .enumerate()
            .filter_map(|(last, step)| match step.act {
                Act::Branch(first) if first <= last => Some(Loop { first, last }),
                _ => None,
            })
            .collect();
        loops.sort_by_key(|found| found.last - found.first);
        let odd: Vec<bool> = (0..steps.len()).map(|at| is_past_odd(&steps, &loops, at)).collect();
        steps.iter_mut().zip(odd).for_each(|(step, odd)| step.past_odd = odd);
        let pointers = function.params.iter().map(|p| p.ty.bytes() == 8 && p.ty != Type::F64);
        Some(Program {
            steps,
            registers: code.registers.len(),
            local_bytes: code
                .variables
                .iter()
                .filter(|variable| variable.space == Space::Local)
                .filter_map(Variable::bytes)
                .sum(),
            pointers: pointers.collect(),
            loops,
        })
    }
}

impl Program {
    /// Which parameters are pointers, or as wide.
    #[must_use]
    pub fn pointers(&self) -> &[bool] {
        &self.pointers
    }
}

struct Decoder<'a> {
    code: &'a Code,
    parameters: HashMap<Name, usize>,
    shared: SharedSpace,
}

impl Decoder<'_> {
    fn step(&self, instruction: &Instruction) -> Step {
        let category = category(instruction);
        let results = crate::roles::results(instruction);
        let mut to = Vec::new();
        for operand in &instruction.operands[..results] {
            self.written(operand, &mut to);
        }
        let mut offset = 0;
        let from = instruction.operands[results..]
            .iter()
            .map(|operand| match operand {
                Operand::Address { base, offset: bytes } => {
                    offset = *bytes;
                    self.base(base)
                }
                other => self.source(other),
            })
            .collect();
        let guard = instruction.guard.as_ref().and_then(|guard| {
            Some((self.code.register(&guard.register)?.0 as usize, guard.negated))
        });
        let act = self.act(instruction, category);
        let (weight, latency) = costs(instruction, category);
        let flops = flops(instruction, category);
        Step { guard, act, to, from, offset, category, weight, flops, past_odd: false, latency }
    }

    fn written(&self, operand: &Operand, to: &mut Vec<RegisterIndex>) {
        match operand {
            Operand::Name(name) | Operand::Member(name, _) => {
                to.extend(self.code.register(name).map(|id| id.0 as usize));
            }
            Operand::Vector(parts) | Operand::List(parts) => {
                parts.iter().for_each(|part| self.written(part, to));
            }
            Operand::Pair(first, second) => {
                self.written(first, to);
                self.written(second, to);
            }
            _ => {}
        }
    }

    fn base(&self, base: &AddressBase) -> Source {
        match base {
            AddressBase::Name(name) => self.named(name),
            AddressBase::Absolute => Source::Value(0),
        }
    }

    fn named(&self, name: &Name) -> Source {
        if let Some(id) = self.code.register(name) {
            return Source::Register(id.0 as usize);
        }
        match &**name {
            "%laneid" => Source::Special(Special::Lane),
            _ => self.shared.address(name).map_or(Source::Unknown, Source::Value),
        }
    }

    fn source(&self, operand: &Operand) -> Source {
        match operand {
            Operand::Name(name) => self.named(name),
            Operand::Member(name, axis) => {
                let axis = ["x", "y", "z"].iter().position(|known| *known == &**axis);
                match (&**name, axis) {
                    ("%tid", Some(axis)) => Source::Special(Special::Thread(axis)),
                    ("%ntid", Some(axis)) => Source::Special(Special::Threads(axis)),
                    ("%ctaid", Some(axis)) => Source::Special(Special::Block(axis)),
                    ("%nctaid", Some(axis)) => Source::Special(Special::Blocks(axis)),
                    _ => Source::Unknown,
                }
            }
            Operand::Constant(Constant::Integer { bits, .. }) => Source::Value(*bits),
            Operand::SymbolOffset { name, offset } => match self.named(name) {
                Source::Value(address) => Source::Value(address.wrapping_add_signed(*offset)),
                _ => Source::Unknown,
            },
            _ => Source::Unknown,
        }
    }

    fn act(&self, instruction: &Instruction, category: Category) -> Act {
        if let Some(label) = self.code.targets(instruction).first()
            && let Some(target) = self.code.labels.get(label)
        {
            return Act::Branch(*target);
        }
        let bytes = crate::mix::bytes(instruction);
        match category {
            Category::Control => match &*instruction.opcode {
                "ret" | "exit" | "trap" => Act::End,
                _ => Act::Other,
            },
            Category::Parameter => self.parameter(instruction),
            Category::LoadGlobal => Act::Load(Memory::Global, bytes),
            Category::StoreGlobal => Act::Store(Memory::Global, bytes),
            Category::LoadShared => Act::Load(Memory::Shared, bytes),
            Category::StoreShared => Act::Store(Memory::Shared, bytes),
            Category::Constant => Act::Load(Memory::Constant, bytes),
            Category::Local => match &*instruction.opcode {
                "st" => Act::Store(Memory::Local, bytes),
                _ => Act::Load(Memory::Local, bytes),
            },
            Category::AtomicGlobal => Act::Atomic(Memory::Global, !is_float(instruction)),
            Category::AtomicShared => Act::Atomic(Memory::Shared, !is_float(instruction)),
            Category::Barrier => Act::Barrier,
            _ => arithmetic(instruction),
        }
    }

    fn parameter(&self, instruction: &Instruction) -> Act {
        let base = instruction.operands.iter().find_map(|operand| match operand {
            Operand::Address { base: AddressBase::Name(name), offset: 0 } => Some(name),
            _ => None,
        });
        let place = base.and_then(|name| self.parameters.get(name));
        match place {
            Some(place) if !is_float(instruction) && &*instruction.opcode == "ld" => {
                Act::Parameter(*place)
            }
            _ => Act::Other,
        }
    }
}

/// Whether a branch jumps over a loop by what floats are.
fn is_past_odd(steps: &[Step], loops: &[Loop], at: usize) -> bool {
    let (Act::Branch(target), Some((guard, _))) = (steps[at].act, steps[at].guard) else {
        return false;
    };
    let writer = steps[..at].iter().rev().find(|step| step.to.contains(&guard));
    let by_floats =
        writer.is_some_and(|step| step.act == Act::Other && step.category == Category::Compare);
    by_floats && loops.iter().any(|found| found.first > at && found.last < target)
}
