//! Executes one step for the lanes that take part.
//!
//! Everything that only reads and writes registers and memory is here; what moves lanes
//! (branches, calls, barriers) is the warp's affair.

use super::context::{Context, Outcome};
use super::file::{Scratch, lanes_of, map1};
use super::{
    atomic, binary, compare, convert, copy, exchange, matrix, matrix_memory, memory, sample,
    special, system, ternary, unary, video,
};
use crate::code::{Inst, LANES, Reg, SpaceTest, Src, Ty};

/// True for steps after which all lanes of the group are at the next one, whatever other
/// lanes do.
#[inline(always)]
pub(crate) fn is_plain(inst: &Inst) -> bool {
    !matches!(
        inst,
        Inst::Branch { .. }
            | Inst::BranchIndexed { .. }
            | Inst::Call { .. }
            | Inst::Return
            | Inst::Exit
            | Inst::Trap
            | Inst::Breakpoint
            | Inst::Barrier { .. }
            | Inst::WarpBarrier { .. }
            | Inst::ClusterArrive
            | Inst::ClusterWait
            | Inst::Pass
            | Inst::Yield
            | Inst::Mbarrier(_)
            | Inst::Shuffle { mask: Some(_), .. }
            | Inst::Vote { mask: Some(_), .. }
            | Inst::Match { .. }
            | Inst::Redux { .. }
            | Inst::Elect { .. }
            | Inst::Mma(_)
            | Inst::Wgmma(_)
            | Inst::WmmaMemory(_)
            | Inst::MatrixMemory { .. }
            | Inst::MatrixTranspose { .. }
    )
}

/// Lanes that must be there for a step that is not plain.
pub(crate) fn members(x: &Context, inst: &Inst) -> u32 {
    let mask = match inst {
        Inst::Shuffle { mask: Some(mask), .. }
        | Inst::Vote { mask: Some(mask), .. }
        | Inst::Match { mask, .. }
        | Inst::Redux { mask, .. }
        | Inst::Elect { mask, .. } => *mask,
        _ => return u32::MAX,
    };
    lanes_of(x.mask()).fold(0, |bits, lane| bits | x.get(mask, lane) as u32)
}

/// Executes a step. Steps that move lanes do nothing here.
#[expect(clippy::too_many_lines, reason = "a table: who executes each instruction")]
pub(crate) fn one(x: &Context, inst: &Inst) -> Outcome {
    let span = x.span;
    let known = match inst {
        Inst::Nop => true,
        Inst::Mov { ty, dst, src } => mov(x, *ty, *dst, *src),
        Inst::Special { dst, which } => {
            special::special(x, *dst, *which);
            true
        }
        Inst::FrameAddress { dst, offset } => {
            for lane in lanes_of(x.mask()) {
                x.set(*dst, lane, (x.warp().frames[lane] + offset).into());
            }
            true
        }
        Inst::Unary { op, ty, mode, dst, a } => unary::unary(span, *op, *ty, *mode, *dst, *a),
        Inst::Binary { op, ty, mode, dst, a, b } => {
            binary::binary(span, *op, *ty, *mode, *dst, *a, *b)
        }
        Inst::Ternary { op, ty, mode, dst, a, b, c } => {
            ternary::ternary(span, *op, *ty, *mode, *dst, *a, *b, *c)
        }
        Inst::Bfi { ty, dst, insert, base, position, length } => {
            for lane in lanes_of(x.mask()) {
                let [insert, base, position, length] =
                    [*insert, *base, *position, *length].map(|src| x.get(src, lane));
                let bits = ternary::insert(ty.bits(), insert, base, position as u32, length as u32);
                x.set(*dst, lane, bits);
            }
            true
        }
        Inst::Carry { .. } | Inst::MadCarry { .. } => {
            ternary::carry(span, inst);
            true
        }
        Inst::Setp { compare, ty, ftz, dst, not_dst, a, b, join } => {
            compare::setp(span, *compare, *ty, *ftz, *dst, *not_dst, *a, *b, *join)
        }
        Inst::Set { compare, ty, to, ftz, dst, a, b, join } => {
            compare::set(span, *compare, *ty, *to, *ftz, *dst, *a, *b, *join)
        }
        Inst::Select { ty, dst, a, b, predicate } => {
            compare::select(span, *ty, *dst, *a, *b, *predicate)
        }
        Inst::Slct { ty, by, ftz, dst, a, b, c } => {
            compare::slct(span, *ty, *by, *ftz, *dst, *a, *b, *c)
        }
        Inst::Testp { test, ty, dst, a } => {
            compare::testp(span, *test, *ty, *dst, *a);
            true
        }
        Inst::PredLogic { join, dst, a, b } => {
            compare::predicate_logic(span, *join, *dst, *a, *b);
            true
        }
        Inst::PredCopy { dst, a } => {
            span.file.set_predicate(*dst, span.mask, span.file.guard(*a));
            true
        }
        Inst::PredSet { dst, value } => {
            span.file.set_predicate(*dst, span.mask, if *value { u32::MAX } else { 0 });
            true
        }
        Inst::Cvt { to, from, mode, dst, a } => convert::cvt(span, *to, *from, *mode, *dst, *a),
        Inst::CvtPack { to, from, mode, dst, a, b, c } => {
            let mut known = true;
            for lane in lanes_of(x.mask()) {
                let [a, b] = [*a, *b].map(|src| x.get(src, lane));
                let random = c.map(|c| x.get(c, lane) as u32);
                let packed = if *from == Ty::F32 {
                    let [a, b] = [a, b].map(|bits| f32::from_bits(bits as u32));
                    convert::pack_pair(*to, *mode, a, b, random)
                } else {
                    convert::scaled_pair(*to, *from, *mode, a, b)
                };
                match packed {
                    Some(bits) => x.set(*dst, lane, bits.into()),
                    None => known = false,
                }
            }
            known
        }
        Inst::CvtFour { to, mode, dst, parts, random } => {
            let mut known = parts.len() == 4;
            for lane in lanes_of(x.mask()) {
                if !known {
                    break;
                }
                let part = |nth: usize| f32::from_bits(x.get(parts[nth], lane) as u32);
                let values = std::array::from_fn(part);
                match convert::pack_four(*to, *mode, values, x.get(*random, lane) as u32) {
                    Some(bits) => x.set(*dst, lane, bits.into()),
                    None => known = false,
                }
            }
            known
        }
        Inst::CvtPackInt { to, from, dst, a, b, c } => {
            for lane in lanes_of(x.mask()) {
                let c = c.map(|c| x.get(c, lane));
                let bits = convert::pack_integers(*to, *from, x.get(*a, lane), x.get(*b, lane), c);
                x.set(*dst, lane, bits.into());
            }
            true
        }
        Inst::Pack { part, dst, parts } => {
            pack(x, part.bits(), *dst, parts);
            true
        }
        Inst::Unpack { part, dsts, src } => {
            unpack(x, part.bits(), dsts, *src);
            true
        }
        Inst::Load { space, ty, order, dsts, address } => {
            return memory::load(x, *space, *ty, *order, dsts, *address);
        }
        Inst::Store { space, ty, order, srcs, address } => {
            return memory::store(x, *space, *ty, *order, srcs, *address);
        }
        Inst::Atom { op, space, ty, order, dsts, address, values, compare, ftz } => {
            return atomic::atom(
                x, *op, *space, *ty, *order, dsts, *address, values, *compare, *ftz,
            );
        }
        Inst::ToGeneric { space, dst, a } => {
            memory::translate(x, true, *space, *dst, *a);
            true
        }
        Inst::FromGeneric { space, dst, a } => {
            memory::translate(x, false, *space, *dst, *a);
            true
        }
        Inst::IsSpace { space, dst, a } => {
            is_space(x, *space, *dst, *a);
            true
        }
        Inst::Fence => {
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
            true
        }
        Inst::Shuffle { mode, dst, in_range, a, b, c, .. } => {
            exchange::shuffle(x, *mode, *dst, *in_range, *a, *b, *c);
            true
        }
        Inst::Vote { mode, dst, a, mask } => {
            exchange::vote(x, *mode, *dst, *a, *mask);
            true
        }
        Inst::Match { all, ty, dst, all_equal, a, mask } => {
            exchange::matching(x, *all, *ty, *dst, *all_equal, *a, *mask);
            true
        }
        Inst::ActiveMask { dst } => {
            for lane in lanes_of(x.mask()) {
                x.set(*dst, lane, x.mask().into());
            }
            true
        }
        Inst::Redux { op, ty, abs, nan, dst, a, mask } => {
            exchange::redux(x, *op, *ty, *abs, *nan, *dst, *a, *mask);
            true
        }
        Inst::Elect { dst, elected, mask } => return exchange::elect(x, *dst, *elected, *mask),
        Inst::Mapa { shared, dst, a, rank } => return mapa(x, *shared, *dst, *a, *rank),
        Inst::CtaRank { shared, dst, a } => {
            for lane in lanes_of(x.mask()) {
                let address = x.get(*a, lane);
                let own = x.block().rank();
                let rank = if *shared {
                    (address as u32 >> memory::RANK_SHIFT).checked_sub(1).unwrap_or(own)
                } else {
                    x.block().peer_of(address).map_or(own, |(rank, _)| rank)
                };
                x.set(*dst, lane, rank.into());
            }
            true
        }
        Inst::CopyAsyncArrive { address, space, no_inc } => {
            return copy::arrive(x, *address, *space, *no_inc);
        }
        Inst::CopyTensor(it) => return copy::tensor::copy(x, it),
        Inst::CopyBulk(it) => return copy::bulk(x, it),
        Inst::Mbarrier(it) => return copy::mbarrier(x, it),
        Inst::Mma(it) => return matrix::mma(x, it),
        Inst::Wgmma(it) => return matrix::warpgroup::mma(x, it),
        Inst::WmmaMemory(it) => return matrix_memory::wmma(x, it),
        Inst::MatrixMemory { store, number, transposed, shape, space, registers, address } => {
            return matrix_memory::rows(
                x,
                *store,
                *number,
                *transposed,
                *shape,
                *space,
                registers,
                *address,
            );
        }
        Inst::MatrixTranspose { dst, a } => {
            matrix_memory::transpose(x, *dst, *a);
            true
        }
        Inst::Texture(it) => return sample::texture(x, it),
        Inst::Video(it) => {
            video::video(x, it);
            true
        }
        Inst::System { call, dst, arguments } => return system::call(x, *call, *dst, arguments),
        // What moves lanes is the warp's affair.
        Inst::Branch { .. }
        | Inst::BranchIndexed { .. }
        | Inst::Call { .. }
        | Inst::Return
        | Inst::Exit
        | Inst::Trap
        | Inst::Breakpoint
        | Inst::Barrier { .. }
        | Inst::WarpBarrier { .. }
        | Inst::ClusterArrive
        | Inst::ClusterWait
        | Inst::Pass
        | Inst::Yield => true,
    };
    if known { Ok(()) } else { x.illegal(format!("this form is not known: {inst:?}")) }
}

fn mov(x: &Context, ty: Ty, dst: Reg, src: Src) -> bool {
    match ty.bits() {
        1 => {
            let bits = match src {
                Src::Reg(register) => x.file().predicate(register),
                Src::Imm(0) => 0,
                Src::Imm(_) => u32::MAX,
            };
            x.file().set_predicate(dst, x.mask(), bits);
        }
        8 | 16 => map1::<u16, u16>(x.span, dst, src, |a| a),
        32 => map1::<u32, u32>(x.span, dst, src, |a| a),
        64 => map1::<u64, u64>(x.span, dst, src, |a| a),
        _ => map1::<u128, u128>(x.span, dst, src, |a| a),
    }
    true
}

fn pack(x: &Context, bits: u32, dst: Reg, parts: &[Src]) {
    if let ([low, high], 32) = (parts, bits) {
        let (mut room, mut other) = (Scratch::<u32>::new(), Scratch::<u32>::new());
        let low = x.file().cells::<u32>(*low, &mut room);
        let high = x.file().cells::<u32>(*high, &mut other);
        let out: [u64; LANES] =
            std::array::from_fn(|lane| u64::from(high[lane]) << 32 | u64::from(low[lane]));
        return x.file().put(dst, x.mask(), &out);
    }
    let mask = (1u128 << bits) - 1;
    for lane in lanes_of(x.mask()) {
        let whole = parts.iter().enumerate().fold(0u128, |whole, (index, &part)| {
            whole | (x.file().wide(part, lane) & mask) << (bits * index as u32)
        });
        x.file().set(dst, lane, whole);
    }
}

fn unpack(x: &Context, bits: u32, dsts: &[Option<Reg>], src: Src) {
    let mask = (1u128 << bits) - 1;
    for lane in lanes_of(x.mask()) {
        // Read whole first: a part may overwrite the source.
        let whole = x.file().wide(src, lane);
        for (index, dst) in dsts.iter().enumerate() {
            if let Some(dst) = dst {
                x.file().set(*dst, lane, whole >> (bits * index as u32) & mask);
            }
        }
    }
}

fn is_space(x: &Context, space: SpaceTest, dst: Reg, a: Src) {
    let mut bits = 0;
    for lane in lanes_of(x.mask()) {
        let address = x.get(a, lane);
        let frame = &x.block().frame;
        let within = |base: u64, bytes: u64| address.wrapping_sub(base) < bytes;
        let shared = within(frame.shared as u64, frame.shared_bytes.into());
        let cluster = x.block().peer_of(address).is_some();
        let warp = &x.warp().frame;
        let local = within(warp.local as u64, warp.local_stride * LANES as u64);
        let param = within(frame.params as u64, x.block().param_bytes());
        let mut constants = x.block().facts().kernel.constants.iter();
        let constant = constants.any(|&(first, bytes)| within(first, bytes));
        let yes = match space {
            SpaceTest::Shared => shared,
            SpaceTest::SharedCluster => shared || cluster,
            SpaceTest::Local => local,
            SpaceTest::Param => param,
            SpaceTest::Const => constant,
            SpaceTest::Global => !(shared || cluster || local || param || constant),
        };
        bits |= u32::from(yes) << lane;
    }
    x.file().set_predicate(dst, x.mask(), bits);
}

fn mapa(x: &Context, shared: bool, dst: Reg, a: Src, rank: Src) -> Outcome {
    for lane in lanes_of(x.mask()) {
        let (address, rank) = (x.get(a, lane), x.get(rank, lane) as u32);
        let own = (1u32 << memory::RANK_SHIFT) - 1;
        let block = x.block();
        let offset =
            if shared { address as u32 & own } else { block.shared_offset(address) as u32 & own };
        let marked = offset | (rank + 1) << memory::RANK_SHIFT;
        let Some(host) = block.peer_address(marked, 0) else {
            return Err(x.bad_address(lane, address, 0, None));
        };
        x.set(dst, lane, if shared { marked.into() } else { host });
    }
    Ok(())
}
