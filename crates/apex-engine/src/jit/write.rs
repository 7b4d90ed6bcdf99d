//! Giving registers their values.

use super::emit::Emit;
use super::parted::TakingPart;
use super::value::{Form, Home, Local, vector_type};
use crate::code::{Guard, Reg};
use cranelift_codegen::ir::types::I64X2;
use cranelift_codegen::ir::{InstBuilder, Value};

impl Emit<'_, '_> {
    /// Gives a register its new value, for the lanes that take part.
    pub(super) fn write(&mut self, register: Reg, form: Form) {
        let class = self.class(register);
        let form = match (self.home(register), form) {
            (Home::Vector, Form::Scalar(value)) => {
                let splat = self.build.ins().splat(vector_type(class), value);
                Form::Vector(vec![splat; self.parts(class)])
            }
            (Home::Vector, Form::Splat(value)) => Form::Vector(vec![value; self.parts(class)]),
            (Home::Scalar, Form::Splat(value)) => {
                Form::Scalar(self.build.ins().extractlane(value, 0))
            }
            (Home::Splat, Form::Scalar(value)) => {
                Form::Splat(self.build.ins().splat(vector_type(class), value))
            }
            (Home::Mask, Form::Flag(value)) => Form::Mask(self.flag_mask(value)),
            (_, form) => form,
        };
        let form = self.merged(register, form);
        let mut local = Local::default();
        let values = match form {
            Form::Scalar(value) => {
                local.scalar = Some(value);
                vec![value]
            }
            Form::Splat(value) => {
                local.splat = Some(value);
                vec![value]
            }
            Form::Vector(values) => {
                local.vector = Some(values.as_slice().into());
                values
            }
            Form::Flag(value) => vec![value],
            Form::Mask(value) => {
                local.mask = Some(value);
                vec![value]
            }
            Form::Lanes(lanes) => {
                let mask = self.lanes_mask(&lanes);
                local.mask = Some(mask);
                local.lanes = Some(lanes.into());
                vec![mask]
            }
        };
        let variables = self.variables(register);
        debug_assert_eq!(variables.len(), values.len());
        for (&variable, value) in variables.iter().zip(values) {
            self.build.def_var(variable, value);
        }
        self.locals.registers.insert(register, local);
    }

    /// Like [`write`](Self::write), for a regular value that may be more than its register is.
    pub(super) fn write_regular(&mut self, register: Reg, base: Value, stride: i64) {
        if self.home(register) == Home::Vector && stride != 0 {
            let class = self.class(register);
            let vector = self.spread(class, base, stride);
            self.write(register, Form::Vector(vector));
        } else {
            self.write(register, Form::Scalar(base));
        }
    }

    /// Keeps the old value in lanes that do not take part.
    pub(super) fn merged(&mut self, register: Reg, form: Form) -> Form {
        let Some(TakingPart { mask, lanes, some }) = self.taking_part.clone() else { return form };
        if some && !self.keeps_others(register) {
            return form;
        }
        match form {
            Form::Vector(new) => {
                let old = self.vector(register);
                let ty = vector_type(self.class(register));
                let lanes = if ty == I64X2 { self.widen_lanes(&lanes) } else { lanes.to_vec() };
                let merge = |(index, value): (usize, Value)| {
                    self.build.ins().bitselect(lanes[index], value, old[index])
                };
                Form::Vector(new.into_iter().enumerate().map(merge).collect())
            }
            Form::Mask(new) => {
                let old = self.mask(Guard { predicate: register, negated: false });
                Form::Mask(self.build.ins().bitselect(mask, new, old))
            }
            Form::Lanes(new) => {
                let old = self.lanes(Guard { predicate: register, negated: false });
                let merge = |(index, value): (usize, Value)| {
                    self.build.ins().bitselect(lanes[index], value, old[index])
                };
                Form::Lanes(new.into_iter().enumerate().map(merge).collect())
            }
            other => other,
        }
    }
}
