//! Conversions of small formats to pairs of bfloat16, with a power of two for each half.
//!
//! A small number has at most seven bits and the scale is a power of two. So their product is exact in single precision,
//! unless it is too great for bfloat16 as well. It is rounded once.

use super::convert::types;
use super::write::{Around, Written};
use crate::tree::Instruction;

const SMALL: [&str; 6] = ["e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "e2m1x2", "s2f6x2"];

/// Whether a scale goes with it, or it makes bfloat16 of a small format.
pub(super) fn is_scaled(it: &Instruction) -> bool {
    &*it.opcode == "cvt"
        && (it.modifiers.iter().any(|word| word.starts_with("scaled::"))
            || types(it).is_some_and(|(to, from)| {
                to == "s2f6x2" || (to == "bf16x2" && SMALL.contains(&from))
            }))
}

/// Both halves as singles, each times its scale.
pub(super) fn scaled(it: &Instruction, around: &Around<'_>) -> Written {
    let (to, from) = types(it).unwrap_or_default();
    if to != "bf16x2" || !SMALL.contains(&from) {
        return Err("what is too small for .s2f6x2 becomes what no document says".into());
    }
    let scale = match (it.has("scaled::n2::ue8m0"), it.operands.len()) {
        (false, 2) => "mov.b32 ?s, 0x7F7F;",
        (true, 3) => "cvt.u32.u16 ?s, $2;",
        _ => return Err("has other operands than known".into()),
    };
    let mut text = String::from(
        ".reg .b32 ?s, ?x0, ?x1, ?k, ?m; .reg .b16 ?h0, ?h1; .reg .pred ?p;
         ",
    );
    text.push_str(scale);
    text.push_str(&match from {
        "s2f6x2" => "cvt.u32.u16 ?k, $1; shl.b32 ?x0, ?k, 24; shr.s32 ?x0, ?x0, 24; shl.b32 ?x1, ?k, 16; shr.s32 ?x1, ?x1, 24;
             cvt.rn.f32.s32 ?x0, ?x0; cvt.rn.f32.s32 ?x1, ?x1; mov.b32 ?k, 0x3C800000;
             mul.rn.f32 ?x0, ?x0, ?k; mul.rn.f32 ?x1, ?x1, ?k;\n"
            .to_owned(),
        _ => format!(
            "cvt.rn.f16x2.{from} ?k, $1; mov.b32 {{?h0, ?h1}}, ?k; cvt.f32.f16 ?x0, ?h0; cvt.f32.f16 ?x1, ?h1;\n"
        ),
    });
    for nth in 0..2 {
        text.push_str(&format!(
            "shr.u32 ?k, ?s, {}; and.b32 ?k, ?k, 255;
             setp.eq.u32 ?p, ?k, 255; shl.b32 ?m, ?k, 23; selp.b32 ?m, 0x7FFFFFFF, ?m, ?p;
             setp.eq.u32 ?p, ?k, 0; selp.b32 ?m, 0x00400000, ?m, ?p;
             mul.rn.f32 ?x{nth}, ?x{nth}, ?m;
             and.b32 ?k, ?x{nth}, 0x7FFFFFFF; setp.gt.u32 ?p, ?k, 0x7F800000;\n",
            8 * nth
        ));
        if it.has("satfinite") {
            text.push_str(&format!(
                "min.u32 ?k, ?k, 0x7F7F0000; and.b32 ?m, ?x{nth}, 0x80000000; or.b32 ?x{nth}, ?m, ?k;\n"
            ));
        }
        if it.has("relu") {
            text.push_str(&format!("max.s32 ?x{nth}, ?x{nth}, 0;\n"));
        }
        text.push_str(&format!("selp.b32 ?x{nth}, 0x7FFFFFFF, ?x{nth}, ?p;\n"));
    }
    text.push_str("cvt.rn.bf16x2.f32 $0, ?x1, ?x0;");
    around.write(it, &text, &[])
}
