//! How wide each register is and what it holds, found from the instructions that use it.
//!
//! A declaration says less than it seems: newer compilers declare `.b32` whatever the register
//! holds, and only `add.f32` tells a float from an integer. So every use votes. Most
//! instructions fix the width of their operands exactly; loads and stores, and conversions of
//! integers, take wider registers as well and vote for a least width. The declaration decides
//! where no use does: a register that is only loaded and stored as `.u8`, an operand of an
//! instruction not known here. Where exact votes disagree the module is not valid PTX; the
//! declared width is kept if anybody voted for it, and the register is reported.

use crate::code::{Code, RegisterId};
use crate::tree::{Instruction, Operand, Type};

/// The width of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// One truth value.
    Predicate,
    /// 16 bits; 8-bit values live in these too.
    Bits16,
    /// 32 bits.
    Bits32,
    /// 64 bits.
    Bits64,
    /// 128 bits.
    Bits128,
}

impl Class {
    /// The class of a type.
    pub fn of(ty: Type) -> Class {
        match (ty, ty.bytes()) {
            (Type::Pred, _) => Class::Predicate,
            (_, 1 | 2) => Class::Bits16,
            (_, 4) => Class::Bits32,
            (_, 8) => Class::Bits64,
            _ => Class::Bits128,
        }
    }

    /// How many 32-bit registers of the hardware it takes. Predicates have a file of their own.
    pub fn registers(self) -> u32 {
        match self {
            Class::Predicate => 0,
            Class::Bits16 | Class::Bits32 => 1,
            Class::Bits64 => 2,
            Class::Bits128 => 4,
        }
    }
}

/// What the uses of a register tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inferred {
    /// The width; of a vector, that of each part.
    pub class: Class,
    /// Whether an instruction takes it as a float.
    pub float: bool,
    /// Whether an instruction takes it as an integer. `.b32` and the like say neither.
    pub integer: bool,
    /// Whether uses that fix the width disagree.
    pub contradiction: bool,
}

/// The classes of a function's registers, by [`RegisterId`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classes {
    /// One for each of [`Code::registers`].
    pub registers: Vec<Inferred>,
}

impl Classes {
    /// Lets every use vote.
    pub fn new(code: &Code) -> Classes {
        let mut votes = vec![Votes::default(); code.registers.len()];
        for instruction in &code.instructions {
            if let Some(guard) = &instruction.guard
                && let Some(id) = code.register(&guard.register)
            {
                votes[id.0 as usize].cast(Vote::Exactly(Class::Predicate));
            }
            let types: Vec<Type> =
                instruction.modifiers.iter().filter_map(|word| type_of(word)).collect();
            for (place, operand) in instruction.operands.iter().enumerate() {
                let wanted = wanted(instruction, &types, place);
                vote(code, operand, wanted, &mut votes);
            }
        }
        let registers = code
            .registers
            .iter()
            .zip(&votes)
            .map(|(register, votes)| votes.count(Class::of(register.declared)))
            .collect();
        Classes { registers }
    }

    /// The class of a register.
    pub fn class(&self, register: RegisterId) -> Class {
        self.registers.get(register.0 as usize).map_or(Class::Bits32, |inferred| inferred.class)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Vote {
    Exactly(Class),
    Typed(Type),
    AtLeast(Type),
    Nothing,
}

#[derive(Debug, Clone, Copy, Default)]
struct Votes {
    /// One bit for each class named exactly.
    exact: u8,
    least: Option<Class>,
    float: bool,
    integer: bool,
}

impl Votes {
    fn cast(&mut self, vote: Vote) {
        let ty = match vote {
            Vote::Exactly(class) => {
                self.exact |= 1 << class as u8;
                return;
            }
            Vote::Typed(ty) => {
                self.exact |= 1 << Class::of(ty) as u8;
                ty
            }
            Vote::AtLeast(ty) => {
                self.least = self.least.max(Some(Class::of(ty)));
                ty
            }
            Vote::Nothing => return,
        };
        match ty.word().as_bytes()[0] {
            b'f' => self.float = true,
            b'b' if matches!(ty, Type::BF16 | Type::BF16x2) => self.float = true,
            b'u' | b's' if ty.word() != "surfref" && ty.word() != "samplerref" => {
                self.integer = true;
            }
            _ => {}
        }
    }

    fn count(&self, declared: Class) -> Inferred {
        const ALL: [Class; 5] =
            [Class::Predicate, Class::Bits16, Class::Bits32, Class::Bits64, Class::Bits128];
        let named = |class: &Class| self.exact & 1 << *class as u8 != 0;
        let class = match (named(&declared), ALL.iter().rev().find(|class| named(class))) {
            (false, Some(widest)) => *widest,
            (true, _) => declared,
            // A predicate cannot be loaded: the declaration must be wrong if something is.
            (false, None) => self.least.map_or(declared, |least| least.max(declared)),
        };
        let contradiction = self.exact.count_ones() > 1;
        Inferred { class, float: self.float, integer: self.integer, contradiction }
    }
}

fn vote(code: &Code, operand: &Operand, wanted: Vote, votes: &mut [Votes]) {
    match operand {
        Operand::Name(name) | Operand::Member(name, _) => {
            if let Some(id) = code.register(name) {
                // A vector as a whole: `mov.b64 d, pair` speaks of all parts together.
                let whole = matches!(operand, Operand::Name(_))
                    && code.registers[id.0 as usize].vector.is_some();
                if !whole || matches!(wanted, Vote::AtLeast(_)) {
                    votes[id.0 as usize].cast(wanted);
                }
            }
        }
        Operand::Not(name) => {
            if let Some(id) = code.register(name) {
                votes[id.0 as usize].cast(Vote::Exactly(Class::Predicate));
            }
        }
        Operand::Vector(parts) => {
            for part in parts {
                vote(code, part, wanted, votes);
            }
        }
        // `d|p`: what stands behind the bar is a predicate, in every instruction that has it.
        Operand::Pair(first, second) => {
            vote(code, first, wanted, votes);
            vote(code, second, Vote::Exactly(Class::Predicate), votes);
        }
        Operand::Negative(inner) => vote(code, inner, wanted, votes),
        // Addresses may be 32 or 64 bits wide, and arguments of calls anything.
        _ => {}
    }
}

/// What an instruction wants of the operand at a place.
fn wanted(instruction: &Instruction, types: &[Type], place: usize) -> Vote {
    use Class::{Bits32, Bits64, Predicate};
    let last = types.last().map_or(Vote::Nothing, |ty| Vote::Typed(*ty));
    let first = types.first().map_or(Vote::Nothing, |ty| Vote::Typed(*ty));
    let word = |expected: &str| instruction.has(expected);
    match (&*instruction.opcode, place) {
        ("ld" | "ldu" | "suld", 0) | ("st" | "sust", 1) => {
            types.last().map_or(Vote::Nothing, |ty| Vote::AtLeast(*ty))
        }
        ("cvt", 0) if !word("pack") => types.first().map_or(Vote::Nothing, relaxed),
        ("cvt", _) if !word("pack") => types.last().map_or(Vote::Nothing, relaxed),
        ("mul" | "mad", 0) | ("mad", 3) if word("wide") => {
            types.last().map_or(Vote::Nothing, |ty| Vote::Typed(doubled(*ty)))
        }
        ("mov", _) => packed(instruction, place, types),
        ("setp", 0 | 3) => Vote::Exactly(Predicate),
        ("set", 0) => first,
        ("set", 3) => Vote::Exactly(Predicate),
        ("selp", 3) | ("testp" | "isspacep" | "istypep", 0) => Vote::Exactly(Predicate),
        ("isspacep" | "istypep", _) => Vote::Nothing,
        ("slct", 0..=2) => first,
        ("shl" | "shr", 2) | ("bfe", 2..) | ("bfi", 3..) => Vote::Exactly(Bits32),
        ("popc" | "clz" | "bfind", 0) => Vote::Exactly(Bits32),
        ("vote", 0) if word("ballot") => Vote::Exactly(Bits32),
        ("vote", 0 | 1) => Vote::Exactly(Predicate),
        ("vote" | "elect" | "nanosleep" | "activemask" | "getctarank", _) => Vote::Exactly(Bits32),
        ("match", 0 | 2) => Vote::Exactly(Bits32),
        ("createpolicy", 0) => Vote::Exactly(Bits64),
        ("lop3", 5) => Vote::Exactly(Predicate),
        ("atom", 0) | ("atom" | "red", 2..) => last,
        (opcode, _) if UNIFORM.contains(&opcode) && types.len() == 1 => last,
        ("set" | "slct" | "setp" | "selp" | "testp", _) => last,
        _ => Vote::Nothing,
    }
}

/// Opcodes all of whose operands have the one type they name, unless said otherwise above.
const UNIFORM: &[&str] = &[
    "abs", "add", "addc", "and", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "cnot", "copysign",
    "cos", "cvta", "div", "ex2", "fma", "fns", "lg2", "lop3", "mad", "mad24", "madc", "match",
    "max", "min", "mul", "mul24", "neg", "not", "or", "popc", "prmt", "rcp", "redux", "rem",
    "rsqrt", "sad", "shf", "shfl", "shl", "shr", "sin", "sqrt", "sub", "subc", "szext", "tanh",
    "xor",
];

/// The type of a word, where formats that registers are not declared with stand for their bits.
fn type_of(word: &str) -> Option<Type> {
    match word {
        "e2m1x2" => Some(Type::B8),
        "e4m3x2" | "e5m2x2" | "e2m3x2" | "e3m2x2" | "ue8m0x2" | "s2f6x2" | "e2m1x4" => {
            Some(Type::B16)
        }
        "tf32" | "e4m3x4" | "e5m2x4" | "e2m3x4" | "e3m2x4" => Some(Type::B32),
        _ => Type::from_word(word),
    }
}

/// Conversions take a register wider than an integer or bit type; a float's must fit, except
/// that half precision may be moved as `.b16`.
fn relaxed(ty: &Type) -> Vote {
    match ty {
        Type::F32 | Type::F64 | Type::F16x2 | Type::BF16x2 => Vote::Typed(*ty),
        _ => Vote::AtLeast(*ty),
    }
}

/// The type twice as wide, as `mul.wide` gives it.
fn doubled(ty: Type) -> Type {
    match ty {
        Type::U16 => Type::U32,
        Type::S16 => Type::S32,
        Type::U32 => Type::U64,
        Type::S32 => Type::S64,
        _ => Type::B128,
    }
}

/// `mov.b64 d, {a, b}` shares the width among the parts of the vector.
fn packed(instruction: &Instruction, place: usize, types: &[Type]) -> Vote {
    let Some(ty) = types.last() else {
        return Vote::Nothing;
    };
    let Some(Operand::Vector(parts)) = instruction.operands.get(place) else {
        return Vote::Typed(*ty);
    };
    match (ty.bytes() as usize).checked_div(parts.len()) {
        Some(16) => Vote::Typed(Type::B128),
        Some(8) => Vote::Typed(Type::B64),
        Some(4) => Vote::Typed(Type::B32),
        Some(2) => Vote::Typed(Type::B16),
        // Four parts of `.b32` are bytes, which live in registers of any width.
        Some(1) => Vote::AtLeast(Type::B8),
        _ => Vote::Nothing,
    }
}
