//! Numbers as operands of the instructions that hold them.

use crate::tree::{Constant, Guard, Instruction, Name, Operand, Type};

/// `mov` of a number into a register of this declared type; `None` where no such instruction exists.
pub(super) fn moved(
    guard: Option<Guard>,
    to: Operand,
    declared: Type,
    bits: u64,
    line: u32,
) -> Option<Instruction> {
    let integer = Constant::Integer { bits, unsigned: false };
    let (word, number) = match declared {
        Type::F32 => ("f32", Constant::Float32(bits as u32)),
        Type::F64 => ("f64", Constant::Float64(bits)),
        Type::Pred => ("pred", Constant::Integer { bits: bits & 1, unsigned: false }),
        Type::TexRef | Type::SamplerRef | Type::SurfRef => return None,
        other => match other.bytes() {
            // There is no register of 8 bits that `mov` takes.
            2 => ("b16", Constant::Integer { bits: bits & 0xffff, unsigned: false }),
            4 => ("b32", Constant::Integer { bits: bits & 0xffff_ffff, unsigned: false }),
            8 => ("b64", integer),
            _ => return None,
        },
    };
    Some(Instruction {
        guard,
        opcode: Name::from("mov"),
        modifiers: vec![Name::from(word)],
        operands: vec![to, Operand::Constant(number)],
        line,
    })
}
