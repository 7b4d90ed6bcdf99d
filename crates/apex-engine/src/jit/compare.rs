//! Comparisons, selections and predicates.

use super::emit::Emit;
use super::float::float_type;
use super::shape::Shape;
use super::value::{Form, Home};
use crate::code::{Class, Compare, Guard, Join, Reg, Src, Ty, VoteMode};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{I32, I64X2};
use cranelift_codegen::ir::{InstBuilder, Value};

/// A predicate as it was computed.
enum Truth {
    Flag(Value),
    Mask(Value),
    Lanes(Vec<Value>),
}

fn integer_condition(compare: Compare, signed: bool) -> Option<IntCC> {
    use IntCC::{
        Equal, NotEqual, SignedGreaterThan, SignedGreaterThanOrEqual, SignedLessThan,
        SignedLessThanOrEqual, UnsignedGreaterThan, UnsignedGreaterThanOrEqual, UnsignedLessThan,
        UnsignedLessThanOrEqual,
    };
    Some(match (compare, signed) {
        (Compare::Eq, _) => Equal,
        (Compare::Ne, _) => NotEqual,
        (Compare::Lt, true) => SignedLessThan,
        (Compare::Le, true) => SignedLessThanOrEqual,
        (Compare::Gt, true) => SignedGreaterThan,
        (Compare::Ge, true) => SignedGreaterThanOrEqual,
        (Compare::Lt, false) => UnsignedLessThan,
        (Compare::Le, false) => UnsignedLessThanOrEqual,
        (Compare::Gt, false) => UnsignedGreaterThan,
        (Compare::Ge, false) => UnsignedGreaterThanOrEqual,
        _ => return None,
    })
}

/// The processor's comparison, and whether its contrary is meant.
fn float_condition(compare: Compare) -> Option<(FloatCC, bool)> {
    Some(match compare {
        Compare::Eq => (FloatCC::Equal, false),
        Compare::Neu => (FloatCC::Equal, true),
        Compare::Lt => (FloatCC::LessThan, false),
        Compare::Le => (FloatCC::LessThanOrEqual, false),
        Compare::Gt => (FloatCC::GreaterThan, false),
        Compare::Ge => (FloatCC::GreaterThanOrEqual, false),
        Compare::Geu => (FloatCC::LessThan, true),
        Compare::Gtu => (FloatCC::LessThanOrEqual, true),
        Compare::Leu => (FloatCC::GreaterThan, true),
        Compare::Ltu => (FloatCC::GreaterThanOrEqual, true),
        Compare::Num => (FloatCC::Unordered, true),
        Compare::Nan => (FloatCC::Unordered, false),
        Compare::Ne | Compare::Equ => return None,
    })
}

impl Emit<'_, '_> {
    pub(super) fn setp(
        &mut self,
        compare: Compare,
        ty: Ty,
        ftz: bool,
        dsts: [Option<Reg>; 2],
        srcs: [Src; 2],
        join: Option<(Join, Guard)>,
    ) -> Option<()> {
        for src in srcs {
            if let Src::Reg(register) = src
                && self.class(register) != ty.class()
            {
                return None;
            }
        }
        let uniform = srcs.iter().all(|&src| self.shapes.src(src).uniform());
        let truth = if ty.float() {
            self.compare_floats(compare, ty, ftz, srcs, uniform)?
        } else {
            self.compare_integers(compare, ty, srcs, uniform)?
        };
        let contrary = dsts[1].map(|_| self.contrary(&truth));
        // Both are joined before one is written: it may be the predicate that they are joined with.
        let results = [Some(truth), contrary].map(|truth| match (truth, join) {
            (Some(truth), Some((join, guard))) => Some(self.joined(join, truth, guard)),
            (truth, _) => truth,
        });
        for (dst, truth) in dsts.into_iter().zip(results) {
            if let (Some(dst), Some(truth)) = (dst, truth) {
                self.write_truth(dst, truth);
            }
        }
        Some(())
    }

    fn write_truth(&mut self, dst: Reg, truth: Truth) {
        match truth {
            Truth::Flag(flag) => self.write(dst, Form::Flag(flag)),
            Truth::Mask(mask) => self.write(dst, Form::Mask(mask)),
            Truth::Lanes(lanes) => self.write(dst, Form::Lanes(lanes)),
        }
    }

    fn contrary(&mut self, truth: &Truth) -> Truth {
        match truth {
            Truth::Flag(flag) => Truth::Flag(self.build.ins().bxor_imm_u(*flag, 1)),
            Truth::Mask(mask) => {
                let all = i64::from(self.all_lanes());
                Truth::Mask(self.build.ins().bxor_imm_u(*mask, all))
            }
            Truth::Lanes(lanes) => {
                Truth::Lanes(lanes.iter().map(|&lane| self.build.ins().bnot(lane)).collect())
            }
        }
    }

    fn compare_integers(
        &mut self,
        compare: Compare,
        ty: Ty,
        [a, b]: [Src; 2],
        uniform: bool,
    ) -> Option<Truth> {
        let condition = integer_condition(compare, ty.signed())?;
        if ty.bits() == 8 || ty.bits() == 128 || matches!(ty, Ty::U16x2 | Ty::S16x2) {
            return None;
        }
        let class = ty.class();
        if uniform {
            let (x, y) = (self.scalar_src(a, class), self.scalar_src(b, class));
            let (x, y) = (self.widen16(ty, x), self.widen16(ty, y));
            return Some(Truth::Flag(self.build.ins().icmp(condition, x, y)));
        }
        if let Some(truth) = self.compare_ends(condition, ty, a, b) {
            return Some(truth);
        }
        Some(self.compare_lanes(condition, ty, a, b))
    }

    /// A value that rises evenly against one for all: when first and last lane agree and
    /// nothing wraps between them, so do all. Only otherwise the lanes are compared.
    fn compare_ends(&mut self, condition: IntCC, ty: Ty, a: Src, b: Src) -> Option<Truth> {
        let stride = self.shapes.src(a).stride()?;
        let ordered = !matches!(condition, IntCC::Equal | IntCC::NotEqual);
        if ty.bits() != 32 || stride == 0 || !self.shapes.src(b).uniform() || !ordered {
            return None;
        }
        let reach = stride.wrapping_mul(i64::from(self.lanes) - 1);
        let (base, other) = (self.scalar_src(a, Class::B32), self.scalar_src(b, Class::B32));
        let (base, other) = (self.extend64(ty, base), self.extend64(ty, other));
        let last = self.build.ins().iadd_imm_s(base, reach);
        let short = self.build.ins().ireduce(I32, last);
        let again = self.extend64(ty, short);
        let whole = self.build.ins().icmp(IntCC::Equal, again, last);
        // In 64 bits both are signed numbers.
        let signed = match condition {
            IntCC::UnsignedLessThan => IntCC::SignedLessThan,
            IntCC::UnsignedLessThanOrEqual => IntCC::SignedLessThanOrEqual,
            IntCC::UnsignedGreaterThan => IntCC::SignedGreaterThan,
            IntCC::UnsignedGreaterThanOrEqual => IntCC::SignedGreaterThanOrEqual,
            other => other,
        };
        let at_first = self.build.ins().icmp(signed, base, other);
        let at_last = self.build.ins().icmp(signed, last, other);
        let differ = self.build.ins().bxor(at_first, at_last);
        let wraps = self.build.ins().bxor_imm_u(whole, 1);
        let unclear = self.build.ins().bor(differ, wraps);
        let all = self.flag_mask(at_first);
        let (slow, on) = (self.build.create_block(), self.build.create_block());
        let mask = self.build.append_block_param(on, I32);
        self.build.ins().brif(unclear, slow, &[], on, &[all.into()]);
        self.build.switch_to_block(slow);
        self.build.set_cold_block(slow);
        let lanes = self.aside(|emit| {
            let Truth::Lanes(lanes) = emit.compare_lanes(condition, ty, a, b) else {
                return emit.build.ins().iconst(I32, 0);
            };
            emit.lanes_mask(&lanes)
        });
        self.build.ins().jump(on, &[lanes.into()]);
        self.build.switch_to_block(on);
        Some(Truth::Mask(mask))
    }

    fn compare_lanes(&mut self, condition: IntCC, ty: Ty, a: Src, b: Src) -> Truth {
        let class = ty.class();
        let (x, y) = (self.vector_src(a, class), self.vector_src(b, class));
        let mut lanes = Vec::new();
        for (&x, &y) in x.iter().zip(y.iter()) {
            let (x, y) = (self.widen16(ty, x), self.widen16(ty, y));
            lanes.push(if class == Class::B64 {
                self.compare64(condition, x, y)
            } else {
                self.build.ins().icmp(condition, x, y)
            });
        }
        Truth::Lanes(self.narrow_lanes(class, lanes))
    }

    /// 64-bit lanes of zeros or ones as 32-bit ones.
    pub(super) fn narrow_lanes(&mut self, class: Class, lanes: Vec<Value>) -> Vec<Value> {
        if class == Class::B64 {
            lanes.chunks(2).map(|pair| self.every_other(pair[0], pair[1], false)).collect()
        } else {
            lanes
        }
    }

    fn compare_floats(
        &mut self,
        compare: Compare,
        ty: Ty,
        ftz: bool,
        srcs: [Src; 2],
        uniform: bool,
    ) -> Option<Truth> {
        float_type(ty)?;
        let mut lanes = Vec::new();
        for [x, y] in self.float_parts(ty, srcs, uniform, ftz)? {
            let lane = match float_condition(compare) {
                Some((condition, contrary)) => {
                    let lane = self.build.ins().fcmp(condition, x, y);
                    if contrary { self.build.ins().bnot(lane) } else { lane }
                }
                // Less or greater; `Equ` is the contrary.
                None => {
                    let less = self.build.ins().fcmp(FloatCC::LessThan, x, y);
                    let greater = self.build.ins().fcmp(FloatCC::GreaterThan, x, y);
                    let differs = self.build.ins().bor(less, greater);
                    if compare == Compare::Ne { differs } else { self.build.ins().bnot(differs) }
                }
            };
            lanes.push(lane);
        }
        if uniform {
            let lane = self.build.ins().extractlane(lanes[0], 0);
            return Some(Truth::Flag(self.build.ins().icmp_imm_u(IntCC::NotEqual, lane, 0)));
        }
        Some(Truth::Lanes(self.narrow_lanes(ty.class(), lanes)))
    }

    fn joined(&mut self, join: Join, truth: Truth, guard: Guard) -> Truth {
        let uniform = self.home(guard.predicate) == Home::Flag;
        match truth {
            Truth::Flag(flag) if uniform => {
                let other = self.flag(guard);
                Truth::Flag(self.combine(join, flag, other))
            }
            Truth::Flag(flag) => {
                let (mask, other) = (self.flag_mask(flag), self.mask(guard));
                Truth::Mask(self.combine(join, mask, other))
            }
            Truth::Mask(mask) => {
                let other = self.mask(guard);
                Truth::Mask(self.combine(join, mask, other))
            }
            Truth::Lanes(lanes) => {
                let other = self.lanes(guard);
                let pairs = lanes.into_iter().zip(other.iter());
                Truth::Lanes(pairs.map(|(x, &y)| self.combine(join, x, y)).collect())
            }
        }
    }

    fn combine(&mut self, join: Join, x: Value, y: Value) -> Value {
        match join {
            Join::And => self.build.ins().band(x, y),
            Join::Or => self.build.ins().bor(x, y),
            Join::Xor => self.build.ins().bxor(x, y),
        }
    }

    pub(super) fn logic(&mut self, join: Join, dst: Reg, a: Guard, b: Guard) -> Option<()> {
        if self.home(a.predicate) == Home::Flag && self.home(b.predicate) == Home::Flag {
            let (x, y) = (self.flag(a), self.flag(b));
            let flag = self.combine(join, x, y);
            self.write(dst, Form::Flag(flag));
        } else {
            let (x, y) = (self.mask(a), self.mask(b));
            let mask = self.combine(join, x, y);
            self.write(dst, Form::Mask(mask));
        }
        Some(())
    }

    pub(super) fn copy_predicate(&mut self, dst: Reg, a: Guard) -> Option<()> {
        if self.home(a.predicate) == Home::Flag {
            let flag = self.flag(a);
            self.write(dst, Form::Flag(flag));
        } else {
            let mask = self.mask(a);
            self.write(dst, Form::Mask(mask));
        }
        Some(())
    }

    pub(super) fn select(
        &mut self,
        ty: Ty,
        dst: Reg,
        [a, b]: [Src; 2],
        predicate: Guard,
        shape: Shape,
    ) -> Option<()> {
        let class = ty.class();
        let fits = |src: Src| match src {
            Src::Reg(register) => self.class(register) == class,
            Src::Imm(_) => true,
        };
        if self.class(dst) != class || !matches!(class, Class::B16 | Class::B32 | Class::B64) {
            return None;
        }
        if !fits(a) || !fits(b) {
            return None;
        }
        let flag = (self.home(predicate.predicate) == Home::Flag).then(|| self.flag(predicate));
        if let (true, Some(flag)) = (shape.uniform(), flag) {
            let (x, y) = (self.scalar_src(a, class), self.scalar_src(b, class));
            let picked = self.build.ins().select(flag, x, y);
            self.write(dst, Form::Scalar(picked));
            return Some(());
        }
        let raw = self.shapes.raw(dst);
        let pick = |emit: &mut Self, src: Src| match src {
            Src::Reg(register) if raw => emit.vector(register),
            _ => emit.vector_src(src, class),
        };
        let (x, y) = (pick(self, a), pick(self, b));
        let lanes = self.lanes(predicate);
        let lanes = if class == Class::B64 { self.widen_lanes(&lanes) } else { lanes.to_vec() };
        let picked = (0..x.len())
            .map(|part| self.build.ins().bitselect(lanes[part], x[part], y[part]))
            .collect();
        debug_assert!(class != Class::B64 || self.build.func.dfg.value_type(x[0]) == I64X2);
        self.write(dst, Form::Vector(picked));
        Some(())
    }

    pub(super) fn vote(
        &mut self,
        mode: VoteMode,
        dst: Reg,
        a: Guard,
        mask: Option<Src>,
    ) -> Option<()> {
        if self.taking_part.is_some() || !matches!(mask, None | Some(Src::Imm(0xffff_ffff))) {
            return None;
        }
        let lanes = self.mask(a);
        let all = i64::from(self.all_lanes());
        match mode {
            VoteMode::Ballot => {
                self.write(dst, Form::Scalar(lanes));
                return Some(());
            }
            VoteMode::All => {
                let flag = self.build.ins().icmp_imm_u(IntCC::Equal, lanes, all);
                self.write(dst, Form::Flag(flag));
            }
            VoteMode::Any => {
                let flag = self.build.ins().icmp_imm_u(IntCC::NotEqual, lanes, 0);
                self.write(dst, Form::Flag(flag));
            }
            VoteMode::Uni => {
                let every = self.build.ins().icmp_imm_u(IntCC::Equal, lanes, all);
                let none = self.build.ins().icmp_imm_u(IntCC::Equal, lanes, 0);
                let flag = self.build.ins().bor(every, none);
                self.write(dst, Form::Flag(flag));
            }
        }
        Some(())
    }
}
