//! Where an access goes.
//!
//! A regular address is one pointer for the warp. Offsets in shared memory are held against
//! its size, once for all accesses of a block that use the same register: an offset outside
//! turns the pointer to address 0, so that the access faults as any other bad one does.

use super::emit::{Emit, own};
use super::shape::Shape;
use crate::code::{Address, Class, Inst, Pc, Reg, Space, Src};
use crate::frame::{BlockFrame, WarpFrame};
use crate::operands;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, StackSlot, Value};
use std::mem::offset_of;
use std::rc::Rc;

/// The addresses of a warp's lanes.
pub(super) enum LaneAddresses {
    /// `pointer + offset + lane * stride`.
    Regular {
        /// Of lane 0.
        pointer: Value,
        /// Added to it.
        offset: i32,
        /// From lane to lane.
        stride: i64,
    },
    /// The same, with a distance only known when it runs.
    Strided {
        /// Of lane 0.
        pointer: Value,
        /// Added to it.
        offset: i32,
        /// From lane to lane.
        stride: Value,
    },
    /// Each its own, two to a vector.
    Lanes {
        /// 64-bit addresses, or 32-bit offsets to be added to `base`.
        vectors: Rc<[Value]>,
        /// What is added to 32-bit offsets.
        base: Option<Value>,
        /// Added to all.
        offset: i32,
    },
}

impl Emit<'_, '_> {
    /// The place of an access of `bytes` by every lane.
    pub(super) fn place(
        &mut self,
        pc: Pc,
        space: Space,
        address: Address,
        bytes: i64,
    ) -> Option<LaneAddresses> {
        let offset = i32::try_from(address.offset).ok()?;
        let shape = self.shapes.src(address.base);
        match (space, address.base) {
            (Space::Param, Src::Imm(base)) => {
                let offset = i32::try_from(base as i64 + address.offset).ok()?;
                Some(LaneAddresses::Regular { pointer: self.params, offset, stride: 0 })
            }
            (Space::Param, _) => None,
            (Space::Local, Src::Imm(base)) => {
                let offset = i32::try_from(base as i64 + address.offset).ok()?;
                if offset < 0 || i64::from(offset) + bytes > i64::from(self.code.local_bytes) {
                    return None;
                }
                let field = |emit: &mut Self, at: usize| {
                    emit.build.ins().load(I64, own(), emit.warp_frame, at as i32)
                };
                let pointer = field(self, offset_of!(WarpFrame, local));
                let stride = field(self, offset_of!(WarpFrame, local_stride));
                Some(LaneAddresses::Strided { pointer, offset, stride })
            }
            (Space::Local, _) => None,
            (Space::Shared, base) => self.shared_place(pc, base, offset, bytes, shape),
            (Space::Global | Space::Generic, Src::Imm(base)) => {
                let pointer = self.build.ins().iconst(I64, base as i64);
                Some(LaneAddresses::Regular { pointer, offset, stride: 0 })
            }
            (Space::Global | Space::Generic, Src::Reg(register)) => {
                if self.class(register) != Class::B64 {
                    return None;
                }
                Some(match shape {
                    Shape::Regular { stride, .. } => {
                        LaneAddresses::Regular { pointer: self.scalar(register), offset, stride }
                    }
                    _ => {
                        LaneAddresses::Lanes { vectors: self.vector(register), base: None, offset }
                    }
                })
            }
        }
    }

    /// Bytes of the block's shared memory.
    pub(super) fn shared_bytes(&mut self) -> Value {
        let at = offset_of!(BlockFrame, shared_bytes) as i32;
        self.build.ins().load(I32, own(), self.block_frame, at)
    }

    pub(super) fn shared_place(
        &mut self,
        pc: Pc,
        base: Src,
        offset: i32,
        bytes: i64,
        shape: Shape,
    ) -> Option<LaneAddresses> {
        // Addresses may lead to other blocks of a cluster there.
        if self.clusters {
            return None;
        }
        // Where only some lanes take part, each is tested on its own.
        if let (Shape::Regular { stride, .. }, None) = (shape, &self.taking_part) {
            if stride < 0 {
                return None;
            }
            let reach = stride * (i64::from(self.lanes) - 1) + bytes;
            let Src::Reg(register) = base else {
                let Src::Imm(start) = base else { return None };
                let start = i64::from((start as u32).wrapping_add(offset as u32));
                let zero = self.build.ins().iconst(I64, 0);
                let pointer = self.bounded(zero, start, start + reach);
                return Some(LaneAddresses::Regular {
                    pointer,
                    offset: i32::try_from(start).ok()?,
                    stride,
                });
            };
            let (low, high) = (i64::from(offset), i64::from(offset) + reach);
            let known = self.shared_pointer(register);
            let pointer = match known {
                Some((pointer, from, to)) if from <= low && high <= to => pointer,
                _ => {
                    let (low, high) = self.shared_range(pc, register, stride, low, high);
                    let start = self.scalar(register);
                    let start = self.narrow32(start);
                    let start = self.build.ins().uextend(I64, start);
                    let pointer = self.bounded(start, low, high);
                    // Under a condition the pointer is not there for the steps that follow.
                    self.set_shared_pointer(register, (pointer, low, high));
                    pointer
                }
            };
            return Some(LaneAddresses::Regular { pointer, offset, stride });
        }
        let offsets = match base {
            Src::Reg(register) if self.class(register) == Class::B64 => {
                let wide = self.vector_src(base, Class::B64);
                wide.chunks(2).map(|pair| self.every_other(pair[0], pair[1], false)).collect()
            }
            Src::Reg(register) if self.class(register) != Class::B32 => return None,
            _ => self.vector_src(base, Class::B32),
        };
        Some(LaneAddresses::Lanes { vectors: offsets, base: Some(self.shared), offset })
    }

    /// The host address of an offset in shared memory, or 0 when not all from `low` to `high`
    /// after it is inside.
    pub(super) fn bounded(&mut self, start: Value, low: i64, high: i64) -> Value {
        let size = self.shared_bytes();
        let size = self.build.ins().uextend(I64, size);
        // Offsets are 32 bits and wrap: a base below zero may have a constant that brings it back.
        let first = self.build.ins().ireduce(I32, start);
        let first = self.build.ins().iadd_imm_s(first, low);
        let first = self.build.ins().uextend(I64, first);
        let end = self.build.ins().iadd_imm_s(first, high - low);
        let outside = self.build.ins().icmp(IntCC::UnsignedGreaterThan, end, size);
        let pointer = self.build.ins().iadd(self.shared, first);
        let pointer = self.build.ins().iadd_imm_s(pointer, -low);
        let nowhere = self.build.ins().iconst(I64, 0);
        self.build.ins().select(outside, nowhere, pointer)
    }

    /// Widens a range by the accesses that follow in the block with the same register: they
    /// will be executed too, so one test serves all.
    pub(super) fn shared_range(
        &self,
        pc: Pc,
        register: Reg,
        stride: i64,
        mut low: i64,
        mut high: i64,
    ) -> (i64, i64) {
        let reach = stride * (i64::from(self.lanes) - 1);
        let Some(block) = self.code.blocks.iter().rev().find(|block| block.steps.start <= pc)
        else {
            return (low, high);
        };
        for step in &self.code.steps[pc as usize..block.steps.end as usize] {
            let access = match &step.inst {
                Inst::Load { space: Space::Shared, ty, dsts, address, .. } => {
                    Some((address, *ty, dsts.len()))
                }
                Inst::Store { space: Space::Shared, ty, srcs, address, .. } => {
                    Some((address, *ty, srcs.len()))
                }
                _ => None,
            };
            if let (Some((address, ty, count)), None) = (access, step.guard)
                && address.base == Src::Reg(register)
            {
                let bytes = i64::from(ty.bits() / 8) * count as i64;
                low = low.min(address.offset);
                high = high.max(address.offset + reach + bytes);
            }
            let mut redefined = false;
            operands::writes(step, &mut |written| redefined |= written == register);
            let leaves = matches!(step.inst, Inst::Exit | Inst::Return | Inst::Trap);
            if redefined || leaves {
                break;
            }
        }
        (low, high)
    }

    /// True when a lane's offset in shared memory, plus `offset`, is not inside for `bytes`.
    pub(super) fn any_outside(&mut self, offsets: &[Value], offset: i32, bytes: i64) -> Value {
        let size = self.shared_bytes();
        let size64 = self.build.ins().uextend(I64, size);
        let limit = self.build.ins().iadd_imm_s(size64, -bytes);
        let none = self.build.ins().icmp_imm_s(IntCC::SignedLessThan, limit, 0);
        let limit = self.build.ins().ireduce(I32, limit);
        let limit = self.build.ins().splat(cranelift_codegen::ir::types::I32X4, limit);
        let mut bad = None;
        let parts = (self.lanes as usize).div_ceil(4);
        for (part, &value) in offsets.iter().enumerate().take(parts) {
            let moved = if offset == 0 {
                value
            } else {
                let by = self.like(value, offset as u32 as u64);
                self.build.ins().iadd(value, by)
            };
            let above = self.build.ins().icmp(IntCC::UnsignedGreaterThan, moved, limit);
            let above = self.only_existing(Class::B32, part, above);
            bad = Some(match bad {
                None => above,
                Some(other) => self.build.ins().bor(other, above),
            });
        }
        let Some(bad) = bad else { return none };
        let any = self.build.ins().vany_true(bad);
        self.build.ins().bor(any, none)
    }

    /// A part of a vector with zeros in the lanes that do not exist.
    pub(super) fn only_existing(&mut self, class: Class, part: usize, value: Value) -> Value {
        let first = part * 16 / class.lane_bytes();
        let count = 16 / class.lane_bytes();
        if self.exists(first + count - 1) {
            return value;
        }
        let lanes = self.lanes as usize;
        let kept =
            self.lane_constant(class, |lane| if first + lane < lanes { u64::MAX } else { 0 });
        self.build.ins().band(value, kept)
    }

    /// Writes the addresses of a place, or offsets in shared memory, to a scratch line, for
    /// [`loop_address`](Self::loop_address).
    pub(super) fn keep_addresses(&mut self, slot: StackSlot, place: &LaneAddresses) {
        let vectors = match place {
            LaneAddresses::Lanes { vectors, offset, .. } => {
                let vectors = vectors.clone();
                let by = self.like(vectors[0], i64::from(*offset) as u64);
                vectors.iter().map(|&value| self.build.ins().iadd(value, by)).collect()
            }
            LaneAddresses::Regular { pointer, offset, stride } => {
                let pointer = self.build.ins().iadd_imm_s(*pointer, i64::from(*offset));
                self.spread(Class::B64, pointer, *stride)
            }
            LaneAddresses::Strided { .. } => {
                for lane in 0..self.lanes as usize {
                    let (pointer, at) = self.lane_address(place, lane);
                    let pointer = self.build.ins().iadd_imm_s(pointer, i64::from(at));
                    self.build.ins().stack_store(I64, pointer, slot, lane as i32 * 8);
                }
                return;
            }
        };
        self.fill_scratch(slot, &vectors);
    }

    /// The address of the lane whose number is a value, out of a scratch line.
    pub(super) fn loop_address(
        &mut self,
        slot: StackSlot,
        place: &LaneAddresses,
        lane: Value,
        bytes: i64,
    ) -> Value {
        let LaneAddresses::Lanes { base: Some(base), .. } = place else {
            let cell = self.cell(slot, lane, 3);
            return self.build.ins().load(I64, own(), cell, 0);
        };
        let cell = self.cell(slot, lane, 2);
        let offset = self.build.ins().uload32(own(), cell, 0);
        let size = self.shared_bytes();
        let size = self.build.ins().uextend(I64, size);
        let end = self.build.ins().iadd_imm_s(offset, bytes);
        let outside = self.build.ins().icmp(IntCC::UnsignedGreaterThan, end, size);
        let pointer = self.build.ins().iadd(*base, offset);
        let nowhere = self.build.ins().iconst(I64, 0);
        self.build.ins().select(outside, nowhere, pointer)
    }

    /// The address of one lane.
    pub(super) fn lane_address(&mut self, place: &LaneAddresses, lane: usize) -> (Value, i32) {
        match place {
            LaneAddresses::Regular { pointer, offset, stride } => {
                let moved = stride * lane as i64 + i64::from(*offset);
                match i32::try_from(moved) {
                    Ok(moved) => (*pointer, moved),
                    Err(_) => (self.build.ins().iadd_imm_s(*pointer, moved), 0),
                }
            }
            LaneAddresses::Strided { pointer, offset, stride } => {
                let by = self.build.ins().imul_imm_s(*stride, lane as i64);
                (self.build.ins().iadd(*pointer, by), *offset)
            }
            LaneAddresses::Lanes { vectors, base: None, offset } => {
                (self.build.ins().extractlane(vectors[lane / 2], (lane % 2) as u8), *offset)
            }
            LaneAddresses::Lanes { vectors, base: Some(base), offset } => {
                let value = self.build.ins().extractlane(vectors[lane / 4], (lane % 4) as u8);
                let value = if *offset == 0 {
                    value
                } else {
                    self.build.ins().iadd_imm_s(value, i64::from(*offset))
                };
                let value = self.build.ins().uextend(I64, value);
                (self.build.ins().iadd(*base, value), 0)
            }
        }
    }
}
