//! Barriers in shared memory that a whole warp arrives at, or asks.
//!
//! The lanes come one after the other; here their arrivals are counted at once, which changes the word in the
//! same way as long as no phase ends before the last lane. Otherwise the interpreter does the step.

use super::access::theirs;
use super::address::LaneAddresses;
use super::emit::Emit;
use super::value::Form;
use crate::code::{Address, Class, Mbarrier, MbarrierOp, Pc, Reg, Space, Src};
use crate::mbarrier::{BYTES, BYTES_AT, COUNT, EXPECTED_AT, PHASE_AT};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, Value};

impl Emit<'_, '_> {
    pub(super) fn mbarrier(&mut self, pc: Pc, it: &Mbarrier) -> Option<()> {
        if self.taking_part.is_some() {
            return None;
        }
        match (it.op, it.value) {
            (MbarrierOp::Arrive, None) => self.all_arrive(pc, it.space, it.address, 1, it.dst),
            (MbarrierOp::Arrive, Some(Src::Imm(count))) => {
                self.all_arrive(pc, it.space, it.address, count & COUNT, it.dst)
            }
            (op, Some(value)) if op.waits() => self.ask_barrier(pc, it, value),
            _ => None,
        }
    }

    /// `cp.async.mbarrier.arrive`: the copies are done.
    pub(super) fn copies_arrive(
        &mut self,
        pc: Pc,
        space: Space,
        address: Address,
        no_inc: bool,
    ) -> Option<()> {
        if self.taking_part.is_some() || !no_inc {
            return None;
        }
        self.all_arrive(pc, space, address, 1, None)
    }

    /// Every lane arrives `count` times at one barrier.
    fn all_arrive(
        &mut self,
        pc: Pc,
        space: Space,
        address: Address,
        count: u64,
        dst: Option<Reg>,
    ) -> Option<()> {
        let total = count * u64::from(self.lanes);
        if count == 0 || total > COUNT {
            return None;
        }
        let (pointer, word, odd) = self.barrier_word(pc, space, address)?;
        let missing = self.build.ins().band_imm_u(word, COUNT as i64);
        let few = self.build.ins().icmp_imm_u(IntCC::UnsignedLessThan, missing, total as i64);
        let slow = self.build.ins().bor(few, odd);
        self.unless(pc, slow, |emit| {
            let last = emit.build.ins().icmp_imm_u(IntCC::Equal, missing, total as i64);
            let bytes = emit.build.ins().iconst(I64, (BYTES << BYTES_AT) as i64);
            let bytes = emit.build.ins().band(word, bytes);
            let bytes = emit.build.ins().icmp_imm_u(IntCC::Equal, bytes, 0);
            let over = emit.build.ins().band(last, bytes);
            let arrived = emit.build.ins().iadd_imm_s(word, -(total as i64));
            let expected = emit.build.ins().ushr_imm_u(word, i64::from(EXPECTED_AT));
            let expected = emit.build.ins().band_imm_u(expected, COUNT as i64);
            let phase = emit.build.ins().iconst(I64, (1_u64 << PHASE_AT) as i64);
            let next = emit.build.ins().iadd(arrived, phase);
            let next = emit.build.ins().iadd(next, expected);
            let new = emit.build.ins().select(over, next, arrived);
            emit.build.ins().store(theirs(), new, pointer, 0);
            if let Some(dst) = dst {
                let tokens = emit.spread(Class::B64, word, -(count as i64));
                emit.write(dst, Form::Vector(tokens));
            }
            Some(())
        })
    }

    /// Whether the phase of a token, or of a parity, is over.
    fn ask_barrier(&mut self, pc: Pc, it: &Mbarrier, value: Src) -> Option<()> {
        let dst = it.dst?;
        let by_parity = matches!(it.op, MbarrierOp::TestWaitParity | MbarrierOp::TryWaitParity);
        let uniform = self.shapes.src(value).uniform();
        if by_parity && !uniform {
            return None;
        }
        let (_, word, odd) = self.barrier_word(pc, it.space, it.address)?;
        self.unless(pc, odd, |emit| {
            if by_parity {
                let parity = emit.scalar_src(value, Class::B32);
                let phase = emit.build.ins().ushr_imm_u(word, i64::from(PHASE_AT));
                let phase = emit.build.ins().ireduce(I32, phase);
                let differs = emit.build.ins().bxor(phase, parity);
                let differs = emit.build.ins().band_imm_u(differs, 1);
                let flag = emit.build.ins().icmp_imm_u(IntCC::NotEqual, differs, 0);
                emit.write(dst, Form::Flag(flag));
                return Some(());
            }
            if uniform {
                let token = emit.scalar_src(value, Class::B64);
                let differs = emit.build.ins().bxor(word, token);
                let differs = emit.build.ins().ushr_imm_u(differs, i64::from(PHASE_AT));
                let flag = emit.build.ins().icmp_imm_u(IntCC::NotEqual, differs, 0);
                emit.write(dst, Form::Flag(flag));
                return Some(());
            }
            let tokens = emit.vector_src(value, Class::B64);
            let word = emit.build.ins().splat(I64X2, word);
            let by = emit.build.ins().iconst(I32, i64::from(PHASE_AT));
            let zero = emit.lane_constant(Class::B64, |_| 0);
            let lanes = tokens
                .iter()
                .map(|&token| {
                    let differs = emit.build.ins().bxor(token, word);
                    let differs = emit.build.ins().ushr(differs, by);
                    emit.compare64(IntCC::NotEqual, differs, zero)
                })
                .collect();
            let lanes = emit.narrow_lanes(Class::B64, lanes);
            emit.write(dst, Form::Lanes(lanes));
            Some(())
        })
    }

    /// Where a barrier lies that all lanes name, its word, and whether it lies askew.
    fn barrier_word(
        &mut self,
        pc: Pc,
        space: Space,
        address: Address,
    ) -> Option<(Value, Value, Value)> {
        if !self.shapes.src(address.base).uniform() {
            return None;
        }
        let place = self.place(pc, space, address, 8)?;
        let LaneAddresses::Regular { pointer, offset, stride: 0 } = place else { return None };
        self.reach(pc, (space, address), &place, 8, None);
        let pointer = self.build.ins().iadd_imm_s(pointer, i64::from(offset));
        self.touches_for(0);
        let word = self.build.ins().load(I64, theirs(), pointer, 0);
        let low = self.build.ins().band_imm_u(pointer, 7);
        let odd = self.build.ins().icmp_imm_u(IntCC::NotEqual, low, 0);
        Some((pointer, word, odd))
    }
}
