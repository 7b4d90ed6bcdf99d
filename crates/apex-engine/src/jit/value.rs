//! Registers as the compiled code holds them.
//!
//! A register has one home for its whole life: a number in a general register for regular
//! values, one vector with all lanes alike for uniform floating numbers, one vector for every
//! four (or two) lanes otherwise; a predicate is a flag or a mask of lanes. Other forms are
//! made when an instruction wants them and remembered until the block ends.

use super::emit::Emit;
use super::shape::Shape;
use crate::code::{Class, Reg, Src};
use cranelift_codegen::ir::immediates::V128Imm;
use cranelift_codegen::ir::types::{I8, I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value};
use cranelift_frontend::Variable;
use std::collections::HashMap;
use std::rc::Rc;

/// Where a register lives between blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Home {
    /// Base of a regular value, in a general register.
    Scalar,
    /// A uniform number, alike in all lanes of one vector.
    Splat,
    /// All lanes.
    Vector,
    /// A uniform predicate: an 8-bit flag.
    Flag,
    /// A predicate: one bit per lane.
    Mask,
    /// Only in the register file: 128-bit registers.
    Memory,
}

/// A value on its way to a register.
#[derive(Debug, Clone)]
pub(super) enum Form {
    /// The base of a regular value.
    Scalar(Value),
    /// One vector, all lanes alike.
    Splat(Value),
    /// All lanes.
    Vector(Vec<Value>),
    /// A uniform predicate.
    Flag(Value),
    /// A predicate as one bit per lane.
    Mask(Value),
    /// A predicate as 32-bit lanes of zeros or ones.
    Lanes(Vec<Value>),
}

/// What is at hand in the current block.
#[derive(Debug, Clone, Default)]
pub(super) struct Locals {
    pub(super) registers: HashMap<Reg, Local>,
    constants: HashMap<(Type, [u8; 16]), Value>,
}

impl Locals {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.registers.clear();
        self.constants.clear();
    }

    /// Forgets the forms of a register.
    pub(super) fn remove(&mut self, register: Reg) {
        self.registers.remove(&register);
    }
}

/// The forms of a register at hand in the current block.
#[derive(Debug, Clone, Default)]
pub(super) struct Local {
    pub(super) scalar: Option<Value>,
    pub(super) splat: Option<Value>,
    pub(super) vector: Option<Rc<[Value]>>,
    pub(super) mask: Option<Value>,
    pub(super) lanes: Option<Rc<[Value]>>,
    shared: Option<(Value, i64, i64)>,
    /// It was seen to lie in the window of device memory.
    pub(super) inside: bool,
    /// As `splat` and `vector`, with PTX's NaN.
    exact_splat: Option<Value>,
    exact_vector: Option<Rc<[Value]>>,
}

/// The vector type of a class.
pub(super) fn vector_type(class: Class) -> Type {
    if class == Class::B64 { I64X2 } else { I32X4 }
}

/// The scalar type of a class.
pub(super) fn scalar_type(class: Class) -> Type {
    if class == Class::B64 { I64 } else { I32 }
}

impl Emit<'_, '_> {
    /// Class of a register.
    pub(super) fn class(&self, register: Reg) -> Class {
        self.code.registers[register.0 as usize].class
    }

    /// Where a register lives.
    pub(super) fn home(&self, register: Reg) -> Home {
        let shape = self.shapes.of(register);
        match self.class(register) {
            Class::B128 => Home::Memory,
            Class::Pred if shape.uniform() => Home::Flag,
            Class::Pred => Home::Mask,
            _ if shape == Shape::Varying => Home::Vector,
            _ if shape.uniform() && self.shapes.float(register) => Home::Splat,
            _ => Home::Scalar,
        }
    }

    /// Vectors that hold all lanes of a class.
    pub(super) fn parts(&self, class: Class) -> usize {
        self.code.width as usize / if class == Class::B64 { 2 } else { 4 }
    }

    /// The variables of a register, in its home.
    pub(super) fn variables(&mut self, register: Reg) -> Rc<[Variable]> {
        if let Some(variables) = &self.variables[register.0 as usize] {
            return variables.clone();
        }
        let class = self.class(register);
        let (ty, count) = match self.home(register) {
            Home::Scalar => (scalar_type(class), 1),
            Home::Splat => (vector_type(class), 1),
            Home::Vector => (vector_type(class), self.parts(class)),
            Home::Flag => (I8, 1),
            Home::Mask => (I32, 1),
            Home::Memory => (I32, 0),
        };
        let variables: Rc<[Variable]> = (0..count).map(|_| self.build.declare_var(ty)).collect();
        self.declared.extend(variables.iter().map(|&variable| (variable, ty)));
        self.variables[register.0 as usize] = Some(variables.clone());
        variables
    }

    pub(super) fn home_values(&mut self, register: Reg) -> Vec<Value> {
        let variables = self.variables(register);
        variables.iter().map(|&variable| self.build.use_var(variable)).collect()
    }

    /// The base of a regular register, or its only value.
    pub(super) fn scalar(&mut self, register: Reg) -> Value {
        if let Some(value) = self.local(register).scalar {
            return value;
        }
        let value = match self.home(register) {
            Home::Splat => {
                let splat = self.splat(register);
                self.build.ins().extractlane(splat, 0)
            }
            _ => self.home_values(register)[0],
        };
        self.local(register).scalar = Some(value);
        value
    }

    /// A uniform register as a vector.
    pub(super) fn splat(&mut self, register: Reg) -> Value {
        if let Some(value) = self.local(register).splat {
            return value;
        }
        let value = match self.home(register) {
            Home::Splat => self.home_values(register)[0],
            _ => {
                let scalar = self.scalar(register);
                let ty = vector_type(self.class(register));
                self.build.ins().splat(ty, scalar)
            }
        };
        self.local(register).splat = Some(value);
        value
    }

    /// All lanes of a register.
    pub(super) fn vector(&mut self, register: Reg) -> Rc<[Value]> {
        if let Some(vector) = &self.local(register).vector {
            return vector.clone();
        }
        let class = self.class(register);
        let parts = self.parts(class);
        let vector: Rc<[Value]> = match (self.home(register), self.shapes.of(register)) {
            (Home::Vector, _) => self.home_values(register).into(),
            (_, Shape::Regular { stride, .. }) if stride != 0 => {
                let base = self.scalar(register);
                self.spread(class, base, stride).into()
            }
            _ => vec![self.splat(register); parts].into(),
        };
        self.local(register).vector = Some(vector.clone());
        vector
    }

    /// `base + lane * stride` as vectors.
    pub(super) fn spread(&mut self, class: Class, base: Value, stride: i64) -> Vec<Value> {
        let base = self.build.ins().splat(vector_type(class), base);
        if stride == 0 {
            return vec![base; self.parts(class)];
        }
        let per = self.code.width as usize / self.parts(class);
        (0..self.parts(class))
            .map(|part| {
                let at = |lane: usize| stride.wrapping_mul((part * per + lane) as i64) as u64;
                let offsets = self.lane_constant(class, at);
                self.build.ins().iadd(base, offsets)
            })
            .collect()
    }

    /// A vector of constants, given by the lane inside the vector.
    pub(super) fn lane_constant(&mut self, class: Class, at: impl Fn(usize) -> u64) -> Value {
        let mut bytes = [0; 16];
        if class == Class::B64 {
            for lane in 0..2 {
                bytes[lane * 8..][..8].copy_from_slice(&at(lane).to_le_bytes());
            }
        } else {
            for lane in 0..4 {
                bytes[lane * 4..][..4].copy_from_slice(&(at(lane) as u32).to_le_bytes());
            }
        }
        self.constant(vector_type(class), bytes)
    }

    /// A constant vector, made once for a block.
    pub(super) fn constant(&mut self, ty: Type, bytes: [u8; 16]) -> Value {
        if let Some(&value) = self.locals.constants.get(&(ty, bytes)) {
            return value;
        }
        let handle = self.build.func.dfg.constants.insert(V128Imm(bytes).as_slice().into());
        let value = self.build.ins().vconst(ty, handle);
        self.locals.constants.insert((ty, bytes), value);
        value
    }

    /// The bits of a regular operand's base.
    pub(super) fn scalar_src(&mut self, src: Src, class: Class) -> Value {
        match src {
            Src::Reg(register) if self.shapes.raw(register) => {
                let splat = self.splat_src(src, class);
                self.build.ins().extractlane(splat, 0)
            }
            Src::Reg(register) => self.scalar(register),
            Src::Imm(bits) if class == Class::B64 => self.build.ins().iconst(I64, bits as i64),
            Src::Imm(bits) => self.build.ins().iconst(I32, i64::from(bits as u32)),
        }
    }

    /// The bits of a uniform operand, as a vector.
    pub(super) fn splat_src(&mut self, src: Src, class: Class) -> Value {
        match src {
            Src::Reg(register) => {
                let splat = self.splat(register);
                if !self.shapes.raw(register) {
                    return splat;
                }
                if let Some(exact) = self.local(register).exact_splat {
                    return exact;
                }
                let exact = self.canonical(splat);
                self.local(register).exact_splat = Some(exact);
                exact
            }
            Src::Imm(bits) => self.lane_constant(class, |_| bits),
        }
    }

    /// The bits of an operand in all lanes.
    pub(super) fn vector_src(&mut self, src: Src, class: Class) -> Rc<[Value]> {
        match src {
            Src::Reg(register) => {
                let vector = self.vector(register);
                if !self.shapes.raw(register) {
                    return vector;
                }
                if let Some(exact) = &self.local(register).exact_vector {
                    return exact.clone();
                }
                let exact: Rc<[Value]> =
                    vector.iter().map(|&value| self.canonical(value)).collect();
                self.local(register).exact_vector = Some(exact.clone());
                exact
            }
            Src::Imm(_) => vec![self.splat_src(src, class); self.parts(class)].into(),
        }
    }

    /// Views the lanes of a vector as another type of the same width.
    pub(super) fn cast(&mut self, ty: Type, value: Value) -> Value {
        if self.build.func.dfg.value_type(value) == ty {
            return value;
        }
        let flags = MemFlagsData::new().with_endianness(cranelift_codegen::ir::Endianness::Little);
        self.build.ins().bitcast(ty, flags, value)
    }

    /// The host address of the offset in shared memory a register holds, with the range
    /// around it that was found to be inside.
    pub(super) fn shared_pointer(&mut self, register: Reg) -> Option<(Value, i64, i64)> {
        self.local(register).shared
    }

    /// Notes the above.
    pub(super) fn set_shared_pointer(&mut self, register: Reg, pointer: (Value, i64, i64)) {
        self.local(register).shared = Some(pointer);
    }

    pub(super) fn local(&mut self, register: Reg) -> &mut Local {
        self.locals.registers.entry(register).or_default()
    }
}
