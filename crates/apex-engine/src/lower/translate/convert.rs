//! `cvt` and its packing forms.
//!
//! A conversion to a type narrower than its register fills the register by the type's sign, so
//! it is made in two steps: to the type, then to the register.

use super::{Translator, signed_of, unsigned_of};
use crate::code::{Class, Inst, Mode, Rounding, Ty};
use crate::lower::words::Words;
use crate::lower::{Outcome, refuse};
use apex_ptx::tree::{Instruction, Operand};

impl Translator<'_, '_> {
    /// `cvt`.
    pub(super) fn cvt(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        let scaled = words.take("scaled::n2::ue8m0");
        if words.take("pack") {
            return self.cvt_pack(it, words);
        }
        if let Some(to) = words.pick(&FOURS) {
            return self.cvt_four(it, words, to);
        }
        let rounding = words.rounding();
        let mut mode = self.mode(&mut words);
        mode.rounding = rounding.unwrap_or_default();
        let types = words.types();
        words.finish()?;
        let &[to, from] = &types[..] else {
            return refuse("takes two types");
        };
        if rounding.is_none() && from.float() && !to.float() {
            // ptxas demands a rounding here; hardware truncates.
            mode.rounding = Rounding::Rzi;
        }
        match it.operands.as_slice() {
            [result, a, scales] if scaled && to == Ty::Bf16x2 => {
                let a = self.read_low(a, from)?;
                let b = self.read(scales, Ty::B16)?;
                let dst = self.write(result, to)?;
                self.emit(Inst::CvtPack { to, from, mode, dst, a, b, c: None });
                Ok(())
            }
            _ if scaled => refuse("a scale of this conversion is not known here"),
            [result, a] => self.cvt_one(result, a, to, from, mode),
            [_, _, _, ..] if !packed(to) => refuse("has more operands than known"),
            [result, a, b, rest @ ..] => {
                let c = match rest {
                    [] => None,
                    [random] => Some(self.read(random, Ty::B32)?),
                    _ => return refuse("has more operands than known"),
                };
                let a = self.read(a, from)?;
                let b = self.read(b, from)?;
                let dst = self.write(result, to)?;
                self.emit(Inst::CvtPack { to, from, mode, dst, a, b, c });
                Ok(())
            }
            _ => refuse("has other operands than known"),
        }
    }

    /// `cvt.rs.satfinite.e4m3x4.f32 d, {a, b, e, f}, random`.
    fn cvt_four(&mut self, it: &Instruction, mut words: Words<'_>, to: Ty) -> Outcome {
        let rounding = words.rounding();
        let mut mode = self.mode(&mut words);
        mode.rounding = Rounding::Rs;
        let types = words.types();
        words.finish()?;
        let ([Ty::F32], Some(Rounding::Rs), [result, values, random]) =
            (&types[..], rounding, it.operands.as_slice())
        else {
            return refuse("has other operands than known");
        };
        let parts = self.parts(values);
        if parts.len() != 4 {
            return refuse("takes four values");
        }
        let parts = parts.iter().map(|part| self.read(part, Ty::F32));
        let parts = parts.collect::<Outcome<Vec<_>>>()?;
        let random = self.read(random, Ty::B32)?;
        let dst = self.write(result, if to == Ty::E2m1x2 { Ty::B16 } else { Ty::B32 })?;
        self.emit(Inst::CvtFour { to, mode, dst, parts, random });
        Ok(())
    }

    fn cvt_one(&mut self, result: &Operand, a: &Operand, to: Ty, from: Ty, mode: Mode) -> Outcome {
        let a = self.read_low(a, from)?;
        let Some(register) = self.destination(result)? else {
            return Ok(());
        };
        let class = self.class(register);
        let class_bits = match class {
            Class::B16 => 16,
            Class::B32 => 32,
            Class::B64 => 64,
            Class::Pred | Class::B128 => return refuse("a result does not fit its register"),
        };
        if to.bits() == class_bits || to.float() {
            let dst = self.write(result, to)?;
            self.emit(Inst::Cvt { to, from, mode, dst, a });
            return Ok(());
        }
        let narrow = self.temporary(to.class());
        self.emit(Inst::Cvt { to, from, mode, dst: narrow, a });
        let wide = if to.signed() { signed_of(class) } else { unsigned_of(class) };
        let a = crate::code::Src::Reg(narrow);
        let mode = Mode::default();
        self.emit(Inst::Cvt { to: wide, from: to, mode, dst: register, a });
        Ok(())
    }

    /// `cvt.pack.sat.u8.s32.b32 d, a, b, c`.
    fn cvt_pack(&mut self, it: &Instruction, mut words: Words<'_>) -> Outcome {
        words.take("sat");
        // Types of four bits are not among those of registers.
        let types = words.types();
        words.finish()?;
        let (&[to, from, ..], [result, a, b, rest @ ..]) = (&types[..], it.operands.as_slice())
        else {
            return refuse("has other operands than known");
        };
        let a = self.read(a, from)?;
        let b = self.read(b, from)?;
        let c = match rest {
            [] => None,
            [c] => Some(self.read(c, Ty::B32)?),
            _ => return refuse("has more operands than known"),
        };
        let dst = self.write(result, Ty::B32)?;
        self.emit(Inst::CvtPackInt { to, from, dst, a, b, c });
        Ok(())
    }
}

/// Types that hold four values, each with the one that holds two.
const FOURS: [(&str, Ty); 5] = [
    ("e4m3x4", Ty::E4m3x2),
    ("e5m2x4", Ty::E5m2x2),
    ("e2m3x4", Ty::E2m3x2),
    ("e3m2x4", Ty::E3m2x2),
    ("e2m1x4", Ty::E2m1x2),
];

/// Types that hold two values.
fn packed(ty: Ty) -> bool {
    matches!(
        ty,
        Ty::F16x2
            | Ty::Bf16x2
            | Ty::E4m3x2
            | Ty::E5m2x2
            | Ty::E2m3x2
            | Ty::E3m2x2
            | Ty::E2m1x2
            | Ty::Ue8m0x2
    )
}
