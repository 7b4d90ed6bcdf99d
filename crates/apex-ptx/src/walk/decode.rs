//! What single instructions do with integers, and what they cost.

use super::step::{Act, Comparison, Form, Operation};
use crate::mix::Category;
use crate::tree::{Instruction, Operand, Type};

/// Whether it works on floats.
pub(super) fn is_float(instruction: &Instruction) -> bool {
    ["f16", "f16x2", "bf16", "bf16x2", "f32", "f64"].iter().any(|word| instruction.has(word))
}

/// Integers and predicates; everything else is not followed.
pub(super) fn arithmetic(instruction: &Instruction) -> Act {
    let types: Vec<Type> =
        instruction.modifiers.iter().filter_map(|word| Type::from_word(word)).collect();
    let Some(form) = form(instruction, &types) else { return Act::Other };
    let scalar = |operand: &Operand| !matches!(operand, Operand::Vector(_) | Operand::Pair(..));
    if !instruction.operands.iter().all(scalar) {
        return Act::Other;
    }
    let has = |word: &str| instruction.has(word);
    let operation = match &*instruction.opcode {
        "mov" | "cvta" | "cvt" => Operation::Move,
        "add" if !has("cc") => Operation::Add,
        "sub" if !has("cc") => Operation::Subtract,
        "mul" if has("hi") => Operation::MultiplyHigh,
        "mul" => Operation::Multiply,
        "mad" if has("lo") || has("wide") => Operation::MultiplyAdd,
        "and" => Operation::And,
        "or" => Operation::Or,
        "xor" => Operation::Xor,
        "not" => Operation::Not,
        "neg" => Operation::Negative,
        "shl" => Operation::ShiftLeft,
        "shr" => Operation::ShiftRight,
        "min" => Operation::Least,
        "max" => Operation::Most,
        "div" => Operation::Quotient,
        "rem" => Operation::Remainder,
        "selp" => Operation::Select,
        "bfe" => Operation::Extract,
        "bfi" => Operation::Insert,
        "shf" if has("l") && has("wrap") => Operation::Funnel,
        "popc" => Operation::Ones,
        "setp" if instruction.operands.len() == 3 => return compare(instruction, form),
        _ => return Act::Other,
    };
    Act::Integer(operation, form)
}

fn form(instruction: &Instruction, types: &[Type]) -> Option<Form> {
    let last = *types.last()?;
    let of = |ty: Type| match ty {
        Type::Pred => Some((1, false)),
        Type::U8 | Type::B8 => Some((8, false)),
        Type::S8 => Some((8, true)),
        Type::U16 | Type::B16 => Some((16, false)),
        Type::S16 => Some((16, true)),
        Type::U32 | Type::B32 => Some((32, false)),
        Type::S32 => Some((32, true)),
        Type::U64 | Type::B64 => Some((64, false)),
        Type::S64 => Some((64, true)),
        _ => None,
    };
    let (bits, signed) = of(last)?;
    let to_bits = match &*instruction.opcode {
        "cvt" => of(*types.first()?)?.0,
        "popc" => 32,
        _ if instruction.has("wide") => 2 * bits,
        _ => bits,
    };
    Some(Form { bits, to_bits, signed })
}

fn compare(instruction: &Instruction, form: Form) -> Act {
    let words: &[(&str, Comparison)] = &[
        ("eq", Comparison::Equal),
        ("ne", Comparison::Unequal),
        ("lt", Comparison::Less),
        ("lo", Comparison::Less),
        ("le", Comparison::LessOrEqual),
        ("ls", Comparison::LessOrEqual),
        ("gt", Comparison::Greater),
        ("hi", Comparison::Greater),
        ("ge", Comparison::GreaterOrEqual),
        ("hs", Comparison::GreaterOrEqual),
    ];
    let found = words.iter().find(|(word, _)| instruction.has(word));
    found.map_or(Act::Other, |(_, comparison)| Act::Compare(*comparison, form))
}

/// Instructions of the hardware and cycles of latency, about: moves mostly vanish, divisions are routines.
pub(super) fn costs(instruction: &Instruction, category: Category) -> (f32, f32) {
    let exact = instruction.has("rn") || instruction.has("rz");
    match category {
        Category::Move | Category::Parameter => (0.0, 0.0),
        Category::SpecialFunction if exact => (8.0, 40.0),
        Category::SpecialFunction => (1.0, 20.0),
        Category::LoadShared | Category::AtomicShared => (1.0, 28.0),
        Category::Constant => (1.0, 12.0),
        Category::Local => (1.0, 32.0),
        Category::LoadGlobal | Category::AtomicGlobal => (1.0, 0.0),
        Category::Warp => (1.0, 24.0),
        Category::Barrier => (1.0, 20.0),
        Category::Tensor => (1.0, 33.0),
        Category::Float64 if &*instruction.opcode == "div" => (12.0, 100.0),
        Category::Float64 => (1.0, 8.0),
        Category::Float32 if &*instruction.opcode == "div" => (9.0, 45.0),
        Category::Integer if matches!(&*instruction.opcode, "div" | "rem") => (16.0, 90.0),
        _ => (1.0, 4.0),
    }
}

/// Floating-point operations of a lane.
pub(super) fn flops(instruction: &Instruction, category: Category) -> f32 {
    match (category, &*instruction.opcode) {
        (Category::Tensor, _) => 128.0,
        (Category::Float16, "fma") => 4.0,
        (Category::Float32 | Category::Float64, "fma" | "mad") => 2.0,
        (Category::Float16, _) => 2.0,
        (Category::Float32 | Category::Float64 | Category::SpecialFunction, _) => 1.0,
        _ => 0.0,
    }
}
