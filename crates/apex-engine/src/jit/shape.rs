//! How a register's value lies over the lanes of a warp.
//!
//! Most of a kernel's integers are the same in all lanes or rise evenly from lane to lane;
//! such a value is one number for the compiler, and a load whose address rises by the
//! size of its element is a vector load. A shape belongs to a register in the whole kernel
//! and not to a point in it: PTX comes nearly in single-assignment form, so little is lost,
//! and every way into compiled code can rely on it.
//!
//! Arithmetic on a regular value holds modulo its width. Where a 32-bit value becomes a
//! 64-bit one the lanes could wrap between first and last; the translator tests that when it
//! runs, see [`widens`].

use super::Compilation;
use super::bound;
use super::flow::{self, Bits};
use crate::code::{BinaryOp, Class, Code, Inst, Pc, Reg, Src, Step, TernaryOp, Ty, UnaryOp};
use crate::operands;
use std::rc::Rc;

/// Finds the shapes.
pub(crate) fn run(it: &mut Compilation<'_>) -> Option<()> {
    it.shapes = Some(Rc::new(Shapes::find(it.job.code, it.job.threads)));
    Some(())
}

/// Base plus lane times stride, or anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// No definition seen yet.
    Unknown,
    /// `base + lane * stride`; the base is a multiple of `1 << align`.
    Regular {
        /// 0: the same in all lanes.
        stride: i64,
        /// Known zero bits at the end of the base.
        align: u8,
    },
    /// Each lane its own.
    Varying,
}

impl Shape {
    /// The same in all lanes.
    pub(super) const UNIFORM: Shape = Shape::Regular { stride: 0, align: 0 };

    /// True when all lanes hold the same.
    pub(super) fn uniform(self) -> bool {
        matches!(self, Shape::Regular { stride: 0, .. })
    }

    /// The distance from lane to lane of a regular value.
    pub(super) fn stride(self) -> Option<i64> {
        match self {
            Shape::Regular { stride, .. } => Some(stride),
            _ => None,
        }
    }

    pub(super) fn join(self, other: Shape) -> Shape {
        match (self, other) {
            (Shape::Unknown, x) | (x, Shape::Unknown) => x,
            (
                Shape::Regular { stride, align },
                Shape::Regular { stride: other_stride, align: other_align },
            ) if stride == other_stride => Shape::Regular { stride, align: align.min(other_align) },
            _ => Shape::Varying,
        }
    }
}

/// The shapes of all registers of a kernel launched with one block size.
#[derive(Clone)]
pub(super) struct Shapes<'a> {
    pub(super) code: &'a Code,
    pub(super) threads: [u32; 3],
    of: Vec<Shape>,
    /// The largest value of each register, see [`bound`].
    pub(super) bounds: Rc<[u64]>,
    /// Registers some instruction uses as a floating number.
    pub(super) float: Vec<bool>,
    /// Registers only floating arithmetic writes, see [`Shapes::raw`].
    pub(super) raw: Vec<bool>,
    /// Lanes may be on different ways: what would need all of them to be looked at is varying.
    parted: bool,
}

impl<'a> Shapes<'a> {
    /// Finds the shapes of a kernel's registers for blocks of `threads`.
    pub(super) fn find(code: &'a Code, threads: [u32; 3]) -> Self {
        let count = code.registers.len();
        let mut shapes = Shapes {
            code,
            threads,
            of: vec![Shape::Unknown; count],
            bounds: bound::find(code, threads).into(),
            float: vec![false; count],
            raw: vec![true; count],
            parted: false,
        };
        shapes.settle();
        for shape in &mut shapes.of {
            if *shape == Shape::Unknown {
                *shape = Shape::Varying;
            }
        }
        shapes.settle();
        shapes.find_floats();
        shapes.find_raw();
        shapes
    }

    /// The shapes inside a region: `crossing` registers differ between lanes, other `written`
    /// ones are found anew.
    pub(super) fn parted(&self, inside: &[Pc], written: &Bits, crossing: &Bits) -> Shapes<'a> {
        let mut shapes = Shapes { parted: true, ..self.clone() };
        for register in written.iter() {
            shapes.of[register.0 as usize] =
                if crossing.has(register) { Shape::Varying } else { Shape::Unknown };
        }
        for unknown in [Shape::Unknown, Shape::Varying] {
            for register in written.iter() {
                let shape = &mut shapes.of[register.0 as usize];
                if *shape == Shape::Unknown {
                    *shape = unknown;
                }
            }
            loop {
                let mut changed = false;
                for &pc in inside {
                    changed |= shapes.visit(&self.code.steps[pc as usize]);
                }
                if !changed {
                    break;
                }
            }
        }
        shapes
    }

    /// The shape of a register.
    pub(super) fn of(&self, register: Reg) -> Shape {
        self.of[register.0 as usize]
    }

    /// The shape of an operand.
    pub(super) fn src(&self, src: Src) -> Shape {
        match src {
            Src::Reg(register) => self.of(register),
            Src::Imm(0) => Shape::Regular { stride: 0, align: 63 },
            Src::Imm(value) => Shape::Regular { stride: 0, align: value.trailing_zeros() as u8 },
        }
    }

    /// True for a register that holds a floating number.
    pub(super) fn float(&self, register: Reg) -> bool {
        self.float[register.0 as usize]
    }

    /// True when the register holds nothing but results of f32 arithmetic. Such results have
    /// one NaN in PTX; the processor has many, and none of them matters before the bits are
    /// looked at. So these registers hold the processor's NaN until then.
    pub(super) fn raw(&self, register: Reg) -> bool {
        self.raw[register.0 as usize]
    }

    pub(super) fn settle(&mut self) {
        let reach = flow::divergent_reach(self.code);
        loop {
            let mut changed = false;
            for step in &self.code.steps {
                changed |= self.visit(step);
            }
            for (block, (written, at)) in reach.iter().enumerate() {
                if self.parts_at(block) {
                    for &register in at.iter().filter(|register| written.has(**register)) {
                        changed |= self.raise(register, Shape::Varying);
                    }
                }
            }
            if !changed {
                return;
            }
        }
    }

    /// True when the lanes of a warp may go different ways at the end of a block.
    pub(super) fn parts_at(&self, block: usize) -> bool {
        let steps = &self.code.blocks[block].steps;
        if steps.is_empty() {
            return false;
        }
        let step = &self.code.steps[steps.end as usize - 1];
        match (&step.inst, step.guard) {
            (Inst::Branch { .. }, Some(guard)) => self.of(guard.predicate) == Shape::Varying,
            (Inst::BranchIndexed { index, .. }, _) => !self.of(*index).uniform(),
            _ => false,
        }
    }

    pub(super) fn visit(&mut self, step: &Step) -> bool {
        let mut written = Vec::new();
        operands::writes(step, &mut |register| written.push(register));
        let shape = match step.guard {
            _ if written.is_empty() => return false,
            Some(guard) if self.of(guard.predicate) == Shape::Varying => Shape::Varying,
            Some(guard) if self.of(guard.predicate) == Shape::Unknown => Shape::Unknown,
            _ => self.result(step),
        };
        let mut changed = false;
        for register in written {
            let class = self.code.registers[register.0 as usize].class;
            let shape = match (class, shape) {
                (Class::B128, _) => Shape::Varying,
                (Class::Pred, Shape::Regular { stride, .. }) if stride != 0 => Shape::Varying,
                (_, shape) => shape,
            };
            changed |= self.raise(register, shape);
        }
        changed
    }

    pub(super) fn raise(&mut self, register: Reg, shape: Shape) -> bool {
        let slot = &mut self.of[register.0 as usize];
        let joined = slot.join(shape);
        let changed = *slot != joined;
        *slot = joined;
        changed
    }

    /// The shape of what a step computes, its guard aside. The translator follows this: where it
    /// says regular, the bases alone are computed.
    pub(super) fn result(&self, step: &Step) -> Shape {
        let shape = self.result_together(step);
        if self.parted && widening(self, step, shape).is_some() { Shape::Varying } else { shape }
    }
}

impl Shape {
    /// A loaded value has the address's evenness and nothing of its alignment.
    pub(super) fn base_only(self) -> Shape {
        if self == Shape::Unknown { self } else { Shape::UNIFORM }
    }
}

/// Steps whose f32 result is canonical for the interpreter and left raw by the translator.
pub(super) fn gives_raw(inst: &Inst) -> bool {
    match inst {
        Inst::Binary { op, ty: Ty::F32, mode, .. } => {
            matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div)
                && *mode == crate::code::Mode::default()
        }
        Inst::Ternary { op: TernaryOp::Fma, ty: Ty::F32, mode, .. } => {
            *mode == crate::code::Mode::default()
        }
        Inst::Unary { op: UnaryOp::Sqrt | UnaryOp::Rcp, ty: Ty::F32, mode, .. } => {
            *mode == crate::code::Mode::default()
        }
        _ => false,
    }
}

/// True when a step takes a regular 32-bit value with a stride into 64 bits; gives that operand
/// and whether it is signed.
pub(super) fn widens(shapes: &Shapes<'_>, step: &Step) -> Option<(Src, bool)> {
    widening(shapes, step, shapes.result(step))
}

fn widening(shapes: &Shapes<'_>, step: &Step, result: Shape) -> Option<(Src, bool)> {
    let (a, ty) = match &step.inst {
        Inst::Binary { op: BinaryOp::MulWide, ty, a, .. }
        | Inst::Ternary { op: TernaryOp::MadWide, ty, a, .. } => (*a, *ty),
        Inst::Cvt { to, from, a, .. } if to.bits() == 64 && from.bits() == 32 && !to.float() => {
            (*a, *from)
        }
        _ => return None,
    };
    result.stride()?;
    let stride = shapes.src(a).stride()?;
    (stride != 0 && ty.bits() == 32).then_some((a, ty.signed()))
}

pub(super) fn regular(ty: Ty, stride: i64, align: u8) -> Shape {
    let stride = if ty.bits() == 32 { i64::from(stride as i32) } else { stride };
    Shape::Regular { stride, align: align.min(63) }
}

pub(super) fn extend(ty: Ty, bits: u64) -> i64 {
    if ty.signed() { i64::from(bits as i32) } else { i64::from(bits as u32) }
}
