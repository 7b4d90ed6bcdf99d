//! Arithmetic that newer chips have: pairs of floats, mixed widths, three inputs, bfloat16.

use super::write::{Around, Written, words_without};
use crate::tree::Instruction;

/// Whether it is an operation on two floats in one register.
pub(super) fn is_pair(it: &Instruction) -> bool {
    it.has("f32x2") && matches!(&*it.opcode, "add" | "sub" | "mul" | "fma")
}

/// Both floats by themselves. All sources are read before the result is written: it may be one of them.
pub(super) fn pair(it: &Instruction, around: &Around<'_>) -> Written {
    let words = words_without(it, |word| word == "f32x2");
    let places = [("op", &*it.opcode), ("words", &words)];
    let text = match it.operands.len() {
        3 => {
            ".reg .b64 ?a, ?b; .reg .b32 ?a0, ?a1, ?b0, ?b1;
             mov.b64 ?a, $1; mov.b64 ?b, $2;
             mov.b64 {?a0, ?a1}, ?a; mov.b64 {?b0, ?b1}, ?b;
             $op$words.f32 ?a0, ?a0, ?b0;
             $op$words.f32 ?a1, ?a1, ?b1;
             mov.b64 $0, {?a0, ?a1};"
        }
        4 => {
            ".reg .b64 ?a, ?b, ?c; .reg .b32 ?a0, ?a1, ?b0, ?b1, ?c0, ?c1;
             mov.b64 ?a, $1; mov.b64 ?b, $2; mov.b64 ?c, $3;
             mov.b64 {?a0, ?a1}, ?a; mov.b64 {?b0, ?b1}, ?b; mov.b64 {?c0, ?c1}, ?c;
             $op$words.f32 ?a0, ?a0, ?b0, ?c0;
             $op$words.f32 ?a1, ?a1, ?b1, ?c1;
             mov.b64 $0, {?a0, ?a1};"
        }
        _ => return Err("has other operands than known".into()),
    };
    around.write(it, text, &places)
}

fn small(it: &Instruction) -> Option<&'static str> {
    ["f16", "bf16"].into_iter().find(|ty| it.has(ty))
}

/// Whether it joins a float with one of 16 bits.
pub(super) fn is_mixed(it: &Instruction) -> bool {
    matches!(&*it.opcode, "add" | "sub" | "fma") && it.has("f32") && small(it).is_some()
}

/// The small one becomes a float, which is exact.
pub(super) fn mixed(it: &Instruction, around: &Around<'_>) -> Written {
    let small = small(it).unwrap_or_default();
    let words = words_without(it, |word| word == small || word == "f32");
    let places = [("op", &*it.opcode), ("words", &words), ("small", small)];
    let text = match (&*it.opcode, it.operands.len()) {
        ("add" | "sub", 3) => ".reg .b32 ?a; cvt.f32.$small ?a, $1; $op$words.f32 $0, ?a, $2;",
        ("fma", 4) => {
            ".reg .b32 ?a, ?b; cvt.f32.$small ?a, $1; cvt.f32.$small ?b, $2;
             $op$words.f32 $0, ?a, ?b, $3;"
        }
        _ => return Err("has other operands than known".into()),
    };
    around.write(it, text, &places)
}

/// Whether it is the least or the greatest of three.
pub(super) fn is_of_three(it: &Instruction) -> bool {
    matches!(&*it.opcode, "min" | "max") && it.operands.len() == 4
}

/// The extreme of two, then that and the third.
pub(super) fn of_three(it: &Instruction, around: &Around<'_>) -> Written {
    if it.has("abs") {
        return Err("the sign of three inputs with .abs is not known here".into());
    }
    let words = words_without(it, |_| false);
    let text = ".reg .b32 ?t; $op$words ?t, $1, $2; $op$words $0, ?t, $3;";
    around.write(it, text, &[("op", &it.opcode), ("words", &words)])
}

fn bfloat(it: &Instruction) -> Option<&'static str> {
    ["bf16x2", "bf16"].into_iter().find(|ty| it.has(ty))
}

/// Whether it adds or multiplies in bfloat16.
pub(super) fn is_bfloat(it: &Instruction) -> bool {
    matches!(&*it.opcode, "add" | "sub" | "mul")
        && !it.has("f32")
        && bfloat(it).is_some()
        && it.operands.len() == 3
}

/// One rounding of a product and a sum, of which the product or the sum is nothing.
pub(super) fn bfloat_by_fma(it: &Instruction, around: &Around<'_>) -> Written {
    if it.has("sat") {
        return Err("saturation has no equal before sm_90".into());
    }
    let ty = bfloat(it).unwrap_or_default();
    let (bits, one, minus, zero) = match ty {
        "bf16x2" => ("b32", "0x3F803F80", "0xBF80BF80", "0x80008000"),
        _ => ("b16", "0x3F80", "0xBF80", "0x8000"),
    };
    let text = match &*it.opcode {
        "add" => ".reg .$bits ?c; mov.$bits ?c, $one; fma.rn.$ty $0, $1, ?c, $2;",
        "sub" => ".reg .$bits ?c; mov.$bits ?c, $minus; fma.rn.$ty $0, $2, ?c, $1;",
        // Minus zero, so that a product of minus zero stays one.
        _ => ".reg .$bits ?c; mov.$bits ?c, $zero; fma.rn.$ty $0, $1, $2, ?c;",
    };
    let places = [("bits", bits), ("ty", ty), ("one", one), ("minus", minus), ("zero", zero)];
    around.write(it, text, &places)
}

/// Whether it is half precision's least or greatest, which sm_75 lacks.
pub(super) fn is_half_extreme(it: &Instruction) -> bool {
    matches!(&*it.opcode, "min" | "max") && (it.has("f16") || it.has("f16x2"))
}

/// In single precision, where nothing is rounded.
pub(super) fn half_extreme(it: &Instruction, around: &Around<'_>) -> Written {
    if it.has("NaN") || it.has("xorsign") || it.has("ftz") || it.operands.len() != 3 {
        return Err("this form of the least and greatest came with sm_80".into());
    }
    let text = if it.has("f16") {
        ".reg .b32 ?a, ?b; cvt.f32.f16 ?a, $1; cvt.f32.f16 ?b, $2;
         $op.f32 ?a, ?a, ?b; cvt.rn.f16.f32 $0, ?a;"
    } else {
        ".reg .b16 ?h0, ?h1, ?k0, ?k1; .reg .b32 ?a, ?b, ?c, ?d;
         mov.b32 ?a, $1; mov.b32 ?b, $2;
         mov.b32 {?h0, ?h1}, ?a; mov.b32 {?k0, ?k1}, ?b;
         cvt.f32.f16 ?a, ?h0; cvt.f32.f16 ?b, ?k0; cvt.f32.f16 ?c, ?h1; cvt.f32.f16 ?d, ?k1;
         $op.f32 ?a, ?a, ?b; $op.f32 ?c, ?c, ?d;
         cvt.rn.f16.f32 ?h0, ?a; cvt.rn.f16.f32 ?h1, ?c; mov.b32 $0, {?h0, ?h1};"
    };
    around.write(it, text, &[("op", &it.opcode)])
}

/// Whether it needs bfloat16 units, which sm_75 has none of.
pub(super) fn is_bfloat_unit(it: &Instruction) -> bool {
    matches!(&*it.opcode, "fma" | "min" | "max" | "neg" | "abs" | "ex2" | "tanh")
        && !it.has("f32")
        && bfloat(it).is_some()
}

/// `neg` is a bit, and any NaN becomes the one that sm_90 makes; the rest would be rounded twice.
pub(super) fn bfloat_bits(it: &Instruction, around: &Around<'_>) -> Written {
    if &*it.opcode != "neg" {
        return Err("bfloat16 arithmetic came with sm_80, and singles would round it twice".into());
    }
    let negated = ".reg .b16 ?h#, ?m#; .reg .pred ?p#; mov.b16 ?h#, #; and.b16 ?m#, ?h#, 0x7FFF;
         setp.gt.u16 ?p#, ?m#, 0x7F80; xor.b16 ?h#, ?h#, 0x8000; selp.b16 ?h#, 0x7FFF, ?h#, ?p#;";
    let text = if it.has("bf16x2") {
        let part = |number: &str| {
            negated.replace("?h#, #;", &format!("?h#, ?w{number};")).replace('#', number)
        };
        format!(
            ".reg .b16 ?w0, ?w1; mov.b32 {{?w0, ?w1}}, $1; {} {} mov.b32 $0, {{?h0, ?h1}};",
            part("0"),
            part("1")
        )
    } else {
        format!("{} mov.b16 $0, ?h0;", negated.replace("?h#, #;", "?h#, $1;").replace('#', "0"))
    };
    around.write(it, &text, &[])
}
