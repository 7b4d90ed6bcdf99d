//! The table: what newer chips have, since when, and what it becomes on older ones.
//!
//! `docs/compatibility.md` is made of it. Rows are asked in their order, so a special form stands before the general one.

use super::target::{Goal, Target};
use super::write::{Around, Written};
use super::{
    arithmetic, asynchronous, byte_matrix, convert, matrix, memory, scaled_convert, scaled_product,
    stochastic, warp,
};
use crate::tree::Instruction;
use std::fmt::Write as _;

/// Since when a feature is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// From this chip and this version of PTX on.
    Chip(u32, (u32, u32)),
    /// On these chips alone, and only where the target is named after the chip (`sm_120a`) or its family.
    Only(&'static [u32], (u32, u32)),
}

impl Since {
    /// Whether every text for the goal has it.
    pub(super) fn is_there(self, goal: Goal) -> bool {
        match self {
            Since::Chip(chip, version) => goal.target.number >= chip && goal.version >= version,
            Since::Only(..) => false,
        }
    }

    /// Whether a text for this very chip has it.
    pub(super) fn is_own(self, goal: Goal) -> bool {
        match self {
            Since::Chip(..) => false,
            Since::Only(chips, version) => {
                goal.target.is_own && chips.contains(&goal.target.number) && goal.version >= version
            }
        }
    }

    fn words(self) -> String {
        let only = |chips: &[u32]| {
            let names = chips.iter().map(|&number| Target { number, is_own: true }.to_string());
            names.collect::<Vec<_>>().join(", ")
        };
        match self {
            Since::Chip(chip, (major, minor)) => format!("sm_{chip}, PTX {major}.{minor}"),
            Since::Only(chips, (major, minor)) => format!("{}, PTX {major}.{minor}", only(chips)),
        }
    }
}

/// How near the older instructions come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exact {
    /// The same bits.
    Bits,
    /// The same bits; only speed is lost.
    Hint,
    /// The same products; their sums are rounded as the older chip rounds them.
    Sums,
    /// Another outcome that the newer chip could have had too.
    Allowed,
    /// It is refused.
    Never,
}

impl Exact {
    /// The same in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Exact::Bits => "same bits",
            Exact::Hint => "same bits, a hint is lost",
            Exact::Sums => "same products, sums as the older chip rounds them",
            Exact::Allowed => "another allowed outcome",
            Exact::Never => "refused",
        }
    }
}

/// A row of the table.
#[derive(Debug)]
pub struct Feature {
    /// What it is, in PTX.
    pub name: &'static str,
    /// Since when it is there.
    pub since: Since,
    /// What stands in its place, or why nothing can.
    pub how: &'static str,
    /// How near that comes.
    pub exact: Exact,
    pub(super) is: fn(&Instruction) -> bool,
    pub(super) rewrite: fn(&Instruction, &Around<'_>) -> Written,
}

impl PartialEq for Feature {
    fn eq(&self, other: &Feature) -> bool {
        self.name == other.name
    }
}

macro_rules! features {
    ($($name:literal, $since:expr, $exact:ident, $how:literal, $is:path => $rewrite:path;)+) => {
        /// The table.
        pub static FEATURES: &[Feature] = &[$(Feature {
            name: $name, since: $since, how: $how, exact: Exact::$exact, is: $is, rewrite: $rewrite,
        }),+];
    };
}

const BLACKWELL: &[u32] = &[100, 101, 103, 110, 120, 121];
const DATA_CENTRE: &[u32] = &[100, 101, 103, 110];
const DESKTOP: &[u32] = &[120, 121];

use Since::{Chip, Only};

#[rustfmt::skip]
features! {
    "add, sub, mul, fma .f32x2", Chip(100, (8, 6)), Bits, "two operations on single floats", arithmetic::is_pair => arithmetic::pair;
    "add, sub, fma .f32.{f16, bf16}", Chip(100, (8, 6)), Bits, "the small operand is widened first", arithmetic::is_mixed => arithmetic::mixed;
    "min, max with three inputs", Chip(100, (8, 8)), Bits, "two operations; with `.abs` refused", arithmetic::is_of_three => arithmetic::of_three;
    "ld, st .v8.b32, .v4.b64", Chip(100, (8, 8)), Bits, "two accesses of 128 bits; a store that leaves parts out is refused", memory::is_wide => memory::halves;
    "ld, st .L2::evict_*", Chip(100, (8, 8)), Hint, "left out", memory::is_eviction_hint => memory::without_eviction;
    "redux .f32", Only(DATA_CENTRE, (8, 6)), Bits, "redux of integers in the same order", warp::is_float_reduction => warp::float_reduction;
    "cvt.{rn, rz}.satfinite.tf32.f32", Chip(100, (8, 6)), Bits, "cvt without it, then infinities become the greatest number", convert::is_finite_tf32 => convert::finite_tf32;
    "cvt .rs", Only(&[100, 103], (8, 7)), Bits, "random bits are added as integers: of pairs as the PTX ISA says, of fours as others found on a B200", stochastic::is_stochastic => stochastic::stochastic;
    "cvt .bf16x2 from .{e4m3, e5m2, e2m3, e3m2, e2m1, s2f6}x2, .scaled::n2::ue8m0", Only(BLACKWELL, (9, 1)), Bits, "singles times the scale; to .s2f6x2 is refused", scaled_convert::is_scaled => scaled_convert::scaled;
    "cvt .ue8m0x2 to and from .f32, .bf16x2", Only(BLACKWELL, (8, 6)), Bits, "integer operations on the exponent", convert::is_exponent => convert::exponent;
    "cvt .{e2m1, e2m3, e3m2, e4m3, e5m2}x2 from .bf16x2, .f16x2", Only(BLACKWELL, (9, 1)), Bits, "from singles, which hold both", convert::is_from_pair => convert::from_pair;
    "cvt .{e2m1, e2m3, e3m2}x2 to .f16x2 and from .f32", Only(BLACKWELL, (8, 6)), Bits, "bits are moved and rounded with single floats", convert::is_small => convert::small;
    "st.bulk", Chip(100, (8, 6)), Bits, "a loop of stores", memory::is_clear => memory::clear;
    "setmaxnreg", Only(&[90, 100, 101, 103, 110, 120, 121], (8, 0)), Hint, "left out", asynchronous::is_register_move => memory::nothing;
    "clusterlaunchcontrol", Chip(100, (8, 6)), Allowed, "every request fails, so each block does its own work", asynchronous::is_work_request => asynchronous::no_more_work;
    "tcgen05", Only(DATA_CENTRE, (8, 6)), Never, "older chips have no tensor memory", matrix::is_tensor_memory => refuse_tensor_memory;
    "wgmma", Only(&[90], (8, 0)), Never, "only sm_90a has products of four warps", matrix::is_warpgroup => refuse_warpgroup;
    "tensormap.replace", Only(&[90, 100, 101, 103, 110, 120, 121], (8, 3)), Never, "the layout of a tensor map is not known", matrix::is_map_change => refuse_map;
    "mma .block_scale", Only(DESKTOP, (8, 7)), Sums, "each block is multiplied alone, then its scales in double precision; sparse products are refused", scaled_product::is_scaled => scaled_product::scaled_product;
    "mma .kind::f8f6f4", Only(DESKTOP, (8, 7)), Sums, "six and four bits become e4m3, then the form of sm_89; sparse products are refused", matrix::is_small_product => matrix::plain_product;
    "ldmatrix, stmatrix .b8", Only(BLACKWELL, (8, 6)), Bits, "each lane moves its own bytes, as CUTLASS lays them out; generic addresses are refused", byte_matrix::is_byte_matrix => byte_matrix::byte_matrix;
    "cp.async.bulk.shared::cta.global", Chip(90, (8, 6)), Bits, "the older name of the same place", asynchronous::is_copy_to_own_block => asynchronous::copy_to_cluster;
    "cp.async.bulk", Chip(90, (8, 0)), Never, "copies of tiles came with sm_90", asynchronous::is_large_copy => refuse_large_copy;
    "elect.sync", Chip(90, (8, 0)), Bits, "the first lane of the mask", warp::is_election => warp::election;
    "griddepcontrol", Chip(90, (7, 8)), Bits, "left out: kernels never overlap there", asynchronous::is_kernel_order => asynchronous::in_order;
    "mbarrier.try_wait", Chip(90, (7, 8)), Allowed, "test_wait; barriers that count bytes are refused", asynchronous::is_newer_barrier => asynchronous::test_instead;
    "clusters", Chip(90, (7, 8)), Never, "blocks of older chips cannot reach each other", asynchronous::is_cluster => refuse_cluster;
    "stmatrix", Chip(90, (7, 8)), Bits, "each lane stores for itself, to an address from a shuffle; generic addresses are refused", matrix::is_matrix_store => matrix::matrix_store;
    "%cluster_*, %clusterid, %nclusterid", Chip(90, (7, 8)), Bits, "a block is a cluster of one", asynchronous::asks_of_cluster => asynchronous::cluster_of_one;
    "add, sub, mul .bf16, .bf16x2", Chip(90, (7, 8)), Bits, "fma with one or minus zero", arithmetic::is_bfloat => arithmetic::bfloat_by_fma;
    "cvt.{rn, rz}.tf32.f32", Chip(90, (7, 8)), Bits, "rounded as integers", convert::is_newer_tf32 => convert::tf32;
    "cvt.f32.bf16", Chip(90, (7, 8)), Bits, "the bits become the upper half", convert::is_wider_bfloat => convert::wider_bfloat;
    "cvt .{e4m3, e5m2}x2 to .f16x2 and from .f32, .f16x2", Chip(89, (8, 1)), Bits, "bits are moved and rounded with single floats", convert::is_byte => convert::small;
    "cvt.rna.satfinite.tf32.f32", Chip(89, (8, 1)), Bits, "cvt without it, then infinities become the greatest number", convert::is_finite_tf32_away => convert::finite_tf32;
    "mma .e4m3, .e5m2", Chip(89, (8, 4)), Sums, "two products in half precision; sums of .f16 and sparse products are refused", matrix::is_byte_product => matrix::byte_product;
    "redux .s32, .u32, .b32", Chip(80, (7, 0)), Bits, "every lane of the mask is asked in turn", warp::is_reduction => warp::reduction;
    "ld, st, atom, red .L2::cache_hint, .L2::256B", Chip(80, (7, 4)), Hint, "left out", memory::is_policy_hint => memory::without_policy;
    "createpolicy", Chip(80, (7, 4)), Hint, "a number that nobody reads", memory::is_policy => memory::no_policy;
    "applypriority, discard, prefetch .L2::evict_*", Chip(80, (7, 4)), Hint, "left out", memory::is_cache_advice => memory::nothing;
    "cp.async", Chip(80, (7, 0)), Bits, "the thread loads and stores at once", asynchronous::is_small_copy => asynchronous::small_copy;
    "mbarrier", Chip(80, (7, 0)), Never, "not brought down yet", asynchronous::is_counting_barrier => refuse_barrier;
    "cvt.{rn, rz}.{bf16, bf16x2}.f32", Chip(80, (7, 0)), Bits, "rounded as integers", convert::is_to_bfloat => convert::to_bfloat;
    "cvt.rna.tf32.f32", Chip(80, (7, 0)), Bits, "rounded as integers", convert::is_tf32 => convert::tf32;
    "neg .bf16, .bf16x2", Chip(80, (7, 0)), Bits, "bits; fma, min, max, ex2 and tanh are refused", arithmetic::is_bfloat_unit => arithmetic::bfloat_bits;
    "min, max .f16, .f16x2", Chip(80, (7, 0)), Bits, "in single precision; .NaN, .ftz and .xorsign are refused", arithmetic::is_half_extreme => arithmetic::half_extreme;
    "mma, wmma .bf16, .tf32, .f64, m16n8k16 and larger", Chip(80, (7, 0)), Never, "sums would be rounded otherwise", matrix::is_newer_product => refuse_newer_product;
}

macro_rules! refusals {
    ($($name:ident $reason:literal;)+) => {
        $(fn $name(_: &Instruction, _: &Around<'_>) -> Written { Err($reason.into()) })+
    };
}

refusals! {
    refuse_tensor_memory "older chips have no tensor memory";
    refuse_warpgroup "only sm_90a multiplies matrices with four warps together";
    refuse_map "the layout of a tensor map is not known here";
    refuse_large_copy "copies of long pieces and tiles came with sm_90";
    refuse_cluster "blocks of a cluster reach each other only since sm_90";
    refuse_barrier "asynchronous barriers came with sm_80";
    refuse_newer_product "this product of matrices came with sm_80, and parts of it would round otherwise";
}

/// The page `docs/compatibility.md`.
#[must_use]
pub fn page() -> String {
    let mut page = String::from(INTRODUCTION);
    page.push_str("| PTX | since | on older chips | result |\n|---|---|---|---|\n");
    for feature in FEATURES {
        let Feature { name, since, how, exact, .. } = feature;
        let _ = writeln!(page, "| `{name}` | {} | {how} | {} |", since.words(), exact.words());
    }
    page
}

const INTRODUCTION: &str = "\
# Code for newer chips

Made by `cargo xtask docs` from the table in `crates/apex-ptx/src/lower/features.rs`; do not edit.

PTX runs on the chip that it was made for and on later ones. apex brings it down to older chips. Mostly its two header
lines are all that must change. What is newer becomes older instructions by the table below, or is refused by its line.

Under `apex run` this happens when a module or library is loaded: where an image offers the device nothing but PTX for
a newer chip, and where the driver refuses PTX as too new (errors 209, 218, 222). If that fails, the program gets the
driver's own error. The report says what was brought down. PTX that came out is kept in `APEX_COMPATIBILITY_CACHE`;
the driver keeps its own machine code of it. `APEX_COMPATIBILITY=0` switches all of this off.

Some programs ask for the compute capability at their start and refuse older devices. `APEX_DEVICE_CAPABILITY=12.0` has
the driver's functions answer so; limits such as shared memory stay the device's own. NVML still tells the truth, and a
compiler that believes the answer makes machine code that cannot run: use it for programs that bring PTX.

`apex lower FILE --target sm_90` says what becomes of the PTX in a file: PTX text, a fatbin, a library or a program.
`--output` writes the PTX that comes out. Machine code (a cubin) of another chip cannot be brought down.

All of this was compared bit by bit on the software GPU. An H200 has run 113 forms as well
([measured](measured.md#code-for-newer-chips)); matrices of bytes, products with scales, scaled conversions and random bits
came after that. A kernel that was brought down says, as its `PTX_VERSION`, the chip that its
own PTX is for: CUB chooses by it.

What the table does not name stays as it is: the driver's compiler then accepts or refuses it.

";
