//! What newer chips do beside their threads: copies, clusters, the next kernel, more work for a block.

use super::memory::nothing;
use super::write::{Around, Written, moved};
use crate::tree::{Constant, Instruction, Operand, Statement};

/// Whether it moves registers between warps.
pub(super) fn is_register_move(it: &Instruction) -> bool {
    &*it.opcode == "setmaxnreg"
}

/// Whether it asks for the work of a block that has not begun.
pub(super) fn is_work_request(it: &Instruction) -> bool {
    &*it.opcode == "clusterlaunchcontrol"
}

/// The request always fails, which a program must expect: each block then does its own work.
pub(super) fn no_more_work(it: &Instruction, around: &Around<'_>) -> Written {
    if it.has("try_cancel") {
        if it.has("multicast::cluster::all") {
            return Err("an answer to all blocks of a cluster is not brought down".into());
        }
        let space = if it.has("shared::cta") { ".shared" } else { "" };
        let to_barrier = if it.has("shared::cta") { ".shared::cta" } else { "" };
        let text = ".reg .b64 ?zero; mov.b64 ?zero, 0; st$space.v2.b64 $0, {?zero, ?zero};
             fence.acq_rel.cta; mbarrier.complete_tx.relaxed.cta$barrier.b64 $1, 16;";
        return around.write(it, text, &[("space", space), ("barrier", to_barrier)]);
    }
    if it.has("is_canceled") {
        let text = ".reg .b32 ?zero; mov.b32 ?zero, 0; setp.ne.u32 $0, ?zero, ?zero;";
        return around.write(it, text, &[]);
    }
    // What it gives is not defined where the request failed.
    let parts = match it.operands.first() {
        Some(Operand::Vector(parts)) => parts.clone(),
        Some(one) => vec![one.clone()],
        None => return Err("has no result".into()),
    };
    let named = parts.iter().filter(|part| **part != Operand::Sink);
    let text: String = named.map(|part| format!("mov.b32 {part}, 0;\n")).collect();
    around.write(it, &text, &[])
}

/// Whether it says when the next kernel may begin.
pub(super) fn is_kernel_order(it: &Instruction) -> bool {
    &*it.opcode == "griddepcontrol"
}

/// Nothing: where kernels never overlap, each waits for the one before.
pub(super) fn in_order(it: &Instruction, around: &Around<'_>) -> Written {
    nothing(it, around)
}

/// Whether it copies to shared memory by itself, in pieces of at most 16 bytes.
pub(super) fn is_small_copy(it: &Instruction) -> bool {
    &*it.opcode == "cp" && it.has("async") && !it.has("bulk") && !it.has("tensor")
}

/// The thread copies by itself, at once: then there is nothing to wait for.
pub(super) fn small_copy(it: &Instruction, around: &Around<'_>) -> Written {
    if ["commit_group", "wait_group", "wait_all"].iter().any(|word| it.has(word)) {
        return Ok(Vec::new());
    }
    if it.has("mbarrier") {
        return Err("an asynchronous barrier has no equal before sm_80".into());
    }
    let [to, from, Operand::Constant(Constant::Integer { bits: bytes, .. }), rest @ ..] =
        it.operands.as_slice()
    else {
        return Err("has other operands than known".into());
    };
    let parts: &[&str] = match bytes {
        4 => &["?a"],
        8 => &["?a", "?b"],
        16 => &["?a", "?b", "?c", "?d"],
        _ => return Err("has a size that is not known here".into()),
    };
    let space = if it.has("shared") || it.has("shared::cta") { ".shared" } else { "" };
    let mut text = String::from(".reg .b32 ?a, ?b, ?c, ?d, ?n, ?k; .reg .pred ?p;\n");
    // A cache policy may stand last; before it the bytes that are read, or a predicate that says to read none.
    let read = match rest {
        [size, ..] if rest.len() == 2 || !it.has("L2::cache_hint") => Some(size),
        _ => None,
    };
    if let Some(Operand::Not(_)) | Some(Operand::Name(_)) = read
        && read.and_then(|size| around.bytes(size)) != Some(4)
    {
        return Err("a predicate that says to read nothing is not brought down".into());
    }
    text.push_str(if read.is_some() { "mov.b32 ?n, $3;\n" } else { "mov.b32 ?n, 16;\n" });
    for (nth, part) in parts.iter().enumerate() {
        // So many bytes of this word are read, the others are zero. It is aligned: to read all touches no other page.
        let (before, at) = (4 * nth, moved(from, 4 * nth as i64)?);
        text.push_str(&format!(
            "mov.b32 {part}, 0; min.u32 ?k, ?n, 16; sub.s32 ?k, ?k, {before}; max.s32 ?k, ?k, 0; min.s32 ?k, ?k, 4;
             setp.ne.u32 ?p, ?k, 0;\n@?p ld.global.b32 {part}, {at};
             shl.b32 ?k, ?k, 3; shl.b32 ?k, 1, ?k; add.s32 ?k, ?k, -1; and.b32 {part}, {part}, ?k;\n"
        ));
    }
    let list = parts.join(", ");
    let (vector, list) = match parts.len() {
        1 => (String::new(), list),
        count => (format!(".v{count}"), format!("{{{list}}}")),
    };
    text.push_str(&format!("st{space}{vector}.b32 {to}, {list};"));
    around.write(it, &text, &[])
}

/// Whether it moves tiles or long pieces by itself.
pub(super) fn is_large_copy(it: &Instruction) -> bool {
    &*it.opcode == "cp" && ["bulk", "tensor", "reduce"].iter().any(|word| it.has(word))
}

/// Whether it copies in long pieces to the block's own shared memory, under the newer name.
pub(super) fn is_copy_to_own_block(it: &Instruction) -> bool {
    let [_, _, first, second, ..] = it.modifiers.as_slice() else { return false };
    &*it.opcode == "cp"
        && it.has("async")
        && it.has("bulk")
        && !it.has("tensor")
        && &**first == "shared::cta"
        && &**second == "global"
}

/// The older name means the same where the address is the block's own.
pub(super) fn copy_to_cluster(it: &Instruction, _: &Around<'_>) -> Written {
    let mut older = it.clone();
    older.modifiers[2] = "shared::cluster".into();
    Ok(vec![Statement::Instruction(older)])
}

/// Whether blocks of a cluster meet or reach each other.
pub(super) fn is_cluster(it: &Instruction) -> bool {
    it.modifiers.iter().any(|word| matches!(&**word, "cluster" | "shared::cluster"))
        || matches!(&*it.opcode, "mapa" | "getctarank")
        || (matches!(&*it.opcode, "st" | "red") && it.has("async"))
}

/// What a block that is a cluster by itself finds where it asks for its cluster.
fn of_one(name: &str) -> Option<&'static str> {
    Some(match name {
        "%cluster_ctaid" | "%cluster_ctarank" => "0",
        "%cluster_nctaid" | "%cluster_nctarank" => "1",
        "%clusterid" => "%ctaid",
        "%nclusterid" => "%nctaid",
        _ => return None,
    })
}

fn in_cluster_of_one(operand: &Operand) -> Option<Operand> {
    let number = |word: &str| word.parse().ok().map(|it| Operand::Constant(Constant::signed(it)));
    match operand {
        Operand::Name(name) => of_one(name).and_then(number),
        Operand::Member(name, side) => {
            let word = of_one(name)?;
            number(word).or_else(|| Some(Operand::Member(word.into(), side.clone())))
        }
        _ => None,
    }
}

/// Whether it reads where the block is in its cluster.
pub(super) fn asks_of_cluster(it: &Instruction) -> bool {
    it.operands.iter().any(|operand| in_cluster_of_one(operand).is_some())
}

/// The answers of a block that is a cluster by itself.
pub(super) fn cluster_of_one(it: &Instruction, _: &Around<'_>) -> Written {
    let mut older = it.clone();
    for operand in &mut older.operands {
        if let Some(other) = in_cluster_of_one(operand) {
            *operand = other;
        }
    }
    Ok(vec![Statement::Instruction(older)])
}

/// Whether it is a barrier that counts arrivals, or bytes.
pub(super) fn is_counting_barrier(it: &Instruction) -> bool {
    &*it.opcode == "mbarrier"
}

/// Whether a counting barrier does what only those since sm_90 do.
pub(super) fn is_newer_barrier(it: &Instruction) -> bool {
    is_counting_barrier(it)
        && ["try_wait", "expect_tx", "complete_tx"].iter().any(|word| it.has(word))
}

/// A wait that looks once is a wait that gives up at once.
pub(super) fn test_instead(it: &Instruction, _: &Around<'_>) -> Written {
    if !it.has("try_wait") || it.has("relaxed") || it.has("cluster") {
        return Err("barriers that count bytes came with sm_90".into());
    }
    let mut older = it.clone();
    for word in older.modifiers.iter_mut().filter(|word| &***word == "try_wait") {
        *word = "test_wait".into();
    }
    older.modifiers.retain(|word| !matches!(&**word, "acquire" | "cta"));
    older.operands.truncate(3);
    Ok(vec![Statement::Instruction(older)])
}
