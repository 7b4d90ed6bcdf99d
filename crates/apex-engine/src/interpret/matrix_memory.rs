//! Matrices between memory and the registers of a warp.

use super::context::{Context, Outcome};
use super::file::lanes_of;
use super::matrix::{Part, extent, wmma_place};
use super::memory::{addresses, peek, poke, stretch};
use crate::code::{Address, LANES, MatrixShape, Reg, Space, Src, WmmaMemory};
use crate::site::Access;

/// `wmma.load` and `wmma.store`.
pub(crate) fn wmma(x: &Context, it: &WmmaMemory) -> Outcome {
    let part = match it.matrix {
        'a' => Part::A,
        'b' => Part::B,
        _ => Part::Sum,
    };
    let (rows, columns) = extent(part, it.shape);
    let bits = it.ty.bits() as usize;
    let packed = it.ty.packed();
    let count = it.registers.len() * packed;
    let access = if it.store { Access::Write } else { Access::Read };
    for lane in lanes_of(x.mask()) {
        let packed_stride = if it.row { columns } else { rows } as u64;
        let stride = it.stride.map_or(packed_stride, |stride| x.get(stride, lane)) as usize;
        let lines = if it.row { rows } else { columns };
        let line = if it.row { columns } else { rows };
        let bytes = ((stride * (lines - 1) + line) * bits).div_ceil(8) as u32;
        let base = stretch(x, lane, it.space, it.address, bytes, access)?;
        for (number, &register) in it.registers.iter().enumerate() {
            let mut word = if it.store { x.get(Src::Reg(register), lane) } else { 0 };
            for element in 0..packed {
                let (row, column) =
                    wmma_place(part, it.shape, lane, number * packed + element, count);
                let index = if it.row { row * stride + column } else { column * stride + row };
                let at = base + (index * bits / 8) as u64;
                let shift = element * bits;
                // SAFETY: within what `stretch` checked.
                unsafe {
                    match bits {
                        64 if it.store => poke(at, word),
                        32 if it.store => poke(at, word as u32),
                        16 if it.store => poke(at, (word >> shift) as u16),
                        8 if it.store => poke(at, (word >> shift) as u8),
                        64 => word = peek(at),
                        32 => word = peek::<u32>(at).into(),
                        16 => word |= u64::from(peek::<u16>(at)) << shift,
                        8 => word |= u64::from(peek::<u8>(at)) << shift,
                        _ => {
                            let within = u64::from(peek::<u8>(at)) >> (index * bits % 8);
                            word |= (within & ((1 << bits) - 1)) << shift;
                        }
                    }
                }
            }
            if !it.store {
                x.set(register, lane, word);
            }
        }
    }
    Ok(())
}

/// `ldmatrix` and `stmatrix`: lane `8 * i + r` gives the address of row `r` of matrix `i`.
#[allow(clippy::too_many_arguments, reason = "an instruction's fields")]
pub(crate) fn rows(
    x: &Context,
    store: bool,
    number: u8,
    transposed: bool,
    shape: MatrixShape,
    space: Space,
    registers: &[Reg],
    address: Address,
) -> Outcome {
    if shape != MatrixShape::M8n8B16 {
        return x.illegal("matrices of bytes are not loaded by the software GPU");
    }
    let needed = u32::MAX >> (32 - 8 * u32::from(number));
    let access = if store { Access::Write } else { Access::Read };
    let at = addresses(&x.only(needed), space, address, 16, access)?;
    for (index, &register) in registers.iter().enumerate().take(number.into()) {
        let mut words = [0u32; LANES];
        if store {
            for lane in lanes_of(x.mask()) {
                words[lane] = x.get(Src::Reg(register), lane) as u32;
            }
        }
        for lane in lanes_of(x.mask()) {
            for half in 0..2 {
                let (row, column) = (lane / 4, lane % 4 * 2 + half);
                let (row, column) = if transposed { (column, row) } else { (row, column) };
                let place = at[index * 8 + row] + 2 * column as u64;
                // SAFETY: a row was checked for 16 bytes.
                unsafe {
                    if store {
                        poke(place, (words[lane] >> (16 * half)) as u16);
                    } else {
                        words[lane] |= u32::from(peek::<u16>(place)) << (16 * half);
                    }
                }
            }
        }
        if !store {
            x.file().put(register, x.mask(), &words);
        }
    }
    Ok(())
}

/// `movmatrix.trans`.
pub(crate) fn transpose(x: &Context, dst: Reg, a: Src) {
    let words: [u32; LANES] = std::array::from_fn(|lane| x.get(a, lane) as u32);
    let out: [u32; LANES] = std::array::from_fn(|lane| {
        let (row, column) = (lane / 4, lane % 4 * 2);
        let element =
            |row: usize, column: usize| words[row * 4 + column / 2] >> (16 * (column % 2)) & 0xffff;
        element(column, row) | element(column + 1, row) << 16
    });
    x.file().put(dst, x.mask(), &out);
}
