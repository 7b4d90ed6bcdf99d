//! Floating-point functions.

use super::Translator;
use crate::code::{BinaryOp, FloatTest, Inst, Mode, TernaryOp, UnaryOp};
use crate::lower::words::Words;
use crate::lower::{Outcome, refuse};
use apex_ptx::tree::Instruction;

impl Translator<'_, '_> {
    /// `fma` to `testp`.
    pub(super) fn floating(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        let approximate = words.take("approx");
        let test = words.pick(&[
            ("finite", FloatTest::Finite),
            ("infinite", FloatTest::Infinite),
            ("number", FloatTest::Number),
            ("notanumber", FloatTest::NotANumber),
            ("normal", FloatTest::Normal),
            ("subnormal", FloatTest::Subnormal),
        ]);
        // `fma.oob` gives 0 where an operand is the pattern for "out of bounds": not known here.
        let mode = self.mode(&mut words);
        let types = words.types();
        words.finish()?;
        let Some(&ty) = types.first() else {
            return refuse("has no type");
        };
        let op = match &*it.opcode {
            "fma" => {
                if let [_, small] = types[..] {
                    return self.mixed(it, ty, small, mode);
                }
                return self.ternary(it, TernaryOp::Fma, ty, mode);
            }
            "copysign" => return self.binary(it, BinaryOp::Copysign, ty, Mode::default()),
            "testp" => {
                let (Some(test), [to, a]) = (test, it.operands.as_slice()) else {
                    return refuse("has no test");
                };
                let a = self.read(a, ty)?;
                if let Some(dst) = self.write_predicate(to)? {
                    self.emit(Inst::Testp { test, ty, dst, a });
                }
                return Ok(());
            }
            "rcp" if approximate => UnaryOp::RcpApprox,
            "rcp" => UnaryOp::Rcp,
            "sqrt" if approximate => UnaryOp::SqrtApprox,
            "sqrt" => UnaryOp::Sqrt,
            "rsqrt" => UnaryOp::RsqrtApprox,
            "sin" => UnaryOp::SinApprox,
            "cos" => UnaryOp::CosApprox,
            "lg2" => UnaryOp::Lg2Approx,
            "ex2" => UnaryOp::Ex2Approx,
            "tanh" => UnaryOp::TanhApprox,
            _ => return refuse("instruction is not known here"),
        };
        self.unary(it, op, ty, mode)
    }
}
