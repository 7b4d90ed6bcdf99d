//! Initial values of variables.

use super::{LoadError, LoadErrorKind};
use crate::code::FUNCTION_BASE;
use crate::lower::{Home, Program, Symbol, each_variable};
use apex_ptx::tree::{Constant, Initializer, Item, Module, Type, Variable};

/// Fills all placed variables: with their initial values, else with zeros.
pub(super) fn fill(tree: &Module, program: &Program<'_>) -> Result<(), LoadError> {
    let mut all = Vec::new();
    for item in &tree.items {
        match item {
            Item::Variable(variable) => all.push(variable),
            Item::Function(function) => {
                let body = function.body.as_deref().unwrap_or_default();
                each_variable(body, &mut |variable| all.push(variable));
            }
            Item::Alias { .. } | Item::Verbatim(_) => {}
        }
    }
    for variable in all {
        if let Home::Memory(address) = program.home(variable) {
            let length = variable.bytes().and_then(|bytes| usize::try_from(bytes).ok());
            let start = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
            // SAFETY: the caller of `Module::load` gave this memory for a variable of this size,
            // and nobody else knows of it yet.
            let image = unsafe { std::slice::from_raw_parts_mut(start, length.unwrap_or(0)) };
            clear(image);
            if let Some(init) = &variable.init
                && !matches!(variable.ty, Type::TexRef | Type::SamplerRef | Type::SurfRef)
            {
                let dims = variable.dims.iter().map(|length| length.unwrap_or(0));
                let shape: Vec<u64> = dims.chain(variable.vector.map(u64::from)).collect();
                put(init, variable, program, &shape, image)?;
            }
        }
    }
    Ok(())
}

/// Makes everything zero. What is zero is not written: pages that nobody has touched stay so.
fn clear(image: &mut [u8]) {
    for page in image.chunks_mut(4096) {
        if page.iter().fold(0, |bits, byte| bits | byte) != 0 {
            page.fill(0);
        }
    }
}

/// Writes a value into its part of the image. Lists follow the shape; a flat list fills it row
/// by row.
fn put(
    init: &Initializer,
    variable: &Variable,
    program: &Program<'_>,
    shape: &[u64],
    out: &mut [u8],
) -> Result<(), LoadError> {
    let unit = variable.ty.bytes() as usize;
    match init {
        Initializer::List(list) => {
            let nested = list.iter().any(|part| matches!(part, Initializer::List(_)));
            let parts = shape.get(1..).unwrap_or_default();
            let inner = parts.iter().fold(1, |all: u64, length| all.saturating_mul(*length));
            let step = if nested { unit.saturating_mul(inner.max(1) as usize) } else { unit };
            for (part, place) in list.iter().zip(out.chunks_mut(step.max(1))) {
                put(part, variable, program, if nested { parts } else { &[] }, place)?;
            }
            Ok(())
        }
        Initializer::Constant(constant) => {
            let value = constant_of(*constant, variable.ty);
            write(out, unit, u128::from(value));
            Ok(())
        }
        Initializer::Symbol { name, offset, mask, .. } => {
            let address = address_of(name, variable, program)?.wrapping_add_signed(*offset);
            let value = match mask {
                Some(0) | None => address,
                Some(mask) => (address & mask) >> mask.trailing_zeros(),
            };
            write(out, unit, u128::from(value));
            Ok(())
        }
        Initializer::Field(..) => Ok(()),
    }
}

fn write(out: &mut [u8], unit: usize, value: u128) {
    let bytes = value.to_le_bytes();
    let length = unit.min(out.len()).min(bytes.len());
    out[..length].copy_from_slice(&bytes[..length]);
}

fn constant_of(constant: Constant, ty: Type) -> u64 {
    match (constant, ty) {
        (Constant::Integer { bits, .. }, Type::F32) => {
            u64::from((bits.cast_signed() as f32).to_bits())
        }
        (Constant::Integer { bits, .. }, Type::F64) => (bits.cast_signed() as f64).to_bits(),
        (Constant::Integer { bits, .. }, _) => bits,
        (Constant::Float32(bits), Type::F64) => f64::from(f32::from_bits(bits)).to_bits(),
        (Constant::Float32(bits), _) => u64::from(bits),
        (Constant::Float64(bits), Type::F32 | Type::B32) => {
            u64::from((f64::from_bits(bits) as f32).to_bits())
        }
        (Constant::Float64(bits), _) => bits,
    }
}

fn address_of(name: &str, variable: &Variable, program: &Program<'_>) -> Result<u64, LoadError> {
    match program.symbol(name) {
        Some(Symbol::Function(index)) => Ok(FUNCTION_BASE + index as u64),
        Some(Symbol::Variable(other)) => match program.home(other) {
            Home::Memory(address) => Ok(address),
            Home::Shared | Home::DynamicShared => Ok(0),
            Home::Nowhere => Err(unresolved(name, variable)),
        },
        None => Err(unresolved(name, variable)),
    }
}

fn unresolved(name: &str, variable: &Variable) -> LoadError {
    LoadError {
        kind: LoadErrorKind::Unresolved,
        log: format!(
            "ptxas application ptx input, line {}; error   : Unresolved reference to '{name}' in \
             the initial value of '{}'\n",
            variable.line, variable.name
        ),
    }
}
