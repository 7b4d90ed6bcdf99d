//! Products of matrices whose factors have scales of their own, one for each block of a row.
//!
//! Each block is multiplied without its scales, and rounded to a single; of four-bit factors that is exact. Then the
//! product of its two scales goes with it into the sum, which is held in double precision and rounded once at the end.

use super::byte_matrix::spread;
use super::write::{Around, Written};
use crate::tree::{Instruction, Operand};

/// Whether factors have scales of their own.
pub(super) fn is_scaled(it: &Instruction) -> bool {
    &*it.opcode == "mma"
        && it
            .modifiers
            .iter()
            .any(|word| word.starts_with("block_scale") || word.starts_with("kind::mx"))
}

/// Where the scales of a factor come from: their word, the first byte, the lane of a quad.
struct Selected<'a> {
    word: &'a Operand,
    byte: &'a Operand,
    lane: &'a Operand,
}

fn selected<'a>(word: &'a Operand, selector: &'a Operand) -> Result<Selected<'a>, String> {
    let word = match word {
        Operand::Vector(parts) if parts.len() == 1 => &parts[0],
        one => one,
    };
    match selector {
        Operand::Vector(parts) if parts.len() == 2 => {
            Ok(Selected { word, byte: &parts[0], lane: &parts[1] })
        }
        _ => Err("has another selector of scales than known".into()),
    }
}

/// A product of each block, and a sum of them in double precision.
pub(super) fn scaled_product(it: &Instruction, around: &Around<'_>) -> Written {
    let [.., d_type, a_type, b_type, c_type, scale_type] = it.modifiers.as_slice() else {
        return Err("has other words than known".into());
    };
    let [d, a, b, c, a_word, a_selector, b_word, b_selector] = it.operands.as_slice() else {
        return Err("sparse products with scales are not brought down".into());
    };
    let [d, a, b, c] = [d, a, b, c].map(|operand| match operand {
        Operand::Vector(parts) => parts.as_slice(),
        _ => &[],
    });
    if [&**d_type, &**c_type] != ["f32"; 2] || [d.len(), a.len(), b.len(), c.len()] != [4, 4, 2, 4]
    {
        return Err("has other factors than known".into());
    }
    let close = it.has("m16n8k64");
    let blocks = match (close, it.has("scale_vec::4X")) {
        (false, false) => 1,
        (true, false) => 2,
        (true, true) => 4,
        (false, true) => return Err("has other scales than known".into()),
    };
    let mut text = String::from(
        ".reg .b32 ?l, ?i, ?k, ?x, ?y, ?z, ?wa0, ?wa1, ?wb0, ?wb1; .reg .b64 ?sa0, ?sa1, ?sb0, ?sb1, ?s, ?v;
         .reg .pred ?n; .reg .b32 ?m<4>, ?o<4>, ?r<2>, ?e0; .reg .b64 ?t<4>;
         mov.u32 ?l, %laneid; mov.b32 ?z, 0;\n",
    );
    for (nth, part) in c.iter().enumerate() {
        text.push_str(&format!("mov.b32 ?x, {part}; cvt.f64.f32 ?t{nth}, ?x;\n"));
    }
    words_of_scales(&mut text, &selected(a_word, a_selector)?, &selected(b_word, b_selector)?);
    for block in 0..blocks {
        for name in ["a0", "a1", "b0", "b1"] {
            one_scale(&mut text, name, block, scale_type)?;
        }
        if close {
            close_factors(&mut text, a, b, block, blocks);
        } else {
            plain_factors(&mut text, a, b);
        }
        let [a_type, b_type] = if close { ["e2m1"; 2] } else { [&**a_type, &**b_type] };
        text.push_str(&format!(
            "mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.{a_type}.{b_type}.f32
             {{?o0, ?o1, ?o2, ?o3}}, {{?m0, ?m1, ?m2, ?m3}}, {{?r0, ?r1}}, {{?z, ?z, ?z, ?z}};\n"
        ));
        for nth in 0..4 {
            text.push_str(&format!(
                "mul.rn.f64 ?s, ?sa{}, ?sb{}; cvt.f64.f32 ?v, ?o{nth}; fma.rn.f64 ?t{nth}, ?v, ?s, ?t{nth};\n",
                nth / 2,
                nth % 2
            ));
        }
    }
    for (nth, part) in d.iter().enumerate() {
        text.push_str(&format!(
            "cvt.rn.f32.f64 ?x, ?t{nth}; setp.nan.f32 ?n, ?x, ?x; selp.b32 {part}, 0x7FFFFFFF, ?x, ?n;\n"
        ));
    }
    around.write(it, &text, &[])
}

fn number(selector: &Operand) -> String {
    match selector {
        Operand::Constant(_) => format!("mov.u32 ?k, {selector};"),
        _ => format!("cvt.u32.u16 ?k, {selector};"),
    }
}

/// Words of scales of the lane's two rows and two columns, the first byte lowest.
fn words_of_scales(text: &mut String, a: &Selected<'_>, b: &Selected<'_>) {
    let (a_lane, b_lane, a_byte, b_byte) =
        (number(a.lane), number(b.lane), number(a.byte), number(b.byte));
    text.push_str(&format!(
        "{a_lane} and.b32 ?i, ?l, 28; shl.b32 ?k, ?k, 1; add.u32 ?i, ?i, ?k; mov.b32 ?x, {};
         shfl.sync.idx.b32 ?wa0, ?x, ?i, 31, -1; add.u32 ?i, ?i, 1; shfl.sync.idx.b32 ?wa1, ?x, ?i, 31, -1;
         {b_lane} and.b32 ?i, ?l, 3; shl.b32 ?i, ?i, 3; add.u32 ?i, ?i, ?k; mov.b32 ?x, {};
         shfl.sync.idx.b32 ?wb0, ?x, ?i, 31, -1; add.u32 ?i, ?i, 4; shfl.sync.idx.b32 ?wb1, ?x, ?i, 31, -1;
         {a_byte} shl.b32 ?k, ?k, 3; shr.u32 ?wa0, ?wa0, ?k; shr.u32 ?wa1, ?wa1, ?k;
         {b_byte} shl.b32 ?k, ?k, 3; shr.u32 ?wb0, ?wb0, ?k; shr.u32 ?wb1, ?wb1, ?k;\n",
        a.word, b.word
    ));
}

/// The scale of a block as a double.
fn one_scale(text: &mut String, name: &str, block: usize, ty: &str) -> Result<(), String> {
    text.push_str(&format!("shr.u32 ?x, ?w{name}, {}; and.b32 ?x, ?x, 255;\n", 8 * block));
    text.push_str(&match ty {
        "ue8m0" => format!(
            "setp.eq.u32 ?n, ?x, 255; add.u32 ?x, ?x, 896; shl.b32 ?x, ?x, 20; selp.b32 ?x, 0x7FFFFFFF, ?x, ?n;
             mov.b64 ?s{name}, {{?z, ?x}};\n"
        ),
        // Its bits, put where a single has them, are the number by a power of two.
        "ue4m3" => format!(
            "and.b32 ?x, ?x, 127; setp.eq.u32 ?n, ?x, 127; shl.b32 ?x, ?x, 20; mov.b32 ?y, 0x7B800000;
             mul.rn.f32 ?x, ?x, ?y; selp.b32 ?x, 0x7FFFFFFF, ?x, ?n; cvt.f64.f32 ?s{name}, ?x;\n"
        ),
        _ => return Err("has scales of another type than known".into()),
    });
    Ok(())
}

/// Factors with an element in each byte.
fn plain_factors(text: &mut String, a: &[Operand], b: &[Operand]) {
    for (nth, part) in a.iter().enumerate() {
        text.push_str(&format!("mov.b32 ?m{nth}, {part};\n"));
    }
    for (nth, part) in b.iter().enumerate() {
        text.push_str(&format!("mov.b32 ?r{nth}, {part};\n"));
    }
}

/// Factors of four bits: eight of a register become two registers, so that the product has them in another order, the
/// same in both. A block of sixteen lies in half of the lanes: the others give zeros.
fn close_factors(text: &mut String, a: &[Operand], b: &[Operand], block: usize, blocks: usize) {
    let half = block * 2 / blocks;
    let mut halves = |to: [String; 2], part: &Operand, masked: bool| {
        text.push_str(&format!("mov.b32 ?e0, {part};\n"));
        if masked {
            text.push_str(&format!(
                "shr.u32 ?k, ?l, 1; and.b32 ?k, ?k, 1; setp.eq.u32 ?n, ?k, {}; selp.b32 ?e0, ?e0, 0, ?n;\n",
                block % 2
            ));
        }
        let [low, high] = to;
        let spread = spread(4, 2);
        text.push_str(&format!(
            "and.b32 ?x, ?e0, 0xFFFF; {spread} mov.b32 {low}, ?y; shr.u32 ?x, ?e0, 16; {spread} mov.b32 {high}, ?y;\n"
        ));
    };
    for row in 0..2 {
        let to = [format!("?m{row}"), format!("?m{}", row + 2)];
        halves(to, &a[2 * half + row], blocks == 4);
    }
    halves(["?r0".into(), "?r1".into()], &b[half], false);
}
