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
        return bytes(x, store, shape, space, registers, address);
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

/// Which row and column of its matrix a byte of a register is. CUTLASS has these layouts; the figures of the PTX ISA leave
/// the order within registers open.
fn byte_place(shape: MatrixShape, lane: usize, register: usize, byte: usize) -> (usize, usize) {
    let (group, member) = (lane / 4, lane % 4);
    let turned = group + 8 * (byte / 2);
    match shape {
        MatrixShape::M16n16(_) => {
            (16 * (register / 2) + 4 * member + 2 * (register % 2) + byte % 2, turned)
        }
        MatrixShape::M8n16(_) => (8 * register + group, 4 * member + byte),
        MatrixShape::M16n8B8 | MatrixShape::M8n8B16 => {
            (8 * register + 2 * member + byte % 2, turned)
        }
    }
}

/// The same of bytes, and of smaller elements that become bytes: lane `r` gives the address of row `r`.
fn bytes(
    x: &Context,
    store: bool,
    shape: MatrixShape,
    space: Space,
    registers: &[Reg],
    address: Address,
) -> Outcome {
    let needed = u32::MAX >> (LANES - (8 * registers.len()).min(LANES));
    let access = if store { Access::Write } else { Access::Read };
    let at = addresses(&x.only(needed), space, address, 16, access)?;
    let bits = match shape {
        MatrixShape::M8n16(bits) | MatrixShape::M16n16(bits) => usize::from(bits),
        MatrixShape::M8n8B16 | MatrixShape::M16n8B8 => 8,
    };
    let mut all = vec![[0u32; LANES]; registers.len()];
    for (number, (words, &register)) in all.iter_mut().zip(registers).enumerate() {
        for lane in lanes_of(x.mask()) {
            for byte in 0..4 {
                let (row, column) = byte_place(shape, lane, number, byte);
                let Some(&line) = at.get(row) else { continue };
                let place = line + (bits * column / 8) as u64;
                let shift = bits * column % 8;
                // SAFETY: a row was checked for 16 bytes.
                unsafe {
                    if store {
                        poke(place, (x.get(Src::Reg(register), lane) >> (8 * byte)) as u8);
                        continue;
                    }
                    let mut element = u32::from(peek::<u8>(place));
                    if shift + bits > 8 {
                        element |= u32::from(peek::<u8>(place + 1)) << 8;
                    }
                    words[lane] |= (element >> shift & ((1 << bits) - 1)) << (8 * byte);
                }
            }
        }
    }
    if !store {
        for (words, &register) in all.iter().zip(registers) {
            x.file().put(register, x.mask(), words);
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
