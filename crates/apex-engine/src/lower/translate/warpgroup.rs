//! Products of matrices held by four warps, `wgmma`.
//!
//! A product is done where it stands, which is one of the orders it may have; so fences and waits are nothing.

use super::Translator;
use super::constant::constant_bits;
use super::matrix::{ELEMENTS, take_shape};
use crate::code::{Class, Guard, Inst, MmaType, Ty, Wgmma};
use crate::lower::words::Words;
use crate::lower::{Outcome, refuse};
use apex_ptx::tree::{Instruction, Operand};

impl Translator<'_, '_> {
    /// `wgmma.*`.
    pub(super) fn warpgroup(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        words.drop_all(&["sync", "aligned"]);
        if words.take("fence") || words.take("commit_group") || words.take("wait_group") {
            words.finish()?;
            self.emit(Inst::Nop);
            return Ok(());
        }
        if !words.take("mma_async") {
            return refuse("instruction is not known here");
        }
        let satfinite = words.take("satfinite");
        let shape = take_shape(&mut words)?;
        let mut types = Vec::new();
        while let Some(element) = words.pick(&ELEMENTS) {
            types.push(element);
        }
        words.finish()?;
        let &[to, left, right] = &types[..] else { return refuse("has other types than known") };
        if !fits(shape, left) || !fits(shape, right) {
            return refuse("has no shape that is known here");
        }
        let [d, a, b, scale, rest @ ..] = it.operands.as_slice() else {
            return refuse("takes four operands and more");
        };
        let per_register = to.packed();
        if self.parts(d).len() != usize::from(shape.1) / 2 / per_register {
            return refuse("has another number of sums than the shape");
        }
        let in_registers = matches!(a, Operand::Vector(_));
        let (negated, transposed) = flags(rest, in_registers)?;
        if transposed.contains(&true) && left.bits() != 16 {
            return refuse("transposes other than 16-bit elements");
        }
        let a = if in_registers { self.fragment(a, left)? } else { vec![self.read(a, Ty::B64)?] };
        if in_registers && a.len() != 4 {
            return refuse("has other registers of the left factor than known");
        }
        let b = self.read(b, Ty::B64)?;
        let accumulates = self.accumulates(scale)?;
        let c = self.fragment(d, to)?;
        let d = self.fragment_written(d, to)?;
        let types = [to, left, right];
        self.emit(Inst::Wgmma(Box::new(Wgmma {
            shape,
            types,
            satfinite,
            d,
            c,
            accumulates,
            a,
            b,
            negated,
            transposed,
        })));
        Ok(())
    }

    /// `scale-d`: a predicate, or a constant.
    fn accumulates(&mut self, scale: &Operand) -> Outcome<Guard> {
        let Operand::Constant(constant) = scale else { return self.predicate(scale) };
        let dst = self.temporary(Class::Pred);
        let value = constant_bits(*constant, Ty::U32) != 0;
        self.emit_free(Inst::PredSet { dst, value });
        Ok(Guard { predicate: dst, negated: false })
    }
}

/// 64 rows, up to 256 columns in eights, and 32 bytes of each row of the factors.
fn fits((m, n, k): (u16, u16, u16), factor: MmaType) -> bool {
    let known = matches!(
        factor,
        MmaType::F16
            | MmaType::Bf16
            | MmaType::Tf32
            | MmaType::E4m3
            | MmaType::E5m2
            | MmaType::S8
            | MmaType::U8
    );
    let columns = n % 8 == 0 && (8..=256).contains(&n);
    known && m == 64 && columns && u32::from(k) * factor.bits() == 256
}

/// The signs of the factors, then which of them is transposed. A left factor in registers never is.
fn flags(operands: &[Operand], in_registers: bool) -> Outcome<(bool, [bool; 2])> {
    let constants: Option<Vec<i32>> = operands
        .iter()
        .map(|operand| match operand {
            Operand::Constant(constant) => Some(constant_bits(*constant, Ty::S32) as u32 as i32),
            Operand::Negative(inner) => match &**inner {
                Operand::Constant(constant) => {
                    Some((constant_bits(*constant, Ty::S32) as u32 as i32).wrapping_neg())
                }
                _ => None,
            },
            _ => None,
        })
        .collect();
    let Some(constants) = constants else { return refuse("has flags that are no constants") };
    let (signs, orders) = constants.split_at(constants.len().min(2));
    if signs.iter().any(|sign| !matches!(sign, 1 | -1)) || signs.len() == 1 {
        return refuse("has other signs than 1 and -1");
    }
    if orders.iter().any(|order| !matches!(order, 0 | 1)) {
        return refuse("has other orders than 0 and 1");
    }
    let transposed = match (orders, in_registers) {
        ([], _) => [false; 2],
        (&[b], true) => [false, b == 1],
        (&[a, b], false) => [a == 1, b == 1],
        _ => return refuse("has other flags than known"),
    };
    Ok((signs.iter().product::<i32>() < 0, transposed))
}
