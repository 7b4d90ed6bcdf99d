//! Products of matrices, and loads and stores of them, that only newer chips have.

use super::write::{Around, Written};
use crate::tree::Instruction;

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

/// Whether factors have scales of their own.
pub(super) fn is_scaled(it: &Instruction) -> bool {
    &*it.opcode == "mma"
        && it
            .modifiers
            .iter()
            .any(|word| word.starts_with("block_scale") || word.starts_with("kind::mx"))
}

/// Whether it multiplies floats of eight, six or four bits.
pub(super) fn is_small_product(it: &Instruction) -> bool {
    &*it.opcode == "mma" && is_small_kind(it)
}

/// Eight bits by eight is the older form under another name.
pub(super) fn plain_product(it: &Instruction, _: &Around<'_>) -> Written {
    let small = ["e2m1", "e2m3", "e3m2"];
    if small.iter().any(|ty| it.has(ty)) {
        return Err("products of six and four bits are not brought down yet".into());
    }
    if it.modifiers.iter().any(|word| word.starts_with("sp")) {
        return Err("sparse products of eight bits are not brought down yet".into());
    }
    let mut older = it.clone();
    older.modifiers.retain(|word| !word.starts_with("kind::"));
    Ok(vec![crate::tree::Statement::Instruction(older)])
}

/// Whether it multiplies floats of eight bits.
pub(super) fn is_byte_product(it: &Instruction) -> bool {
    &*it.opcode == "mma" && (it.has("e4m3") || it.has("e5m2"))
}

/// Whether it loads or stores matrices of bytes and less.
pub(super) fn is_byte_matrix(it: &Instruction) -> bool {
    matches!(&*it.opcode, "ldmatrix" | "stmatrix")
        && ["m16n16", "m8n16", "m16n8", "b8"].iter().any(|word| it.has(word))
}

/// Whether it stores matrices.
pub(super) fn is_matrix_store(it: &Instruction) -> bool {
    &*it.opcode == "stmatrix"
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
