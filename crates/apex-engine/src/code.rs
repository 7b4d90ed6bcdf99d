//! The lowered form of a kernel: what both tiers execute.
//!
//! Lowering turns PTX text into this once; the interpreter walks it, the compiler
//! translates it, and a warp can change from one to the other at any [`Pc`], because
//! both keep registers at the offsets that stand here. Everything a name could mean
//! is settled: registers are numbers, variables are addresses, special registers are
//! instructions of their own, types are on the instruction and never on the register.
//!
//! What always holds:
//! * A register of class [`Class::B16`] lies in a 32-bit lane with its upper half zero,
//!   8-bit values too. A predicate is one bit per lane in a `u32`.
//! * An immediate holds the bits of its operand's type, zero-extended to 64.
//! * Only the last step of a [`Block`] may jump, and every target begins a block. Barriers
//!   (block-wide, cluster), calls and their like end their block too, so that a warp can
//!   stop there and enter again at the start of the next.
//! * A step whose guard is false for a lane changes nothing for that lane.

use std::collections::BTreeMap;
use std::ops::Range;

/// Index of a step in [`Code::steps`].
pub type Pc = u32;

/// Lanes of a warp. A narrow kernel (see [`Code::width`]) leaves the upper half empty.
pub const LANES: usize = 32;

/// A register: index into [`Code::registers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(pub u32);

/// How a register is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// One bit per lane, 4 bytes in all.
    Pred,
    /// 8- and 16-bit values, zero-extended in 32-bit lanes: 128 bytes.
    B16,
    /// 32-bit lanes: 128 bytes.
    B32,
    /// 64-bit lanes: 256 bytes.
    B64,
    /// 128-bit lanes: 512 bytes.
    B128,
}

impl Class {
    /// Bytes of one lane; a predicate has none of its own.
    pub const fn lane_bytes(self) -> usize {
        match self {
            Class::Pred => 0,
            Class::B16 | Class::B32 => 4,
            Class::B64 => 8,
            Class::B128 => 16,
        }
    }

    /// Bytes in a warp's register file.
    pub const fn file_bytes(self) -> usize {
        match self {
            Class::Pred => 4,
            other => other.lane_bytes() * LANES,
        }
    }
}

/// A register's class and its byte offset in the warp's register file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Register {
    /// How it is stored.
    pub class: Class,
    /// Where: a multiple of 4 for predicates, of 64 for all others.
    pub offset: u32,
}

/// What an instruction reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Src {
    /// A register.
    Reg(Reg),
    /// Bits of the operand's type, zero-extended.
    Imm(u64),
}

/// A predicate, perhaps negated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Guard {
    /// The predicate register.
    pub predicate: Reg,
    /// True when the lanes whose bit is clear are meant.
    pub negated: bool,
}

/// One instruction with what every instruction has.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Lanes that take part; `None` means all active ones.
    pub guard: Option<Guard>,
    /// What is done.
    pub inst: Inst,
    /// Line in the PTX text, from 1; 0 where lowering made the step.
    pub line: u32,
}

/// A run of steps that is entered at its start and left at its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Its steps.
    pub steps: Range<Pc>,
    /// Blocks that may follow (fall-through first). Empty after `Exit`, `Return`, `Trap`.
    pub successors: Vec<u32>,
    /// Where all ways from here meet again (immediate post-dominator); `None` when only at the end.
    pub meets: Option<u32>,
    /// Registers alive at its start.
    pub live_in: Vec<Reg>,
}

/// A kernel's whole code, with the functions it calls and did not take in.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Code {
    /// All steps. Execution of the kernel begins at 0.
    pub steps: Vec<Step>,
    /// Blocks by rising `steps.start`, covering all steps. They stand in an order in which
    /// lanes that wait for others to catch up wait at the higher one: a loop's blocks come
    /// before what follows the loop, an `if`'s before where its ways meet.
    pub blocks: Vec<Block>,
    /// All registers.
    pub registers: Vec<Register>,
    /// Bytes of one warp's register file.
    pub file_bytes: u32,
    /// Lanes in use per warp: 32, or 16 where no step can tell (no shuffle, vote, lane or
    /// warp number, warp barrier, matrix instruction): then addresses are more regular.
    pub width: u32,
    /// Bytes of local memory per lane, the kernel's own frame.
    pub local_bytes: u32,
    /// Bytes of local memory per lane for frames of called functions; 0 when all were taken in.
    pub stack_bytes: u32,
    /// What local memory of a lane begins at a multiple of: 16, or more where a variable wants it.
    pub local_align: u32,
    /// Entry of each function that can be called by address, by its number in the module; the
    /// value of a function's address is that number plus [`FUNCTION_BASE`].
    pub functions: BTreeMap<usize, Pc>,
}

impl Code {
    /// Bytes from one lane's local memory to the next one's.
    pub(crate) fn local_stride(&self) -> usize {
        let bytes = self.local_bytes as usize + self.stack_bytes as usize;
        bytes.next_multiple_of(self.local_align.max(16) as usize)
    }
}

/// Added to a function's index to make its address: never a host address.
pub const FUNCTION_BASE: u64 = 0x0F00_0000_0000_0000;

/// Types as they stand on instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PTX's own names")]
pub enum Ty {
    Pred,
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    F32,
    F32x2,
    F64,
    U16x2,
    S16x2,
    Tf32,
    E4m3,
    E5m2,
    E4m3x2,
    E5m2x2,
    E2m3x2,
    E3m2x2,
    E2m1x2,
    S2f6x2,
    Ue8m0x2,
}

impl Ty {
    /// Width in bits (predicates: 1).
    pub const fn bits(self) -> u32 {
        match self {
            Ty::Pred => 1,
            Ty::B8 | Ty::U8 | Ty::S8 | Ty::E4m3 | Ty::E5m2 | Ty::E2m1x2 => 8,
            Ty::B16 | Ty::U16 | Ty::S16 | Ty::F16 | Ty::Bf16 => 16,
            Ty::E4m3x2 | Ty::E5m2x2 | Ty::E2m3x2 | Ty::E3m2x2 => 16,
            Ty::S2f6x2 | Ty::Ue8m0x2 => 16,
            Ty::B32 | Ty::U32 | Ty::S32 | Ty::F32 | Ty::F16x2 | Ty::Bf16x2 => 32,
            Ty::U16x2 | Ty::S16x2 | Ty::Tf32 => 32,
            Ty::B64 | Ty::U64 | Ty::S64 | Ty::F64 | Ty::F32x2 => 64,
            Ty::B128 => 128,
        }
    }

    /// True for signed integers.
    pub const fn signed(self) -> bool {
        matches!(self, Ty::S8 | Ty::S16 | Ty::S32 | Ty::S64 | Ty::S16x2)
    }

    /// True for every floating type.
    pub const fn float(self) -> bool {
        !matches!(
            self,
            Ty::Pred
                | Ty::B8
                | Ty::B16
                | Ty::B32
                | Ty::B64
                | Ty::B128
                | Ty::U8
                | Ty::U16
                | Ty::U32
                | Ty::U64
                | Ty::S8
                | Ty::S16
                | Ty::S32
                | Ty::S64
                | Ty::U16x2
                | Ty::S16x2
        )
    }

    /// The class of a register that holds one value of this type.
    pub const fn class(self) -> Class {
        match self.bits() {
            1 => Class::Pred,
            8 | 16 => Class::B16,
            32 => Class::B32,
            64 => Class::B64,
            _ => Class::B128,
        }
    }
}

/// Rounding of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs, reason = "PTX's own names")]
pub enum Rounding {
    /// To nearest, ties to even: floating default.
    #[default]
    Rn,
    Rz,
    Rm,
    Rp,
    /// To nearest, ties away from zero (`cvt.rna.tf32`).
    Rna,
    /// Stochastic (`cvt.rs`), with the random bits in the last operand.
    Rs,
    /// To an integral value, to nearest even (`cvt.rni`).
    Rni,
    Rzi,
    Rmi,
    Rpi,
}

/// What modifies an arithmetic result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Mode {
    /// Rounding of floating results.
    pub rounding: Rounding,
    /// Subnormal inputs and results become zero of the same sign.
    pub ftz: bool,
    /// Floating: clamp to [0, 1], NaN to 0. Integer `add`/`sub`: clamp to the type. `cvt`: clamp to the
    /// destination (`satfinite` too).
    pub sat: bool,
    /// Negative results and -0 become 0; NaN becomes canonical (`fma.relu`, `cvt.relu`).
    pub relu: bool,
    /// `min`/`max`: NaN wins.
    pub nan: bool,
    /// `min`/`max.xorsign.abs`: magnitudes are compared, signs xored.
    pub xorsign_abs: bool,
}

/// One operand in, one result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PTX's own names")]
pub enum UnaryOp {
    Neg,
    Abs,
    Not,
    Cnot,
    Popc,
    Clz,
    Brev,
    Bfind,
    BfindShift,
    /// `rcp.rn` and the other exact roundings.
    Rcp,
    RcpApprox,
    Sqrt,
    SqrtApprox,
    RsqrtApprox,
    SinApprox,
    CosApprox,
    Lg2Approx,
    Ex2Approx,
    TanhApprox,
}

/// Two operands in. For integers `Mul` is `mul.lo`; `MulWide`'s result has twice the width of `ty`.
/// Shift counts are 32-bit; `Shl`/`Shr` by the width or more give 0 or the sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PTX's own names")]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    MulHi,
    MulWide,
    Mul24Lo,
    Mul24Hi,
    Div,
    /// `div.approx` (f32).
    DivApprox,
    /// `div.full` (f32).
    DivFull,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    /// `copysign d, a, b`: the sign of `a`, the magnitude of `b`.
    Copysign,
    BmskClamp,
    BmskWrap,
    SzextClamp,
    SzextWrap,
}

/// Three operands in. For integers `Mad` is `mad.lo`; `MadWide`'s result and `c` have twice the width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PTX's own names")]
pub enum TernaryOp {
    Mad,
    MadHi,
    /// `mad.hi.sat.s32`.
    MadHiSat,
    MadWide,
    Mad24Lo,
    Mad24Hi,
    Mad24HiSat,
    Fma,
    Sad,
    /// `bfe d, a, position, length`.
    Bfe,
    ShfLeftClamp,
    ShfLeftWrap,
    ShfRightClamp,
    ShfRightWrap,
    /// Three-operand `min`/`max` of newer chips.
    Min3,
    Max3,
    Prmt(PrmtMode),
    /// `lop3` with its table.
    Lop3(u8),
    /// `dp4a`/`dp2a`: signedness of `a` and of `b`.
    Dp4a(bool, bool),
    /// `dp2a` with `hi`.
    #[allow(missing_docs, reason = "as above")]
    Dp2a {
        a_signed: bool,
        b_signed: bool,
        high: bool,
    },
}

/// How `prmt` picks bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PTX's own names")]
pub enum PrmtMode {
    Index,
    F4e,
    B4e,
    Rc8,
    Ecl,
    Ecr,
    Rc16,
}

/// Comparisons; the unordered ones are true when an operand is NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PTX's own names")]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    /// Both are numbers.
    Num,
    /// One is NaN.
    Nan,
}

/// How a comparison is joined with a predicate, and predicates with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PTX's own names")]
pub enum Join {
    And,
    Or,
    Xor,
}

/// Where an address points. Constant variables lie in host memory and are `Global`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// A host address; shared and local memory have host addresses too.
    Generic,
    /// A host address.
    Global,
    /// Offset in the block's shared memory, 32 bits. Static variables first, then the dynamic part.
    Shared,
    /// Offset in the lane's local memory.
    Local,
    /// Offset in the launch's parameters.
    Param,
}

/// `base + offset` in a space. A base of 32 bits is zero-extended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    /// A register (32 or 64 bits) or a constant.
    pub base: Src,
    /// Added to it, wrapping.
    pub offset: i64,
}

/// Order of a memory access. Scopes are not kept: all cores share one coherent memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs, reason = "PTX's own names")]
pub enum Order {
    #[default]
    Weak,
    /// `volatile`, `relaxed`, `mmio`: never joined, never torn.
    Relaxed,
    Acquire,
    Release,
    AcqRel,
    SeqCst,
}

/// Read-modify-write operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PTX's own names")]
pub enum AtomOp {
    And,
    Or,
    Xor,
    Add,
    Min,
    Max,
    /// Wraps to 0 above the operand.
    Inc,
    /// Wraps to the operand below 0.
    Dec,
    Exch,
    Cas,
}

/// What a special register holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PTX's own names; the number is the axis")]
pub enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    Laneid,
    Warpid,
    Nwarpid,
    Smid,
    Nsmid,
    Gridid,
    LanemaskEq,
    LanemaskLe,
    LanemaskLt,
    LanemaskGe,
    LanemaskGt,
    Clock,
    ClockHi,
    Clock64,
    Globaltimer,
    GlobaltimerLo,
    GlobaltimerHi,
    DynamicSharedBytes,
    TotalSharedBytes,
    /// `%envregN`; 1 and 2 carry the grid's workspace for cooperative launches.
    Envreg(u8),
    Clusterid(u8),
    Nclusterid(u8),
    ClusterCtaid(u8),
    ClusterNctaid(u8),
    ClusterCtarank,
    ClusterNctarank,
    IsExplicitCluster,
    /// `%pmN`, `%reserved_smem_offset…` and others that read as zero here.
    Zero,
}

/// How a shuffle picks its source lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PTX's own names")]
pub enum ShuffleMode {
    Up,
    Down,
    Bfly,
    Idx,
}

/// What a vote gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PTX's own names")]
pub enum VoteMode {
    All,
    Any,
    Uni,
    Ballot,
}

/// What a block-wide barrier does beside waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BarrierMode {
    /// Waits.
    Sync,
    /// Is counted and goes on.
    Arrive,
    /// Waits and counts the lanes whose predicate holds.
    RedPopc(Reg, Guard),
    /// Waits; true when the predicate holds for all.
    RedAnd(Reg, Guard),
    /// Waits; true when it holds for one.
    RedOr(Reg, Guard),
}

/// Functions every program finds on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SystemCall {
    /// `vprintf(format, arguments) -> i32`.
    Vprintf,
    /// `malloc(bytes) -> pointer`.
    Malloc,
    /// `free(pointer)`.
    Free,
    /// `__assertfail(message, file, line, function, char size)`.
    AssertFail,
}

/// Whom a call goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Callee {
    /// A function in this code.
    Direct(Pc),
    /// By address ([`FUNCTION_BASE`]), each lane its own.
    Indirect(Reg),
}

/// What is done.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the line above a variant says what its fields are")]
pub enum Inst {
    /// Nothing: `prefetch`, `griddepcontrol`, `setmaxnreg`, hints, and what lowering took away.
    Nop,
    /// Copies the bits of `ty`'s width; `Pred` too.
    Mov { ty: Ty, dst: Reg, src: Src },
    /// Reads a special register into a 32- or 64-bit register (zero-extended).
    Special { dst: Reg, which: Special },
    /// `dst` = host address or offset of the lane's own frame plus `offset`: 0-based in the kernel itself,
    /// above it in called functions.
    FrameAddress { dst: Reg, offset: u32 },
    /// See [`UnaryOp`].
    Unary { op: UnaryOp, ty: Ty, mode: Mode, dst: Reg, a: Src },
    /// See [`BinaryOp`].
    Binary { op: BinaryOp, ty: Ty, mode: Mode, dst: Reg, a: Src, b: Src },
    /// See [`TernaryOp`].
    Ternary { op: TernaryOp, ty: Ty, mode: Mode, dst: Reg, a: Src, b: Src, c: Src },
    /// `bfi dst, insert, base, position, length`.
    Bfi { ty: Ty, dst: Reg, insert: Src, base: Src, position: Src, length: Src },
    /// `add`/`sub` with carry; predicates carry the flag. After `sub` it says that nothing was borrowed.
    Carry {
        sub: bool,
        ty: Ty,
        dst: Reg,
        a: Src,
        b: Src,
        carry_in: Option<Reg>,
        carry_out: Option<Reg>,
    },
    /// `mad.lo/hi` with carry.
    MadCarry {
        high: bool,
        ty: Ty,
        dst: Reg,
        a: Src,
        b: Src,
        c: Src,
        carry_in: Option<Reg>,
        carry_out: Option<Reg>,
    },
    /// `setp`: `dst = (a ? b) join with`, `not_dst = !(a ? b) join with`. For `f16x2` the two halves go to
    /// `dst` and `not_dst`.
    Setp {
        compare: Compare,
        ty: Ty,
        ftz: bool,
        dst: Option<Reg>,
        not_dst: Option<Reg>,
        a: Src,
        b: Src,
        join: Option<(Join, Guard)>,
    },
    /// `set`: all ones or 1.0 of type `to`, else 0.
    Set {
        compare: Compare,
        ty: Ty,
        to: Ty,
        ftz: bool,
        dst: Reg,
        a: Src,
        b: Src,
        join: Option<(Join, Guard)>,
    },
    /// `selp dst, a, b, p`.
    Select { ty: Ty, dst: Reg, a: Src, b: Src, predicate: Guard },
    /// `slct`: `a` where `c` >= 0 (`by` is `S32` or `F32`).
    Slct { ty: Ty, by: Ty, ftz: bool, dst: Reg, a: Src, b: Src, c: Src },
    /// `testp`: finite, infinite, number, notanumber, normal, subnormal.
    Testp { test: FloatTest, ty: Ty, dst: Reg, a: Src },
    /// `and`/`or`/`xor` of predicates.
    PredLogic { join: Join, dst: Reg, a: Guard, b: Guard },
    /// `not.pred`, `mov.pred` with negation.
    PredCopy { dst: Reg, a: Guard },
    /// A predicate set for all lanes alike.
    PredSet { dst: Reg, value: bool },
    /// `cvt` with one source.
    Cvt { to: Ty, from: Ty, mode: Mode, dst: Reg, a: Src },
    /// `cvt.f16x2.f32 d, a, b` and its like: `a` into the upper half. `c` is the random bits of `.rs`. From pairs of small
    /// floats `b` is their scales.
    CvtPack { to: Ty, from: Ty, mode: Mode, dst: Reg, a: Src, b: Src, c: Option<Src> },
    /// `cvt.rs.e4m3x4.f32 d, {a, b, e, f}, random` and its like: `to` names a pair of the format.
    CvtFour { to: Ty, mode: Mode, dst: Reg, parts: Vec<Src>, random: Src },
    /// Integer `cvt.pack.sat`: `a` and `b` into the low parts above which `c` is shifted.
    CvtPackInt { to: Ty, from: Ty, dst: Reg, a: Src, b: Src, c: Option<Src> },
    /// `mov.b64 d, {a, b}`: parts of `part` bits, the first lowest.
    Pack { part: Ty, dst: Reg, parts: Vec<Src> },
    /// `mov.b64 {a, b}, s`.
    Unpack { part: Ty, dsts: Vec<Option<Reg>>, src: Src },
    /// Loads `dsts.len()` consecutive values; narrower than the register: sign- or zero-extended by `ty`.
    Load { space: Space, ty: Ty, order: Order, dsts: Vec<Option<Reg>>, address: Address },
    /// Stores consecutive values, truncated to `ty`.
    Store { space: Space, ty: Ty, order: Order, srcs: Vec<Src>, address: Address },
    /// `atom` (with `dst`) and `red`. Vectors of `red.v2.f32` and its like have several values.
    Atom {
        op: AtomOp,
        space: Space,
        ty: Ty,
        order: Order,
        dsts: Vec<Reg>,
        address: Address,
        values: Vec<Src>,
        compare: Option<Src>,
        ftz: bool,
    },
    /// `cvta`: an offset in `space` becomes a host address.
    ToGeneric { space: Space, dst: Reg, a: Src },
    /// `cvta.to`: a host address becomes an offset in `space`.
    FromGeneric { space: Space, dst: Reg, a: Src },
    /// `isspacep`. `Param` and const are told apart by [`SpaceTest`].
    IsSpace { space: SpaceTest, dst: Reg, a: Src },
    /// Jumps; conditional by the step's guard, then the next block is the other way.
    Branch { target: Pc },
    /// `brx.idx`.
    BranchIndexed { index: Reg, targets: Vec<Pc> },
    /// Calls; the lane continues after this step. `save` lists registers to keep over a recursive call,
    /// `frame` the bytes of the caller's local frame.
    Call { callee: Callee, save: Vec<Reg>, frame: u32 },
    /// Back to the caller; from the kernel itself: the end of the lane.
    Return,
    /// The end of the lane.
    Exit,
    /// A fault.
    Trap,
    /// `brkpt`: a fault that says so.
    Breakpoint,
    /// A block-wide barrier. `threads` is a count, or all of the block.
    Barrier { mode: BarrierMode, id: Src, threads: Option<Src>, aligned: bool },
    /// `bar.warp.sync mask`.
    WarpBarrier { mask: Src },
    /// `barrier.cluster.arrive/wait`.
    ClusterArrive,
    /// Waits for the cluster's blocks.
    ClusterWait,
    /// `membar`, `fence`.
    Fence,
    /// `shfl`; `mask` is `None` in the form without `.sync`. `c` packs clamp and segment mask.
    Shuffle {
        mode: ShuffleMode,
        dst: Reg,
        in_range: Option<Reg>,
        a: Src,
        b: Src,
        c: Src,
        mask: Option<Src>,
    },
    /// `vote`; the result is a predicate, or 32 bits for `Ballot`.
    Vote { mode: VoteMode, dst: Reg, a: Guard, mask: Option<Src> },
    /// `match.any/all`.
    Match { all: bool, ty: Ty, dst: Reg, all_equal: Option<Reg>, a: Src, mask: Src },
    /// `activemask`.
    ActiveMask { dst: Reg },
    /// `redux.sync`.
    Redux { op: AtomOp, ty: Ty, abs: bool, nan: bool, dst: Reg, a: Src, mask: Src },
    /// `elect.sync d|p, mask`.
    Elect { dst: Option<Reg>, elected: Reg, mask: Src },
    /// `nanosleep`: lets the others go on.
    Yield,
    /// The other warps of the block have their turn; see `lower::turns`.
    Pass,
    /// `cp.async.mbarrier.arrive`.
    CopyAsyncArrive { address: Address, space: Space, no_inc: bool },
    /// `mbarrier.*`.
    Mbarrier(Box<Mbarrier>),
    /// `cp.async.bulk`, plain, global ↔ shared ↔ shared of the cluster.
    CopyBulk(Box<CopyBulk>),
    /// `cp.async.bulk.tensor`.
    CopyTensor(Box<CopyTensor>),
    /// `mapa`: the address of a shared variable in another block of the cluster.
    Mapa { shared: bool, dst: Reg, a: Src, rank: Src },
    /// `getctarank`.
    CtaRank { shared: bool, dst: Reg, a: Src },
    /// `mma`, `wmma.mma`.
    Mma(Box<Mma>),
    /// `wgmma.mma_async`.
    Wgmma(Box<Wgmma>),
    /// `wmma.load`/`wmma.store`.
    WmmaMemory(Box<WmmaMemory>),
    /// `ldmatrix`, `stmatrix`.
    MatrixMemory {
        store: bool,
        number: u8,
        transposed: bool,
        shape: MatrixShape,
        space: Space,
        registers: Vec<Reg>,
        address: Address,
    },
    /// `movmatrix.sync.aligned.m8n8.trans.b16`.
    MatrixTranspose { dst: Reg, a: Src },
    /// `tex`, `tld4`, `txq`, `suld`, `sust`, `sured`, `suq`.
    Texture(Box<Texture>),
    /// Video instructions on 32 bits.
    Video(Box<Video>),
    /// A function of the device's own library.
    System { call: SystemCall, dst: Option<Reg>, arguments: Vec<Src> },
}

/// What `testp` asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PTX's own names")]
pub enum FloatTest {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

/// What `isspacep` asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PTX's own names")]
pub enum SpaceTest {
    Global,
    Shared,
    SharedCluster,
    Local,
    Const,
    Param,
}

/// `mbarrier` instructions. The object is 64 bits in shared memory; its layout is the interpreter's.
#[derive(Debug, Clone, PartialEq)]
pub struct Mbarrier {
    /// Which.
    pub op: MbarrierOp,
    /// `Shared`, or `Generic`.
    pub space: Space,
    /// The object.
    pub address: Address,
    /// Result: the state, or the predicate of a test.
    pub dst: Option<Reg>,
    /// Count of arrivals or of bytes, the state, or the parity.
    pub value: Option<Src>,
    /// Second value: bytes of `arrive.expect_tx` is in `value`.
    pub count: Option<Src>,
}

/// Which `mbarrier` instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PTX's own names")]
pub enum MbarrierOp {
    Init,
    Inval,
    Arrive,
    ArriveDrop,
    ArriveExpectTx,
    ArriveDropExpectTx,
    ExpectTx,
    CompleteTx,
    TestWait,
    TestWaitParity,
    /// May wait: the lane yields and tries again.
    TryWait,
    TryWaitParity,
    PendingCount,
}

impl MbarrierOp {
    /// Asks whether a phase is over; lanes that ask in vain let others go first.
    #[must_use]
    pub fn waits(self) -> bool {
        matches!(
            self,
            MbarrierOp::TestWait
                | MbarrierOp::TestWaitParity
                | MbarrierOp::TryWait
                | MbarrierOp::TryWaitParity
        )
    }
}

/// `cp.async.bulk` and `cp.reduce.async.bulk`: done at once; a barrier is told the bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyBulk {
    /// Where to, and how that address is meant.
    pub dst: (Space, Address),
    /// Where from.
    pub src: (Space, Address),
    /// Bytes.
    pub size: Src,
    /// The barrier in shared memory that is told.
    pub mbarrier: Option<Address>,
    /// The blocks of the cluster that get it, one bit each.
    pub blocks: Option<Src>,
    /// Combined with what is there.
    pub reduce: Option<(AtomOp, Ty)>,
}

/// `cp.async.bulk.tensor` and `cp.reduce.async.bulk.tensor` of tiles: done at once; a barrier is told the bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyTensor {
    /// From the tensor to shared memory.
    pub load: bool,
    /// The tensor's map.
    pub map: (Space, Address),
    /// Of the box's first element, from dimension 0 on.
    pub coordinates: Vec<Src>,
    /// The box in shared memory.
    pub shared: Address,
    /// The barrier in shared memory that is told.
    pub mbarrier: Option<Address>,
    /// The blocks of the cluster that get it, one bit each.
    pub blocks: Option<Src>,
    /// Combined with what is there.
    pub reduce: Option<AtomOp>,
}

/// A matrix product held by a warp: `d = a * b + c`.
#[derive(Debug, Clone, PartialEq)]
pub struct Mma {
    /// True for `wmma.mma`, whose fragments are laid out as [`WmmaMemory`] does.
    pub wmma: bool,
    /// M, N, K.
    pub shape: (u16, u16, u16),
    /// True where `a` (and `b`) are in row order as written: (`row`, `col`) is (true, false).
    pub layout: (bool, bool),
    /// Element types of d, a, b, c; small ones packed into 32-bit registers.
    pub types: [MmaType; 4],
    /// `.satfinite`.
    pub satfinite: bool,
    /// `.xor.popc` / `.and.popc` of 1-bit products.
    pub bit_op: Option<Join>,
    /// Rounding of f64 forms.
    pub rounding: Rounding,
    /// Sparse: the metadata and the selector.
    pub sparse: Option<(Src, Src)>,
    /// Scales of blocks of the factors.
    pub scales: Option<Scales>,
    /// Fragments.
    pub d: Vec<Reg>,
    /// Left factor.
    pub a: Vec<Src>,
    /// Right factor.
    pub b: Vec<Src>,
    /// Added.
    pub c: Vec<Src>,
}

/// A matrix product held by four warps, `d = a * b + c`, or `d = a * b`; each warp has 16 of the 64 rows. Done at once,
/// which its order allows.
#[derive(Debug, Clone, PartialEq)]
pub struct Wgmma {
    /// M, N, K.
    pub shape: (u16, u16, u16),
    /// Element types of d, a and b.
    pub types: [MmaType; 3],
    /// `.satfinite`.
    pub satfinite: bool,
    /// The sum, and what it was before.
    pub d: Vec<Reg>,
    /// The same registers.
    pub c: Vec<Src>,
    /// Whether the sum before counts.
    pub accumulates: Guard,
    /// The left factor: a fragment of four registers, or a descriptor.
    pub a: Vec<Src>,
    /// The descriptor of the right factor.
    pub b: Src,
    /// The product is subtracted.
    pub negated: bool,
    /// Factors whose rows or columns (M, N) lie side by side in shared memory, not K.
    pub transposed: [bool; 2],
}

/// Element types of matrix products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PTX's own names")]
pub enum MmaType {
    F16,
    Bf16,
    Tf32,
    F32,
    F64,
    S8,
    U8,
    S4,
    U4,
    B1,
    S32,
    E4m3,
    E5m2,
    E2m3,
    E3m2,
    E2m1,
    /// Eight of them in a register.
    E2m1Close,
}

/// Scales of the factors of a product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scales {
    /// How many blocks a row of the left factor has, and a column of the right.
    pub blocks: u8,
    /// Powers of two (`ue8m0`), not `ue4m3`.
    pub powers: bool,
    /// Words of both factors; the byte of the first block and the lanes of a quad that give them.
    pub sources: [ScaleSource; 2],
}

/// Where the scales of one factor come from.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs, reason = "named by what they are")]
pub struct ScaleSource {
    pub word: Src,
    pub byte: Src,
    pub lane: Src,
}

/// `wmma.load` and `wmma.store`.
#[derive(Debug, Clone, PartialEq)]
pub struct WmmaMemory {
    /// True for a store (of `d`).
    pub store: bool,
    /// Which matrix: 'a', 'b', 'c' or 'd'.
    pub matrix: char,
    /// M, N, K.
    pub shape: (u16, u16, u16),
    /// True for row order.
    pub row: bool,
    /// Element type.
    pub ty: MmaType,
    /// Where.
    pub space: Space,
    /// Address of the first element.
    pub address: Address,
    /// Elements between rows (columns); `None` means packed.
    pub stride: Option<Src>,
    /// The fragment.
    pub registers: Vec<Reg>,
}

/// Shape of `ldmatrix`/`stmatrix`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PTX's own names")]
pub enum MatrixShape {
    M8n8B16,
    M16n8B8,
    /// Of elements of so many bits, which become bytes.
    M8n16(u8),
    /// The same.
    M16n16(u8),
}

/// Textures and surfaces; the handle is the address of a descriptor.
#[derive(Debug, Clone, PartialEq)]
pub struct Texture {
    /// Which.
    pub op: TextureOp,
    /// Geometry: "1d", "2d", "3d", "a1d", "a2d", "cube", "acube".
    pub geometry: Geometry,
    /// Type of the elements read or written (`ty.v4.ty.coordinates`).
    pub ty: Ty,
    /// Type of the coordinates: `S32` or `F32`.
    pub coordinate: Ty,
    /// The handle.
    pub handle: Src,
    /// A sampler of its own (independent mode).
    pub sampler: Option<Src>,
    /// Coordinates, the layer first for arrays.
    pub coordinates: Vec<Src>,
    /// Level of detail, or the gradients, or the gathered component of `tld4` (0 to 3).
    pub extra: Vec<Src>,
    /// Results (up to 4), or the values to store.
    pub dsts: Vec<Option<Reg>>,
    /// Values to store.
    pub srcs: Vec<Src>,
    /// Surfaces: what happens outside.
    pub clamp: SurfaceClamp,
}

/// Which texture instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PTX's own names")]
pub enum TextureOp {
    Sample,
    SampleLevel,
    SampleGrad,
    Gather,
    Query(TextureQuery),
    SurfaceLoad,
    SurfaceStore,
    /// `sust.p`: converts to the surface's format.
    SurfaceStoreFormatted,
    SurfaceReduce(AtomOp),
}

/// What `txq`/`suq` asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PTX's own names")]
pub enum TextureQuery {
    Width,
    Height,
    Depth,
    ChannelDataType,
    ChannelOrder,
    NormalizedCoords,
    ArraySize,
    NumMipmapLevels,
    NumSamples,
}

/// Geometry of a texture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PTX's own names")]
pub enum Geometry {
    D1,
    D2,
    D3,
    A1d,
    A2d,
    Cube,
    Acube,
}

/// What a surface access outside does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs, reason = "PTX's own names")]
pub enum SurfaceClamp {
    #[default]
    Trap,
    Clamp,
    Zero,
}

/// A video instruction: scalar (`vadd`, `vmad`, `vset` …) or on 2 or 4 parts (`vabsdiff4` …).
#[derive(Debug, Clone, PartialEq)]
pub struct Video {
    /// "vadd", "vsub", "vabsdiff", "vmin", "vmax", "vavrg", "vset", "vshl", "vshr", "vmad".
    pub op: VideoOp,
    /// 1, 2 or 4 parts.
    pub parts: u8,
    /// Types of the result and of the operands: `U32` or `S32`.
    pub types: [Ty; 3],
    /// Saturating.
    pub sat: bool,
    /// Comparison of `vset`.
    pub compare: Option<Compare>,
    /// Selectors of d, a, b: byte 0..3, half 0..1 (as 4, 5), whole (6); for parts: the lists as written.
    pub selectors: [u16; 3],
    /// Second operation: add, min, max, or merge into the selected part.
    pub second: Option<VideoSecond>,
    /// `vshl`/`vshr` wrap, `vmad` scaling shift, `vmad.po`, negations.
    pub extra: u8,
    /// Result.
    pub dst: Reg,
    /// Operands.
    pub a: Src,
    /// Second operand.
    pub b: Src,
    /// Third operand.
    pub c: Src,
}

/// Which video instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PTX's own names")]
pub enum VideoOp {
    Add,
    Sub,
    Absdiff,
    Min,
    Max,
    Avrg,
    Set,
    Shl,
    Shr,
    Mad,
}

/// The second step of a video instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PTX's own names")]
pub enum VideoSecond {
    Add,
    Min,
    Max,
    Merge,
}
