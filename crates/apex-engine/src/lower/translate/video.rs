//! Video instructions: arithmetic on parts of 32-bit registers.

use super::Translator;
use crate::code::{Inst, Ty, Video, VideoOp, VideoSecond};
use crate::lower::words::{COMPARES, Words};
use crate::lower::{Outcome, refuse};
use apex_ptx::tree::{Instruction, Operand};

/// Selector of a whole register in the scalar instructions.
const WHOLE: u16 = 6;

const OPS: [(&str, VideoOp); 10] = [
    ("vadd", VideoOp::Add),
    ("vsub", VideoOp::Sub),
    ("vabsdiff", VideoOp::Absdiff),
    ("vmin", VideoOp::Min),
    ("vmax", VideoOp::Max),
    ("vavrg", VideoOp::Avrg),
    ("vset", VideoOp::Set),
    ("vshl", VideoOp::Shl),
    ("vshr", VideoOp::Shr),
    ("vmad", VideoOp::Mad),
];

/// Whether the opcode is a video instruction.
pub(super) fn is_video(opcode: &str) -> bool {
    split(opcode).is_some()
}

/// The operation and the number of parts.
fn split(opcode: &str) -> Option<(VideoOp, u8)> {
    let (name, parts) = match opcode.as_bytes().last() {
        Some(b'2') => (&opcode[..opcode.len() - 1], 2),
        Some(b'4') => (&opcode[..opcode.len() - 1], 4),
        _ => (opcode, 1),
    };
    OPS.iter().find(|(known, _)| *known == name).map(|(_, op)| (*op, parts))
}

impl Translator<'_, '_> {
    /// `vadd` to `vmad`, on 1, 2 or 4 parts.
    pub(super) fn video(&mut self, it: &Instruction) -> Outcome {
        let Some((op, parts)) = split(&it.opcode) else {
            return refuse("instruction is not known here");
        };
        let mut words = Words::of(it);
        let sat = words.take("sat");
        let compare = words.pick(&COMPARES);
        let mut second = words.pick(&[
            ("add", VideoSecond::Add),
            ("min", VideoSecond::Min),
            ("max", VideoSecond::Max),
        ]);
        let wrap = words.pick(&[("clamp", 0), ("wrap", 1)]).unwrap_or(0);
        let scale = words.pick(&[("shr7", 7), ("shr15", 15)]).unwrap_or(0);
        let plus_one = words.take("po");
        let types = words.types();
        words.finish()?;
        let types = match types[..] {
            [d, a, b] => [d, a, b],
            // `vset` names the operands only.
            [a, b] => [Ty::U32, a, b],
            _ => return refuse("has other types than known"),
        };
        let [to, a, b, rest @ ..] = it.operands.as_slice() else {
            return refuse("takes three operands");
        };
        let (negative_a, a) = negated(a);
        let (negative_b, b) = negated(b);
        let (negative_c, c) = match rest {
            [c] => {
                let (negative, c) = negated(c);
                (negative, Some(c))
            }
            [] => (false, None),
            _ => return refuse("takes at most four operands"),
        };
        let (to, d_selector) = selector(to, parts, Role::Result)?;
        let (a, a_selector) = selector(a, parts, Role::First)?;
        let (b, b_selector) = selector(b, parts, Role::Second)?;
        if c.is_some() && second.is_none() && op != VideoOp::Mad {
            second = Some(VideoSecond::Merge);
        }
        let extra = match op {
            VideoOp::Mad => {
                scale
                    | (u8::from(plus_one) << 4)
                    | (u8::from(negative_a != negative_b) << 5)
                    | (u8::from(negative_c) << 6)
            }
            _ => wrap,
        };
        let a = self.read(&a, types[1])?;
        let b = self.read(&b, types[2])?;
        let c = match c {
            Some(c) => self.read(c, types[0])?,
            None => crate::code::Src::Imm(0),
        };
        let dst = self.write(&to, types[0])?;
        let selectors = [d_selector, a_selector, b_selector];
        self.emit(Inst::Video(Box::new(Video {
            op,
            parts,
            types,
            sat,
            compare,
            selectors,
            second,
            extra,
            dst,
            a,
            b,
            c,
        })));
        Ok(())
    }
}

fn negated(operand: &Operand) -> (bool, &Operand) {
    match operand {
        Operand::Negative(inner) => (true, inner),
        other => (false, other),
    }
}

/// Which operand a selector belongs to.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    Result,
    First,
    Second,
}

/// The register and which part of it is meant.
///
/// Scalar: byte 0 to 3, half 4 or 5, all 6. On parts: the digits as written, one in each nibble
/// (`.b3210` is `0x3210`), counted through both operands, the first one's parts lowest; for
/// results, a bit for each part.
fn selector(operand: &Operand, parts: u8, role: Role) -> Outcome<(Operand, u16)> {
    let Operand::Member(name, member) = operand else {
        let whole = match (parts, role) {
            (1, _) => WHOLE,
            (2, Role::Result) => 0b11,
            (2, Role::First) => 0x10,
            (2, Role::Second) => 0x32,
            (_, Role::Result) => 0b1111,
            (_, Role::First) => 0x3210,
            (_, Role::Second) => 0x7654,
        };
        return Ok((operand.clone(), whole));
    };
    let register = Operand::Name(name.clone());
    let digits = &member[1.min(member.len())..];
    let Ok(number) = u16::from_str_radix(digits, 16) else {
        return refuse(format!("{name}.{member} names no part"));
    };
    let value = match (member.as_bytes().first(), parts, role) {
        (Some(b'b'), 1, _) if number < 4 => number,
        (Some(b'h'), 1, _) if number < 2 => 4 + number,
        (Some(b'b' | b'h'), 2 | 4, Role::Result) => digits
            .chars()
            .filter_map(|digit| digit.to_digit(8))
            .fold(0, |all, part| all | (1 << part)),
        (Some(b'b' | b'h'), 2 | 4, _) => number,
        _ => return refuse(format!("{name}.{member} names no part")),
    };
    Ok((register, value))
}
