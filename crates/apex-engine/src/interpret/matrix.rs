//! Matrix products held by a warp.
//!
//! Every element of a fragment has a place in the matrix that only its lane and its number
//! tell; products are taken in f64, which holds sums of products of all narrow types
//! exactly or nearly so, and rounded once at the end. That is nearer to the true sum than
//! the hardware's own order, which it does not disclose.

pub(super) mod warpgroup;

use super::context::{Context, Outcome};
use super::file::lanes_of;
use super::float::fma64;
use crate::code::{Join, LANES, Mma, MmaType, Mode, Rounding, ScaleSource, Scales, Src};
use crate::number::{Format, NAN_F32, narrow, widen};

impl MmaType {
    /// Bits of an element.
    pub(crate) fn bits(self) -> u32 {
        match self {
            MmaType::F16 | MmaType::Bf16 => 16,
            MmaType::Tf32 | MmaType::F32 | MmaType::S32 => 32,
            MmaType::F64 => 64,
            MmaType::S8 | MmaType::U8 | MmaType::E4m3 | MmaType::E5m2 => 8,
            // In `mma.kind::f8f6f4` each stands in a byte of its own.
            MmaType::E2m3 | MmaType::E3m2 | MmaType::E2m1 => 8,
            MmaType::S4 | MmaType::U4 | MmaType::E2m1Close => 4,
            MmaType::B1 => 1,
        }
    }

    /// Elements in one register.
    pub(crate) fn packed(self) -> usize {
        (32 / self.bits()).max(1) as usize
    }

    /// The number that the bits of an element stand for.
    pub(super) fn value(self, bits: u64) -> f64 {
        match self {
            MmaType::F16 => widen(bits, Format::F16),
            MmaType::Bf16 => widen(bits, Format::BF16),
            // The low bits of a tf32 are not looked at.
            MmaType::Tf32 => f64::from(f32::from_bits(bits as u32 & 0xffff_e000)),
            MmaType::F32 => f64::from(f32::from_bits(bits as u32)),
            MmaType::F64 => f64::from_bits(bits),
            MmaType::S8 => (bits as i8).into(),
            MmaType::U8 => (bits as u8).into(),
            MmaType::S4 => (((bits as i8) << 4) >> 4).into(),
            MmaType::U4 => ((bits & 15) as u8).into(),
            MmaType::B1 => ((bits & 1) as u8).into(),
            MmaType::S32 => (bits as i32).into(),
            MmaType::E4m3 => widen(bits, Format::E4M3),
            MmaType::E5m2 => widen(bits, Format::E5M2),
            MmaType::E2m3 => widen(bits & 0x3f, Format::E2M3),
            MmaType::E3m2 => widen(bits & 0x3f, Format::E3M2),
            // Two bits are left free on either side.
            MmaType::E2m1 => widen(bits >> 2 & 0xf, Format::E2M1),
            MmaType::E2m1Close => widen(bits & 0xf, Format::E2M1),
        }
    }

    fn integer(self) -> bool {
        matches!(
            self,
            MmaType::S8 | MmaType::U8 | MmaType::S4 | MmaType::U4 | MmaType::B1 | MmaType::S32
        )
    }
}

/// Which factor or sum a fragment is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    A,
    B,
    Sum,
}

/// Rows and columns of a part.
pub(crate) fn extent(part: Part, shape: (u16, u16, u16)) -> (usize, usize) {
    let (m, n, k) = (shape.0.into(), shape.1.into(), shape.2.into());
    match part {
        Part::A => (m, k),
        Part::B => (k, n),
        Part::Sum => (m, n),
    }
}

/// Row and column of element `index` of a lane in a `wmma` fragment with `count` elements per
/// lane. Factors of 16 bits fill a fragment more than once. `b` runs down its columns, so that
/// elements packed into one register are neighbours in the products too.
pub(crate) fn wmma_place(
    part: Part,
    shape: (u16, u16, u16),
    lane: usize,
    index: usize,
    count: usize,
) -> (usize, usize) {
    let (rows, columns) = extent(part, shape);
    let linear = (lane * count + index) % (rows * columns);
    match part {
        Part::B => (linear % rows, linear / rows),
        _ => (linear / columns, linear % columns),
    }
}

/// Row and column of element `part_index` of register `register`, for `mma`.
pub(super) fn mma_place(
    part: Part,
    ty: MmaType,
    lane: usize,
    register: usize,
    element: usize,
) -> (usize, usize) {
    let (group, member) = (lane / 4, lane % 4);
    let packed = ty.packed();
    match part {
        Part::A => {
            (group + 8 * (register & 1), member * packed + element + 4 * packed * (register >> 1))
        }
        Part::B => (member * packed + element + 4 * packed * register, group),
        Part::Sum => {
            let index = register * packed + element;
            (group + 8 * (index >> 1), member * 2 + (index & 1))
        }
    }
}

/// Row and column for `mma.m8n8k4` of f16: four products, one per pair of quads.
fn quad_place(
    part: Part,
    ty: MmaType,
    row_order: bool,
    lane: usize,
    index: usize,
) -> (usize, usize) {
    let upper = if lane >= 16 { 4 } else { 0 };
    match part {
        Part::A if row_order => (lane % 4 + upper, index),
        Part::A => (index + upper, lane % 4),
        Part::B if row_order => (lane % 4, index + upper),
        Part::B => (index, lane % 4 + upper),
        Part::Sum if ty == MmaType::F16 => (lane % 4 + upper, index),
        Part::Sum => ((lane & 1) + (index & 2) + upper, (index & 4) + (lane & 2) + (index & 1)),
    }
}

/// A matrix of bits, by rows.
struct Matrix {
    columns: usize,
    bits: Vec<u64>,
}

impl Matrix {
    fn at(&self, row: usize, column: usize) -> u64 {
        self.bits[row * self.columns + column]
    }
}

/// The lanes whose fragments make one product: all, or a pair of quads.
fn lanes_of_product(quad: bool, product: usize) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| !quad || lane / 4 % 4 == product)
}

struct Product<'a> {
    x: &'a Context,
    it: &'a Mma,
    quad: bool,
    product: usize,
}

impl Product<'_> {
    fn place(
        &self,
        part: Part,
        ty: MmaType,
        lane: usize,
        register: usize,
        element: usize,
        registers: usize,
    ) -> (usize, usize) {
        if self.it.wmma {
            let count = registers * ty.packed();
            return wmma_place(part, self.it.shape, lane, register * ty.packed() + element, count);
        }
        if self.quad {
            let row_order = if part == Part::A { self.it.layout.0 } else { self.it.layout.1 };
            return quad_place(part, ty, row_order, lane, register * ty.packed() + element);
        }
        mma_place(part, ty, lane, register, element)
    }

    fn gather(&self, part: Part, ty: MmaType, registers: &[Src]) -> Matrix {
        let (rows, columns) = extent(part, self.it.shape);
        // Of a sparse factor only half is held.
        let sparse = part == Part::A && self.it.sparse.is_some();
        let columns = if sparse { columns / 2 } else { columns };
        let mut matrix = Matrix { columns, bits: vec![0; rows * columns] };
        let mask = u64::MAX >> (64 - ty.bits());
        for lane in lanes_of_product(self.quad, self.product) {
            for (number, &register) in registers.iter().enumerate() {
                let word = self.x.get(register, lane);
                for element in 0..ty.packed() {
                    let (row, column) =
                        self.place(part, ty, lane, number, element, registers.len());
                    let bits = word >> (ty.bits() as usize * element) & mask;
                    if row < rows && column < columns {
                        matrix.bits[row * columns + column] = bits;
                    }
                }
            }
        }
        matrix
    }

    /// A sparse left factor in full. Each group of four columns (two for tf32) keeps half of
    /// its elements; a nibble of the metadata says which: two columns, or for tf32 two halves of
    /// the one column. A word serves four groups of the rows `quad` and `quad + 8`, low half
    /// first. Rows of eight groups need two lanes of the quad, chosen by the selector.
    fn expand(&self, kept: &Matrix, metadata: Src, selector: Src) -> Matrix {
        let (rows, columns) = extent(Part::A, self.it.shape);
        let group = if self.it.types[1] == MmaType::Tf32 { 2 } else { 4 };
        let groups = columns / group;
        let lanes = groups.div_ceil(4);
        let first = self.x.get(selector, 0) as usize * lanes % 4;
        let mut full = Matrix { columns, bits: vec![0; rows * columns] };
        for row in 0..rows {
            for number in 0..groups {
                let lane = row % 8 * 4 + first + number / 4;
                let nibble = self.x.get(metadata, lane) >> (16 * (row / 8) + 4 * (number % 4));
                for element in 0..group / 2 {
                    let place = (nibble >> (2 * element) & 3) as usize * group / 4;
                    full.bits[row * columns + number * group + place] =
                        kept.at(row, number * group / 2 + element);
                }
            }
        }
        full
    }

    /// The sum of blocks with scales. The product of a block is a single, and all of them meet in double precision: chips
    /// do not say how they round, and older ones can do this.
    fn blocks(
        &self,
        scales: &Scales,
        row: usize,
        column: usize,
        start: f64,
        products: &[f64],
    ) -> f64 {
        let count = usize::from(scales.blocks);
        let [left, right] = scales.sources;
        let mut total = start;
        for (number, block) in products.chunks(products.len() / count).enumerate() {
            let lane = |source: ScaleSource| self.x.get(source.lane, 0) as usize;
            let left_lane = (row % 8 * 4 + 2 * lane(left) + row / 8) % LANES;
            let right_lane = (column * 4 + lane(right)) % LANES;
            let scale = self.scale(scales, left, left_lane, number)
                * self.scale(scales, right, right_lane, number);
            total =
                f64::from(block.iter().fold(0.0, |sum, it| sum + it) as f32).mul_add(scale, total);
        }
        total
    }

    /// The scale of a block, from the lane that gives it.
    fn scale(&self, scales: &Scales, source: ScaleSource, lane: usize, block: usize) -> f64 {
        let byte = self.x.get(source.byte, 0) as usize + block;
        let bits = (self.x.get(source.word, lane) & 0xffff_ffff) >> (8 * byte).min(63) & 0xff;
        match (scales.powers, bits) {
            (true, 0xff) => f64::NAN,
            (true, _) => f64::from_bits((bits + 1023 - 127) << 52),
            (false, _) => widen(bits & 0x7f, Format::E4M3),
        }
    }

    fn scatter(&self, matrix: &Matrix) {
        let ty = self.it.types[0];
        for lane in lanes_of_product(self.quad, self.product) {
            if self.x.mask() >> lane & 1 == 0 {
                continue;
            }
            for (number, &register) in self.it.d.iter().enumerate() {
                let mut word = 0;
                for element in 0..ty.packed() {
                    let (row, column) =
                        self.place(Part::Sum, ty, lane, number, element, self.it.d.len());
                    word |= matrix.at(row, column) << (ty.bits() as usize * element);
                }
                self.x.set(register, lane, word);
            }
        }
    }

    fn run(&self) {
        let it = self.it;
        let [to, left, right, sum] = it.types;
        let mut a = self.gather(Part::A, left, &it.a);
        if let Some((metadata, selector)) = it.sparse {
            a = self.expand(&a, metadata, selector);
        }
        let b = self.gather(Part::B, right, &it.b);
        let c = self.gather(Part::Sum, sum, &it.c);
        let (m, n, k) = (usize::from(it.shape.0), usize::from(it.shape.1), usize::from(it.shape.2));
        let mut d = Matrix { columns: n, bits: vec![0; m * n] };
        for row in 0..m {
            for column in 0..n {
                let start = sum.value(c.at(row, column));
                let pairs = (0..k).map(|index| (a.at(row, index), b.at(index, column)));
                d.bits[row * n + column] = if let Some(join) = it.bit_op {
                    let ones = pairs.map(|(x, y)| if join == Join::And { x & y } else { x ^ y });
                    (start as i64 + ones.sum::<u64>() as i64) as u32 as u64
                } else if let Some(scales) = &it.scales {
                    let products: Vec<f64> =
                        pairs.map(|(x, y)| left.value(x) * right.value(y)).collect();
                    finish(to, left, self.blocks(scales, row, column, start, &products), false)
                } else if to == MmaType::F64 {
                    let mode = Mode { rounding: it.rounding, ..Mode::default() };
                    pairs
                        .fold(start, |sum, (x, y)| {
                            fma64(mode, f64::from_bits(x), f64::from_bits(y), sum)
                        })
                        .to_bits()
                } else {
                    let total = pairs.fold(0.0, |sum, (x, y)| sum + left.value(x) * right.value(y));
                    finish(to, left, start + total, it.satfinite)
                };
            }
        }
        self.scatter(&d);
    }
}

/// The sum in the type of the result.
pub(super) fn finish(to: MmaType, factor: MmaType, sum: f64, satfinite: bool) -> u64 {
    if factor.integer() {
        let exact = sum as i64;
        return if satfinite {
            exact.clamp(i32::MIN.into(), i32::MAX.into()) as u32 as u64
        } else {
            exact as u32 as u64
        };
    }
    match to {
        MmaType::F16 => narrow(sum, Format::F16, Rounding::Rn, satfinite),
        _ if sum.is_nan() => NAN_F32.into(),
        _ => (sum as f32).to_bits().into(),
    }
}

/// `mma` and `wmma.mma`.
pub(crate) fn mma(x: &Context, it: &Mma) -> Outcome {
    let wide = matches!(it.types[1], MmaType::F16 | MmaType::Bf16 | MmaType::Tf32);
    if it.sparse.is_some() && !wide {
        return x.illegal("sparse products of bytes and less are not executed by the software GPU");
    }
    let quad = !it.wmma && it.shape == (8, 8, 4) && it.types[1] == MmaType::F16;
    debug_assert!(lanes_of(x.mask()).count() > 0);
    for product in 0..if quad { 4 } else { 1 } {
        Product { x, it, quad, product }.run();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_cover_each_matrix_once() {
        let check = |part, ty: MmaType, registers: usize, shape: (u16, u16, u16)| {
            let (rows, columns) = extent(part, shape);
            let mut seen = vec![0; rows * columns];
            for lane in 0..LANES {
                for register in 0..registers {
                    for element in 0..ty.packed() {
                        let (row, column) = mma_place(part, ty, lane, register, element);
                        seen[row * columns + column] += 1;
                    }
                }
            }
            assert!(seen.iter().all(|&count| count == 1), "{ty:?} {shape:?}");
        };
        check(Part::A, MmaType::F16, 4, (16, 8, 16));
        check(Part::B, MmaType::F16, 2, (16, 8, 16));
        check(Part::Sum, MmaType::F32, 4, (16, 8, 16));
        check(Part::Sum, MmaType::F16, 2, (16, 8, 16));
        check(Part::A, MmaType::S8, 4, (16, 8, 32));
        check(Part::B, MmaType::S8, 2, (16, 8, 32));
        check(Part::A, MmaType::Tf32, 4, (16, 8, 8));
        check(Part::A, MmaType::S4, 1, (8, 8, 32));
        check(Part::A, MmaType::B1, 4, (16, 8, 256));
        check(Part::A, MmaType::F64, 8, (16, 8, 16));
        check(Part::B, MmaType::F64, 1, (8, 8, 4));
    }

    #[test]
    fn quads_cover_their_products() {
        for (ty, part, row) in [
            (MmaType::F16, Part::A, true),
            (MmaType::F16, Part::A, false),
            (MmaType::F16, Part::B, true),
            (MmaType::F16, Part::B, false),
            (MmaType::F32, Part::Sum, true),
            (MmaType::F16, Part::Sum, true),
        ] {
            let (rows, columns) = extent(part, (8, 8, 4));
            let mut seen = vec![0; rows * columns];
            for lane in lanes_of_product(true, 2) {
                for index in 0..if part == Part::Sum { 8 } else { 4 } {
                    let (row, column) = quad_place(part, ty, row, lane, index);
                    seen[row * columns + column] += 1;
                }
            }
            assert!(seen.iter().all(|&count| count == 1));
        }
    }
}
