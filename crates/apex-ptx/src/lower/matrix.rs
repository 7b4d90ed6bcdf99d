//! Products of matrices, and loads and stores of them, that only newer chips have.

use super::byte_matrix::addresses;
use super::write::{Around, Written};
use crate::tree::{Instruction, Operand};

/// Whether it belongs to the tensor memory of data-centre chips.
pub(super) fn is_tensor_memory(it: &Instruction) -> bool {
    &*it.opcode == "tcgen05"
}

/// Whether a group of warps multiplies together.
pub(super) fn is_warpgroup(it: &Instruction) -> bool {
    &*it.opcode == "wgmma"
}

/// Whether it changes a map of a tensor.
pub(super) fn is_map_change(it: &Instruction) -> bool {
    &*it.opcode == "tensormap" && it.has("replace")
}

fn is_small_kind(it: &Instruction) -> bool {
    it.modifiers.iter().any(|word| word.starts_with("kind::"))
}

/// Whether it multiplies floats of eight, six or four bits.
pub(super) fn is_small_product(it: &Instruction) -> bool {
    &*it.opcode == "mma" && is_small_kind(it)
}

/// Six and four bits become eight, which is exact; eight by eight is the older form under another name.
pub(super) fn plain_product(it: &Instruction, around: &Around<'_>) -> Written {
    if it.modifiers.iter().any(|word| word.starts_with("sp")) {
        return Err("sparse products of eight bits are not brought down yet".into());
    }
    let [.., d_type, a_type, b_type, c_type] = it.modifiers.as_slice() else {
        return Err("has other words than known".into());
    };
    let [d, Operand::Vector(a), Operand::Vector(b), c] = it.operands.as_slice() else {
        return Err("has other operands than known".into());
    };
    let mut text = String::from(".reg .b32 ?x, ?y, ?t, ?s, ?m;\n");
    let mut factor = |name: &str, ty: &str, parts: &[Operand]| -> (String, String) {
        let Some(widen) = widening(ty) else {
            return (ty.to_owned(), Operand::Vector(parts.to_vec()).to_string());
        };
        let mut list = Vec::new();
        for (nth, part) in parts.iter().enumerate() {
            let register = format!("?{name}{nth}");
            text.push_str(&format!(
                ".reg .b32 {register};\nmov.b32 ?x, {part};\n{widen}\nmov.b32 {register}, ?y;\n"
            ));
            list.push(register);
        }
        ("e4m3".to_owned(), format!("{{{}}}", list.join(", ")))
    };
    let (a_type, a) = factor("a", a_type, a);
    let (b_type, b) = factor("b", b_type, b);
    let last = it.modifiers.len() - 4;
    let shape: String = it.modifiers[..last]
        .iter()
        .filter(|word| !word.starts_with("kind::"))
        .map(|word| format!(".{word}"))
        .collect();
    text.push_str(&format!("mma{shape}.{d_type}.{a_type}.{b_type}.{c_type} {d}, {a}, {b}, {c};"));
    around.write(it, &text, &[])
}

/// Makes four elements of `?x` four of e4m3 in `?y`; nothing for types that are multiplied as they are.
///
/// An exponent that is not zero only moves to another bias. The few numbers below are looked up, four at once: their
/// bits are brought together as the nibbles by which `prmt` picks bytes.
fn widening(ty: &str) -> Option<String> {
    // Where the magnitude stands, how the exponent moves, and what the magnitudes 0 to 7 are in e4m3.
    let (start, small, table) = match ty {
        "e2m1" => (2, None, ["0x3C383000", "0x4C484440"]),
        "e2m3" => (0, Some((0, "0x30303030", 3)), ["0x2C282000", "0x36343230"]),
        "e3m2" => (0, Some((1, "0x20202020", 2)), ["0x24201800", "0x2E2C2A28"]),
        _ => return None,
    };
    // The sign of all three stands in bit 5.
    let mut text = format!(
        "shl.b32 ?s, ?x, 2; and.b32 ?s, ?s, 0x80808080; shr.u32 ?x, ?x, {start};
         and.b32 ?t, ?x, 0x07070707; shr.u32 ?m, ?t, 4; or.b32 ?t, ?t, ?m; and.b32 ?m, ?t, 0xFF;
         shr.u32 ?t, ?t, 8; and.b32 ?t, ?t, 0xFF00; or.b32 ?t, ?t, ?m;
         mov.b32 ?y, {}; mov.b32 ?m, {}; prmt.b32 ?y, ?y, ?m, ?t;\n",
        table[0], table[1]
    );
    if let Some((shift, bias, fraction)) = small {
        // Bytes whose exponent is not zero.
        text.push_str(&format!(
            "and.b32 ?x, ?x, 0x1F1F1F1F; add.u32 ?m, ?x, 0x{:08X}; and.b32 ?m, ?m, 0x20202020; shr.u32 ?m, ?m, 5;
             mul.lo.u32 ?m, ?m, 255; shl.b32 ?x, ?x, {shift}; add.u32 ?x, ?x, {bias};
             and.b32 ?x, ?x, ?m; not.b32 ?m, ?m; and.b32 ?y, ?y, ?m; or.b32 ?y, ?y, ?x;\n",
            (0x20_u32 - (1 << fraction)) * 0x0101_0101,
        ));
    }
    text.push_str("or.b32 ?y, ?y, ?s;");
    Some(text)
}

/// Whether it multiplies floats of eight bits.
pub(super) fn is_byte_product(it: &Instruction) -> bool {
    &*it.opcode == "mma" && (it.has("e4m3") || it.has("e5m2"))
}

/// Eight bits become half precision, which is exact. The first two of four neighbours are one product and the last two
/// another; of 16 columns both make one. Columns stand in another order then, the same in both factors.
pub(super) fn byte_product(it: &Instruction, around: &Around<'_>) -> Written {
    let [.., d_type, a_type, b_type, c_type] = it.modifiers.as_slice() else {
        return Err("has other words than known".into());
    };
    let [d, Operand::Vector(a), Operand::Vector(b), c] = it.operands.as_slice() else {
        return Err("sparse products of eight bits are not brought down".into());
    };
    if [&**d_type, &**c_type] != ["f32"; 2] {
        return Err("sums in half precision would be rounded otherwise".into());
    }
    let mut text = String::from(".reg .b32 ?x; .reg .b16 ?u0, ?u1; .reg .b32 ?s<4>;\n");
    let mut halves = |name: char, ty: &str, parts: &[Operand]| {
        for (nth, part) in parts.iter().enumerate() {
            text.push_str(&format!(
                ".reg .b32 ?{name}{nth}l, ?{name}{nth}h;
                 mov.b32 ?x, {part}; mov.b32 {{?u0, ?u1}}, ?x;
                 cvt.rn.f16x2.{ty}x2 ?{name}{nth}l, ?u0; cvt.rn.f16x2.{ty}x2 ?{name}{nth}h, ?u1;\n"
            ));
        }
    };
    halves('a', a_type, a);
    halves('b', b_type, b);
    let product = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";
    text.push_str(&match (it.has("m16n8k32"), a.len(), b.len()) {
        (true, 4, 2) => format!(
            "{product} {{?s0, ?s1, ?s2, ?s3}}, {{?a0l, ?a1l, ?a2l, ?a3l}}, {{?b0l, ?b1l}}, {c};
             {product} {d}, {{?a0h, ?a1h, ?a2h, ?a3h}}, {{?b0h, ?b1h}}, {{?s0, ?s1, ?s2, ?s3}};"
        ),
        (false, 2, 1) => {
            format!("{product} {d}, {{?a0l, ?a1l, ?a0h, ?a1h}}, {{?b0l, ?b0h}}, {c};")
        }
        _ => return Err("has another shape than known".into()),
    });
    around.write(it, &text, &[])
}

/// Whether it stores matrices.
pub(super) fn is_matrix_store(it: &Instruction) -> bool {
    &*it.opcode == "stmatrix"
}

/// Each lane stores what it holds where the lane of that row says: its address comes by a shuffle.
pub(super) fn matrix_store(it: &Instruction, around: &Around<'_>) -> Written {
    let [memory, values] = it.operands.as_slice() else {
        return Err("has other operands than known".into());
    };
    let parts = match values {
        Operand::Vector(parts) => parts.clone(),
        one => vec![one.clone()],
    };
    let mut text = addresses(it, memory, around)?;
    for (nth, part) in parts.iter().enumerate() {
        let first = 8 * nth;
        if it.has("trans") {
            text.push_str(&format!("mov.b32 ?t, {part}; mov.b32 {{?h0, ?h1}}, ?t;\n"));
            for half in 0..2 {
                text.push_str(&format!(
                    "shl.b32 ?f, ?q, 1; add.u32 ?f, ?f, {}; shfl.sync.idx.b32 ?t, ?a, ?f, 31, -1;
                     shl.b32 ?f, ?g, 1; add.u32 ?t, ?t, ?f; st.shared.b16 [?t], ?h{half};\n",
                    first + half
                ));
            }
        } else {
            text.push_str(&format!(
                "add.u32 ?f, ?g, {first}; shfl.sync.idx.b32 ?t, ?a, ?f, 31, -1;
                 shl.b32 ?f, ?q, 2; add.u32 ?t, ?t, ?f; st.shared.b32 [?t], {part};\n"
            ));
        }
    }
    around.write(it, &text, &[])
}

/// Whether a product of matrices came with sm_80.
pub(super) fn is_newer_product(it: &Instruction) -> bool {
    if !matches!(&*it.opcode, "mma" | "wmma") {
        return false;
    }
    let newer_type = ["bf16", "tf32", "f64"].iter().any(|ty| it.has(ty));
    let newer_shape = ["m16n8k16", "m16n8k32", "m16n8k64", "m16n8k128", "m16n8k256"];
    newer_type || newer_shape.iter().any(|shape| it.has(shape))
}
