//! Holds addresses against the window of device memory, before the access.
//!
//! A shift and a comparison of one address serve a whole warp: the other lanes are at a distance that is known or
//! bounded ([`super::anchor`]), and the window's margin is wider. A register is looked at once in a block, for all
//! that is computed from it, and not at all where it is near to a parameter that is trusted. Outside of the window a
//! function decides that keeps all registers, out of the way of what runs.

use super::address::LaneAddresses;
use super::emit::Emit;
use crate::code::{Address, Class, Pc, Space, Src};
use crate::frame::{BlockFrame, Reach};
use crate::window::Window;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, Value};
use std::mem::offset_of;

impl Emit<'_, '_> {
    /// Sees that the lanes of `mask`, or all, may touch a place. False where that is left to
    /// [`reach_lane`](Self::reach_lane), lane by lane.
    pub(super) fn reach(
        &mut self,
        pc: Pc,
        (space, address): (Space, Address),
        place: &LaneAddresses,
        bytes: i64,
        mask: Option<Value>,
    ) -> bool {
        let Some(window) = self.window(space) else { return true };
        let (at, offset, stride, vectors) = match place {
            LaneAddresses::Regular { pointer, offset, stride } => {
                (Some(*pointer), *offset, Some(*stride), None)
            }
            LaneAddresses::Lanes { vectors, base: None, offset } => {
                (None, *offset, None, Some(vectors.clone()))
            }
            _ => return true,
        };
        let reach = i64::from(offset).abs() + bytes;
        let register = match address.base {
            Src::Imm(base) if window.holds(base.wrapping_add(offset as u64)) => return true,
            Src::Imm(_) => None,
            Src::Reg(register) => {
                if let Some(parameter) = self.trusted(register, reach, window) {
                    self.tables.trusted.insert(parameter);
                    return true;
                }
                self.anchor(pc, register, reach, window)
            }
        };
        let outside = match (register, at, &vectors) {
            (Some(register), ..) => {
                if self.local(register).inside {
                    return true;
                }
                let base = self.scalar(register);
                if mask.is_none() {
                    self.local(register).inside = true;
                }
                self.outside(base, window)
            }
            (None, None, Some(_)) if mask.is_some() => return false,
            (None, None, Some(vectors)) if reach as u64 <= window.margin() => {
                self.any_beyond(vectors, window)
            }
            _ => self.flag_constant(true),
        };
        let access = Reach { pc, bytes: bytes as u32, offset: offset.into(), stride };
        let (slots, generic) = (self.scratch[0], space == Space::Generic);
        self.ask_if(outside, mask, access, |emit| match (at, vectors) {
            (Some(pointer), _) => (pointer, generic.then_some(pointer)),
            (None, vectors) => {
                emit.fill_scratch(slots, &vectors.unwrap_or_default());
                (emit.build.ins().stack_addr(I64, slots, 0), None)
            }
        });
        true
    }

    /// As [`reach`](Self::reach), for the address of one lane.
    pub(super) fn reach_lane(
        &mut self,
        pc: Pc,
        space: Space,
        pointer: Value,
        lane: Value,
        bytes: i64,
    ) {
        let Some(window) = self.window(space) else { return };
        let outside = self.outside(pointer, window);
        let access = Reach { pc, bytes: bytes as u32, offset: 0, stride: Some(0) };
        let one = self.build.ins().iconst(I32, 1);
        let mask = self.build.ins().ishl(one, lane);
        let own = (space == Space::Generic).then_some(pointer);
        self.ask_if(outside, Some(mask), access, |_| (pointer, own));
    }

    /// The window that accesses to a space are held against.
    fn window(&self, space: Space) -> Option<Window> {
        self.helpers.window.filter(|_| matches!(space, Space::Global | Space::Generic))
    }

    fn outside(&mut self, address: Value, window: Window) -> Value {
        let upper = self.build.ins().ushr_imm_u(address, i64::from(window.bits()));
        self.build.ins().icmp_imm_u(IntCC::NotEqual, upper, window.upper() as i64)
    }

    /// True when a lane's address lies outside.
    fn any_beyond(&mut self, vectors: &[Value], window: Window) -> Value {
        let start = self.build.ins().iconst(I64, window.start() as i64);
        let start = self.build.ins().splat(I64X2, start);
        let parts = (self.lanes as usize).div_ceil(2);
        let mut differing = Vec::new();
        for (part, &value) in vectors.iter().enumerate().take(parts) {
            let differs = self.build.ins().bxor(value, start);
            differing.push(self.only_existing(Class::B64, part, differs));
        }
        while let Some(last) = differing.pop() {
            let Some(other) = differing.pop() else {
                let by = self.build.ins().iconst(I32, i64::from(window.bits()));
                let upper = self.build.ins().ushr(last, by);
                return self.build.ins().vany_true(upper);
            };
            let both = self.build.ins().bor(last, other);
            differing.insert(0, both);
        }
        self.flag_constant(false)
    }

    /// Asks about an access when `outside`. `at` gives its address, or where those of all lanes lie; and for a
    /// generic one the address that may lie in the block's own memory.
    fn ask_if(
        &mut self,
        outside: Value,
        mask: Option<Value>,
        access: Reach,
        at: impl FnOnce(&mut Self) -> (Value, Option<Value>),
    ) {
        let (ask, on) = (self.build.create_block(), self.build.create_block());
        self.build.ins().brif(outside, ask, &[], on, &[]);
        self.build.switch_to_block(ask);
        self.build.set_cold_block(ask);
        let (at, own) = at(self);
        if let Some(pointer) = own {
            self.pass_if_own(pointer, &access, on);
        }
        let mask = match mask {
            Some(mask) => mask,
            None => {
                let all = self.all_lanes();
                self.build.ins().iconst(I32, i64::from(all))
            }
        };
        let access = Box::new(access);
        let function = self.build.ins().iconst(I64, self.helpers.ask as i64);
        let table = self.build.ins().iconst(I64, (&raw const *access).expose_provenance() as i64);
        self.build.ins().call_indirect(
            self.ask_signature,
            function,
            &[self.block_frame, self.warp_frame, at, mask, table],
        );
        self.tables.reaches.push(access);
        self.build.ins().jump(on, &[]);
        self.build.switch_to_block(on);
    }

    /// Goes `on` when all lanes lie in the memory of the block itself.
    fn pass_if_own(&mut self, pointer: Value, access: &Reach, on: cranelift_codegen::ir::Block) {
        let Some(span) =
            access.stride.and_then(|stride| stride.checked_mul(self.code.width.into()))
        else {
            return;
        };
        let field = |emit: &mut Self, at: usize| {
            emit.build.ins().load(I64, super::emit::own(), emit.block_frame, at as i32)
        };
        let start = field(self, offset_of!(BlockFrame, own));
        let room = field(self, offset_of!(BlockFrame, own_bytes));
        // From the lowest to the highest byte of all lanes.
        let low = access.offset.wrapping_add(span.min(0));
        let reach = span.unsigned_abs().wrapping_add(access.bytes.into()) as i64;
        let first = self.build.ins().isub(pointer, start);
        let first = self.build.ins().iadd_imm_s(first, low);
        let limit = self.build.ins().iadd_imm_s(room, reach.wrapping_neg());
        let inside = self.build.ins().icmp(IntCC::UnsignedLessThanOrEqual, first, limit);
        let fits = self.build.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, limit, 0);
        let inside = self.build.ins().band(inside, fits);
        let ask = self.build.create_block();
        self.build.ins().brif(inside, on, &[], ask, &[]);
        self.build.switch_to_block(ask);
        self.build.set_cold_block(ask);
    }
}
