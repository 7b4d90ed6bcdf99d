//! Which kind of work each operation of the machine code is: one table.
//!
//! The numbers are the low nine bits of an instruction, the same from sm_70 to sm_90. They were taken from public
//! assemblers' tables, and compared with what `ptxas` makes of PTX whose instructions are known.

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Single-precision arithmetic.
    Float32,
    /// Double-precision arithmetic.
    Float64,
    /// Half-precision arithmetic.
    Float16,
    /// Matrix instructions of a warp.
    Tensor,
    /// Matrix instructions of four warps together.
    WideTensor,
    /// Roots, exponentials, sines.
    Special,
    /// Integer arithmetic, comparisons and selections.
    Integer,
    /// Conversions.
    Convert,
    /// Loads of global memory.
    LoadGlobal,
    /// Stores to global memory.
    StoreGlobal,
    /// Loads of global memory into shared memory.
    CopyAsync,
    /// Copies of whole tiles between global and shared memory.
    CopyTile,
    /// Textures and surfaces.
    Texture,
    /// Loads of shared memory.
    LoadShared,
    /// Stores to shared memory.
    StoreShared,
    /// Local memory.
    Local,
    /// Constant memory.
    Constant,
    /// Atomics of global memory.
    AtomicGlobal,
    /// Atomics of shared memory.
    AtomicShared,
    /// Exchange within a warp.
    Exchange,
    /// Barriers and fences.
    Barrier,
    /// Branches, calls and returns.
    Control,
    /// Everything else: moves, special registers, what is not known.
    Other,
    /// What only fills up.
    Nothing,
}

impl Kind {
    /// Whether an instruction says how wide it is.
    #[must_use]
    pub fn is_access(self) -> bool {
        use Kind::{CopyAsync, LoadGlobal, LoadShared, Local, StoreGlobal, StoreShared};
        matches!(self, LoadGlobal | StoreGlobal | CopyAsync | LoadShared | StoreShared | Local)
    }
}

/// The kind of an operation.
#[must_use]
pub fn kind_of(operation: u16) -> Kind {
    match operation {
        // FSEL, FMNMX, FSET, FSETP; FMUL, FADD, FSWZADD, FFMA; FCHK.
        0x008..=0x00b | 0x020..=0x023 | 0x102 => Kind::Float32,
        // DMUL, DADD, DSETP, DFMA.
        0x028..=0x02b => Kind::Float64,
        // HADD2, HFMA2, HMUL2, HSET2, HSETP2, HFMA2 of bfloat16; HMNMX2.
        0x030..=0x035 | 0x040 => Kind::Float16,
        // HMMA, IMMA, HMMA, BMMA, DMMA.
        0x036 | 0x037 | 0x03c | 0x03d | 0x03f => Kind::Tensor,
        // HGMMA, IGMMA, BGMMA, QGMMA.
        0x1f0..=0x1f3 => Kind::WideTensor,
        // MUFU.
        0x108 => Kind::Special,
        // SEL, ISETP; IADD3, LEA, LOP3, IABS, VABSDIFF4, PRMT, IMNMX, SHF, SGXT, BMSK; IMAD, IDP; POPC, FLO, BREV.
        0x007
        | 0x00c
        | 0x010..=0x019
        | 0x01a
        | 0x01b
        | 0x024..=0x027
        | 0x048
        | 0x100
        | 0x101
        | 0x109 => Kind::Integer,
        // The same on uniform registers.
        0x087 | 0x08c | 0x090..=0x09b | 0x0a4..=0x0a7 | 0x0bd..=0x0bf => Kind::Integer,
        // I2I, I2IP, F2FP, F2IP, I2FP; F2F, F2I, I2F, FRND, and those with 64 bits.
        0x038 | 0x039 | 0x03e | 0x043 | 0x045 | 0x104..=0x107 | 0x110..=0x113 => Kind::Convert,
        // LD, LDG.
        0x180 | 0x181 => Kind::LoadGlobal,
        // ST, STG.
        0x185 | 0x186 => Kind::StoreGlobal,
        // LDGSTS.
        0x1ae => Kind::CopyAsync,
        // UTMALDG, UTMASTG, UTMAREDG, UTMAPF; UBLKCP, UBLKRED.
        0x1b4..=0x1b8 | 0x1ba | 0x1bb => Kind::CopyTile,
        // TEX, TLD4, TLD, TXD, TXQ; SULD, SUST.
        0x160..=0x170 | 0x199..=0x19e => Kind::Texture,
        // LDS; LDSM.
        0x184 | 0x03b => Kind::LoadShared,
        // STS; STSM.
        0x188 | 0x044 => Kind::StoreShared,
        // LDL, STL.
        0x183 | 0x187 => Kind::Local,
        // LDC; ULDC.
        0x182 | 0x0b9 | 0x0bb => Kind::Constant,
        // ATOM, RED, ATOMG.
        0x18a | 0x18b | 0x18e | 0x1a8 | 0x1a9 => Kind::AtomicGlobal,
        // ATOMS.
        0x18c | 0x18d => Kind::AtomicShared,
        // VOTE, SHFL, MATCH, REDUX; VOTEU.
        0x006 | 0x189 | 0x1a1 | 0x1c4 | 0x086 => Kind::Exchange,
        // BAR, MEMBAR, DEPBAR, LDGDEPBAR, ARRIVES, SYNCS, WARPSYNC, WARPGROUP.
        0x11a | 0x11d | 0x192 | 0x1a7 | 0x1af | 0x1b0 | 0x148 | 0x1c5 | 0x1c6 => Kind::Barrier,
        // BREAK, CALL, YIELD, BRA, BRX, EXIT, RET, BRXU; BSSY and BSYNC only keep a warp together.
        0x142..=0x144 | 0x146 | 0x147 | 0x149 | 0x14d | 0x150 | 0x158 => Kind::Control,
        // NOP.
        0x118 => Kind::Nothing,
        _ => Kind::Other,
    }
}
