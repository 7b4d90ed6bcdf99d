//! Predicates as compiled code holds them: a flag, one bit per lane, or lanes of zeros or ones.

use super::emit::Emit;
use super::value::Home;
use crate::code::{Class, Guard};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8X16, I16X8, I32, I32X4};
use cranelift_codegen::ir::{InstBuilder, Value};
use std::rc::Rc;

impl Emit<'_, '_> {
    /// A uniform predicate, as a flag of 0 or 1.
    pub(super) fn flag(&mut self, guard: Guard) -> Value {
        let value = self.home_values(guard.predicate)[0];
        if guard.negated { self.build.ins().bxor_imm_u(value, 1) } else { value }
    }

    /// A predicate as one bit per lane.
    pub(super) fn mask(&mut self, guard: Guard) -> Value {
        let register = guard.predicate;
        let value = match self.local(register).mask {
            Some(value) => value,
            None => {
                let home = self.home_values(register)[0];
                let value = match self.home(register) {
                    Home::Flag => self.flag_mask(home),
                    _ => home,
                };
                self.local(register).mask = Some(value);
                value
            }
        };
        if guard.negated {
            let all = self.all_lanes();
            self.build.ins().bxor_imm_u(value, i64::from(all))
        } else {
            value
        }
    }

    /// The mask of all lanes that exist.
    pub(super) fn all_lanes(&self) -> u32 {
        (u64::MAX >> (64 - self.lanes)) as u32
    }

    /// A flag as a mask of all lanes or none.
    pub(super) fn flag_mask(&mut self, flag: Value) -> Value {
        let wide = self.build.ins().uextend(I32, flag);
        let mask = self.build.ins().ineg(wide);
        let all = self.all_lanes();
        if all == u32::MAX { mask } else { self.build.ins().band_imm_u(mask, i64::from(all)) }
    }

    /// A predicate as 32-bit lanes of zeros or ones.
    pub(super) fn lanes(&mut self, guard: Guard) -> Rc<[Value]> {
        let register = guard.predicate;
        let lanes: Rc<[Value]> = match &self.local(register).lanes {
            Some(lanes) => lanes.clone(),
            None => {
                let mask = self.mask(Guard { predicate: register, negated: false });
                let lanes: Rc<[Value]> = self.mask_lanes(mask).into();
                self.local(register).lanes = Some(lanes.clone());
                lanes
            }
        };
        if guard.negated {
            lanes.iter().map(|&lane| self.build.ins().bnot(lane)).collect()
        } else {
            lanes
        }
    }

    /// One bit per lane as 32-bit lanes of zeros or ones.
    pub(super) fn mask_lanes(&mut self, mask: Value) -> Vec<Value> {
        let all = self.build.ins().splat(I32X4, mask);
        (0..self.parts(Class::B32))
            .map(|part| {
                let bit = self.lane_constant(Class::B32, |lane| 1 << (part * 4 + lane));
                let chosen = self.build.ins().band(all, bit);
                self.build.ins().icmp(IntCC::Equal, chosen, bit)
            })
            .collect()
    }

    /// 32-bit lanes of zeros or ones as one bit per lane.
    pub(super) fn lanes_mask(&mut self, lanes: &[Value]) -> Value {
        let mut mask = None;
        for quarter in lanes.chunks(4) {
            let low = self.build.ins().snarrow(quarter[0], quarter[1]);
            let high = self.build.ins().snarrow(quarter[2], quarter[3]);
            let bytes = self.build.ins().snarrow(low, high);
            debug_assert_eq!(self.build.func.dfg.value_type(low), I16X8);
            debug_assert_eq!(self.build.func.dfg.value_type(bytes), I8X16);
            let bits = self.build.ins().vhigh_bits(I32, bytes);
            mask = Some(match mask {
                None => bits,
                Some(lower) => {
                    let upper = self.build.ins().ishl_imm_u(bits, 16);
                    self.build.ins().bor(lower, upper)
                }
            });
        }
        let mask = mask.unwrap_or_else(|| self.build.ins().iconst(I32, 0));
        if self.is_whole() {
            return mask;
        }
        let all = self.all_lanes();
        self.build.ins().band_imm_u(mask, i64::from(all))
    }

    /// 32-bit lanes of zeros or ones as 64-bit ones.
    pub(super) fn widen_lanes(&mut self, lanes: &[Value]) -> Vec<Value> {
        let mut wide = Vec::with_capacity(lanes.len() * 2);
        for &lane in lanes {
            wide.push(self.build.ins().swiden_low(lane));
            wide.push(self.build.ins().swiden_high(lane));
        }
        wide
    }
}
