//! What one instruction does to registers, and which memory it reaches.
//!
//! Everything is on a list: an instruction that is on none makes the kernel a barrier. Arithmetic that is not followed
//! gives a number that nobody knows, which is always true.

use super::follow::{Follower, Held, Reach, State, Truth};
use super::interval::View;
use super::node::{Comparison, Id, Node, Operation};
use super::{Barrier, Kind};
use crate::code::RegisterId;
use crate::mix::{self, Category, category};
use crate::roles::results;
use crate::tree::{AddressBase, Constant, Instruction, Name, Operand, Space, Type};

/// Where an instruction's address lies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Parameter,
    Constant,
    /// Local or shared: no other launch sees it.
    Private,
    /// Global, or generic.
    Seen,
}

impl Follower<'_> {
    pub(super) fn step(&mut self, it: &Instruction, state: &mut State) -> Result<(), Barrier> {
        match &*it.opcode {
            "ld" | "ldu" => self.load(it, state),
            "st" => self.store(it, state),
            "atom" | "red" => self.atomic(it, state),
            "cp" => self.copy(it, state),
            "wmma" if it.has("load") || it.has("store") => self.fragment(it, state),
            "call" => self.call(it, state),
            "griddepcontrol" | "clusterlaunchcontrol" => Err(Barrier::Launch),
            "tex" | "tld4" | "txq" | "suld" | "sust" | "sured" | "suq" => Err(Barrier::Texture),
            "multimem" | "tensormap" | "discard" => Err(Barrier::Unknown),
            "membar" | "fence" if it.has("sys") => Err(Barrier::Spin),
            "prefetch" | "prefetchu" | "applypriority" => Ok(()),
            "bra" | "brx" | "ret" | "exit" | "trap" | "brkpt" => Ok(()),
            video if video.starts_with('v') && video != "vote" => Err(Barrier::Unknown),
            _ => match category(it) {
                Category::Other | Category::Texture | Category::AsyncCopy | Category::Control => {
                    Err(Barrier::Unknown)
                }
                _ => {
                    self.compute(it, state);
                    Ok(())
                }
            },
        }
    }

    fn load(&mut self, it: &Instruction, state: &mut State) -> Result<(), Barrier> {
        let lies = lies(it);
        let address = it.operands.get(1).ok_or(Barrier::Unknown)?;
        match lies {
            Where::Parameter => return self.parameter(it, address, state),
            Where::Constant | Where::Private => {}
            Where::Seen => {
                if self.is_in_loop && is_watching(it) {
                    return Err(Barrier::Spin);
                }
                self.reach(it, address, mix::bytes(it), Kind::Read, state)?;
            }
        }
        self.forget_results(it, state);
        Ok(())
    }

    /// Parameters of the kernel are known at the launch. Others, of calls, are not.
    fn parameter(
        &mut self,
        it: &Instruction,
        address: &Operand,
        state: &mut State,
    ) -> Result<(), Barrier> {
        let known = match address {
            Operand::Address { base: AddressBase::Name(name), offset } => {
                self.parameters.get(name).map(|begin| i64::from(*begin) + offset)
            }
            _ => None,
        };
        let ty = last_type(it).ok_or(Barrier::Unknown)?;
        let (bytes, signed) = (ty.bytes(), is_signed(ty));
        let is_number = bytes <= 8 && !matches!(ty, Type::F16 | Type::F32 | Type::F64 | Type::BF16);
        let (Some(begin), true) = (known, is_number) else {
            self.forget_results(it, state);
            return Ok(());
        };
        let parts: Vec<&Operand> = match it.operands.first() {
            Some(Operand::Vector(parts)) => parts.iter().collect(),
            Some(one) => vec![one],
            None => return Err(Barrier::Unknown),
        };
        for (nth, part) in parts.into_iter().enumerate() {
            let offset = u32::try_from(begin).map_err(|_| Barrier::Unknown)? + nth as u32 * bytes;
            let value = self.nodes.make(Node::Parameter { offset, bytes, signed });
            self.assign(it, part, Held::Number(value), state);
        }
        Ok(())
    }

    fn store(&mut self, it: &Instruction, state: &mut State) -> Result<(), Barrier> {
        let address = it.operands.first().ok_or(Barrier::Unknown)?;
        match lies(it) {
            Where::Parameter | Where::Private => Ok(()),
            Where::Constant => Err(Barrier::Unknown),
            Where::Seen if is_signal(it) => Err(Barrier::Spin),
            Where::Seen => self.reach(it, address, mix::bytes(it), Kind::Write, state),
        }
    }

    fn atomic(&mut self, it: &Instruction, state: &mut State) -> Result<(), Barrier> {
        if lies(it) == Where::Seen {
            if ["release", "acq_rel", "sys"].iter().any(|word| it.has(word)) {
                return Err(Barrier::Spin);
            }
            let place = results(it);
            let is_used = match it.operands.first() {
                Some(Operand::Name(name)) if place > 0 => self.read.contains(name),
                Some(Operand::Sink) => false,
                _ => place > 0,
            };
            if self.is_in_loop && is_used {
                return Err(Barrier::Spin);
            }
            let address = it.operands.get(place).ok_or(Barrier::Unknown)?;
            self.reach(it, address, mix::bytes(it), Kind::Both, state)?;
        }
        self.forget_results(it, state);
        Ok(())
    }

    /// Copies into shared memory that run by themselves.
    fn copy(&mut self, it: &Instruction, state: &mut State) -> Result<(), Barrier> {
        if it.has("bulk") && !(it.has("commit_group") || it.has("wait_group")) {
            return Err(Barrier::Copy);
        }
        if !it.has("ca") && !it.has("cg") {
            return Ok(());
        }
        let (Some(from), Some(Operand::Constant(Constant::Integer { bits, .. }))) =
            (it.operands.get(1), it.operands.get(2))
        else {
            return Err(Barrier::Unknown);
        };
        self.reach(it, from, *bits, Kind::Read, state)
    }

    /// A matrix in memory: its rows lie at a distance that a register says.
    fn fragment(&mut self, it: &Instruction, state: &mut State) -> Result<(), Barrier> {
        let (place, kind) = if it.has("load") { (1, Kind::Read) } else { (0, Kind::Write) };
        if lies(it) == Where::Seen {
            let base = it.operands.get(place).ok_or(Barrier::Unknown)?;
            let (address, offset) = self.address(base, state)?;
            let rows = self.nodes.unknown(View::WIDE);
            let address = self.nodes.make(Node::Binary(Operation::Add, address, rows, View::WIDE));
            self.reaches.push(Reach { address, offset, bytes: 16, kind });
        }
        if kind == Kind::Read {
            self.forget_results(it, state);
        }
        Ok(())
    }

    /// A function that reaches no memory but its own gives numbers that nobody knows.
    fn call(&mut self, it: &Instruction, state: &mut State) -> Result<(), Barrier> {
        let place = results(it);
        let Some(Operand::Name(name)) = it.operands.get(place) else { return Err(Barrier::Call) };
        let mut known = self.module.functions();
        let callee = known.find(|function| function.name == *name && function.body.is_some());
        let code = callee.and_then(|callee| crate::code::Code::new(callee).ok());
        let code = code.ok_or(Barrier::Call)?;
        let is_pure = code.instructions.iter().all(|inside| match category(inside) {
            Category::LoadGlobal
            | Category::StoreGlobal
            | Category::AtomicGlobal
            | Category::Texture
            | Category::AsyncCopy
            | Category::Other => false,
            Category::Tensor => &*inside.opcode != "wmma",
            Category::Barrier => &*inside.opcode != "griddepcontrol",
            Category::Control => &*inside.opcode != "call",
            _ => true,
        });
        if !is_pure {
            return Err(Barrier::Call);
        }
        self.forget_results(it, state);
        Ok(())
    }

    fn reach(
        &mut self,
        it: &Instruction,
        operand: &Operand,
        bytes: u64,
        kind: Kind,
        state: &State,
    ) -> Result<(), Barrier> {
        let (mut address, offset) = self.address(operand, state)?;
        if let Some(guard) = &it.guard
            && let Held::Truth(truth) = self.held_by(&guard.register, state)
        {
            address = self.under(address, truth, !guard.negated);
        }
        if bytes == 0 {
            return Err(Barrier::Unknown);
        }
        self.reaches.push(Reach { address, offset, bytes: bytes as i64, kind });
        Ok(())
    }

    fn address(&mut self, operand: &Operand, state: &State) -> Result<(Id, i64), Barrier> {
        match operand {
            Operand::Address { base: AddressBase::Name(name), offset } => {
                Ok((self.named(name, state), *offset))
            }
            Operand::Unified(inner) => self.address(inner, state),
            _ => Err(Barrier::Unknown),
        }
    }

    /// Integers, comparisons and predicates are followed; of everything else nothing is known.
    fn compute(&mut self, it: &Instruction, state: &mut State) {
        let value = match &*it.opcode {
            "setp" => self.compare(it, state).map(|truth| Held::Truth(self.truth(truth))),
            "and" | "or" | "not" | "mov" if it.has("pred") => {
                self.logic(it, state).map(|truth| Held::Truth(self.truth(truth)))
            }
            _ => self.number(it, state).map(Held::Number),
        };
        match (value, it.operands.first()) {
            (Some(value), Some(Operand::Pair(first, second))) => {
                self.assign(it, first, value, state);
                let Held::Truth(truth) = value else { return self.forget_results(it, state) };
                // With a second predicate joined in, the other result is not the opposite.
                let opposite =
                    if it.operands.len() == 3 { Truth::Not(truth) } else { Truth::Unknown };
                let other = Held::Truth(self.truth(opposite));
                self.assign(it, second, other, state);
            }
            (Some(value), Some(to @ Operand::Name(_))) => self.assign(it, to, value, state),
            _ => self.forget_results(it, state),
        }
    }

    fn compare(&mut self, it: &Instruction, state: &State) -> Option<Truth> {
        let ty = last_type(it).filter(|ty| is_whole(*ty))?;
        let words = [
            ("eq", Comparison::Equal, false),
            ("ne", Comparison::Unequal, false),
            ("lt", Comparison::Less, false),
            ("lo", Comparison::Less, true),
            ("le", Comparison::LessOrEqual, false),
            ("ls", Comparison::LessOrEqual, true),
            ("gt", Comparison::Greater, false),
            ("hi", Comparison::Greater, true),
            ("ge", Comparison::GreaterOrEqual, false),
            ("hs", Comparison::GreaterOrEqual, true),
        ];
        let first = it.modifiers.first()?;
        let &(_, by, is_unsigned) = words.iter().find(|(word, ..)| *word == &**first)?;
        let view = View { bits: 8 * ty.bytes(), signed: is_signed(ty) && !is_unsigned };
        let a = self.value(it.operands.get(1)?, state)?;
        let b = self.value(it.operands.get(2)?, state)?;
        let truth = Truth::Compare(a, by, b, view);
        let Some(third) = it.operands.get(3) else { return Some(truth) };
        let other = self.predicate(third, state)?;
        let truth = self.truth(truth);
        if it.has("and") {
            Some(Truth::And(truth, other))
        } else if it.has("or") {
            Some(Truth::Or(truth, other))
        } else {
            None
        }
    }

    fn predicate(&mut self, operand: &Operand, state: &State) -> Option<u32> {
        let (name, negated) = match operand {
            Operand::Name(name) => (name, false),
            Operand::Not(name) => (name, true),
            _ => return None,
        };
        match self.held_by(name, state) {
            Held::Truth(truth) if negated => Some(self.truth(Truth::Not(truth))),
            Held::Truth(truth) => Some(truth),
            _ => None,
        }
    }

    fn logic(&mut self, it: &Instruction, state: &State) -> Option<Truth> {
        let a = self.predicate(it.operands.get(1)?, state)?;
        match &*it.opcode {
            "not" => Some(Truth::Not(a)),
            "mov" => Some(self.truths[a as usize]),
            "and" => Some(Truth::And(a, self.predicate(it.operands.get(2)?, state)?)),
            _ => Some(Truth::Or(a, self.predicate(it.operands.get(2)?, state)?)),
        }
    }

    fn number(&mut self, it: &Instruction, state: &State) -> Option<Id> {
        if &*it.opcode == "cvta" {
            return self.converted_address(it, state);
        }
        let plain = |word: &Name| {
            Type::from_word(word).is_some_and(is_whole) || matches!(&**word, "lo" | "hi" | "wide")
        };
        if !it.modifiers.iter().all(plain) {
            return None;
        }
        let ty = last_type(it)?;
        let view = View { bits: 8 * ty.bytes(), signed: is_signed(ty) };
        let bare = View { signed: false, ..view };
        if view.bits > 64 {
            return None;
        }
        let operands: Option<Vec<Id>> = match &*it.opcode {
            "selp" => it.operands[1..3.min(it.operands.len())]
                .iter()
                .map(|operand| self.value(operand, state))
                .collect(),
            _ => it.operands.iter().skip(1).map(|operand| self.value(operand, state)).collect(),
        };
        let operands = operands?;
        let binary = |operation, a, b, view| Node::Binary(operation, a, b, view);
        let node = match (&*it.opcode, operands.as_slice()) {
            ("mov", [a]) => return Some(*a),
            ("cvt", [a]) => return self.converted(it, *a),
            ("add", [a, b]) => binary(Operation::Add, *a, *b, view),
            ("sub", [a, b]) => binary(Operation::Subtract, *a, *b, view),
            ("neg", [a]) => binary(Operation::Subtract, self.nodes.constant(0), *a, view),
            ("not", [a]) => binary(Operation::Subtract, self.nodes.constant(-1), *a, view),
            ("mul", [a, b]) => return self.product(it, *a, *b, view),
            ("mad", [a, b, c]) if !it.has("hi") => {
                let product = self.product(it, *a, *b, view)?;
                binary(Operation::Add, product, *c, view)
            }
            ("and", [a, b]) => binary(Operation::And, *a, *b, bare),
            ("or", [a, b]) => binary(Operation::Or, *a, *b, bare),
            ("xor", [a, b]) => binary(Operation::Xor, *a, *b, bare),
            ("shl" | "shr", [a, b]) => {
                let left = &*it.opcode == "shl";
                let operation = if left { Operation::ShiftLeft } else { Operation::ShiftRight };
                let by = self.nodes.make(Node::Seen(*b, View { bits: 32, signed: false }));
                binary(operation, *a, by, view)
            }
            ("min", [a, b]) => binary(Operation::Least, *a, *b, view),
            ("max", [a, b]) => binary(Operation::Most, *a, *b, view),
            ("div", [a, b]) => binary(Operation::Divide, *a, *b, view),
            ("rem", [a, b]) => binary(Operation::Rest, *a, *b, view),
            ("bfe", [a, from, count]) if !view.signed => {
                let count =
                    self.nodes.as_constant(*count).filter(|count| (0..32).contains(count))?;
                self.nodes.as_constant(*from)?;
                let shifted = self.nodes.make(binary(Operation::ShiftRight, *a, *from, view));
                binary(Operation::And, shifted, self.nodes.constant((1 << count) - 1), bare)
            }
            ("selp", [a, b]) => {
                let truth = self.predicate(it.operands.get(3)?, state);
                let truth = truth.unwrap_or(0);
                let (a, b) = (self.under(*a, truth, true), self.under(*b, truth, false));
                Node::Either(self.at, a, b)
            }
            _ => return None,
        };
        Some(self.nodes.make(node))
    }

    fn product(&mut self, it: &Instruction, a: Id, b: Id, view: View) -> Option<Id> {
        let node = if it.has("wide") {
            let (a, b) =
                (self.nodes.make(Node::Seen(a, view)), self.nodes.make(Node::Seen(b, view)));
            Node::Binary(Operation::Multiply, a, b, View { bits: 2 * view.bits, ..view })
        } else if it.has("hi") {
            Node::Binary(Operation::UpperHalf, a, b, view)
        } else {
            Node::Binary(Operation::Multiply, a, b, view)
        };
        Some(self.nodes.make(node))
    }

    /// From one whole number to another: what is wider is read as its type says, what is narrower is cut off.
    fn converted(&mut self, it: &Instruction, value: Id) -> Option<Id> {
        let types: Vec<Type> =
            it.modifiers.iter().filter_map(|word| Type::from_word(word)).collect();
        let [to, from] = types[..] else { return None };
        let view = |ty: Type| View { bits: 8 * ty.bytes(), signed: is_signed(ty) };
        let narrower = if to.bytes() < from.bytes() { to } else { from };
        Some(self.nodes.make(Node::Seen(value, view(narrower))))
    }

    fn converted_address(&mut self, it: &Instruction, state: &State) -> Option<Id> {
        let is_private = ["local", "shared", "param", "const", "shared::cta", "shared::cluster"]
            .iter()
            .any(|space| it.has(space));
        if is_private {
            return Some(self.nodes.make(Node::Private));
        }
        self.value(it.operands.get(1)?, state)
    }

    fn value(&mut self, operand: &Operand, state: &State) -> Option<Id> {
        match operand {
            Operand::Name(name) => Some(self.named(name, state)),
            Operand::Constant(Constant::Integer { bits, .. }) => {
                Some(self.nodes.constant(bits.cast_signed()))
            }
            Operand::SymbolOffset { name, offset } => {
                let base = self.named(name, state);
                let more = self.nodes.constant(*offset);
                Some(self.nodes.make(Node::Binary(Operation::Add, base, more, View::WIDE)))
            }
            Operand::Member(name, axis) => {
                let side = ["x", "y", "z"].iter().position(|known| *known == &**axis)? as u8;
                let node = match &**name {
                    "%tid" => Node::Thread(side),
                    "%ntid" => Node::Threads(side),
                    "%ctaid" => Node::Block(side),
                    "%nctaid" => Node::Blocks(side),
                    _ => return None,
                };
                Some(self.nodes.make(node))
            }
            _ => None,
        }
    }

    fn named(&mut self, name: &Name, state: &State) -> Id {
        if self.code.register(name).is_some() {
            return match self.held_by(name, state) {
                Held::Number(id) => id,
                Held::Unset | Held::Truth(_) => {
                    let view = self.declared(name);
                    self.nodes.unknown(view)
                }
            };
        }
        if &**name == "%laneid" {
            return self.nodes.make(Node::Lane);
        }
        match self.symbol(name) {
            Some((number, Space::Global)) => self.nodes.make(Node::Symbol(number)),
            Some((_, Space::Shared | Space::Local | Space::Param | Space::Const)) => {
                self.nodes.make(Node::Private)
            }
            // Dynamic shared memory of another text, special registers, functions.
            _ => self.nodes.unknown(View::WIDE),
        }
    }

    /// A result gets its value; where the guard fails it keeps the old one.
    fn assign(&mut self, it: &Instruction, to: &Operand, value: Held, state: &mut State) {
        let Operand::Name(name) = to else { return };
        let Some(RegisterId(number)) = self.code.register(name) else { return };
        let place = number as usize;
        state[place] = match (&it.guard, state[place], value) {
            (None, _, value) | (Some(_), Held::Unset, value) => value,
            (Some(_), Held::Number(old), Held::Number(new)) => {
                let at = (1 << 31) + self.at;
                Held::Number(self.nodes.make(Node::Either(at, old, new)))
            }
            _ => Held::Truth(0),
        };
    }

    fn forget_results(&mut self, it: &Instruction, state: &mut State) {
        let view = match last_type(it) {
            // What is loaded fills the register as its type says.
            Some(ty) if matches!(&*it.opcode, "ld" | "ldu") && is_whole(ty) && ty.bytes() <= 8 => {
                Some(View { bits: 8 * ty.bytes(), signed: is_signed(ty) })
            }
            _ => None,
        };
        for operand in &it.operands[..results(it).min(it.operands.len())] {
            self.forget(it, operand, view, state);
        }
    }

    fn forget(&mut self, it: &Instruction, to: &Operand, view: Option<View>, state: &mut State) {
        match to {
            Operand::Name(name) => {
                let declared = self.declared(name);
                let is_predicate = self.code.register(name).is_some_and(|RegisterId(number)| {
                    self.code.registers[number as usize].declared == Type::Pred
                });
                let value = match is_predicate {
                    true => Held::Truth(0),
                    false => Held::Number(self.nodes.unknown(view.unwrap_or(declared))),
                };
                self.assign(it, to, value, state);
            }
            Operand::Member(name, _) => {
                self.forget(it, &Operand::Name(name.clone()), None, state);
            }
            Operand::Vector(parts) | Operand::List(parts) => {
                parts.iter().for_each(|part| self.forget(it, part, view, state));
            }
            Operand::Pair(first, second) => {
                self.forget(it, first, view, state);
                self.forget(it, second, view, state);
            }
            _ => {}
        }
    }
}

fn lies(it: &Instruction) -> Where {
    let space = it.modifiers.iter().find_map(|word| match word.split("::").next()? {
        "param" => Some(Where::Parameter),
        "const" => Some(Where::Constant),
        "shared" | "local" => Some(Where::Private),
        "global" => Some(Where::Seen),
        _ => None,
    });
    space.unwrap_or(Where::Seen)
}

/// A load that sees what other blocks write meanwhile: a loop of such may wait for them.
fn is_watching(it: &Instruction) -> bool {
    ["volatile", "acquire", "relaxed", "mmio", "cv"].iter().any(|word| it.has(word))
}

/// A store that another stream, another GPU or the host may wait for: what came before it in its stream must be done.
fn is_signal(it: &Instruction) -> bool {
    ["volatile", "release", "relaxed", "mmio"].iter().any(|word| it.has(word))
}

fn last_type(it: &Instruction) -> Option<Type> {
    it.modifiers.iter().rev().find_map(|word| Type::from_word(word))
}

fn is_signed(ty: Type) -> bool {
    matches!(ty, Type::S8 | Type::S16 | Type::S32 | Type::S64)
}

fn is_whole(ty: Type) -> bool {
    is_signed(ty)
        || matches!(
            ty,
            Type::B8
                | Type::B16
                | Type::B32
                | Type::B64
                | Type::U8
                | Type::U16
                | Type::U32
                | Type::U64
        )
}
