//! Loads of known parameters become numbers.
//!
//! Bytes of structures that are passed by value are parameters like others, as long as the load names its place plainly.
//! A load that counts from a register is left: it reads the parameter of the launch, which has the same value.

use super::{Call, constants, edit};
use crate::code::Code;
use crate::tree::{AddressBase, Function, Instruction, Name, Operand, Space, Type, Variable};

/// Where a parameter lies among all of them, as the driver lays them out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its name in the text.
    pub name: Name,
    /// Its first byte.
    pub offset: u32,
    /// Its bytes.
    pub bytes: u32,
    /// The type of one element.
    pub ty: Type,
}

/// The parameters of a kernel; `None` where one has no size, or lies in a register.
#[must_use]
pub fn places(kernel: &Function) -> Option<Vec<Place>> {
    let mut end = 0_u64;
    let place = |parameter: &Variable| {
        if parameter.space == Space::Register {
            return None;
        }
        let offset = end.checked_next_multiple_of(parameter.alignment())?;
        let bytes = parameter.bytes()?;
        end = offset.checked_add(bytes)?;
        let (offset, bytes) = (u32::try_from(offset).ok()?, u32::try_from(bytes).ok()?);
        Some(Place { name: parameter.name.clone(), offset, bytes, ty: parameter.ty })
    };
    kernel.params.iter().map(place).collect()
}

/// A load of a parameter.
pub(super) struct Load {
    /// The first byte read.
    pub(super) offset: u32,
    /// The type of one part.
    pub(super) ty: Type,
    /// How many parts one after the other.
    pub(super) parts: u32,
}

/// What an instruction loads of the kernel's parameters at a place that the text says.
pub(super) fn load(instruction: &Instruction, places: &[Place]) -> Option<Load> {
    let [_, Operand::Address { base: AddressBase::Name(name), offset }] =
        instruction.operands.as_slice()
    else {
        return None;
    };
    if &*instruction.opcode != "ld" {
        return None;
    }
    let (mut ty, mut parts, mut is_parameter) = (None, 1, false);
    for word in &instruction.modifiers {
        match &**word {
            "param" | "param::entry" => is_parameter = true,
            "v2" => parts = 2,
            "v4" => parts = 4,
            word => ty = Some(Type::from_word(word)?),
        }
    }
    let place = places.iter().find(|place| place.name == *name).filter(|_| is_parameter)?;
    let ty = ty.filter(|ty| ty.bytes() <= 8 && *ty != Type::Pred)?;
    let within = u32::try_from(*offset).ok()?;
    let end = within.checked_add(ty.bytes().checked_mul(parts)?)?;
    (end <= place.bytes).then_some(Load { offset: place.offset + within, ty, parts })
}

/// The bits of a register after a load of a number of this type: narrow ones are widened by their sign.
fn widened(number: u64, ty: Type) -> u64 {
    match ty {
        Type::S8 => i64::from(number as u8 as i8) as u64,
        Type::S16 => i64::from(number as u16 as i16) as u64,
        Type::S32 => i64::from(number as u32 as i32) as u64,
        _ => number,
    }
}

pub(super) fn fold(kernel: &mut Function, call: &Call) -> bool {
    let (Some(places), Ok(code)) = (places(kernel), Code::new(kernel)) else { return false };
    let mut changed = false;
    edit::edit(
        kernel,
        &mut |at, instruction| match folded(&instruction, &code, at, &places, call) {
            Some(moves) => {
                changed = true;
                moves
            }
            None => vec![instruction],
        },
    );
    changed
}

/// A `mov` for each part of a load, if all are known.
fn folded(
    instruction: &Instruction,
    code: &Code,
    at: usize,
    places: &[Place],
    call: &Call,
) -> Option<Vec<Instruction>> {
    // In the flat code names are unique: a variable of the body may bear a parameter's name.
    let unique = &code.instructions[at];
    let load = load(unique, places)?;
    let registers: Vec<(&Operand, &Operand)> = match (&instruction.operands[0], &unique.operands[0])
    {
        (Operand::Vector(parts), Operand::Vector(unique)) => parts.iter().zip(unique).collect(),
        one => vec![one],
    };
    if registers.len() != load.parts as usize {
        return None;
    }
    let mut moves = Vec::with_capacity(registers.len());
    for (nth, (to, unique)) in (0_u32..).zip(registers) {
        let bytes = load.ty.bytes();
        let number = call.number(load.offset + nth * bytes, bytes)?;
        let Operand::Name(register) = unique else {
            if matches!(unique, Operand::Sink) {
                continue;
            }
            return None;
        };
        let declared = code.registers[code.register(register)?.0 as usize].declared;
        moves.push(constants::moved(
            instruction.guard.clone(),
            to.clone(),
            declared,
            widened(number, load.ty),
            instruction.line,
        )?);
    }
    Some(moves)
}
