//! Copies of boxes of tensors, and `tensormap.replace`: a field of the 128 bytes that describe a tensor.

use super::Translator;
use super::constant::constant_bits;
use super::memory::ATOM_OPS;
use crate::code::{Address, Class, CopyTensor, Inst, Order, Space, Src, Ty};
use crate::lower::words::Words;
use crate::lower::{Outcome, refuse};
use crate::tensor_map::{BYTES, FIELDS, Field};
use apex_ptx::tree::{Instruction, Operand};

impl Translator<'_, '_> {
    /// `cp.async.bulk.tensor`, `cp.reduce.async.bulk.tensor`.
    pub(super) fn copy_tensor(&mut self, it: &Instruction, mut words: Words<'_>) -> Outcome {
        let several = words.take("multicast::cluster");
        let reduced = words.take("reduce");
        let dimensions = words.pick(&[("1d", 1), ("2d", 2), ("3d", 3), ("4d", 4), ("5d", 5)]);
        words.take("tile");
        words.drop_all(&["mbarrier::complete_tx::bytes", "bulk_group"]);
        let (to, from) = (words.space(), words.space());
        let op = words.pick(&ATOM_OPS);
        words.order();
        words.finish()?;
        let (Some(dimensions), Some(to), Some(from)) = (dimensions, to, from) else {
            return refuse("has no dimensions or spaces");
        };
        let load = match (to, from) {
            (Space::Shared, Space::Global) => true,
            (Space::Global, Space::Shared) => false,
            _ => return refuse("copies between other spaces than known"),
        };
        if reduced != op.is_some() || reduced && load {
            return refuse("has other words than known");
        }
        let [first, second, rest @ ..] = it.operands.as_slice() else {
            return refuse("has other operands than known");
        };
        let (tensor, shared) = if load { (second, first) } else { (first, second) };
        let Operand::AddressList(parts) = tensor else { return refuse("has no tensor map") };
        let [map, coordinates] = parts.as_slice() else {
            return refuse("has other parts in its brackets than known");
        };
        let map = self.address(map, Space::Generic)?;
        let coordinates = self.parts(coordinates);
        if coordinates.len() != dimensions {
            return refuse("has another number of coordinates than dimensions");
        }
        let coordinates = coordinates.iter().map(|part| self.read(part, Ty::S32));
        let coordinates = coordinates.collect::<Outcome<Vec<_>>>()?;
        let (_, shared) = self.address(shared, Space::Shared)?;
        let (mbarrier, rest) = match (load, rest) {
            (true, [barrier, rest @ ..]) => (Some(self.address(barrier, Space::Shared)?.1), rest),
            (false, rest) => (None, rest),
            _ => return refuse("has no barrier"),
        };
        let blocks = match (several, rest) {
            (true, [blocks, ..]) => Some(self.read(blocks, Ty::U16)?),
            (true, []) => return refuse("does not say which blocks"),
            (false, _) => None,
        };
        let reduce = op;
        let copy = CopyTensor { load, map, coordinates, shared, mbarrier, blocks, reduce };
        self.emit(Inst::CopyTensor(Box::new(copy)));
        Ok(())
    }

    /// `tensormap.replace.tile.field.b1024.type [map], ord, value`; most fields have no `ord`.
    pub(super) fn tensor_map(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        if words.take("cp_fenceproxy") {
            return self.publish_map(it, words);
        }
        if !words.take("replace") {
            return refuse("the software GPU does not execute this instruction");
        }
        words.drop_all(&["tile", "b1024"]);
        let field = words.pick(&FIELDS);
        let space = words.space().unwrap_or(Space::Generic);
        let given = words.ty()?;
        words.finish()?;
        let Some(Field { at, ty, count }) = field else {
            return refuse("has no field");
        };
        let (map, ord, value) = match it.operands.as_slice() {
            [map, value] if count == 1 => (map, 0, value),
            [map, Operand::Constant(ord), value] => (map, constant_bits(*ord, Ty::U32), value),
            _ => return refuse("has other operands than known"),
        };
        if ord >= count {
            return refuse("a tensor has no such dimension");
        }
        let (space, map) = self.address(map, space)?;
        let value = self.read(value, given)?;
        let wide = if given.bits() < ty.bits() { given } else { ty };
        let offset = map.offset + i64::from(at) + (u64::from(ty.bits() / 8) * ord) as i64;
        let (srcs, order) = (vec![value], Order::Weak);
        let address = Address { offset, ..map };
        self.emit(Inst::Store { space, ty: wide, order, srcs, address });
        Ok(())
    }

    /// `tensormap.cp_fenceproxy`: the warp copies a map from shared to global memory for all to see.
    fn publish_map(&mut self, it: &Instruction, mut words: Words<'_>) -> Outcome {
        let (Some(to), Some(from)) = (words.space(), words.space()) else {
            return refuse("has no spaces");
        };
        words.drop_all(&["tensormap::generic", "sync", "aligned"]);
        words.order();
        words.finish()?;
        let [dst, src, Operand::Constant(size)] = it.operands.as_slice() else {
            return refuse("has other operands than known");
        };
        if constant_bits(*size, Ty::U32) != BYTES as u64 {
            return refuse("a tensor map has 128 bytes");
        }
        let (to, dst) = self.address(dst, to)?;
        let (from, src) = self.address(src, from)?;
        let words = [(); BYTES / 8].map(|()| self.temporary(Class::B64));
        let at = |address: Address, nth: usize| Address {
            offset: address.offset + nth as i64 * 16,
            ..address
        };
        let (ty, order) = (Ty::B64, Order::Weak);
        for (nth, pair) in words.chunks(2).enumerate() {
            let dsts = pair.iter().copied().map(Some).collect();
            self.emit(Inst::Load { space: from, ty, order, dsts, address: at(src, nth) });
        }
        for (nth, pair) in words.chunks(2).enumerate() {
            let srcs = pair.iter().copied().map(Src::Reg).collect();
            self.emit(Inst::Store { space: to, ty, order, srcs, address: at(dst, nth) });
        }
        self.emit(Inst::Fence);
        Ok(())
    }
}
