//! Products of matrices held by a warp, and their loads and stores.

use super::Translator;
use crate::code::{
    Inst, MatrixShape, Mma, MmaType, Reg, ScaleSource, Scales, Space, Src, Ty, WmmaMemory,
};
use crate::lower::words::Words;
use crate::lower::{Outcome, refuse};
use apex_ptx::tree::{Instruction, Operand};

use super::logic::JOINS;

pub(super) const ELEMENTS: [(&str, MmaType); 16] = [
    ("f16", MmaType::F16),
    ("bf16", MmaType::Bf16),
    ("tf32", MmaType::Tf32),
    ("f32", MmaType::F32),
    ("f64", MmaType::F64),
    ("s8", MmaType::S8),
    ("u8", MmaType::U8),
    ("s4", MmaType::S4),
    ("u4", MmaType::U4),
    ("b1", MmaType::B1),
    ("s32", MmaType::S32),
    ("e4m3", MmaType::E4m3),
    ("e5m2", MmaType::E5m2),
    ("e2m3", MmaType::E2m3),
    ("e3m2", MmaType::E3m2),
    ("e2m1", MmaType::E2m1),
];

impl Translator<'_, '_> {
    /// `mma`, `wmma`, `ldmatrix`, `stmatrix`, `movmatrix`.
    pub(super) fn matrix(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        words.drop_all(&["sync", "aligned"]);
        match &*it.opcode {
            "mma" => self.mma(it, words, false),
            "wmma" if words.take("mma") => self.mma(it, words, true),
            "wmma" => self.wmma_memory(it, words),
            "movmatrix" => {
                words.drop_all(&["m8n8", "trans"]);
                words.types();
                words.finish()?;
                let [to, a] = it.operands.as_slice() else {
                    return refuse("takes two operands");
                };
                let a = self.read(a, Ty::B32)?;
                let dst = self.write(to, Ty::B32)?;
                self.emit(Inst::MatrixTranspose { dst, a });
                Ok(())
            }
            _ => self.matrix_memory(it, words),
        }
    }

    fn mma(&mut self, it: &Instruction, mut words: Words<'_>, wmma: bool) -> Outcome {
        let sparse = words.take("sp") | words.take("sp::ordered_metadata");
        let kind = words.pick(&KINDS).unwrap_or(Kind::Plain);
        let blocks = take_blocks(&mut words, kind);
        let powers = words.pick(&[("ue8m0", true), ("ue4m3", false)]);
        words.take("popc");
        let bit_op = words.pick(&JOINS);
        let satfinite = words.take("satfinite");
        let rounding = words.rounding().unwrap_or_default();
        let shape = take_shape(&mut words)?;
        let orders = [("row", true), ("col", false)];
        let (Some(first), Some(second)) = (words.pick(&orders), words.pick(&orders)) else {
            return refuse("has no order of rows and columns");
        };
        let mut types = Vec::new();
        while let Some(element) = words.pick(&ELEMENTS) {
            types.push(element);
        }
        words.finish()?;
        let types = match types[..] {
            [d, a, b, c] => [d, a, b, c],
            // The oldest form names the sums only.
            [d, c] => [d, MmaType::F16, MmaType::F16, c],
            _ => return refuse("has other types than known"),
        };
        let close = |ty| if kind == Kind::Close { MmaType::E2m1Close } else { ty };
        let types = [types[0], close(types[1]), close(types[2]), types[3]];
        let [d, a, b, c, rest @ ..] = it.operands.as_slice() else {
            return refuse("takes four operands");
        };
        let a = self.fragment(a, types[1])?;
        let b = self.fragment(b, types[2])?;
        let c = self.fragment(c, types[3])?;
        let mut scales = None;
        let sparse = match (sparse, rest) {
            (true, [metadata, selector]) => {
                Some((self.read(metadata, Ty::B32)?, self.read(selector, Ty::B32)?))
            }
            (false, [left, left_selector, right, right_selector]) => {
                let (Some(blocks), Some(powers)) = (blocks, powers) else {
                    return refuse("has no scales");
                };
                let left = self.scale_source(left, left_selector)?;
                let right = self.scale_source(right, right_selector)?;
                scales = Some(Scales { blocks, powers, sources: [left, right] });
                None
            }
            (false, []) if blocks.is_none() => None,
            _ => return refuse("has other operands than known"),
        };
        let d = self.fragment_written(d, types[0])?;
        let layout = (first, second);
        self.emit(Inst::Mma(Box::new(Mma {
            wmma,
            shape,
            layout,
            types,
            satfinite,
            bit_op,
            rounding,
            sparse,
            scales,
            d,
            a,
            b,
            c,
        })));
        Ok(())
    }

    /// A word of scales, with the byte and the lanes that give them.
    fn scale_source(&mut self, word: &Operand, selector: &Operand) -> Outcome<ScaleSource> {
        let [word, selector] = [word, selector].map(|operand| self.parts(operand));
        let ([word], [byte, lane]) = (&word[..], &selector[..]) else {
            return refuse("has another selector of scales than known");
        };
        let word = self.read(word, Ty::B32)?;
        Ok(ScaleSource { word, byte: self.read(byte, Ty::U16)?, lane: self.read(lane, Ty::U16)? })
    }

    fn wmma_memory(&mut self, it: &Instruction, mut words: Words<'_>) -> Outcome {
        let store = words.pick(&[("load", false), ("store", true)]);
        let matrix = words.pick(&[("a", 'a'), ("b", 'b'), ("c", 'c'), ("d", 'd')]);
        let row = words.pick(&[("row", true), ("col", false)]);
        let shape = take_shape(&mut words)?;
        let space = words.space().unwrap_or(Space::Generic);
        let ty = words.pick(&ELEMENTS);
        words.finish()?;
        let (Some(store), Some(matrix), Some(row), Some(ty)) = (store, matrix, row, ty) else {
            return refuse("has other words than known");
        };
        let [first, second, rest @ ..] = it.operands.as_slice() else {
            return refuse("takes two operands");
        };
        let (fragment, memory) = if store { (second, first) } else { (first, second) };
        let (space, address) = self.address(memory, space)?;
        let stride = rest.first().map(|stride| self.read(stride, Ty::U32)).transpose()?;
        let registers = if store {
            let values = self.fragment(fragment, ty)?;
            values.into_iter().map(|value| self.in_register(value, register_type(ty))).collect()
        } else {
            self.fragment_written(fragment, ty)?
        };
        let it = WmmaMemory { store, matrix, shape, row, ty, space, address, stride, registers };
        self.emit(Inst::WmmaMemory(Box::new(it)));
        Ok(())
    }

    fn matrix_memory(&mut self, it: &Instruction, mut words: Words<'_>) -> Outcome {
        let store = &*it.opcode == "stmatrix";
        let number = words.pick(&[("x1", 1), ("x2", 2), ("x4", 4)]);
        let transposed = words.take("trans");
        let shape = words.pick(&[
            ("m8n8", MatrixShape::M8n8B16),
            ("m16n8", MatrixShape::M16n8B8),
            ("m8n16", MatrixShape::M8n16(8)),
            ("m16n16", MatrixShape::M16n16(8)),
        ]);
        let bits = words.pick(&[("b6x16_p32", 6), ("b4x16_p64", 4)]).unwrap_or(8);
        words.take("b8x16");
        let shape = match shape {
            Some(MatrixShape::M8n16(_)) => Some(MatrixShape::M8n16(bits)),
            Some(MatrixShape::M16n16(_)) => Some(MatrixShape::M16n16(bits)),
            other => other,
        };
        let space = words.space().unwrap_or(Space::Generic);
        words.types();
        words.finish()?;
        let (Some(number), Some(shape)) = (number, shape) else {
            return refuse("has other words than known");
        };
        let [first, second] = it.operands.as_slice() else {
            return refuse("takes two operands");
        };
        let (fragment, memory) = if store { (second, first) } else { (first, second) };
        let (space, address) = self.address(memory, space)?;
        let mut registers = Vec::new();
        for part in self.parts(fragment) {
            registers.push(if store {
                let value = self.read(&part, Ty::B32)?;
                self.in_register(value, Ty::B32)
            } else {
                self.write(&part, Ty::B32)?
            });
        }
        self.emit(Inst::MatrixMemory {
            store,
            number,
            transposed,
            shape,
            space,
            registers,
            address,
        });
        Ok(())
    }

    pub(super) fn fragment(&mut self, operand: &Operand, element: MmaType) -> Outcome<Vec<Src>> {
        let parts = self.parts(operand);
        parts.iter().map(|part| self.read(part, register_type(element))).collect()
    }

    pub(super) fn fragment_written(
        &mut self,
        operand: &Operand,
        element: MmaType,
    ) -> Outcome<Vec<Reg>> {
        let parts = self.parts(operand);
        parts.iter().map(|part| self.write(part, register_type(element))).collect()
    }
}

/// What a `.kind::` says of its factors.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    /// With scales, each element in a byte of its own.
    Scaled,
    /// With scales, and elements of four bits close to each other.
    Close,
}

const KINDS: [(&str, Kind); 4] = [
    ("kind::f8f6f4", Kind::Plain),
    ("kind::mxf8f6f4", Kind::Scaled),
    ("kind::mxf4", Kind::Close),
    ("kind::mxf4nvf4", Kind::Close),
];

/// How many blocks a row has.
fn take_blocks(words: &mut Words<'_>, kind: Kind) -> Option<u8> {
    let said = words.pick(&[("scale_vec::1X", 1), ("scale_vec::2X", 2), ("scale_vec::4X", 4)]);
    let usual = if kind == Kind::Close { 2 } else { 1 };
    words.take("block_scale").then_some(said.unwrap_or(usual))
}

/// Small elements are packed into 32 bits.
fn register_type(element: MmaType) -> Ty {
    if element == MmaType::F64 { Ty::F64 } else { Ty::B32 }
}

/// `m16n8k16`.
pub(super) fn take_shape(words: &mut Words<'_>) -> Outcome<(u16, u16, u16)> {
    let shape = words.take_if(|word| {
        let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        Some((m.parse().ok()?, n.parse().ok()?, k.parse().ok()?))
    });
    match shape {
        Some(shape) => Ok(shape),
        None => refuse("has no shape"),
    }
}
