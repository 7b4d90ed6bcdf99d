//! Matrix products held by four warps, with factors in shared memory.
//!
//! A descriptor says where a factor begins and how its parts lie. The part is a row of 16 bytes; eight of them
//! make a core matrix. Rows lie side by side in strips of 16, 32, 64 or 128 bytes, and in the wider ones the
//! place of a row in its strip is swizzled: bits 4 to 6 of its address are changed by bits 7 to 9. Sums are taken
//! as in [`super`]. Each warp computes its own 16 rows when it comes here.

use super::{Part, finish, mma_place};
use crate::code::{Address, LANES, MmaType, Space, Src, Wgmma};
use crate::interpret::context::{Context, Outcome, Stopped};
use crate::interpret::file::wide;
use crate::interpret::memory::{peek, stretch};
use crate::interpret::swizzle::swizzled;
use crate::site::Access;

/// Rows of one warp.
const ROWS: usize = 16;

/// Bytes that lie side by side whatever the layout.
const ROW_BYTES: u32 = 16;

/// How a factor lies in shared memory.
struct Descriptor {
    start: u32,
    /// Leading and stride dimension byte offsets.
    leading: u32,
    stride: u32,
    /// Rows of 16 bytes that lie in one strip: 1, 2, 4 or 8.
    strip: u32,
}

impl Descriptor {
    /// Reads the fields; `None` where the pattern of a swizzle begins elsewhere than at a multiple of its size.
    fn of(bits: u64) -> Option<Descriptor> {
        let field = |at: u32| ((bits >> at & 0x3fff) as u32) << 4;
        let strip = [1, 8, 4, 2][(bits >> 62) as usize];
        let base_offset = bits >> 49 & 7;
        (base_offset == 0).then(|| Descriptor {
            start: field(0),
            leading: field(16),
            stride: field(32),
            strip,
        })
    }

    /// The offset in shared memory of a row of 16 bytes: its number along the dimension that lies side by side,
    /// and along the other one.
    fn row(&self, k_major: bool, along: u32, across: u32) -> u32 {
        let strip = self.strip;
        let (group, within) = (across / 8, across % 8 * strip * ROW_BYTES);
        let offset = match (k_major, strip) {
            (true, 1) => along * self.leading + group * self.stride + within,
            (true, _) => along * ROW_BYTES + group * self.stride + within,
            (false, 1) => along * self.stride + group * self.leading + within,
            (false, _) => {
                let side = along % strip * ROW_BYTES + along / strip * self.leading;
                side + group * self.stride + within
            }
        };
        swizzled(self.start + offset, strip * ROW_BYTES)
    }
}

/// `wgmma.mma_async`.
pub(crate) fn mma(x: &Context, it: &Wgmma) -> Outcome {
    if x.mask() != u32::MAX {
        return x.illegal("a warp that is not whole takes part in wgmma");
    }
    let [_, left, right] = it.types;
    let (n, k) = (usize::from(it.shape.1), usize::from(it.shape.2));
    let first = x.warp().frame.index as usize % 4 * ROWS;
    let mut a = match it.a.as_slice() {
        &[descriptor] => factor(x, left, descriptor, it.transposed[0], first..first + ROWS, k)?,
        registers => fragment(x, left, registers, k),
    };
    if it.negated {
        a.iter_mut().for_each(|value| *value = -*value);
    }
    // The right factor by its rows, so that sums of neighbours are taken side by side.
    let columns = factor(x, right, it.b, it.transposed[1], 0..n, k)?;
    let mut b = vec![0.0; n * k];
    for (column, values) in columns.chunks(k).enumerate() {
        for (row, &value) in values.iter().enumerate() {
            b[row * n + column] = value;
        }
    }
    let mut sums = vec![0.0; ROWS * n];
    multiply(&a, &b, &mut sums);
    write(x, it, &sums);
    Ok(())
}

wide! {
/// Adds the product of `a` (by rows) and `b` (by rows) to `sums`, in the order of k.
fn multiply(a: &[f64], b: &[f64], sums: &mut [f64]) -> bool {
    let k = a.len() / ROWS;
    let n = sums.len() / ROWS;
    for (row, sums) in a.chunks(k).zip(sums.chunks_mut(n)) {
        for (&value, line) in row.iter().zip(b.chunks(n)) {
            for (sum, &other) in sums.iter_mut().zip(line) {
                *sum += value * other;
            }
        }
    }
    true
}
}

/// A factor in shared memory: for each of its rows (columns) its `k` values.
fn factor(
    x: &Context,
    ty: MmaType,
    descriptor: Src,
    transposed: bool,
    lines: std::ops::Range<usize>,
    k: usize,
) -> Result<Vec<f64>, Stopped> {
    let Some(place) = Descriptor::of(x.get(descriptor, 0)) else {
        x.illegal("a descriptor with a base offset is not known here")?;
        return Err(Stopped);
    };
    let bytes = ty.bits() / 8;
    let per_row = (ROW_BYTES / bytes) as usize;
    let mut values = vec![0.0; lines.len() * k];
    let read = |along: usize, across: usize, take: &mut dyn FnMut(usize, f64)| {
        let offset = place.row(!transposed, along as u32, across as u32);
        let host = row_at(x, offset)?;
        for index in 0..per_row {
            let at = host + index as u64 * u64::from(bytes);
            // SAFETY: within what `row_at` checked.
            let bits = unsafe {
                match bytes {
                    1 => peek::<u8>(at).into(),
                    2 => peek::<u16>(at).into(),
                    _ => u64::from(peek::<u32>(at)),
                }
            };
            take(index, ty.value(bits));
        }
        Ok(())
    };
    if transposed {
        for along in lines.start / per_row..lines.end.div_ceil(per_row) {
            for column in 0..k {
                read(along, column, &mut |index, value| {
                    let line = along * per_row + index;
                    if lines.contains(&line) {
                        values[(line - lines.start) * k + column] = value;
                    }
                })?;
            }
        }
    } else {
        for line in lines.clone() {
            for along in 0..k / per_row {
                read(along, line, &mut |index, value| {
                    values[(line - lines.start) * k + along * per_row + index] = value;
                })?;
            }
        }
    }
    Ok(values)
}

/// The host address of a row of 16 bytes in shared memory.
fn row_at(x: &Context, offset: u32) -> Result<u64, Stopped> {
    let block = x.block();
    if block.checker.is_none() && offset + ROW_BYTES <= block.frame.shared_bytes {
        return Ok(block.frame.shared as u64 + u64::from(offset));
    }
    let address = Address { base: Src::Imm(offset.into()), offset: 0 };
    stretch(x, 0, Space::Shared, address, ROW_BYTES, Access::Read)
}

/// A left factor in registers.
fn fragment(x: &Context, ty: MmaType, registers: &[Src], k: usize) -> Vec<f64> {
    let mut values = vec![0.0; ROWS * k];
    let mask = u64::MAX >> (64 - ty.bits());
    for lane in 0..LANES {
        for (number, &register) in registers.iter().enumerate() {
            let word = x.get(register, lane);
            for element in 0..ty.packed() {
                let (row, column) = mma_place(Part::A, ty, lane, number, element);
                let bits = word >> (ty.bits() as usize * element) & mask;
                values[row * k + column] = ty.value(bits);
            }
        }
    }
    values
}

/// Adds what was there before and writes the sums.
fn write(x: &Context, it: &Wgmma, sums: &[f64]) {
    let [to, left, _] = it.types;
    let n = usize::from(it.shape.1);
    let accumulates = x.file().guard(it.accumulates) & 1 == 1;
    let mask = u64::MAX >> (64 - to.bits());
    for lane in 0..LANES {
        for (number, (&register, &before)) in it.d.iter().zip(&it.c).enumerate() {
            let before = x.get(before, lane);
            let mut word = 0;
            for element in 0..to.packed() {
                let index = number * to.packed() + element;
                let row = lane / 4 + 8 * (index >> 1 & 1);
                let column = index / 4 * 8 + lane % 4 * 2 + (index & 1);
                let shift = to.bits() as usize * element;
                let start = if accumulates { to.value(before >> shift & mask) } else { 0.0 };
                let sum = finish(to, left, start + sums[row * n + column], it.satfinite);
                word |= sum << shift;
            }
            x.set(register, lane, word);
        }
    }
}
