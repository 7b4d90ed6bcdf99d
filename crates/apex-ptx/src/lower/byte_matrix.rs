//! Loads and stores of matrices of bytes, of six and of four bits.
//!
//! Each lane moves its own bytes. The address of a row comes by a shuffle from the lane that has it. Which byte a lane
//! gets is told by the layouts of CUTLASS: the figures of the PTX ISA leave the order within registers open.

use super::write::{Around, Written};
use crate::tree::{Instruction, Operand};

/// Whether it loads or stores matrices of bytes and less.
pub(super) fn is_byte_matrix(it: &Instruction) -> bool {
    matches!(&*it.opcode, "ldmatrix" | "stmatrix")
        && ["m16n16", "m8n16", "m16n8", "b8"].iter().any(|word| it.has(word))
}

/// Each lane loads or stores its bytes.
pub(super) fn byte_matrix(it: &Instruction, around: &Around<'_>) -> Written {
    let is_load = &*it.opcode == "ldmatrix";
    let (memory, values) = match it.operands.as_slice() {
        [values, memory] if is_load => (memory, values),
        [memory, values] => (memory, values),
        _ => return Err("has other operands than known".into()),
    };
    let parts = match values {
        Operand::Vector(parts) => parts.clone(),
        one => vec![one.clone()],
    };
    let mut text = addresses(it, memory, around)?;
    let bits = if it.has("b4x16_p64") {
        4
    } else if it.has("b6x16_p32") {
        6
    } else {
        8
    };
    for (nth, part) in parts.iter().enumerate() {
        text.push_str(&match (is_load, it.has("m16n16"), it.has("m8n16"), it.has("m16n8")) {
            (true, true, ..) => load_turned(nth, bits),
            (true, _, true, _) if bits < 8 => load_straight(nth, bits),
            (false, .., true) => store_turned(nth, &part.to_string()),
            _ => return Err("has another shape than known".into()),
        });
        if is_load {
            text.push_str(&format!("mov.b32 ?d{nth}, ?y;\n"));
        }
    }
    if is_load {
        let declared: String =
            (0..parts.len()).map(|nth| format!(".reg .b32 ?d{nth};\n")).collect();
        text.insert_str(0, &declared);
        for (nth, part) in parts.iter().enumerate() {
            text.push_str(&format!("mov.b32 {part}, ?d{nth};\n"));
        }
        // Nobody overwrites a row before all have read it.
        text.push_str("bar.warp.sync -1;");
    }
    around.write(it, &text, &[])
}

/// The lane's own address in `?a`, and where it stands in the warp: `?g` is its quad, `?q` its place there.
pub(super) fn addresses(
    it: &Instruction,
    memory: &Operand,
    around: &Around<'_>,
) -> Result<String, String> {
    if !it.has("shared") && !it.has("shared::cta") {
        return Err("matrices at a generic address are not brought down".into());
    }
    let (base, offset, wide) = around.address(memory)?;
    let narrow =
        if wide && around.scopes.register(base).is_some() { "cvt.u32.u64" } else { "mov.b32" };
    Ok(format!(
        ".reg .b32 ?a, ?l, ?g, ?q, ?f, ?t, ?x, ?y, ?k; .reg .b16 ?h0, ?h1;
         {narrow} ?a, {base}; add.s32 ?a, ?a, {offset};
         mov.u32 ?l, %laneid; shr.u32 ?g, ?l, 2; and.b32 ?q, ?l, 3;\n"
    ))
}

/// Elements of so many bits that lie close in `?x` become the bytes of `?y`, `lift` bits above the bytes' last.
pub(super) fn spread(bits: u32, lift: u32) -> String {
    let mask = (1_u32 << bits) - 1;
    let mut text = format!("and.b32 ?y, ?x, {mask};");
    for nth in 1..4 {
        let (apart, mask) = ((8 - bits) * nth, mask << (8 * nth));
        text.push_str(&format!(
            " shl.b32 ?k, ?x, {apart}; and.b32 ?k, ?k, {mask}; or.b32 ?y, ?y, ?k;"
        ));
    }
    text.push_str(&format!(" shl.b32 ?y, ?y, {lift};\n"));
    text
}

/// A register of `m8n16`: four neighbours of a row.
fn load_straight(register: usize, bits: u32) -> String {
    let first = 8 * register;
    let bytes = if bits == 4 {
        "ld.shared.u8 ?x, [?t]; ld.shared.u8 ?k, [?t+1]; shl.b32 ?k, ?k, 8; or.b32 ?x, ?x, ?k;"
            .to_owned()
    } else {
        "ld.shared.u8 ?x, [?t]; ld.shared.u8 ?k, [?t+1]; shl.b32 ?k, ?k, 8; or.b32 ?x, ?x, ?k;
         ld.shared.u8 ?k, [?t+2]; shl.b32 ?k, ?k, 16; or.b32 ?x, ?x, ?k;"
            .to_owned()
    };
    format!(
        "add.u32 ?f, ?g, {first}; shfl.sync.idx.b32 ?t, ?a, ?f, 31, -1;
         mul.lo.u32 ?f, ?q, {}; add.u32 ?t, ?t, ?f;
         {bytes}
         {}",
        bits / 2,
        spread(bits, 0)
    )
}

/// A register of `m16n16`: two rows of the four that the lane has, in two columns.
fn load_turned(register: usize, bits: u32) -> String {
    let first = 16 * (register / 2) + 2 * (register % 2);
    let mut text = String::from("mov.b32 ?y, 0;\n");
    for row in 0..2 {
        text.push_str(&format!(
            "shl.b32 ?f, ?q, 2; add.u32 ?f, ?f, {}; shfl.sync.idx.b32 ?t, ?a, ?f, 31, -1;\n",
            first + row
        ));
        for column in 0..2 {
            // The place of the element in bits; of eight bits none lies in two bytes.
            let second = if bits == 6 {
                "ld.shared.u8 ?l, [?k+1]; shl.b32 ?l, ?l, 8; or.b32 ?x, ?x, ?l;"
            } else {
                ""
            };
            text.push_str(&format!(
                "mul.lo.u32 ?f, ?g, {bits}; add.u32 ?f, ?f, {}; shr.u32 ?k, ?f, 3; add.u32 ?k, ?k, ?t;
                 ld.shared.u8 ?x, [?k]; {second}
                 and.b32 ?f, ?f, 7; shr.u32 ?x, ?x, ?f; and.b32 ?x, ?x, {};
                 shl.b32 ?x, ?x, {}; or.b32 ?y, ?y, ?x;\n",
                8 * bits * column,
                (1 << bits) - 1,
                8 * (row as u32 + 2 * column),
            ));
        }
    }
    text
}

/// A register of `m16n8`: two rows, in two columns.
fn store_turned(register: usize, part: &str) -> String {
    let mut text = format!("mov.b32 ?x, {part};\n");
    for row in 0..2 {
        text.push_str(&format!(
            "shl.b32 ?f, ?q, 1; add.u32 ?f, ?f, {}; shfl.sync.idx.b32 ?t, ?a, ?f, 31, -1;
             add.u32 ?t, ?t, ?g;
             shr.u32 ?k, ?x, {}; st.shared.u8 [?t], ?k; shr.u32 ?k, ?x, {}; st.shared.u8 [?t+8], ?k;\n",
            8 * register + row,
            8 * row,
            8 * row + 16,
        ));
    }
    text
}
