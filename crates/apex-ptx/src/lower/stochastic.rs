//! Conversions that random bits round.
//!
//! The bits are added to those that are cut off, at their top, and the carry counts. Which bits belong to which element
//! the PTX ISA says of pairs. Of fours it says it of two elements together: on a B200 the first of them was found to read
//! them in reverse order.

use super::convert::types;
use super::write::{Around, Written};
use crate::tree::{Instruction, Operand};

/// A format that random bits round to.
struct Format {
    ty: &'static str,
    /// Bits from the beginning of one element to that of the next.
    apart: u32,
    bits: u32,
    fraction: u32,
    bias: u32,
    /// Random bits of an element.
    random: u32,
    /// The greatest number, an infinity where there is one, and what is no number.
    codes: [u32; 3],
}

const FORMATS: [Format; 7] = [
    Format {
        ty: "f16x2",
        apart: 16,
        bits: 16,
        fraction: 10,
        bias: 15,
        random: 13,
        codes: [0x7BFF, 0x7C00, 0x7FFF],
    },
    Format {
        ty: "bf16x2",
        apart: 16,
        bits: 16,
        fraction: 7,
        bias: 127,
        random: 16,
        codes: [0x7F7F, 0x7F80, 0x7FFF],
    },
    Format {
        ty: "e4m3x4",
        apart: 8,
        bits: 8,
        fraction: 3,
        bias: 7,
        random: 16,
        codes: [0x7E, 0x7E, 0x7F],
    },
    Format {
        ty: "e5m2x4",
        apart: 8,
        bits: 8,
        fraction: 2,
        bias: 15,
        random: 16,
        codes: [0x7B, 0x7B, 0x7F],
    },
    Format {
        ty: "e2m3x4",
        apart: 8,
        bits: 6,
        fraction: 3,
        bias: 1,
        random: 16,
        codes: [0x1F, 0x1F, 0x1F],
    },
    Format {
        ty: "e3m2x4",
        apart: 8,
        bits: 6,
        fraction: 2,
        bias: 3,
        random: 16,
        codes: [0x1F, 0x1F, 0x1F],
    },
    Format { ty: "e2m1x4", apart: 4, bits: 4, fraction: 1, bias: 1, random: 16, codes: [7, 7, 7] },
];

/// Whether random bits round.
pub(super) fn is_stochastic(it: &Instruction) -> bool {
    &*it.opcode == "cvt" && it.has("rs")
}

/// Adds the random bits as integers.
pub(super) fn stochastic(it: &Instruction, around: &Around<'_>) -> Written {
    let (to, from) = types(it).unwrap_or_default();
    let Some(format) = FORMATS.iter().find(|format| format.ty == to && from == "f32") else {
        return Err("this pair of types is not known here".into());
    };
    let (values, random) = match it.operands.as_slice() {
        [_, a, b, random] => (vec![a, b], random),
        [_, Operand::Vector(parts), random] => (parts.iter().collect(), random),
        _ => return Err("has other operands than known".into()),
    };
    if values.len() != if format.apart == 16 { 2 } else { 4 } {
        return Err("has other operands than known".into());
    }
    let mut text = format!(
        ".reg .b32 ?w, ?x, ?r, ?m, ?e, ?f, ?k, ?s, ?d; .reg .pred ?nan, ?p; mov.b32 ?w, {random}; mov.b32 ?d, 0;\n"
    );
    for (nth, value) in values.into_iter().enumerate() {
        text.push_str(&format!("mov.b32 ?x, {value}; {}\n", random_bits(format, nth)));
        text.push_str(&element(it, format));
    }
    text.push_str(if format.apart == 4 { "cvt.u16.u32 $0, ?d;" } else { "mov.b32 $0, ?d;" });
    around.write(it, &text, &[])
}

/// The random bits of an element, in `?r`.
fn random_bits(format: &Format, nth: usize) -> String {
    let field = match (format.apart, nth / 2) {
        (16, _) => {
            let shift = 16 * (1 - nth);
            return format!(
                "shr.u32 ?r, ?w, {shift}; and.b32 ?r, ?r, {};",
                (1 << format.random) - 1
            );
        }
        (8, 0) => "shr.u32 ?r, ?w, 16;",
        (8, _) => "and.b32 ?r, ?w, 0xFFFF;",
        // A byte of each half.
        (_, 0) => "prmt.b32 ?r, ?w, 0, 0x4431;",
        (_, _) => "prmt.b32 ?r, ?w, 0, 0x4420;",
    };
    let turned = if nth.is_multiple_of(2) { " brev.b32 ?r, ?r; shr.u32 ?r, ?r, 16;" } else { "" };
    format!("{field}{turned}")
}

/// `?x`, rounded by `?r`, comes behind what `?d` holds.
fn element(it: &Instruction, format: &Format) -> String {
    let Format { apart, bits, fraction, bias, random, codes: [finite, infinite, nan], .. } =
        *format;
    let most = if it.has("satfinite") { finite } else { infinite };
    let mut text = String::from(
        "and.b32 ?m, ?x, 0x7FFFFFFF; setp.gt.u32 ?nan, ?m, 0x7F800000; setp.lt.s32 ?p, ?x, 0;\n",
    );
    text.push_str(&if bias == 127 {
        "add.u32 ?f, ?m, ?r; shr.u32 ?f, ?f, 16;\n".to_owned()
    } else {
        // A number below the least exponent loses more bits.
        format!(
            "shr.u32 ?e, ?m, 23; and.b32 ?f, ?m, 0x7FFFFF; or.b32 ?f, ?f, 0x800000; sub.s32 ?e, ?e, {};
             sub.s32 ?k, 1, ?e; max.s32 ?k, ?k, 0; add.s32 ?k, ?k, {}; max.s32 ?e, ?e, 1; sub.s32 ?e, ?e, 1;
             shr.u32 ?f, ?f, ?k; add.u32 ?f, ?f, ?r; shr.u32 ?f, ?f, {random};
             shl.b32 ?e, ?e, {fraction}; add.u32 ?f, ?f, ?e;\n",
            127 - bias,
            23 - fraction - random,
        )
    });
    text.push_str(&format!("min.u32 ?f, ?f, {most};\n"));
    text.push_str(&if it.has("relu") {
        "selp.b32 ?f, 0, ?f, ?p;\n".to_owned()
    } else {
        format!("selp.b32 ?s, {}, 0, ?p; or.b32 ?f, ?f, ?s;\n", 1 << (bits - 1))
    });
    text.push_str(&format!(
        "selp.b32 ?f, {nan}, ?f, ?nan; shl.b32 ?d, ?d, {apart}; or.b32 ?d, ?d, ?f;\n"
    ));
    text
}
