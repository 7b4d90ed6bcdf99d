//! Which registers hold floating numbers, and which of them only results of f32 arithmetic.

use super::flow::Bits;
use super::shape::{Shapes, gives_raw};
use crate::code::{Class, Inst, Reg, Src};
use crate::operands;

impl Shapes<'_> {
    pub(super) fn find_floats(&mut self) {
        for step in &self.code.steps {
            let float = match &step.inst {
                Inst::Unary { ty, .. }
                | Inst::Binary { ty, .. }
                | Inst::Ternary { ty, .. }
                | Inst::Setp { ty, .. } => ty.float(),
                _ => false,
            };
            if float {
                let mut seen = Vec::new();
                operands::reads(step, &mut |register| seen.push(register));
                operands::writes(step, &mut |register| seen.push(register));
                for register in seen {
                    let index = register.0 as usize;
                    let class = self.code.registers[index].class;
                    self.float[index] |= matches!(class, Class::B32 | Class::B64);
                }
            }
        }
    }

    pub(super) fn find_raw(&mut self) {
        let mut defined = Bits::new(self.raw.len());
        for step in &self.code.steps {
            operands::writes(step, &mut |register| defined.set(register));
        }
        for index in 0..self.raw.len() {
            self.raw[index] =
                defined.has(Reg(index as u32)) && self.code.registers[index].class == Class::B32;
        }
        loop {
            let mut changed = false;
            for step in &self.code.steps {
                let raw = match &step.inst {
                    Inst::Mov { src, .. } => self.raw_src(*src),
                    Inst::Select { a, b, .. } => self.raw_src(*a) && self.raw_src(*b),
                    inst => gives_raw(inst),
                };
                if !raw {
                    operands::writes(step, &mut |register| {
                        changed |= self.raw[register.0 as usize];
                        self.raw[register.0 as usize] = false;
                    });
                }
            }
            if !changed {
                return;
            }
        }
    }

    /// True when the operand may stand for any NaN: a raw register, or a constant that is a number.
    pub(super) fn raw_src(&self, src: Src) -> bool {
        match src {
            Src::Reg(register) => self.raw(register),
            Src::Imm(bits) => !f32::from_bits(bits as u32).is_nan(),
        }
    }
}
