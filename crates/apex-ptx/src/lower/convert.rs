//! Conversions between floats of 32, 16, 8, 6 and 4 bits.
//!
//! To a small format: what is too large becomes the greatest number; then adding and taking away a power of two that
//! lies as far above the last place kept as a single has places rounds to nearest even, once. A multiplication by a
//! power of two, which is exact, brings the exponent where the small format has it. From a small format: its bits, put
//! where half precision has them, are the number by a power of two.

use super::write::{Around, Written};
use crate::tree::Instruction;

/// A format of at most eight bits.
struct Format {
    ty: &'static str,
    exponent: u32,
    fraction: u32,
    /// The greatest number, as a single.
    greatest: f32,
    /// What is no number becomes this; without it, the greatest.
    nan: Option<u32>,
}

const FORMATS: [Format; 5] = [
    Format { ty: "e4m3x2", exponent: 4, fraction: 3, greatest: 448.0, nan: Some(0x7f) },
    Format { ty: "e5m2x2", exponent: 5, fraction: 2, greatest: 57_344.0, nan: Some(0x7f) },
    Format { ty: "e2m3x2", exponent: 2, fraction: 3, greatest: 7.5, nan: None },
    Format { ty: "e3m2x2", exponent: 3, fraction: 2, greatest: 28.0, nan: None },
    Format { ty: "e2m1x2", exponent: 2, fraction: 1, greatest: 6.0, nan: None },
];

impl Format {
    fn bits(&self) -> u32 {
        1 + self.exponent + self.fraction
    }

    /// How far apart the elements of a pair are: formats of six bits stand in bytes.
    fn apart(&self) -> u32 {
        if self.bits() == 4 { 4 } else { 8 }
    }

    fn bias(&self) -> u32 {
        (1 << (self.exponent - 1)) - 1
    }
}

/// The words of a conversion that tell its types: to and from.
pub(super) fn types(it: &Instruction) -> Option<(&str, &str)> {
    match it.modifiers.as_slice() {
        [.., to, from] if &*it.opcode == "cvt" => Some((to, from)),
        _ => None,
    }
}

fn format_of(ty: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.ty == ty)
}

fn is_fp8(ty: &str) -> bool {
    matches!(ty, "e4m3x2" | "e5m2x2")
}

fn is_fp6_or_fp4(ty: &str) -> bool {
    matches!(ty, "e2m3x2" | "e3m2x2" | "e2m1x2")
}

/// Whether it makes or reads formats of six or four bits.
pub(super) fn is_small(it: &Instruction) -> bool {
    types(it).is_some_and(|(to, from)| is_fp6_or_fp4(to) && from == "f32" || is_fp6_or_fp4(from))
}

/// Whether it makes or reads formats of eight bits.
pub(super) fn is_byte(it: &Instruction) -> bool {
    types(it).is_some_and(|(to, from)| {
        is_fp8(to) && matches!(from, "f32" | "f16x2") || is_fp8(from) && to == "f16x2"
    })
}

/// Whether it goes from a pair of 16 bits to a format that only singles are converted to.
pub(super) fn is_from_pair(it: &Instruction) -> bool {
    types(it).is_some_and(|(to, from)| {
        (is_fp6_or_fp4(to) && matches!(from, "f16x2" | "bf16x2"))
            || (is_fp8(to) && from == "bf16x2")
    })
}

/// Both halves become singles, which is exact.
pub(super) fn from_pair(it: &Instruction, around: &Around<'_>) -> Written {
    let (to, from) = types(it).unwrap_or_default();
    let half = from.strip_suffix("x2").unwrap_or(from);
    let relu = if it.has("relu") { ".relu" } else { "" };
    let text = ".reg .b16 ?h0, ?h1; .reg .b32 ?v, ?a, ?b;
         mov.b32 ?v, $1; mov.b32 {?h0, ?h1}, ?v;
         cvt.f32.$half ?a, ?h1; cvt.f32.$half ?b, ?h0;
         cvt.rn.satfinite$relu.$to.f32 $0, ?a, ?b;";
    around.write(it, text, &[("half", half), ("relu", relu), ("to", to)])
}

/// To or from a small format.
pub(super) fn small(it: &Instruction, around: &Around<'_>) -> Written {
    let (to, from) = types(it).unwrap_or_default();
    match (format_of(to), format_of(from)) {
        (Some(format), None) => to_small(it, around, format, from),
        (None, Some(format)) if to == "f16x2" => from_small(it, around, format),
        _ => Err("this pair of types is not known here".into()),
    }
}

fn to_small(it: &Instruction, around: &Around<'_>, format: &Format, from: &str) -> Written {
    let mut text = String::from(
        ".reg .b32 ?x0, ?x1, ?m, ?e, ?g, ?s, ?c0, ?c1; .reg .pred ?nan, ?neg; .reg .b16 ?h0, ?h1;\n",
    );
    text.push_str(match from {
        "f32" => "mov.b32 ?x1, $1; mov.b32 ?x0, $2;\n",
        _ => {
            "mov.b32 ?m, $1; mov.b32 {?h0, ?h1}, ?m; cvt.f32.f16 ?x0, ?h0; cvt.f32.f16 ?x1, ?h1;\n"
        }
    });
    let element = element_to_small(format, it.has("relu"));
    for number in ["0", "1"] {
        text.push_str(&element.replace('#', number));
    }
    let (apart, unsigned) = (format.apart(), if format.apart() == 4 { "u8" } else { "u16" });
    text.push_str(&format!(
        "shl.b32 ?c1, ?c1, {apart}; or.b32 ?c0, ?c0, ?c1; cvt.{unsigned}.u32 $0, ?c0;"
    ));
    around.write(it, &text, &[])
}

/// `?c#` of `?x#`.
fn element_to_small(format: &Format, relu: bool) -> String {
    let Format { fraction, greatest, nan, .. } = *format;
    let lowest = (128 - format.bias()) << 23;
    let lift = (23 - fraction) << 23;
    let scale = format.bias() << 23;
    let (bits, cut) = (format.bits(), 23 - fraction);
    let mut text = format!(
        "and.b32 ?m, ?x#, 0x7FFFFFFF; setp.gt.u32 ?nan, ?m, 0x7F800000;
         shr.u32 ?s, ?x#, 31; setp.ne.u32 ?neg, ?s, 0; shl.b32 ?s, ?s, {};
         min.u32 ?m, ?m, 0x{:08X};
         and.b32 ?e, ?m, 0x7F800000; max.u32 ?e, ?e, 0x{lowest:08X}; add.u32 ?g, ?e, 0x{lift:08X};
         add.rn.f32 ?m, ?m, ?g; sub.rn.f32 ?m, ?m, ?g;
         mov.b32 ?g, 0x{scale:08X}; mul.rn.f32 ?m, ?m, ?g; shr.u32 ?c#, ?m, {cut};
         or.b32 ?c#, ?c#, ?s;\n",
        bits - 1,
        greatest.to_bits(),
    );
    if relu {
        text.push_str("selp.b32 ?c#, 0, ?c#, ?neg;\n");
    }
    let nan = nan.unwrap_or((1 << (bits - 1)) - 1);
    text.push_str(&format!("selp.b32 ?c#, {nan}, ?c#, ?nan;\n"));
    text
}

fn from_small(it: &Instruction, around: &Around<'_>, format: &Format) -> Written {
    let (bits, apart) = (format.bits(), format.apart());
    let source = match around.bytes(it.operands.get(1).ok_or("has too few operands")?) {
        Some(1) => "cvt.u32.u8 ?v, $1;",
        Some(4) => "mov.b32 ?v, $1;",
        _ => "cvt.u32.u16 ?v, $1;",
    };
    let (all, magnitude) = ((1_u32 << bits) - 1, (1_u32 << (bits - 1)) - 1);
    let two = |half: u32| half << 16 | half;
    // Half precision's exponent is 15 greater than the number's.
    let scale = (15 + 15 - format.bias()) << 10;
    let mut text = format!(
        ".reg .b32 ?v, ?h, ?m, ?s, ?k; .reg .pred ?p;
         {source}
         shr.u32 ?h, ?v, {apart}; and.b32 ?h, ?h, {all}; and.b32 ?v, ?v, {all};
         shl.b32 ?h, ?h, 16; or.b32 ?v, ?v, ?h;
         and.b32 ?m, ?v, 0x{:08X}; shl.b32 ?m, ?m, {};
         and.b32 ?s, ?v, 0x{:08X}; shl.b32 ?s, ?s, {};
         or.b32 ?m, ?m, ?s; mov.b32 ?k, 0x{:08X}; mul.rn.f16x2 ?m, ?m, ?k;\n",
        two(magnitude),
        10 - format.fraction,
        two(1 << (bits - 1)),
        16 - bits,
        two(scale),
    );
    if format.ty == "e4m3x2" {
        // All ones is no number: the only pattern of this format that is none.
        for (mask, other, nan) in
            [("0x7F", "0xFFFF0000", "0x7FFF"), ("0x7F0000", "0xFFFF", "0x7FFF0000")]
        {
            text.push_str(&format!(
                "and.b32 ?h, ?v, {mask}; setp.eq.u32 ?p, ?h, {mask};
                 and.b32 ?k, ?m, {other}; or.b32 ?k, ?k, {nan}; selp.b32 ?m, ?k, ?m, ?p;\n"
            ));
        }
    }
    if it.has("relu") {
        text.push_str("mov.b32 ?k, 0; max.NaN.f16x2 ?m, ?m, ?k;\n");
    }
    text.push_str("mov.b32 $0, ?m;");
    around.write(it, &text, &[])
}

/// Whether it makes or reads exponents alone.
pub(super) fn is_exponent(it: &Instruction) -> bool {
    types(it).is_some_and(|(to, from)| to == "ue8m0x2" || from == "ue8m0x2")
}

/// Exponents are the bits of a single without its fraction.
pub(super) fn exponent(it: &Instruction, around: &Around<'_>) -> Written {
    let (to, from) = types(it).unwrap_or_default();
    let sources = match (to, from) {
        ("bf16x2", "ue8m0x2") => return from_exponent(it, around),
        ("ue8m0x2", "f32") => "mov.b32 ?x1, $1; mov.b32 ?x0, $2;",
        ("ue8m0x2", "bf16x2") => {
            "mov.b32 ?m, $1; shl.b32 ?x0, ?m, 16; and.b32 ?x1, ?m, 0xFFFF0000;"
        }
        _ => return Err("this pair of types is not known here".into()),
    };
    let up = match (it.has("rp"), it.has("rz")) {
        // Below the least exponent, half of it is the bound.
        (true, false) => {
            "setp.lt.u32 ?p, ?m, 0x00800000; selp.b32 ?t, 0x003FFFFF, 0x007FFFFF, ?p;
             add.u32 ?m, ?m, ?t;"
        }
        (false, true) => "",
        _ => return Err("this rounding is not known here".into()),
    };
    let mut text =
        format!(".reg .b32 ?x0, ?x1, ?m, ?t, ?c0, ?c1; .reg .pred ?p, ?nan;\n{sources}\n");
    for number in ["0", "1"] {
        let element = format!(
            "and.b32 ?m, ?x#, 0x7FFFFFFF; setp.gt.u32 ?nan, ?m, 0x7F800000; {up}
             shr.u32 ?m, ?m, 23; min.u32 ?m, ?m, 254; selp.b32 ?c#, 255, ?m, ?nan;\n"
        );
        text.push_str(&element.replace('#', number));
    }
    text.push_str("shl.b32 ?c1, ?c1, 8; or.b32 ?c0, ?c0, ?c1; cvt.u16.u32 $0, ?c0;");
    around.write(it, &text, &[])
}

fn from_exponent(it: &Instruction, around: &Around<'_>) -> Written {
    let source = match around.bytes(it.operands.get(1).ok_or("has too few operands")?) {
        Some(4) => "mov.b32 ?v, $1;",
        _ => "cvt.u32.u16 ?v, $1;",
    };
    let mut text = format!(".reg .b32 ?v, ?c0, ?c1; .reg .pred ?p;\n{source}\n");
    for (number, shift) in [("0", 0), ("1", 8)] {
        let element = format!(
            "shr.u32 ?c#, ?v, {shift}; and.b32 ?c#, ?c#, 0xFF; shl.b32 ?c#, ?c#, 7;
             setp.eq.u32 ?p, ?c#, 0; selp.b32 ?c#, 0x40, ?c#, ?p;
             setp.eq.u32 ?p, ?c#, 0x7F80; selp.b32 ?c#, 0x7FFF, ?c#, ?p;\n"
        );
        text.push_str(&element.replace('#', number));
    }
    text.push_str("shl.b32 ?c1, ?c1, 16; or.b32 $0, ?c0, ?c1;");
    around.write(it, &text, &[])
}

/// Whether it rounds to tf32, to nearest even or toward zero, and keeps what is too large finite.
pub(super) fn is_finite_tf32(it: &Instruction) -> bool {
    is_tf32(it) && it.has("satfinite") && !it.has("rna")
}

/// Whether it rounds to tf32 half away from zero, and keeps what is too large finite.
pub(super) fn is_finite_tf32_away(it: &Instruction) -> bool {
    is_tf32(it) && it.has("satfinite")
}

/// Infinities become the greatest number of their sign. An H200 that rounds half away from zero takes one from the last
/// place of whatever has the exponent of an infinity, NaNs too.
pub(super) fn finite_tf32(it: &Instruction, around: &Around<'_>) -> Written {
    let words = super::write::words_without(it, |word| word == "satfinite");
    let mask = if it.has("rna") { "0x7F800000" } else { "0x7FFFFFFF" };
    let text = ".reg .b32 ?t, ?m; .reg .pred ?p;
         cvt$words ?t, $1;
         and.b32 ?m, ?t, $mask; setp.eq.u32 ?p, ?m, 0x7F800000;
         sub.u32 ?m, ?t, 0x2000; selp.b32 $0, ?m, ?t, ?p;";
    around.write(it, text, &[("words", &words), ("mask", mask)])
}

/// Whether it rounds to tf32 to nearest even or toward zero.
pub(super) fn is_newer_tf32(it: &Instruction) -> bool {
    is_tf32(it) && !it.has("rna")
}

/// Whether it rounds to tf32.
pub(super) fn is_tf32(it: &Instruction) -> bool {
    types(it) == Some(("tf32", "f32"))
}

/// A tf32 is a single without its last 13 bits, so it is rounded as an integer.
pub(super) fn tf32(it: &Instruction, around: &Around<'_>) -> Written {
    let (round, nan) = match (it.has("rna"), it.has("rn"), it.has("rz")) {
        (true, ..) => ("add.u32 ?t, ?x, 0x1000;", "and.b32 ?n, ?x, 0xFFFFE000;"),
        (_, true, _) => (
            "shr.u32 ?t, ?x, 13; and.b32 ?t, ?t, 1; add.u32 ?t, ?t, 0xFFF; add.u32 ?t, ?t, ?x;",
            "mov.b32 ?n, 0x7FFFE000;",
        ),
        (_, _, true) => ("mov.b32 ?t, ?x;", "mov.b32 ?n, 0x7FFFE000;"),
        _ => return Err("this rounding is not known here".into()),
    };
    let relu = if it.has("relu") { "setp.lt.s32 ?p, ?x, 0; selp.b32 ?t, 0, ?t, ?p;" } else { "" };
    let text = format!(
        ".reg .b32 ?x, ?t, ?n, ?m; .reg .pred ?p;
         mov.b32 ?x, $1; {round} and.b32 ?t, ?t, 0xFFFFE000; {relu} {nan}
         and.b32 ?m, ?x, 0x7FFFFFFF; setp.gt.u32 ?p, ?m, 0x7F800000; selp.b32 $0, ?n, ?t, ?p;"
    );
    around.write(it, &text, &[])
}

/// Whether it widens a bfloat16.
pub(super) fn is_wider_bfloat(it: &Instruction) -> bool {
    types(it) == Some(("f32", "bf16"))
}

/// A bfloat16 is the upper half of a single.
pub(super) fn wider_bfloat(it: &Instruction, around: &Around<'_>) -> Written {
    if it.has("sat") || it.has("relu") {
        return Err("this form came with sm_90".into());
    }
    around.write(it, ".reg .b16 ?z, ?h; mov.b16 ?z, 0; mov.b16 ?h, $1; mov.b32 $0, {?z, ?h};", &[])
}

/// Whether it narrows to bfloat16.
pub(super) fn is_to_bfloat(it: &Instruction) -> bool {
    types(it).is_some_and(|(to, from)| matches!(to, "bf16" | "bf16x2") && from == "f32")
}

/// Rounds the upper half of singles to nearest even.
pub(super) fn to_bfloat(it: &Instruction, around: &Around<'_>) -> Written {
    if it.has("relu") || it.has("satfinite") || !(it.has("rn") || it.has("rz")) {
        return Err("this form of the conversion came with sm_80".into());
    }
    let round = if it.has("rn") {
        "shr.u32 ?t, ?x#, 16; and.b32 ?t, ?t, 1; add.u32 ?t, ?t, 0x7FFF; add.u32 ?x#, ?x#, ?t;"
    } else {
        ""
    };
    let element = format!(
        "and.b32 ?m, ?x#, 0x7FFFFFFF; setp.gt.u32 ?nan, ?m, 0x7F800000; {round}
         shr.u32 ?x#, ?x#, 16; selp.b32 ?x#, 0x7FFF, ?x#, ?nan;\n"
    );
    let mut text = String::from(".reg .b32 ?x0, ?x1, ?m, ?t; .reg .pred ?nan;\n");
    match it.operands.len() {
        2 => {
            text.push_str("mov.b32 ?x0, $1;\n");
            text.push_str(&element.replace('#', "0"));
            text.push_str("cvt.u16.u32 $0, ?x0;");
        }
        3 => {
            text.push_str("mov.b32 ?x1, $1; mov.b32 ?x0, $2;\n");
            text.push_str(&element.replace('#', "0"));
            text.push_str(&element.replace('#', "1"));
            text.push_str("shl.b32 ?x1, ?x1, 16; or.b32 $0, ?x0, ?x1;");
        }
        _ => return Err("has other operands than known".into()),
    }
    around.write(it, &text, &[])
}
