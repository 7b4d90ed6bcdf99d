//! What lanes of a warp tell each other: shuffles, votes, matches, reductions.

use super::atomic::combine;
use super::context::{Context, Outcome};
use super::file::{Scratch, lanes_of};
use crate::code::{AtomOp, Guard, LANES, Reg, ShuffleMode, Src, Ty, VoteMode};

/// `shfl`.
#[allow(clippy::too_many_arguments, reason = "an instruction's fields")]
pub(crate) fn shuffle(
    x: &Context,
    mode: ShuffleMode,
    dst: Reg,
    in_range: Option<Reg>,
    a: Src,
    b: Src,
    c: Src,
) {
    let mut scratch = Scratch::<u32>::new();
    let values = *x.file().cells::<u32>(a, &mut scratch);
    let mut out = [0u32; LANES];
    let mut inside = 0u32;
    for lane in lanes_of(x.mask()) {
        let (b, c) = (x.get(b, lane) as u32 & 31, x.get(c, lane) as u32);
        let (clamp, segment) = (c & 31, c >> 8 & 31);
        let me = lane as u32;
        let highest = me & segment | clamp & !segment;
        let lowest = me & segment;
        let (source, valid) = match mode {
            ShuffleMode::Up => {
                let source = me.wrapping_sub(b);
                (source, source as i32 >= highest as i32)
            }
            ShuffleMode::Down => (me + b, me + b <= highest),
            ShuffleMode::Bfly => (me ^ b, me ^ b <= highest),
            ShuffleMode::Idx => {
                let source = lowest | b & !segment & 31;
                (source, source <= highest)
            }
        };
        let source = if valid { source } else { me };
        out[lane] = values[source as usize & 31];
        inside |= u32::from(valid) << lane;
    }
    x.file().put(dst, x.mask(), &out);
    if let Some(register) = in_range {
        x.file().set_predicate(register, x.mask(), inside);
    }
}

/// `vote`.
pub(crate) fn vote(x: &Context, mode: VoteMode, dst: Reg, a: Guard, mask: Option<Src>) {
    let bits = x.file().guard(a);
    let result = |members: u32| {
        let (yes, all) = (bits & members, members);
        match mode {
            VoteMode::All => u32::from(yes == all),
            VoteMode::Any => u32::from(yes != 0),
            VoteMode::Uni => u32::from(yes == all || yes == 0),
            VoteMode::Ballot => yes,
        }
    };
    for lane in lanes_of(x.mask()) {
        let members = mask.map_or(u32::MAX, |mask| x.get(mask, lane) as u32) & x.mask();
        x.set(dst, lane, result(members).into());
    }
}

/// `match.any` and `match.all`.
pub(crate) fn matching(
    x: &Context,
    all: bool,
    ty: Ty,
    dst: Reg,
    all_equal: Option<Reg>,
    a: Src,
    mask: Src,
) {
    let limit = u64::MAX >> (64 - ty.bits());
    let values: [u64; LANES] = std::array::from_fn(|lane| x.get(a, lane) & limit);
    let mut flags = 0u32;
    let mut out = [0u32; LANES];
    for lane in lanes_of(x.mask()) {
        let members = x.get(mask, lane) as u32 & x.mask();
        let same = lanes_of(members)
            .filter(|&other| values[other] == values[lane])
            .fold(0, |bits, other| bits | 1 << other);
        out[lane] = if !all || same == members { same } else { 0 };
        flags |= u32::from(same == members) << lane;
    }
    x.file().put(dst, x.mask(), &out);
    if let Some(register) = all_equal {
        x.file().set_predicate(register, x.mask(), flags);
    }
}

/// `redux`.
#[allow(clippy::too_many_arguments, reason = "an instruction's fields")]
pub(crate) fn redux(
    x: &Context,
    op: AtomOp,
    ty: Ty,
    abs: bool,
    nan: bool,
    dst: Reg,
    a: Src,
    mask: Src,
) {
    let values: [u64; LANES] = std::array::from_fn(|lane| {
        let value = x.get(a, lane);
        if abs { value & 0x7fff_ffff } else { value }
    });
    let mut out = [0u32; LANES];
    for lane in lanes_of(x.mask()) {
        let members = x.get(mask, lane) as u32 & x.mask();
        let all = lanes_of(members).map(|other| values[other]);
        let any_nan = ty == Ty::F32
            && lanes_of(members).any(|other| f32::from_bits(values[other] as u32).is_nan());
        let result = all.reduce(|a, b| combine(op, ty, a, b, 0, false)).unwrap_or(0);
        out[lane] = if nan && any_nan { crate::number::NAN_F32 } else { result as u32 };
    }
    x.file().put(dst, x.mask(), &out);
}

/// `elect`.
pub(crate) fn elect(x: &Context, dst: Option<Reg>, elected: Reg, mask: Src) -> Outcome {
    for lane in lanes_of(x.mask()) {
        let members = x.get(mask, lane) as u32 & x.mask();
        let leader = members.trailing_zeros();
        if let Some(dst) = dst {
            x.set(dst, lane, leader.into());
        }
        x.set(elected, lane, u64::from(leader == lane as u32));
    }
    Ok(())
}
