//! Copies of boxes of a tensor between global and shared memory.
//!
//! In shared memory the elements of a box lie side by side, dimension 0 first, with the swizzle that the map
//! names. What of a box lies outside of the tensor is filled when it is loaded, and left out when it is stored.

use super::complete;
use crate::code::{Address, AtomOp, CopyTensor, Space, Src, Ty};
use crate::interpret::atomic::{combine, update};
use crate::interpret::context::{Context, Outcome, Stopped};
use crate::interpret::file::lanes_of;
use crate::interpret::memory::{RANK_SHIFT, in_block, peek, stretch};
use crate::interpret::swizzle::swizzled;
use crate::site::Access;
use crate::tensor_map::{BYTES, DIMENSIONS, TensorMap};
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

/// Bytes that a swizzle moves together.
const CHUNK: usize = 16;

/// A box of elements that is copied.
struct Tile {
    map: TensorMap,
    ty: Ty,
    dimensions: usize,
    /// Of its first element.
    corner: [i64; DIMENSIONS],
    /// Elements of each dimension that are copied.
    counts: [u32; DIMENSIONS],
    /// Width of the pattern of the swizzle.
    span: u32,
}

impl Tile {
    fn of(x: &Context, lane: usize, it: &CopyTensor, map: TensorMap) -> Result<Tile, String> {
        let dimensions = it.coordinates.len();
        if map.rank as usize + 1 != dimensions || dimensions > DIMENSIONS {
            return Err(format!("the tensor has {} dimensions", u64::from(map.rank) + 1));
        }
        let Some(ty) = map.element_type() else {
            return Err("elements of this type are not known here".into());
        };
        if map.interleave != 0 {
            return Err("an interleaved tensor is not known here".into());
        }
        let &span = [16, 32, 64, 128]
            .get(usize::from(map.swizzle))
            .ok_or("this swizzle is not known here")?;
        let mut tile =
            Tile { map, ty, dimensions, corner: [0; DIMENSIONS], counts: [1; DIMENSIONS], span };
        for (dimension, &coordinate) in it.coordinates.iter().enumerate() {
            tile.corner[dimension] = (x.get(coordinate, lane) as i32).into();
            tile.counts[dimension] = map.copied(dimension);
        }
        let row = tile.row_bytes();
        if tile.counts.iter().any(|count| !(1..=256).contains(count)) || !row.is_multiple_of(CHUNK)
        {
            return Err("the tensor map has no box".into());
        }
        // How rows lie that are narrower than the pattern is not documented.
        if span > 16 && row != span as usize {
            return Err(format!("rows of {row} bytes with a swizzle of {span} are not known here"));
        }
        Ok(tile)
    }

    fn element_bytes(&self) -> usize {
        self.ty.bits() as usize / 8
    }

    fn row_bytes(&self) -> usize {
        self.counts[0] as usize * self.element_bytes()
    }

    fn rows(&self) -> u32 {
        self.counts[1..].iter().product()
    }

    /// Where in global memory a row of the box begins if it lay there whole, and which of its bytes lie
    /// inside of the tensor.
    fn row(&self, number: u32) -> (u64, std::ops::Range<usize>) {
        let mut at = self.map.global_address;
        let mut rest = number;
        let mut inside = true;
        for dimension in 1..self.dimensions {
            let step = i64::from(self.map.step(dimension));
            let nth = i64::from(rest % self.counts[dimension]);
            rest /= self.counts[dimension];
            let coordinate = self.corner[dimension] + nth * step;
            inside &= self.map.holds(dimension, coordinate);
            let stride = self.map.global_stride[dimension - 1];
            at = at.wrapping_add((coordinate as u64).wrapping_mul(stride));
        }
        let bytes = self.element_bytes();
        let at = at.wrapping_add((self.corner[0] as u64).wrapping_mul(bytes as u64));
        let held = |nth: &u32| inside && self.map.holds(0, self.corner[0] + i64::from(*nth));
        let first = (0..self.counts[0]).find(held).unwrap_or(0) as usize;
        let count = (0..self.counts[0]).filter(held).count();
        (at, first * bytes..(first + count) * bytes)
    }

    /// What elements outside are: zeros, or a NaN. Its bits are not documented.
    fn outside(&self) -> Vec<u8> {
        let mut row = vec![0; self.row_bytes()];
        if self.map.fill == 1 && self.ty.float() {
            for element in row.chunks_mut(self.ty.bits() as usize / 8) {
                element.fill(0xff);
                if let Some(last) = element.last_mut() {
                    *last = 0x7f;
                }
            }
        }
        row
    }
}

/// `cp.async.bulk.tensor`.
pub(crate) fn copy(x: &Context, it: &CopyTensor) -> Outcome {
    for lane in lanes_of(x.mask()) {
        let (space, address) = it.map;
        let host = stretch(x, lane, space, address, BYTES as u32, Access::Read)?;
        // SAFETY: within what `stretch` checked.
        let bytes = std::array::from_fn(|n| unsafe { peek::<u8>(host + n as u64) });
        let tile = match Tile::of(x, lane, it, TensorMap::from_bytes(&bytes)) {
            Ok(tile) => tile,
            Err(reason) => {
                x.illegal(reason)?;
                return Err(Stopped);
            }
        };
        let Some(blocks) = it.blocks.map(|blocks| x.get(blocks, lane) as u16) else {
            if it.load {
                load(x, lane, &tile, it.shared)?;
                told(x, lane, &tile, it.mbarrier)?;
            } else {
                store(x, lane, &tile, it.shared, it.reduce)?;
            }
            continue;
        };
        // The same place in each of the blocks.
        for rank in (0..16).filter(|rank| blocks >> rank & 1 == 1) {
            let there = |address| in_block(x, lane, address, rank);
            load(x, lane, &tile, there(it.shared))?;
            told(x, lane, &tile, it.mbarrier.map(there))?;
        }
    }
    Ok(())
}

fn at(address: u64) -> Address {
    Address { base: Src::Imm(address), offset: 0 }
}

/// Tells a barrier that the whole box has arrived.
fn told(x: &Context, lane: usize, tile: &Tile, barrier: Option<Address>) -> Outcome {
    let bytes = tile.row_bytes() as i64 * i64::from(tile.rows());
    barrier.map_or(Ok(()), |barrier| complete(x, lane, barrier, bytes))
}

/// Where the chunks of a row of the box lie in shared memory.
fn chunks(tile: &Tile, start: u32, host: u64, row: u32) -> impl Iterator<Item = u64> {
    let (row_bytes, span) = (tile.row_bytes() as u32, tile.span);
    let first = start + row * row_bytes;
    (first..first + row_bytes)
        .step_by(CHUNK)
        .map(move |chunk| host + u64::from(swizzled(chunk, span) - start))
}

/// Checks that the box fits where it is meant to lie, on a multiple of 128 bytes as hardware demands.
fn shared(
    x: &Context,
    lane: usize,
    tile: &Tile,
    address: Address,
    access: Access,
) -> Result<(u32, u64), Stopped> {
    let offset = x.get(address.base, lane).wrapping_add(address.offset as u64) as u32;
    let offset = offset & ((1 << RANK_SHIFT) - 1);
    if !offset.is_multiple_of(128) {
        x.illegal("a box in shared memory does not begin at a multiple of 128 bytes")?;
        return Err(Stopped);
    }
    let bytes = tile.row_bytes() as u32 * tile.rows();
    let host = stretch(x, lane, Space::Shared, address, bytes, access)?;
    Ok((offset, host))
}

fn load(x: &Context, lane: usize, tile: &Tile, address: Address) -> Outcome {
    let (start, host) = shared(x, lane, tile, address, Access::Write)?;
    let outside = tile.outside();
    for number in 0..tile.rows() {
        let (from, inside) = tile.row(number);
        let mut row = outside.clone();
        if !inside.is_empty() {
            let from = from.wrapping_add(inside.start as u64);
            let bytes = inside.len() as u32;
            let from = stretch(x, lane, Space::Global, at(from), bytes, Access::Read)?;
            let source = with_exposed_provenance::<u8>(from as usize);
            // SAFETY: checked by `stretch`; pages that are not there are the guard's affair.
            unsafe { source.copy_to_nonoverlapping(row[inside].as_mut_ptr(), bytes as usize) };
        }
        for (chunk, to) in row.chunks(CHUNK).zip(chunks(tile, start, host, number)) {
            let target = with_exposed_provenance_mut::<u8>(to as usize);
            // SAFETY: within the box, which `shared` checked.
            unsafe { target.copy_from_nonoverlapping(chunk.as_ptr(), CHUNK) };
        }
    }
    Ok(())
}

fn store(
    x: &Context,
    lane: usize,
    tile: &Tile,
    address: Address,
    reduce: Option<AtomOp>,
) -> Outcome {
    let (start, host) = shared(x, lane, tile, address, Access::Read)?;
    for number in 0..tile.rows() {
        let mut row = vec![0; tile.row_bytes()];
        for (chunk, from) in row.chunks_mut(CHUNK).zip(chunks(tile, start, host, number)) {
            let source = with_exposed_provenance::<u8>(from as usize);
            // SAFETY: within the box, which `shared` checked.
            unsafe { source.copy_to_nonoverlapping(chunk.as_mut_ptr(), CHUNK) };
        }
        let (to, inside) = tile.row(number);
        if inside.is_empty() {
            continue;
        }
        let to = to.wrapping_add(inside.start as u64);
        let bytes = inside.len() as u32;
        let to = stretch(x, lane, Space::Global, at(to), bytes, Access::Write)?;
        let Some(op) = reduce else {
            let target = with_exposed_provenance_mut::<u8>(to as usize);
            // SAFETY: checked by `stretch`.
            unsafe { target.copy_from_nonoverlapping(row[inside].as_ptr(), bytes as usize) };
            continue;
        };
        let step = tile.element_bytes();
        for (element, to) in row[inside].chunks(step).zip((to..).step_by(step)) {
            let value = element.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
            // SAFETY: checked by `stretch`; rows and elements are aligned by the map's own rules.
            unsafe { update(to, step as u32, |old| combine(op, tile.ty, old, value, 0, false)) };
        }
    }
    Ok(())
}
