//! What lanes tell each other, and atomics.
//!
//! A shuffle by a constant moves whole vectors or permutes bytes of neighbours: what a
//! warp's reduction does five times over costs a few instructions.

use super::address::LaneAddresses;
use super::emit::{Emit, own};
use super::value::{Form, scalar_type, vector_type};
use crate::code::{Address, AtomOp, Class, Inst, Pc, Reg, ShuffleMode, Space, Src, Ty};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I32X4, I64};
use cranelift_codegen::ir::{AtomicRmwOp, InstBuilder, MemFlagsData, Value};

const ALL: Src = Src::Imm(0xffff_ffff);

impl Emit<'_, '_> {
    pub(super) fn shuffle(&mut self, inst: &Inst) -> Option<()> {
        let &Inst::Shuffle { mode, dst, in_range, a, b, c, mask } = inst else { return None };
        if self.taking_part.is_some() || self.lanes != 32 || mask != Some(ALL) {
            return None;
        }
        let Src::Imm(c) = c else { return None };
        let Src::Imm(b) = b else {
            return self.shuffle_uniform(inst);
        };
        let (clamp, segment) = (c as u32 & 31, c as u32 >> 8 & 31);
        let b = b as u32 & 31;
        let sources: Vec<(u32, bool)> = (0..32)
            .map(|me: u32| {
                let highest = me & segment | clamp & !segment;
                let (source, valid) = match mode {
                    ShuffleMode::Up => {
                        let source = me.wrapping_sub(b);
                        (source, source as i32 >= highest as i32)
                    }
                    ShuffleMode::Down => (me + b, me + b <= highest),
                    ShuffleMode::Bfly => (me ^ b, me ^ b <= highest),
                    ShuffleMode::Idx => {
                        let source = me & segment | b & !segment & 31;
                        (source, source <= highest)
                    }
                };
                if valid { (source & 31, true) } else { (me, false) }
            })
            .collect();
        let raw = self.shapes.raw(dst);
        let vector = match a {
            Src::Reg(register) if raw => self.vector(register),
            _ => self.vector_src(a, Class::B32),
        };
        if let (ShuffleMode::Idx, None, 0x1f) = (mode, in_range, c) {
            let value = self.build.ins().extractlane(vector[b as usize / 4], (b % 4) as u8);
            self.write(dst, Form::Scalar(value));
            return Some(());
        }
        let mut moved = Vec::new();
        for part in 0..8 {
            let from: Vec<u32> =
                sources[part * 4..][..4].iter().map(|&(source, _)| source).collect();
            moved.push(self.pick_lanes(&vector, &from)?);
        }
        self.write(dst, Form::Vector(moved));
        if let Some(register) = in_range {
            let bits = sources
                .iter()
                .enumerate()
                .fold(0u32, |bits, (lane, &(_, valid))| bits | u32::from(valid) << lane);
            let bits = self.build.ins().iconst(I32, i64::from(bits));
            self.write(register, Form::Mask(bits));
        }
        Some(())
    }

    /// Four lanes out of at most two vectors.
    pub(super) fn pick_lanes(&mut self, vector: &[Value], from: &[u32]) -> Option<Value> {
        let mut used: Vec<u32> = from.iter().map(|lane| lane / 4).collect();
        used.sort_unstable();
        used.dedup();
        let (first, second) = match *used {
            [first] => (first, first),
            [first, second] => (first, second),
            _ => return None,
        };
        if first == second && from.iter().enumerate().all(|(lane, &from)| from % 4 == lane as u32) {
            return Some(vector[first as usize]);
        }
        let mut bytes = [0; 16];
        for (index, byte) in bytes.iter_mut().enumerate() {
            let lane = from[index / 4];
            let base = if lane / 4 == first { 0 } else { 16 };
            *byte = (base + lane % 4 * 4) as u8 + (index % 4) as u8;
        }
        Some(self.shuffle_bytes(vector[first as usize], vector[second as usize], bytes))
    }

    /// `shfl.idx` by a number that is only known when it runs, the same for all.
    pub(super) fn shuffle_uniform(&mut self, inst: &Inst) -> Option<()> {
        let &Inst::Shuffle { mode: ShuffleMode::Idx, dst, in_range: None, a, b, c, .. } = inst
        else {
            return None;
        };
        if c != Src::Imm(0x1f) || !self.shapes.src(b).uniform() {
            return None;
        }
        let vector = self.vector_src(a, Class::B32);
        let slot = self.scratch[0];
        self.fill_scratch(slot, &vector);
        let lane = self.scalar_src(b, Class::B32);
        let lane = self.build.ins().band_imm_u(lane, 31);
        let lane = self.build.ins().uextend(I64, lane);
        let cell = self.cell(slot, lane, 2);
        let value = self.build.ins().load(I32, own(), cell, 0);
        self.write(dst, Form::Scalar(value));
        Some(())
    }

    /// Integer reductions over the whole warp.
    pub(super) fn redux(&mut self, inst: &Inst) -> Option<()> {
        let &Inst::Redux { op, ty, abs: false, dst, a, mask, .. } = inst else { return None };
        if self.taking_part.is_some() || ty.float() || mask != ALL || self.lanes != 32 {
            return None;
        }
        let mut vector = self.vector_src(a, Class::B32).to_vec();
        while vector.len() > 1 {
            let upper = vector.split_off(vector.len() / 2);
            for (low, high) in vector.iter_mut().zip(upper) {
                *low = self.combine_lanes(op, ty, *low, high)?;
            }
        }
        let mut value = vector[0];
        for distance in [2, 1] {
            let from: Vec<u32> = (0..4).map(|lane| lane ^ distance).collect();
            let other = self.pick_lanes(&[value], &from)?;
            value = self.combine_lanes(op, ty, value, other)?;
        }
        let parts = self.parts(Class::B32);
        self.write(dst, Form::Vector(vec![value; parts]));
        Some(())
    }

    pub(super) fn combine_lanes(
        &mut self,
        op: AtomOp,
        ty: Ty,
        x: Value,
        y: Value,
    ) -> Option<Value> {
        Some(match op {
            AtomOp::Add => self.build.ins().iadd(x, y),
            AtomOp::And => self.build.ins().band(x, y),
            AtomOp::Or => self.build.ins().bor(x, y),
            AtomOp::Xor => self.build.ins().bxor(x, y),
            AtomOp::Min => self.extreme(false, ty, x, y),
            AtomOp::Max => self.extreme(true, ty, x, y),
            _ => return None,
        })
    }

    /// Atomics of 32- and 64-bit integers, lane after lane.
    pub(super) fn atom(&mut self, pc: Pc, inst: &Inst) -> Option<()> {
        let Inst::Atom { op, space, ty, dsts, address, values, compare, .. } = inst else {
            return None;
        };
        let &[value] = values.as_slice() else { return None };
        if !matches!(ty.bits(), 32 | 64) || dsts.len() > 1 || *space == Space::Local {
            return None;
        }
        if ty.float() && *op != AtomOp::Exch {
            return None;
        }
        let kind = match (op, ty.signed()) {
            (AtomOp::Add, _) => AtomicRmwOp::Add,
            (AtomOp::And, _) => AtomicRmwOp::And,
            (AtomOp::Or, _) => AtomicRmwOp::Or,
            (AtomOp::Xor, _) => AtomicRmwOp::Xor,
            (AtomOp::Exch | AtomOp::Cas, _) => AtomicRmwOp::Xchg,
            (AtomOp::Min, true) => AtomicRmwOp::Smin,
            (AtomOp::Min, false) => AtomicRmwOp::Umin,
            (AtomOp::Max, true) => AtomicRmwOp::Smax,
            (AtomOp::Max, false) => AtomicRmwOp::Umax,
            _ => return None,
        };
        let class = ty.class();
        let fits = |src: Src| match src {
            Src::Reg(register) => self.class(register) == class,
            Src::Imm(_) => true,
        };
        if !fits(value) || compare.is_some_and(|src| !fits(src)) {
            return None;
        }
        if dsts.first().is_some_and(|&dst| self.class(dst) != class) {
            return None;
        }
        let bytes = i64::from(ty.bits() / 8);
        let place = self.place(pc, *space, *address, bytes)?;
        let alone = *space == Space::Shared;
        if let (true, None, None) = (alone, compare, &self.taking_part) {
            let dst = dsts.first().copied();
            if let LaneAddresses::Lanes { vectors, offset, .. } = &place {
                let bad = self.any_outside(&vectors.clone(), *offset, bytes);
                return self.unless(pc, bad, |emit| {
                    emit.update_lanes(&place, kind, class, value, dst);
                    Some(())
                });
            }
        }
        let where_to = (*space, *address);
        self.atom_lanes(pc, where_to, &place, kind, class, value, *compare, dsts.first().copied());
        Some(())
    }

    /// Every lane's operation on shared memory, lane after lane without a loop.
    fn update_lanes(
        &mut self,
        place: &LaneAddresses,
        kind: AtomicRmwOp,
        class: Class,
        value: Src,
        dst: Option<Reg>,
    ) {
        let uniform = self.shapes.src(value).uniform();
        let same = uniform.then(|| self.scalar_src(value, class));
        let values = self.vector_src(value, class);
        let per = if class == Class::B64 { 2 } else { 4 };
        let zero = self.lane_constant(class, |_| 0);
        let mut results = vec![zero; self.parts(class)];
        for lane in 0..self.lanes as usize {
            let (pointer, at) = self.lane_address(place, lane);
            let given = match same {
                Some(value) => value,
                None => self.build.ins().extractlane(values[lane / per], (lane % per) as u8),
            };
            let flags = MemFlagsData::new();
            self.touches_for(lane);
            let old = self.build.ins().load(scalar_type(class), flags, pointer, at);
            let new = self.plain_update(kind, old, given);
            self.build.ins().store(flags, new, pointer, at);
            let part = &mut results[lane / per];
            *part = self.build.ins().insertlane(*part, old, (lane % per) as u8);
        }
        if let Some(dst) = dst {
            self.write(dst, Form::Vector(results));
        }
    }

    /// What is in memory after an operation nobody can see the middle of.
    pub(super) fn plain_update(&mut self, kind: AtomicRmwOp, old: Value, value: Value) -> Value {
        match kind {
            AtomicRmwOp::Add => self.build.ins().iadd(old, value),
            AtomicRmwOp::And => self.build.ins().band(old, value),
            AtomicRmwOp::Or => self.build.ins().bor(old, value),
            AtomicRmwOp::Xor => self.build.ins().bxor(old, value),
            AtomicRmwOp::Smin => self.build.ins().smin(old, value),
            AtomicRmwOp::Umin => self.build.ins().umin(old, value),
            AtomicRmwOp::Smax => self.build.ins().smax(old, value),
            AtomicRmwOp::Umax => self.build.ins().umax(old, value),
            _ => value,
        }
    }

    #[allow(clippy::too_many_arguments, reason = "an instruction's fields")]
    pub(super) fn atom_lanes(
        &mut self,
        pc: Pc,
        (space, address): (Space, Address),
        place: &LaneAddresses,
        kind: AtomicRmwOp,
        class: Class,
        value: Src,
        compare: Option<Src>,
        dst: Option<Reg>,
    ) {
        let alone = space == Space::Shared;
        let some = self.taking_part.as_ref().map(|taking_part| taking_part.mask);
        let mask = match some {
            Some(mask) => mask,
            None => {
                let all = self.all_lanes();
                self.build.ins().iconst(I32, i64::from(all))
            }
        };
        let bytes = class.lane_bytes() as i64;
        let [addresses, values, compares, results, _] = self.scratch;
        let log = if class == Class::B64 { 3 } else { 2 };
        let seen = self.reach(pc, (space, address), place, bytes, some);
        self.keep_addresses(addresses, place);
        let vector = self.vector_src(value, class);
        self.fill_scratch(values, &vector);
        if let Some(compare) = compare {
            let vector = self.vector_src(compare, class);
            self.fill_scratch(compares, &vector);
        }
        if let (Some(dst), true) = (dst, self.taking_part.is_some()) {
            let old = self.vector(dst);
            self.fill_scratch(results, &old);
        }
        let ty = scalar_type(class);
        self.for_lanes(mask, |emit, lane| {
            let pointer = emit.loop_address(addresses, place, lane, bytes);
            if !seen {
                emit.reach_lane(pc, space, pointer, lane, bytes);
            }
            let cell = emit.cell(values, lane, log);
            let value = emit.build.ins().load(ty, own(), cell, 0);
            emit.touches_in_turn(lane);
            let old = if alone {
                // A block's shared memory is touched by its worker alone.
                let old = emit.build.ins().load(ty, MemFlagsData::new(), pointer, 0);
                let new = match compare {
                    Some(_) => {
                        let cell = emit.cell(compares, lane, log);
                        let expected = emit.build.ins().load(ty, own(), cell, 0);
                        let equal = emit.build.ins().icmp(IntCC::Equal, old, expected);
                        emit.build.ins().select(equal, value, old)
                    }
                    None => emit.plain_update(kind, old, value),
                };
                emit.build.ins().store(MemFlagsData::new(), new, pointer, 0);
                old
            } else if compare.is_some() {
                let cell = emit.cell(compares, lane, log);
                let expected = emit.build.ins().load(ty, own(), cell, 0);
                emit.build.ins().atomic_cas(MemFlagsData::new(), pointer, expected, value)
            } else {
                emit.build.ins().atomic_rmw(ty, MemFlagsData::new(), kind, pointer, value)
            };
            if dst.is_some() {
                let cell = emit.cell(results, lane, log);
                emit.build.ins().store(own(), old, cell, 0);
            }
        });
        if let Some(dst) = dst {
            let lanes_type = vector_type(class);
            debug_assert!(class == Class::B64 || lanes_type == I32X4);
            let vector = (0..self.parts(class))
                .map(|part| self.build.ins().stack_load(I64, lanes_type, results, part as i32 * 16))
                .collect();
            let taking_part = self.taking_part.take();
            self.write(dst, Form::Vector(vector));
            self.taking_part = taking_part;
        }
    }
}
