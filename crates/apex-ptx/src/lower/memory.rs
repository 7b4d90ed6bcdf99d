//! Loads and stores that newer chips have, and hints of theirs.

use super::write::{Around, Written, moved, without};
use crate::tree::{AddressBase, Instruction, Operand, Statement};

/// The most parts of a vector on chips before sm_100, by the bytes of one.
fn most_parts(it: &Instruction) -> usize {
    if it.modifiers.last().is_some_and(|ty| ty.ends_with("64")) { 2 } else { 4 }
}

/// Whether it moves 256 bits at once.
pub(super) fn is_wide(it: &Instruction) -> bool {
    let parts = if it.has("v8") {
        8
    } else if it.has("v4") {
        4
    } else {
        1
    };
    matches!(&*it.opcode, "ld" | "ldu" | "st") && parts > most_parts(it)
}

/// Two accesses of half the size.
pub(super) fn halves(it: &Instruction, around: &Around<'_>) -> Written {
    let is_load = &*it.opcode != "st";
    let (vector, memory) = if is_load { (0, 1) } else { (1, 0) };
    let (Some(Operand::Vector(parts)), Some(address)) =
        (it.operands.get(vector), it.operands.get(memory))
    else {
        return Err("has other operands than known".into());
    };
    let (half, word) = match parts.len() {
        8 => (4, "v4"),
        4 => (2, "v2"),
        _ => return Err("its vector has another length than its type".into()),
    };
    let bytes = if half == 4 { 4 } else { 8 };
    let mut unwanted = 0;
    let mut piece = |range: core::ops::Range<usize>| -> Result<Statement, String> {
        let mut one = it.clone();
        for modifier in &mut one.modifiers {
            if matches!(&**modifier, "v8" | "v4") {
                *modifier = word.into();
            }
        }
        let mut part = parts[range.clone()].to_vec();
        for operand in part.iter_mut().filter(|operand| **operand == Operand::Sink) {
            if !is_load {
                return Err("a store that leaves parts out has no equal before sm_100".into());
            }
            *operand = Operand::Name(format!("{}sink{unwanted}", around.prefix).into());
            unwanted += 1;
        }
        one.operands[vector] = Operand::Vector(part);
        one.operands[memory] = moved(address, bytes * range.start as i64)?;
        Ok(Statement::Instruction(one))
    };
    let mut both = vec![piece(0..half)?, piece(half..2 * half)?];
    // What is loaded first may not be the address of the second.
    let base = base_of(address);
    let overwrites = |part: &Operand| base.is_some_and(|base| *part == Operand::Name(base.into()));
    if is_load && parts[..half].iter().any(overwrites) {
        both.swap(0, 1);
    }
    if unwanted > 0 {
        let names: Vec<String> =
            (0..unwanted).map(|nth| format!("{}sink{nth}", around.prefix)).collect();
        let text = format!(".reg .b{} {};", 8 * bytes, names.join(", "));
        let declared = around.write(it, &text, &[])?;
        return Ok(vec![Statement::Block(declared.into_iter().chain(both).collect())]);
    }
    Ok(both)
}

fn base_of(address: &Operand) -> Option<&str> {
    match address {
        Operand::Address { base: AddressBase::Name(name), .. } => Some(name),
        Operand::Unified(inner) => base_of(inner),
        _ => None,
    }
}

fn is_eviction(word: &str) -> bool {
    matches!(word, "L2::evict_first" | "L2::evict_last" | "L2::evict_normal")
}

/// Whether an access says what the second cache shall keep.
pub(super) fn is_eviction_hint(it: &Instruction) -> bool {
    matches!(&*it.opcode, "ld" | "st") && it.modifiers.iter().any(|word| is_eviction(word))
}

/// The same access without the hint.
pub(super) fn without_eviction(it: &Instruction, _: &Around<'_>) -> Written {
    Ok(without(it, is_eviction))
}

fn is_cache_hint(word: &str) -> bool {
    word == "L2::cache_hint" || word == "L2::256B"
}

/// Whether an access carries a policy of the second cache.
pub(super) fn is_policy_hint(it: &Instruction) -> bool {
    matches!(&*it.opcode, "ld" | "st" | "atom" | "red" | "ldu")
        && it.modifiers.iter().any(|word| is_cache_hint(word))
}

/// The same access without its policy, which is the last operand.
pub(super) fn without_policy(it: &Instruction, _: &Around<'_>) -> Written {
    let mut plain = it.clone();
    if plain.has("L2::cache_hint") {
        plain.operands.pop();
    }
    plain.modifiers.retain(|word| !is_cache_hint(word));
    Ok(vec![Statement::Instruction(plain)])
}

/// Whether it does nothing but advise the caches.
pub(super) fn is_cache_advice(it: &Instruction) -> bool {
    matches!(&*it.opcode, "applypriority" | "discard")
        || (&*it.opcode == "prefetch" && it.modifiers.iter().any(|word| is_eviction(word)))
}

/// Nothing: no result depends on it.
pub(super) fn nothing(_: &Instruction, _: &Around<'_>) -> Written {
    Ok(Vec::new())
}

/// Whether it makes a policy of the second cache.
pub(super) fn is_policy(it: &Instruction) -> bool {
    &*it.opcode == "createpolicy"
}

/// A policy that nobody reads.
pub(super) fn no_policy(it: &Instruction, around: &Around<'_>) -> Written {
    around.write(it, "mov.b64 $0, 0;", &[])
}

/// Whether it clears shared memory.
pub(super) fn is_clear(it: &Instruction) -> bool {
    &*it.opcode == "st" && it.has("bulk")
}

/// A loop of stores: sizes are multiples of eight bytes.
pub(super) fn clear(it: &Instruction, around: &Around<'_>) -> Written {
    let [memory, size, ..] = it.operands.as_slice() else {
        return Err("has other operands than known".into());
    };
    let (base, offset, wide) = around.address(memory)?;
    let space = if it.has("shared::cta") { ".shared" } else { "" };
    let bits = if wide { "64" } else { "32" };
    let extend = if around.bytes(size) == Some(4) { "cvt.u64.u32" } else { "mov.b64" };
    let offset = offset.to_string();
    let places =
        [("base", base), ("offset", &offset), ("space", space), ("bits", bits), ("extend", extend)];
    let text = ".reg .b$bits ?a; .reg .b64 ?n, ?zero; .reg .pred ?p;
         mov.b64 ?zero, 0; mov.b$bits ?a, $base; add.s$bits ?a, ?a, $offset;
         $extend ?n, $1;
         setp.lt.u64 ?p, ?n, 8;
         @?p bra ?done;
         ?more: st$space.b64 [?a], ?zero;
         add.s$bits ?a, ?a, 8; add.s64 ?n, ?n, -8;
         setp.ge.u64 ?p, ?n, 8;
         @?p bra ?more;
         ?done:";
    around.write(it, text, &places)
}
