//! Which step is translated by what; everything not here goes through the interpreter's
//! function for one step.
//!
//! Every method gives `None`, with nothing of lasting effect emitted, for what it leaves.

use super::emit::{Emit, own};
use super::shape::Shape;
use super::value::{Form, scalar_type};
use crate::code::{Class, Inst, Pc, Reg, Space, Special, Src, Ty};
use crate::frame::{BlockFrame, WarpFrame};
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use std::mem::offset_of;

impl Emit<'_, '_> {
    /// Translates a step for the lanes that take part.
    #[expect(clippy::too_many_lines, reason = "a table: who translates each instruction")]
    pub(super) fn native(&mut self, pc: Pc) -> Option<()> {
        let step = &self.code.steps[pc as usize];
        let shape = self.shapes.result(step);
        match &step.inst {
            Inst::Nop | Inst::WarpBarrier { .. } => Some(()),
            Inst::Fence => {
                self.build.ins().fence();
                Some(())
            }
            Inst::Mov { ty: Ty::Pred, dst, src: Src::Reg(src) } => {
                self.copy_predicate(*dst, crate::code::Guard { predicate: *src, negated: false })
            }
            Inst::Mov { ty: Ty::Pred, dst, src: Src::Imm(bits) } => {
                let flag = self.flag_constant(*bits != 0);
                self.write(*dst, Form::Flag(flag));
                Some(())
            }
            Inst::Mov { dst, src, .. } => self.copy(*dst, *src, shape),
            Inst::Special { dst, which } => self.special(*dst, *which, shape),
            Inst::Unary { op, ty, mode, dst, a } => {
                if ty.float() {
                    self.float_unary(*op, *ty, *mode, *dst, *a, shape, &step.inst)
                } else {
                    self.int_unary(*op, *ty, *dst, *a, shape)
                }
            }
            Inst::Binary { op, ty, mode, dst, a, b } => {
                if ty.float() {
                    self.float_binary(*op, *ty, *mode, *dst, [*a, *b], shape, &step.inst)
                } else if mode.sat {
                    None
                } else {
                    self.int_binary(*op, *ty, *dst, *a, *b, shape)
                }
            }
            Inst::Ternary { op, ty, mode, dst, a, b, c } => {
                if ty.float() {
                    self.float_ternary(*op, *ty, *mode, *dst, [*a, *b, *c], shape, &step.inst)
                } else if mode.sat {
                    None
                } else {
                    self.int_ternary(*op, *ty, *dst, [*a, *b, *c], shape)
                }
            }
            Inst::Cvt { to, from, mode, dst, a } => {
                self.convert(*to, *from, *mode, *dst, *a, shape)
            }
            Inst::Setp { compare, ty, ftz, dst, not_dst, a, b, join } => {
                self.setp(*compare, *ty, *ftz, [*dst, *not_dst], [*a, *b], *join)
            }
            Inst::Select { ty, dst, a, b, predicate } => {
                self.select(*ty, *dst, [*a, *b], *predicate, shape)
            }
            Inst::PredLogic { join, dst, a, b } => self.logic(*join, *dst, *a, *b),
            Inst::PredCopy { dst, a } => self.copy_predicate(*dst, *a),
            Inst::PredSet { dst, value } => {
                let flag = self.flag_constant(*value);
                self.write(*dst, Form::Flag(flag));
                Some(())
            }
            Inst::ToGeneric { space, dst, a } => self.generic(*space, *dst, *a, shape, false),
            Inst::FromGeneric { space, dst, a } => self.generic(*space, *dst, *a, shape, true),
            Inst::Pack { part, dst, parts } => self.pack(*part, *dst, parts, shape),
            Inst::Unpack { part, dsts, src } => self.unpack(*part, dsts, *src, shape),
            Inst::Load { space, ty, dsts, address, .. } => {
                self.load(pc, *space, *ty, dsts, *address)
            }
            Inst::Store { space, ty, srcs, address, .. } => {
                self.store(pc, *space, *ty, srcs, *address)
            }
            Inst::Atom { .. } => self.atom(pc, &step.inst),
            Inst::Vote { mode, dst, a, mask } => self.vote(*mode, *dst, *a, *mask),
            Inst::ActiveMask { dst } => {
                let all = self.all_lanes();
                if self.taking_part.is_some() {
                    return None;
                }
                let all = self.build.ins().iconst(I32, i64::from(all));
                self.write(*dst, Form::Scalar(all));
                Some(())
            }
            Inst::Shuffle { .. } => self.shuffle(&step.inst),
            Inst::Redux { .. } => self.redux(&step.inst),
            Inst::Mbarrier(it) => self.mbarrier(pc, it),
            Inst::CopyAsyncArrive { address, space, no_inc } => {
                self.copies_arrive(pc, *space, *address, *no_inc)
            }
            _ => None,
        }
    }

    pub(super) fn copy(&mut self, dst: Reg, src: Src, shape: Shape) -> Option<()> {
        let class = self.class(dst);
        if class == Class::B128 || class == Class::Pred {
            return None;
        }
        if let Src::Reg(register) = src
            && scalar_type(self.class(register)) != scalar_type(class)
        {
            return None;
        }
        // A raw value may stay so where its new register is raw too.
        let raw = self.shapes.raw(dst);
        match shape {
            Shape::Regular { stride: 0, .. } if self.shapes.float(dst) => {
                let splat = match src {
                    Src::Reg(register) if raw => self.splat(register),
                    _ => self.splat_src(src, class),
                };
                self.write(dst, Form::Splat(splat));
            }
            Shape::Regular { stride, .. } => {
                let base = self.scalar_src(src, class);
                self.write_regular(dst, base, stride);
            }
            _ => {
                let vector = match src {
                    Src::Reg(register) if raw => self.vector(register),
                    _ => self.vector_src(src, class),
                };
                self.write(dst, Form::Vector(vector.to_vec()));
            }
        }
        Some(())
    }

    /// A field of the block's frame.
    pub(super) fn block_field(&mut self, offset: usize) -> Value {
        self.build.ins().load(I32, own(), self.block_frame, offset as i32)
    }

    pub(super) fn warp_field(&mut self, offset: usize) -> Value {
        self.build.ins().load(I32, own(), self.warp_frame, offset as i32)
    }

    pub(super) fn special(&mut self, dst: Reg, which: Special, shape: Shape) -> Option<()> {
        if self.class(dst) != Class::B32 {
            return None;
        }
        let stride = shape.stride()?;
        let base = match which {
            Special::Tid(axis) => {
                let first = self.warp_field(offset_of!(WarpFrame, first_thread));
                let [x, y, z] = self.threads;
                match axis {
                    0 if y == 1 && z == 1 => first,
                    0 => self.modulo(first, x),
                    1 if y == 1 => self.build.ins().iconst(I32, 0),
                    1 => {
                        let rows = self.quotient(first, x);
                        if z == 1 { rows } else { self.modulo(rows, y) }
                    }
                    _ => self.quotient(first, x * y),
                }
            }
            Special::Ntid(axis) => {
                let size = self.threads[usize::from(axis).min(2)];
                self.build.ins().iconst(I32, i64::from(size))
            }
            Special::Ctaid(axis) => {
                self.block_field(offset_of!(BlockFrame, block) + usize::from(axis).min(2) * 4)
            }
            Special::Nctaid(axis) => {
                self.block_field(offset_of!(BlockFrame, grid) + usize::from(axis).min(2) * 4)
            }
            Special::Laneid => self.build.ins().iconst(I32, 0),
            Special::Warpid => self.warp_field(offset_of!(WarpFrame, index)),
            Special::Smid => self.block_field(offset_of!(BlockFrame, sm)),
            Special::Nsmid => self.block_field(offset_of!(BlockFrame, sms)),
            _ => return None,
        };
        self.write_regular(dst, base, stride);
        Some(())
    }

    pub(super) fn quotient(&mut self, value: Value, by: u32) -> Value {
        if by.is_power_of_two() {
            return self.build.ins().ushr_imm_u(value, i64::from(by.trailing_zeros()));
        }
        let by = self.build.ins().iconst(I32, i64::from(by));
        self.build.ins().udiv(value, by)
    }

    pub(super) fn modulo(&mut self, value: Value, by: u32) -> Value {
        if by.is_power_of_two() {
            return self.build.ins().band_imm_u(value, i64::from(by) - 1);
        }
        let by = self.build.ins().iconst(I32, i64::from(by));
        self.build.ins().urem(value, by)
    }

    /// Between an offset in a space and a host address.
    pub(super) fn generic(
        &mut self,
        space: Space,
        dst: Reg,
        a: Src,
        shape: Shape,
        from: bool,
    ) -> Option<()> {
        match space {
            Space::Global | Space::Generic => self.copy(dst, a, shape),
            Space::Shared => {
                let class = match a {
                    Src::Reg(register) => self.class(register),
                    Src::Imm(_) => self.class(dst),
                };
                let stride = shape.stride()?;
                if self.class(dst) != Class::B64 || class != Class::B64 {
                    return None;
                }
                let base = self.scalar_src(a, class);
                let moved = if from {
                    self.build.ins().isub(base, self.shared)
                } else {
                    self.build.ins().iadd(base, self.shared)
                };
                self.write_regular(dst, moved, stride);
                Some(())
            }
            _ => None,
        }
    }

    /// `mov.b64 d, {a, b}`.
    pub(super) fn pack(&mut self, part: Ty, dst: Reg, parts: &[Src], shape: Shape) -> Option<()> {
        let (Class::B64, 32, [low, high]) = (self.class(dst), part.bits(), parts) else {
            return None;
        };
        if shape.uniform() {
            let low = self.scalar_src(*low, Class::B32);
            let high = self.scalar_src(*high, Class::B32);
            let low = self.build.ins().uextend(I64, low);
            let high = self.build.ins().uextend(I64, high);
            let high = self.build.ins().ishl_imm_u(high, 32);
            let both = self.build.ins().bor(low, high);
            self.write(dst, Form::Scalar(both));
        } else {
            let low = self.vector_src(*low, Class::B32);
            let high = self.vector_src(*high, Class::B32);
            let mut vector = Vec::new();
            for (&low, &high) in low.iter().zip(high.iter()) {
                for interleaved in self.interleave(low, high) {
                    vector.push(self.cast(cranelift_codegen::ir::types::I64X2, interleaved));
                }
            }
            self.write(dst, Form::Vector(vector));
        }
        Some(())
    }

    /// `mov.b64 {a, b}, s`.
    pub(super) fn unpack(
        &mut self,
        part: Ty,
        dsts: &[Option<Reg>],
        src: Src,
        shape: Shape,
    ) -> Option<()> {
        let (32, [low, high]) = (part.bits(), dsts) else { return None };
        if let Src::Reg(register) = src
            && self.class(register) != Class::B64
        {
            return None;
        }
        if shape.uniform() {
            let both = self.scalar_src(src, Class::B64);
            if let Some(low) = low {
                let value = self.build.ins().ireduce(I32, both);
                self.write(*low, Form::Scalar(value));
            }
            if let Some(high) = high {
                let value = self.build.ins().ushr_imm_u(both, 32);
                let value = self.build.ins().ireduce(I32, value);
                self.write(*high, Form::Scalar(value));
            }
        } else {
            let both = self.vector_src(src, Class::B64);
            for (dst, odd) in [(low, false), (high, true)] {
                if let Some(dst) = dst {
                    let halves = both
                        .chunks(2)
                        .map(|pair| self.every_other(pair[0], pair[1], odd))
                        .collect();
                    self.write(*dst, Form::Vector(halves));
                }
            }
        }
        Some(())
    }
}
