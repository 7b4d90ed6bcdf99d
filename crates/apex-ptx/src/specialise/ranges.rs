//! What the registers of a kernel may hold in a given call, and which of its blocks are reached.
//!
//! Both are found together: a block is looked at only once some way leads there, so a loop of which one turn is enough
//! is seen to be one. A register that is written once has one value for the whole kernel; the others, few in what
//! compilers write, have one at the beginning of each block. Numbers come from constants and from the sides of block
//! and grid: `%tid` is below `%ntid`. Whatever is not known here may be any number.

use super::values::{self, Form, Value};
use super::{Call, geometry};
use crate::cfg::{BlockId, Graph};
use crate::code::{Code, RegisterId};
use crate::roles::{Role, visit_names};
use crate::tree::{Constant, Instruction, Operand, Type};

/// After so many changes a register may hold any number: it counts the turns of a loop.
const MOST_CHANGES: u8 = 8;
/// More sweeps than any real kernel needs.
const MOST_SWEEPS: usize = 4096;
/// Values at the beginnings of blocks, all together: 200 MB.
const MOST_VALUES: usize = 1 << 22;

/// What was found of an instruction that some way leads to.
#[derive(Clone, Copy)]
pub(super) struct Fact {
    /// Whether its guard lets it run; `None` where it may be so or so.
    pub(super) runs: Option<bool>,
    /// The register that it computes and the number that this is, if it does nothing else and can be one only.
    pub(super) number: Option<(RegisterId, i128)>,
}

/// What is known so far.
pub(super) struct Ranges<'a> {
    code: &'a Code,
    graph: &'a Graph,
    call: &'a Call,
    /// For each register that is written more than once its place among these.
    place: Vec<Option<usize>>,
    /// Those registers.
    many: Vec<RegisterId>,
    /// What registers may hold that are written once.
    once: Vec<Value>,
    once_changes: Vec<u8>,
    /// What the others may hold when a block begins.
    begins: Vec<Vec<Value>>,
    begins_changes: Vec<Vec<u8>>,
    /// What the others may hold at the instruction that is looked at.
    now: Vec<Value>,
    /// Registers that may be read before they are written: then they hold anything.
    unwritten: Vec<RegisterId>,
    reached: Vec<bool>,
    is_changed: bool,
}

/// What is known of each instruction, in their order; `None` for those that are never reached, and as a whole where it
/// takes too long to find out.
pub(super) fn facts(code: &Code, graph: &Graph, call: &Call) -> Option<Vec<Option<Fact>>> {
    let mut ranges = Ranges::new(code, graph, call)?;
    ranges.find()?;
    let mut facts = vec![None; code.instructions.len()];
    for block in 0..graph.blocks.len() {
        if !ranges.reached[block] {
            continue;
        }
        ranges.now.clone_from(&ranges.begins[block]);
        for at in graph.blocks[block].instructions.clone() {
            let instruction = &code.instructions[at];
            let number = ranges.result(instruction);
            let number = number.and_then(|(register, value)| Some((register, value.number()?)));
            facts[at] = Some(Fact { runs: ranges.runs(instruction), number });
            ranges.step(instruction);
        }
    }
    Some(facts)
}

impl<'a> Ranges<'a> {
    fn new(code: &'a Code, graph: &'a Graph, call: &'a Call) -> Option<Ranges<'a>> {
        let registers = code.registers.len();
        let mut writes = vec![0_u32; registers];
        for instruction in &code.instructions {
            visit_names(instruction, &mut |name, role| {
                if let Some(register) = code.register(name).filter(|_| role != Role::Read) {
                    // What is written under a guard may also keep what it was.
                    writes[register.0 as usize] += 1 + u32::from(role == Role::Update);
                }
            });
        }
        let all = (0..registers as u32).map(RegisterId);
        let many: Vec<RegisterId> = all.filter(|it| writes[it.0 as usize] > 1).collect();
        let mut place = vec![None; registers];
        many.iter().enumerate().for_each(|(nth, it)| place[it.0 as usize] = Some(nth));
        let blocks = graph.blocks.len();
        if blocks.checked_mul(many.len())? > MOST_VALUES {
            return None;
        }
        let mut ranges = Ranges {
            code,
            graph,
            call,
            place,
            once: vec![Value::Nothing; registers],
            once_changes: vec![0; registers],
            begins: vec![vec![Value::Nothing; many.len()]; blocks],
            begins_changes: vec![vec![0; many.len()]; blocks],
            now: vec![Value::Nothing; many.len()],
            many,
            unwritten: Vec::new(),
            reached: vec![false; blocks],
            is_changed: true,
        };
        *ranges.reached.first_mut()? = true;
        Some(ranges)
    }

    fn find(&mut self) -> Option<()> {
        for _ in 0..MOST_SWEEPS {
            if !core::mem::take(&mut self.is_changed) && !self.admit_unwritten() {
                return Some(());
            }
            self.unwritten.clear();
            for block in 0..self.graph.blocks.len() {
                if self.reached[block] {
                    self.sweep(block);
                }
            }
        }
        None
    }

    /// What is read before it is written may be anything. Says whether there was such a register.
    fn admit_unwritten(&mut self) -> bool {
        let unwritten = core::mem::take(&mut self.unwritten);
        for register in &unwritten {
            match self.place[register.0 as usize] {
                Some(place) => self.begins[0][place] = Value::Any,
                None => self.once[register.0 as usize] = Value::Any,
            }
        }
        !unwritten.is_empty()
    }

    fn sweep(&mut self, block: usize) {
        let (code, graph) = (self.code, self.graph);
        let range = graph.blocks[block].instructions.clone();
        self.now.clone_from(&self.begins[block]);
        for instruction in &code.instructions[range.clone()] {
            visit_names(instruction, &mut |name, role| {
                let register = code.register(name).filter(|_| role == Role::Read);
                let unwritten = register.filter(|it| self.register(*it) == Value::Nothing);
                self.unwritten.extend(unwritten);
            });
            self.step(instruction);
        }
        let last = &code.instructions[range.end - 1];
        let (mut is_taken, mut falls) = (true, true);
        if matches!(&*last.opcode, "bra" | "brx" | "ret" | "exit" | "trap") {
            let runs = match &last.guard {
                // A guard that nothing wrote yet says nothing yet.
                Some(guard) => match code.register(&guard.register).map(|it| self.register(it)) {
                    Some(Value::Nothing) => return,
                    _ => self.runs(last),
                },
                None => Some(true),
            };
            (is_taken, falls) = (runs != Some(false), runs != Some(true));
        }
        let targets = code.targets(last);
        let starts = targets.iter().filter_map(|label| code.labels.get(label).copied());
        let taken = starts.filter_map(|start| graph.block_of(start)).filter(|_| is_taken);
        let next = Some(BlockId(block as u32 + 1)).filter(|_| falls);
        for leads_to in taken.chain(next) {
            if leads_to.index() < self.reached.len() {
                self.enter(leads_to.index());
            }
        }
    }

    /// A way leads to a block with what holds now.
    fn enter(&mut self, block: usize) {
        self.is_changed |= !core::mem::replace(&mut self.reached[block], true);
        for (place, register) in self.many.iter().enumerate() {
            let bits = width(self.code, *register);
            let changes = &mut self.begins_changes[block][place];
            self.is_changed |= join(&mut self.begins[block][place], self.now[place], bits, changes);
        }
    }

    fn register(&self, register: RegisterId) -> Value {
        let at = register.0 as usize;
        self.place[at].map_or(self.once[at], |place| self.now[place])
    }

    fn runs(&self, instruction: &Instruction) -> Option<bool> {
        let Some(guard) = &instruction.guard else { return Some(true) };
        let number = self.register(self.code.register(&guard.register)?).number()?;
        Some((number != 0) != guard.negated)
    }

    /// The register that an instruction computes here, with what that is, and no more.
    fn result(&self, instruction: &Instruction) -> Option<(RegisterId, Value)> {
        let Some(Operand::Name(name)) = instruction.operands.first() else { return None };
        let register = self.code.register(name)?;
        Some((register, self.computed(instruction, width(self.code, register)?)?))
    }

    fn step(&mut self, instruction: &Instruction) {
        let runs = self.runs(instruction);
        if runs == Some(false) {
            return;
        }
        if let Some((register, value)) = self.result(instruction) {
            return self.write(register, value, runs == Some(true));
        }
        let code = self.code;
        visit_names(instruction, &mut |name, role| {
            if role != Role::Read
                && let Some(register) = code.register(name)
            {
                self.write(register, Value::Any, false);
            }
        });
    }

    /// A register gets a value, surely or perhaps.
    fn write(&mut self, register: RegisterId, value: Value, is_sure: bool) {
        let at = register.0 as usize;
        let bits = width(self.code, register);
        match self.place[at] {
            Some(place) if is_sure => self.now[place] = bits.map_or(Value::Any, |_| value),
            Some(place) => {
                let before = self.now[place];
                self.now[place] = bits.map_or(Value::Any, |bits| before.or(value, bits));
            }
            None => {
                let changes = &mut self.once_changes[at];
                self.is_changed |= join(&mut self.once[at], value, bits, changes);
            }
        }
    }

    /// An operand of so many bits.
    fn operand(&self, operand: &Operand, bits: u32) -> Value {
        match operand {
            Operand::Constant(Constant::Integer { bits: number, .. }) => {
                Value::exact(i128::from(*number), bits)
            }
            Operand::Name(name) => match self.code.register(name) {
                Some(register) if width(self.code, register) == Some(bits) => {
                    self.register(register)
                }
                // Of a wider register the low bits count; a narrower one is nobody's text.
                Some(register) => match (self.register(register), width(self.code, register)) {
                    (Value::Nothing, _) => Value::Nothing,
                    (Value::Within(low, high), Some(wider)) if wider > bits => {
                        Value::within(low, high, bits)
                    }
                    _ => Value::Any,
                },
                None if &**name == "%laneid" => Value::within(0, 31, bits),
                None => Value::Any,
            },
            Operand::Member(..) => self.place(operand).map_or(Value::Any, |(low, high)| {
                Value::within(i128::from(low), i128::from(high), bits)
            }),
            _ => Value::Any,
        }
    }

    /// Least and greatest of a side or of a place in it.
    fn place(&self, operand: &Operand) -> Option<(u32, u32)> {
        if let Some(side) = geometry::side(operand, self.call) {
            return Some((side, side));
        }
        let Operand::Member(name, axis) = operand else { return None };
        let axis = ["x", "y", "z"].iter().position(|known| *known == &**axis)?;
        let sides = match &**name {
            "%tid" => self.call.block?,
            "%ctaid" => self.call.grid?,
            _ => return None,
        };
        Some((0, sides[axis].saturating_sub(1)))
    }

    /// What an instruction makes of what is known; `None` for one that is not followed here.
    fn computed(&self, instruction: &Instruction, to_bits: u32) -> Option<Value> {
        let words: Vec<&str> = instruction.modifiers.iter().map(|word| &**word).collect();
        let from = instruction.operands.get(1..)?;
        let (form, result) = shape(&instruction.opcode, &words, from.len())?;
        let fits = match &*instruction.opcode {
            // A conversion may have a wider register than it says.
            "cvt" => to_bits >= result.bits,
            _ => to_bits == result.bits,
        };
        if !fits {
            return Some(Value::Any);
        }
        let widths = |nth: usize| match (&*instruction.opcode, nth) {
            ("shl" | "shr", 1) => 32,
            ("selp", 2) => 1,
            ("mad", 2) => result.bits,
            _ => form.bits,
        };
        let from: Vec<Value> =
            from.iter().enumerate().map(|(nth, one)| self.operand(one, widths(nth))).collect();
        if from.contains(&Value::Nothing) {
            return Some(Value::Nothing);
        }
        let value = applied(&instruction.opcode, &words, form, result, &from)?;
        Some(match &*instruction.opcode {
            // In a wider register the number itself stands there, with its sign.
            "cvt" => {
                let (low, high) = value.seen(result);
                Value::within(low, high, to_bits)
            }
            _ => value,
        })
    }
}

/// Widens what was known by one value more. Says whether it changed.
fn join(known: &mut Value, more: Value, bits: Option<u32>, changes: &mut u8) -> bool {
    let joined = bits.map_or(Value::Any, |bits| known.or(more, bits));
    if joined == *known {
        return false;
    }
    *changes = changes.saturating_add(1);
    *known = if *changes > MOST_CHANGES { Value::Any } else { joined };
    true
}

/// Bits of a register that holds one number; 1 for a predicate.
fn width(code: &Code, register: RegisterId) -> Option<u32> {
    let register = &code.registers[register.0 as usize];
    match register.declared {
        _ if register.vector.is_some() => None,
        Type::Pred => Some(1),
        Type::B128 | Type::TexRef | Type::SamplerRef | Type::SurfRef => None,
        other => Some(8 * other.bytes()),
    }
}

fn form_of(word: &str) -> Option<Form> {
    let (signed, bits) = match word {
        "pred" => return Some(Form { bits: 1, signed: false }),
        _ => (word.starts_with('s'), word.get(1..)?),
    };
    let bits = match bits {
        "8" => 8,
        "16" => 16,
        "32" => 32,
        "64" => 64,
        _ => return None,
    };
    matches!(word.as_bytes()[0], b's' | b'u' | b'b').then_some(Form { bits, signed })
}

/// How an instruction looks at its operands, and what its result is; `None` for one that is not followed here.
fn shape(opcode: &str, words: &[&str], operands: usize) -> Option<(Form, Form)> {
    let same = |form: Form| Some((form, form));
    match (opcode, words, operands) {
        ("mov", [ty], 1) => same(form_of(ty)?),
        ("not", [ty], 1) => same(form_of(ty)?),
        ("neg" | "abs", [ty], 1) => same(form_of(ty)?),
        ("cvt", [to, from], 1) => Some((form_of(from)?, form_of(to)?)),
        ("add" | "sub" | "min" | "max" | "div" | "rem", [ty], 2) => same(form_of(ty)?),
        ("and" | "or" | "xor" | "shl" | "shr", [ty], 2) => same(form_of(ty)?),
        ("selp", [ty], 3) => same(form_of(ty)?),
        ("mul", ["lo" | "hi", ty], 2) | ("mad", ["lo", ty], 3) => same(form_of(ty)?),
        ("mul", ["wide", ty], 2) | ("mad", ["wide", ty], 3) => {
            let form = form_of(ty).filter(|form| form.bits <= 32)?;
            Some((form, Form { bits: 2 * form.bits, ..form }))
        }
        ("setp", [_, ty], 2) => Some((form_of(ty)?, Form { bits: 1, signed: false })),
        _ => None,
    }
}

/// What an instruction makes of values that are all something.
fn applied(
    opcode: &str,
    words: &[&str],
    form: Form,
    result: Form,
    from: &[Value],
) -> Option<Value> {
    let bits = form.bits;
    Some(match (opcode, from) {
        ("mov", [one]) => *one,
        ("cvt", [one]) => {
            let (low, high) = one.seen(form);
            Value::within(low, high, result.bits)
        }
        ("not", [one]) => values::difference(Value::exact(-1, bits), *one, bits),
        ("neg", [one]) => values::difference(Value::exact(0, bits), *one, bits),
        ("abs", [one]) => match one.seen(form) {
            (low, _) if low >= 0 => *one,
            (low, high) if low == high => Value::exact(low.abs(), bits),
            _ => Value::Any,
        },
        ("add", [a, b]) => values::sum(*a, *b, bits),
        ("sub", [a, b]) => values::difference(*a, *b, bits),
        ("mul", [a, b]) => match words {
            ["lo", _] => values::product(*a, *b, bits),
            ["wide", _] => values::wide_product(*a, *b, form),
            _ => values::high_product(*a, *b, form),
        },
        ("mad", [a, b, c]) => match words {
            ["lo", _] => values::sum(values::product(*a, *b, bits), *c, bits),
            _ => values::sum(values::wide_product(*a, *b, form), *c, result.bits),
        },
        ("min", [a, b]) => {
            let ((a_low, a_high), (b_low, b_high)) = (a.seen(form), b.seen(form));
            Value::within(a_low.min(b_low), a_high.min(b_high), bits)
        }
        ("max", [a, b]) => {
            let ((a_low, a_high), (b_low, b_high)) = (a.seen(form), b.seen(form));
            Value::within(a_low.max(b_low), a_high.max(b_high), bits)
        }
        ("div", [a, b]) => values::quotient(*a, *b, form),
        ("rem", [a, b]) => values::remainder(*a, *b, form),
        ("and", [a, b]) => values::and(*a, *b, bits),
        ("or", [a, b]) => either(*a, *b, bits, |a, b| a | b),
        ("xor", [a, b]) => match (a.number(), b.number()) {
            (Some(a), Some(b)) => Value::exact(a ^ b, bits),
            _ => Value::Any,
        },
        ("shl", [a, by]) => match by.number() {
            Some(by) if by >= i128::from(bits) => Value::exact(0, bits),
            Some(by) => values::product(*a, Value::exact(1 << by, bits), bits),
            None => Value::Any,
        },
        ("shr", [a, by]) => match by.number() {
            Some(by) => {
                let (low, high) = a.seen(form);
                let by = by.clamp(0, 127);
                Value::within(low >> by, high >> by, bits)
            }
            None => Value::Any,
        },
        ("selp", [a, b, which]) => match which.number() {
            Some(0) => *b,
            Some(_) => *a,
            None => a.or(*b, bits),
        },
        ("setp", [a, b]) => {
            // Some words say themselves that they compare unsigned numbers.
            let signed = form.signed && !matches!(words[0], "lo" | "ls" | "hi" | "hs");
            let form = Form { signed, ..form };
            match values::holds(words[0], a.seen(form), b.seen(form)) {
                Some(holds) => Value::exact(i128::from(holds), 1),
                None => Value::Any,
            }
        }
        _ => return None,
    })
}

/// Bits that stand in one or the other: of predicates one that holds is enough.
fn either(a: Value, b: Value, bits: u32, both: impl Fn(i128, i128) -> i128) -> Value {
    match (a.number(), b.number()) {
        (Some(a), Some(b)) => Value::exact(both(a, b), bits),
        (Some(1), None) | (None, Some(1)) if bits == 1 => Value::exact(1, 1),
        _ => Value::Any,
    }
}
