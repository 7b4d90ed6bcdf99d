//! What lanes of a warp do together on newer chips.

use super::write::{Around, Written};
use crate::tree::{Instruction, Operand};

/// Whether it is the least or greatest float of a warp.
pub(super) fn is_float_reduction(it: &Instruction) -> bool {
    &*it.opcode == "redux" && it.has("f32")
}

/// Floats become integers of the same order. What is no number becomes the integer that never wins, or with `.NaN` the
/// one that always does; of NaNs alone comes the canonical one.
pub(super) fn float_reduction(it: &Instruction, around: &Around<'_>) -> Written {
    let op = if it.has("min") { "min" } else { "max" };
    let (top, bottom) = ("0x7FFFFFFF", "0x80000000");
    let for_nan = if (op == "min") == it.has("NaN") { bottom } else { top };
    let magnitude = if it.has("abs") { "0x7FFFFFFF" } else { "0xFFFFFFFF" };
    let places = [("op", op), ("nan", for_nan), ("kept", magnitude)];
    let text = ".reg .b32 ?k, ?m, ?s; .reg .pred ?p;
         mov.b32 ?k, $1; and.b32 ?k, ?k, $kept;
         and.b32 ?m, ?k, 0x7FFFFFFF; setp.gt.u32 ?p, ?m, 0x7F800000;
         shr.s32 ?s, ?k, 31; and.b32 ?s, ?s, 0x7FFFFFFF; xor.b32 ?k, ?k, ?s;
         selp.b32 ?k, $nan, ?k, ?p;
         redux.sync.$op.s32 ?k, ?k, $2;
         setp.eq.s32 ?p, ?k, 0x80000000;
         shr.s32 ?s, ?k, 31; and.b32 ?s, ?s, 0x7FFFFFFF; xor.b32 ?k, ?k, ?s;
         selp.b32 $0, 0x7FFFFFFF, ?k, ?p;";
    around.write(it, text, &places)
}

/// Whether it joins the integers of a warp.
pub(super) fn is_reduction(it: &Instruction) -> bool {
    &*it.opcode == "redux"
}

/// Every lane of the mask is asked in turn.
pub(super) fn reduction(it: &Instruction, around: &Around<'_>) -> Written {
    let Some(op) = ["add", "min", "max", "and", "or", "xor"].into_iter().find(|op| it.has(op))
    else {
        return Err("has no operation that is known here".into());
    };
    let ty = it.modifiers.last().map_or("", |ty| ty);
    let text = ".reg .b32 ?v, ?m, ?i, ?x, ?r, ?b, ?f; .reg .pred ?p, ?first;
         mov.b32 ?v, $1; mov.b32 ?m, $2; mov.u32 ?i, 0; mov.u32 ?r, 0;
         brev.b32 ?f, ?m; clz.b32 ?f, ?f;
         ?more: shfl.sync.idx.b32 ?x, ?v, ?i, 31, ?m;
         shr.u32 ?b, ?m, ?i; and.b32 ?b, ?b, 1; setp.ne.u32 ?p, ?b, 0;
         setp.eq.u32 ?first, ?i, ?f;
         @?p $op.$ty ?r, ?r, ?x;
         selp.b32 ?r, ?x, ?r, ?first;
         add.u32 ?i, ?i, 1; setp.lt.u32 ?p, ?i, 32;
         @?p bra ?more;
         mov.b32 $0, ?r;";
    around.write(it, text, &[("op", op), ("ty", ty)])
}

/// Whether it chooses one lane.
pub(super) fn is_election(it: &Instruction) -> bool {
    &*it.opcode == "elect"
}

/// The first lane of the mask.
pub(super) fn election(it: &Instruction, around: &Around<'_>) -> Written {
    let Some(Operand::Pair(lane, chosen)) = it.operands.first() else {
        return Err("has other operands than known".into());
    };
    let name = |operand: &Operand, otherwise: &str| match operand {
        Operand::Sink => format!("{}{otherwise}", around.prefix),
        operand => operand.to_string(),
    };
    let (lane, chosen) = (name(lane, "lane"), name(chosen, "chosen"));
    let text = ".reg .b32 ?l, ?own, ?lane; .reg .pred ?chosen;
         mov.b32 ?l, $1; brev.b32 ?l, ?l; clz.b32 ?l, ?l;
         mov.u32 ?own, %laneid; mov.b32 $lane, ?l; setp.eq.u32 $chosen, ?l, ?own;";
    around.write(it, text, &[("lane", &lane), ("chosen", &chosen)])
}
