//! Which registers an instruction reads and which it writes.
//!
//! Every pass over lowered code asks here, so a new instruction is described once. The two
//! visitors, one to look and one to change, are the same text.

use crate::code::{Address, BarrierMode, Callee, Guard, Inst, Reg, Src, Step};

/// One operand of an instruction: where a register or constant stands.
pub(crate) enum Operand<S, R, G, A> {
    /// A value read.
    Read(S),
    /// A register read where no constant may stand.
    ReadRegister(R),
    /// A predicate read.
    Guard(G),
    /// The base of an address.
    Address(A),
    /// A result.
    Write(R),
}

/// An operand to look at.
pub(crate) type Seen<'a> = Operand<&'a Src, &'a Reg, &'a Guard, &'a Address>;
/// An operand to change.
pub(crate) type Changed<'a> = Operand<&'a mut Src, &'a mut Reg, &'a mut Guard, &'a mut Address>;

macro_rules! visitor {
    ($name:ident, $inst:ty, $place:ident, $life:lifetime, $unbox:ident, $text:literal) => {
        #[doc = $text]
        #[expect(clippy::too_many_lines, reason = "a table: the operands of each instruction")]
        pub(crate) fn $name<$life>(inst: $inst, visit: &mut dyn FnMut($place<$life>)) {
            use Operand::{Address, Guard, Read, ReadRegister, Write};
            match inst {
                Inst::Nop
                | Inst::Branch { .. }
                | Inst::Return
                | Inst::Exit
                | Inst::Trap
                | Inst::Breakpoint
                | Inst::ClusterArrive
                | Inst::ClusterWait
                | Inst::Fence
                | Inst::Pass
                | Inst::Yield => {}
                Inst::Mov { dst, src, .. } => {
                    visit(Read(src));
                    visit(Write(dst));
                }
                Inst::Special { dst, .. }
                | Inst::FrameAddress { dst, .. }
                | Inst::PredSet { dst, .. }
                | Inst::ActiveMask { dst } => visit(Write(dst)),
                Inst::Unary { dst, a, .. }
                | Inst::Testp { dst, a, .. }
                | Inst::Cvt { dst, a, .. }
                | Inst::ToGeneric { dst, a, .. }
                | Inst::FromGeneric { dst, a, .. }
                | Inst::IsSpace { dst, a, .. }
                | Inst::CtaRank { dst, a, .. }
                | Inst::MatrixTranspose { dst, a } => {
                    visit(Read(a));
                    visit(Write(dst));
                }
                Inst::Binary { dst, a, b, .. } | Inst::Mapa { dst, a, rank: b, .. } => {
                    visit(Read(a));
                    visit(Read(b));
                    visit(Write(dst));
                }
                Inst::Ternary { dst, a, b, c, .. } | Inst::Slct { dst, a, b, c, .. } => {
                    visit(Read(a));
                    visit(Read(b));
                    visit(Read(c));
                    visit(Write(dst));
                }
                Inst::Bfi { dst, insert, base, position, length, .. } => {
                    visit(Read(insert));
                    visit(Read(base));
                    visit(Read(position));
                    visit(Read(length));
                    visit(Write(dst));
                }
                Inst::Carry { dst, a, b, carry_in, carry_out, .. } => {
                    visit(Read(a));
                    visit(Read(b));
                    if let Some(flag) = carry_in {
                        visit(ReadRegister(flag));
                    }
                    visit(Write(dst));
                    if let Some(flag) = carry_out {
                        visit(Write(flag));
                    }
                }
                Inst::MadCarry { dst, a, b, c, carry_in, carry_out, .. } => {
                    visit(Read(a));
                    visit(Read(b));
                    visit(Read(c));
                    if let Some(flag) = carry_in {
                        visit(ReadRegister(flag));
                    }
                    visit(Write(dst));
                    if let Some(flag) = carry_out {
                        visit(Write(flag));
                    }
                }
                Inst::Setp { dst, not_dst, a, b, join, .. } => {
                    visit(Read(a));
                    visit(Read(b));
                    if let Some((_, with)) = join {
                        visit(Guard(with));
                    }
                    if let Some(dst) = dst {
                        visit(Write(dst));
                    }
                    if let Some(dst) = not_dst {
                        visit(Write(dst));
                    }
                }
                Inst::Set { dst, a, b, join, .. } => {
                    visit(Read(a));
                    visit(Read(b));
                    if let Some((_, with)) = join {
                        visit(Guard(with));
                    }
                    visit(Write(dst));
                }
                Inst::Select { dst, a, b, predicate, .. } => {
                    visit(Read(a));
                    visit(Read(b));
                    visit(Guard(predicate));
                    visit(Write(dst));
                }
                Inst::PredLogic { dst, a, b, .. } => {
                    visit(Guard(a));
                    visit(Guard(b));
                    visit(Write(dst));
                }
                Inst::PredCopy { dst, a } => {
                    visit(Guard(a));
                    visit(Write(dst));
                }
                Inst::CvtPack { dst, a, b, c, .. } | Inst::CvtPackInt { dst, a, b, c, .. } => {
                    visit(Read(a));
                    visit(Read(b));
                    if let Some(c) = c {
                        visit(Read(c));
                    }
                    visit(Write(dst));
                }
                Inst::CvtFour { dst, parts, random, .. } => {
                    for part in parts {
                        visit(Read(part));
                    }
                    visit(Read(random));
                    visit(Write(dst));
                }
                Inst::Pack { dst, parts, .. } => {
                    for part in parts {
                        visit(Read(part));
                    }
                    visit(Write(dst));
                }
                Inst::Unpack { dsts, src, .. } => {
                    visit(Read(src));
                    for dst in dsts.into_iter().flatten() {
                        visit(Write(dst));
                    }
                }
                Inst::Load { dsts, address, .. } => {
                    visit(Address(address));
                    for dst in dsts.into_iter().flatten() {
                        visit(Write(dst));
                    }
                }
                Inst::Store { srcs, address, .. } => {
                    visit(Address(address));
                    for src in srcs {
                        visit(Read(src));
                    }
                }
                Inst::Atom { dsts, address, values, compare, .. } => {
                    visit(Address(address));
                    for value in values {
                        visit(Read(value));
                    }
                    if let Some(compare) = compare {
                        visit(Read(compare));
                    }
                    for dst in dsts {
                        visit(Write(dst));
                    }
                }
                Inst::BranchIndexed { index, .. } => visit(ReadRegister(index)),
                Inst::Call { callee, .. } => {
                    if let Callee::Indirect(register) = callee {
                        visit(ReadRegister(register));
                    }
                }
                Inst::Barrier { mode, id, threads, .. } => {
                    visit(Read(id));
                    if let Some(threads) = threads {
                        visit(Read(threads));
                    }
                    match mode {
                        BarrierMode::Sync | BarrierMode::Arrive => {}
                        BarrierMode::RedPopc(dst, predicate)
                        | BarrierMode::RedAnd(dst, predicate)
                        | BarrierMode::RedOr(dst, predicate) => {
                            visit(Guard(predicate));
                            visit(Write(dst));
                        }
                    }
                }
                Inst::WarpBarrier { mask } => visit(Read(mask)),
                Inst::Shuffle { dst, in_range, a, b, c, mask, .. } => {
                    visit(Read(a));
                    visit(Read(b));
                    visit(Read(c));
                    if let Some(mask) = mask {
                        visit(Read(mask));
                    }
                    visit(Write(dst));
                    if let Some(dst) = in_range {
                        visit(Write(dst));
                    }
                }
                Inst::Vote { dst, a, mask, .. } => {
                    visit(Guard(a));
                    if let Some(mask) = mask {
                        visit(Read(mask));
                    }
                    visit(Write(dst));
                }
                Inst::Match { dst, all_equal, a, mask, .. } => {
                    visit(Read(a));
                    visit(Read(mask));
                    visit(Write(dst));
                    if let Some(dst) = all_equal {
                        visit(Write(dst));
                    }
                }
                Inst::Redux { dst, a, mask, .. } => {
                    visit(Read(a));
                    visit(Read(mask));
                    visit(Write(dst));
                }
                Inst::Elect { dst, elected, mask } => {
                    visit(Read(mask));
                    if let Some(dst) = dst {
                        visit(Write(dst));
                    }
                    visit(Write(elected));
                }
                Inst::CopyAsyncArrive { address, .. } => visit(Address(address)),
                Inst::Mbarrier(it) => {
                    let crate::code::Mbarrier { address, dst, value, count, .. } = it.$unbox();
                    visit(Address(address));
                    if let Some(value) = value {
                        visit(Read(value));
                    }
                    if let Some(count) = count {
                        visit(Read(count));
                    }
                    if let Some(dst) = dst {
                        visit(Write(dst));
                    }
                }
                Inst::CopyTensor(it) => {
                    let crate::code::CopyTensor {
                        map, coordinates, shared, mbarrier, blocks, ..
                    } = it.$unbox();
                    let (_, map) = map;
                    visit(Address(map));
                    for coordinate in coordinates {
                        visit(Read(coordinate));
                    }
                    visit(Address(shared));
                    if let Some(mbarrier) = mbarrier {
                        visit(Address(mbarrier));
                    }
                    if let Some(blocks) = blocks {
                        visit(Read(blocks));
                    }
                }
                Inst::CopyBulk(it) => {
                    let crate::code::CopyBulk { dst, src, size, mbarrier, blocks, .. } =
                        it.$unbox();
                    let ((_, dst), (_, src)) = (dst, src);
                    visit(Address(dst));
                    visit(Address(src));
                    visit(Read(size));
                    if let Some(mbarrier) = mbarrier {
                        visit(Address(mbarrier));
                    }
                    if let Some(blocks) = blocks {
                        visit(Read(blocks));
                    }
                }
                Inst::Mma(it) => {
                    let crate::code::Mma { sparse, scales, d, a, b, c, .. } = it.$unbox();
                    for part in a {
                        visit(Read(part));
                    }
                    for part in b {
                        visit(Read(part));
                    }
                    for part in c {
                        visit(Read(part));
                    }
                    if let Some((metadata, selector)) = sparse {
                        visit(Read(metadata));
                        visit(Read(selector));
                    }
                    if let Some(crate::code::Scales { sources, .. }) = scales {
                        for crate::code::ScaleSource { word, byte, lane } in sources {
                            visit(Read(word));
                            visit(Read(byte));
                            visit(Read(lane));
                        }
                    }
                    for part in d {
                        visit(Write(part));
                    }
                }
                Inst::Wgmma(it) => {
                    let crate::code::Wgmma { d, c, accumulates, a, b, .. } = it.$unbox();
                    for value in c {
                        visit(Read(value));
                    }
                    for value in a {
                        visit(Read(value));
                    }
                    visit(Read(b));
                    visit(Guard(accumulates));
                    for register in d {
                        visit(Write(register));
                    }
                }
                Inst::WmmaMemory(it) => {
                    let crate::code::WmmaMemory { store, address, stride, registers, .. } =
                        it.$unbox();
                    visit(Address(address));
                    if let Some(stride) = stride {
                        visit(Read(stride));
                    }
                    for register in registers {
                        visit(if *store { ReadRegister(register) } else { Write(register) });
                    }
                }
                Inst::MatrixMemory { store, registers, address, .. } => {
                    visit(Address(address));
                    for register in registers {
                        visit(if *store { ReadRegister(register) } else { Write(register) });
                    }
                }
                Inst::Texture(it) => {
                    let crate::code::Texture {
                        handle,
                        sampler,
                        coordinates,
                        extra,
                        dsts,
                        srcs,
                        ..
                    } = it.$unbox();
                    visit(Read(handle));
                    if let Some(sampler) = sampler {
                        visit(Read(sampler));
                    }
                    for src in coordinates {
                        visit(Read(src));
                    }
                    for src in extra {
                        visit(Read(src));
                    }
                    for src in srcs {
                        visit(Read(src));
                    }
                    for dst in dsts.into_iter().flatten() {
                        visit(Write(dst));
                    }
                }
                Inst::Video(it) => {
                    let crate::code::Video { dst, a, b, c, .. } = it.$unbox();
                    visit(Read(a));
                    visit(Read(b));
                    visit(Read(c));
                    visit(Write(dst));
                }
                Inst::System { dst, arguments, .. } => {
                    for argument in arguments {
                        visit(Read(argument));
                    }
                    if let Some(dst) = dst {
                        visit(Write(dst));
                    }
                }
            }
        }
    };
}

visitor!(look, &'a Inst, Seen, 'a, as_ref, "Shows every register and constant, what is read before what is written.");
visitor!(change, &'a mut Inst, Changed, 'a, as_mut, "The same, to be changed in place.");

/// Registers the step reads, its guard among them.
pub(crate) fn reads(step: &Step, visit: &mut dyn FnMut(Reg)) {
    if let Some(guard) = step.guard {
        visit(guard.predicate);
    }
    look(&step.inst, &mut |place| match place {
        Operand::Read(Src::Reg(register)) => visit(*register),
        Operand::Address(Address { base: Src::Reg(register), .. }) => visit(*register),
        Operand::ReadRegister(register) => visit(*register),
        Operand::Guard(guard) => visit(guard.predicate),
        Operand::Read(_) | Operand::Address(_) | Operand::Write(_) => {}
    });
}

/// Registers the step writes.
pub(crate) fn writes(step: &Step, visit: &mut dyn FnMut(Reg)) {
    look(&step.inst, &mut |place| {
        if let Operand::Write(register) = place {
            visit(*register);
        }
    });
}
