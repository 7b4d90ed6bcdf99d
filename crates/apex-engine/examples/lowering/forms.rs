//! Forms of instructions that newer chips have, each with the oldest chip that it is brought down to.
//!
//! `R`, `D`, `H` and `B` stand for registers of 32, 64, 16 and 8 bits, `P` for a predicate. `I` is the address of the
//! thread's line of input, `O` that of its line of output, and `S` that of its line of shared memory.

/// A form, and the chips that it is brought down to: this one and all between it and sm_120.
pub(crate) struct Form {
    pub(crate) text: &'static str,
    pub(crate) oldest: u32,
    /// On still older chips, down to this one, sums of products are rounded otherwise.
    #[allow(dead_code, reason = "only the tests compare sums")]
    pub(crate) near: u32,
    /// All lanes of a warp must come to it together.
    pub(crate) together: bool,
}

const fn form(oldest: u32, text: &'static str) -> Form {
    Form { text, oldest, near: oldest, together: false }
}

const fn warp(oldest: u32, text: &'static str) -> Form {
    Form { text, oldest, near: oldest, together: true }
}

const fn sums(oldest: u32, near: u32, text: &'static str) -> Form {
    Form { text, oldest, near, together: true }
}

#[rustfmt::skip]
pub(crate) const FORMS: &[Form] = &[
    form(75, "add.rn.f32x2 D, D, D"), form(75, "add.rz.ftz.f32x2 D, D, D"), form(75, "sub.rn.f32x2 D, D, D"),
    form(75, "mul.rm.f32x2 D, D, D"), form(75, "mul.rn.ftz.f32x2 D, D, D"), form(75, "fma.rn.f32x2 D, D, D, D"),
    form(75, "fma.rp.ftz.f32x2 D, D, D, D"), form(75, "add.f32.f16 R, H, R"), form(75, "sub.rz.f32.bf16 R, H, R"),
    form(75, "add.rn.sat.f32.bf16 R, H, R"), form(75, "fma.rn.f32.bf16 R, H, H, R"), form(75, "fma.rz.sat.f32.f16 R, H, H, R"),
    form(75, "min.f32 R, R, R, R"), form(75, "max.NaN.f32 R, R, R, R"), form(75, "min.ftz.f32 R, R, R, R"),
    form(75, "max.ftz.NaN.f32 R, R, R, R"), form(75, "max.f32 R, R, R, 0f3F800000"),
    form(75, "ld.global.v8.b32 {R, R, R, R, R, R, R, R}, [I]"), form(75, "ld.global.v8.f32 {R, _, R, _, _, R, R, R}, [I]"),
    form(75, "ld.global.nc.L2::evict_last.v4.b64 {D, D, D, D}, [I]"), form(75, "ld.global.L1::no_allocate.v4.u64 {D, _, D, D}, [I]"),
    form(75, "st.global.v8.b32 [O], {R, R, R, R, R, R, R, R}"), form(75, "st.global.L2::evict_first.v4.b64 [O], {D, D, D, D}"),
    form(75, "ld.global.L2::evict_normal.v4.b32 {R, R, R, R}, [I+16]"),
    warp(75, "redux.sync.min.f32 R, R, -1"), warp(75, "redux.sync.max.f32 R, R, -1"), warp(75, "redux.sync.min.abs.f32 R, R, -1"),
    warp(75, "redux.sync.max.NaN.f32 R, R, -1"), warp(75, "redux.sync.min.abs.NaN.f32 R, R, -1"),
    form(75, "cvt.rna.satfinite.tf32.f32 R, R"), form(75, "cvt.rn.satfinite.tf32.f32 R, R"), form(75, "cvt.rna.tf32.f32 R, R"),
    form(75, "cvt.rz.satfinite.relu.tf32.f32 R, R"), form(75, "cvt.rn.relu.tf32.f32 R, R"), form(75, "cvt.rz.tf32.f32 R, R"), form(75, "cvt.rz.satfinite.ue8m0x2.f32 H, R, R"),
    form(75, "cvt.rp.satfinite.ue8m0x2.f32 H, R, R"), form(75, "cvt.rp.satfinite.ue8m0x2.bf16x2 H, R"),
    form(75, "cvt.rz.satfinite.ue8m0x2.bf16x2 H, R"), form(75, "cvt.rn.bf16x2.ue8m0x2 R, H"),
    form(75, "cvt.rn.satfinite.e2m3x2.f32 H, R, R"), form(75, "cvt.rn.satfinite.relu.e3m2x2.f32 H, R, R"),
    form(75, "cvt.rn.satfinite.e3m2x2.f32 H, R, R"), form(75, "cvt.rn.satfinite.e2m1x2.f32 B, R, R"),
    form(75, "cvt.rn.satfinite.relu.e2m1x2.f32 B, R, R"), form(75, "cvt.rn.f16x2.e2m3x2 R, H"), form(75, "cvt.rn.f16x2.e3m2x2 R, H"),
    form(75, "cvt.rn.f16x2.e2m1x2 R, B"), form(80, "cvt.rn.relu.f16x2.e3m2x2 R, H"), form(80, "cvt.rn.relu.f16x2.e2m1x2 R, B"),
    form(75, "cvt.rn.satfinite.e4m3x2.bf16x2 H, R"), form(75, "cvt.rn.satfinite.relu.e5m2x2.bf16x2 H, R"),
    form(75, "cvt.rn.satfinite.e2m3x2.f16x2 H, R"), form(75, "cvt.rn.satfinite.e2m1x2.bf16x2 B, R"),
    form(75, "cvt.rn.satfinite.e4m3x2.f32 H, R, R"), form(75, "cvt.rn.satfinite.relu.e4m3x2.f32 H, R, R"),
    form(75, "cvt.rn.satfinite.e5m2x2.f32 H, R, R"), form(75, "cvt.rn.satfinite.e4m3x2.f16x2 H, R"),
    form(75, "cvt.rn.satfinite.e5m2x2.f16x2 H, R"), form(75, "cvt.rn.f16x2.e4m3x2 R, H"), form(75, "cvt.rn.f16x2.e5m2x2 R, H"),
    form(80, "cvt.rn.relu.f16x2.e4m3x2 R, H"), form(75, "cvt.f32.bf16 R, H"), form(75, "cvt.rn.bf16.f32 H, R"),
    form(75, "cvt.rz.bf16.f32 H, R"), form(75, "cvt.rn.bf16x2.f32 R, R, R"), form(75, "cvt.rz.bf16x2.f32 R, R, R"),
    form(75, "st.bulk.weak.shared::cta [S], 16, 0; ld.shared.v4.b32 {R, R, R, R}, [S]"),
    form(75, "st.shared.v4.b32 [S], {R, R, R, R}; st.bulk.shared::cta [S+8], 8, 0; ld.shared.v4.b32 {R, R, R, R}, [S]"),
    warp(75, "setmaxnreg.inc.sync.aligned.u32 128"), form(75, "griddepcontrol.wait"), form(75, "griddepcontrol.launch_dependents"),
    warp(75, "elect.sync R|P, -1"), warp(75, "elect.sync _|P, -1"),
    form(80, "add.rn.bf16 H, H, H"), form(80, "sub.bf16 H, H, H"), form(80, "mul.bf16 H, H, H"), form(80, "add.bf16x2 R, R, R"),
    form(80, "sub.rn.bf16x2 R, R, R"), form(80, "mul.bf16x2 R, R, R"), form(75, "neg.bf16 H, H"), form(75, "neg.bf16x2 R, R"),
    warp(75, "redux.sync.add.s32 R, R, -1"), warp(75, "redux.sync.min.u32 R, R, -1"), warp(75, "redux.sync.max.s32 R, R, -1"),
    warp(75, "redux.sync.and.b32 R, R, -1"), warp(75, "redux.sync.or.b32 R, R, -1"), warp(75, "redux.sync.xor.b32 R, R, -1"),
    form(75, "createpolicy.fractional.L2::evict_last.b64 %d0, 0f3F800000; ld.global.L2::cache_hint.b32 R, [I+4], %d0; mov.b64 %d0, 1"),
    form(75, "ld.global.L2::256B.v2.b32 {R, R}, [I+8]"), form(75, "applypriority.global.L2::evict_normal [I], 128"),
    form(75, "prefetch.global.L2::evict_last [I]"),
    form(75, "cp.async.ca.shared.global [S], [I], 4; cp.async.wait_all; ld.shared.b32 R, [S]"),
    form(75, "cp.async.ca.shared.global.L2::128B [S], [I+8], 8; cp.async.commit_group; cp.async.wait_group 0; ld.shared.v2.b32 {R, R}, [S]"),
    form(75, "cp.async.cg.shared.global [S], [I+16], 16; cp.async.wait_all; ld.shared.v4.b32 {R, R, R, R}, [S]"),
    form(75, "cp.async.ca.shared.global [S], [I], 16, 8; cp.async.wait_all; ld.shared.v4.b32 {R, R, R, R}, [S]"),
    form(75, "cp.async.ca.shared.global [S], [I], 16, 6; cp.async.wait_all; ld.shared.v4.b32 {R, R, R, R}, [S]"),
    form(75, "min.f16 H, H, H"), form(75, "max.f16 H, H, H"), form(75, "min.f16x2 R, R, R"), form(75, "max.f16x2 R, R, R"),
    sums(89, 80, "mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e4m3.e5m2.f32 {R, R, R, R}, {R, R, R, R}, {R, R}, {R, R, R, R}"),
    sums(89, 80, "mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e2m1.e2m1.f32 {R, R, R, R}, {R, R, R, R}, {R, R}, {R, R, R, R}"),
    sums(89, 80, "mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e3m2.e4m3.f32 {R, R, R, R}, {R, R, R, R}, {R, R}, {R, R, R, R}"),
    sums(89, 80, "mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e2m3.e3m2.f32 {R, R, R, R}, {R, R, R, R}, {R, R}, {R, R, R, R}"),
    sums(89, 80, "mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e5m2.e2m3.f32 {R, R, R, R}, {R, R, R, R}, {R, R}, {R, R, R, R}"),
    sums(89, 80, "mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e2m1.e5m2.f32 {R, R, R, R}, {R, R, R, R}, {R, R}, {R, R, R, R}"),
    warp(75, "st.shared.v4.b32 [S], {R, R, R, R}; bar.sync 0; stmatrix.sync.aligned.m8n8.x1.shared.b16 [S], {R}; bar.sync 0; ld.shared.v4.b32 {R, R, R, R}, [S]"),
    warp(75, "st.shared.v4.b32 [S], {R, R, R, R}; bar.sync 0; stmatrix.sync.aligned.m8n8.x4.shared.b16 [S], {R, R, R, R}; bar.sync 0; ld.shared.v4.b32 {R, R, R, R}, [S]"),
    warp(75, "st.shared.v4.b32 [S], {R, R, R, R}; bar.sync 0; stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [S], {R, R}; bar.sync 0; ld.shared.v4.b32 {R, R, R, R}, [S]"),
    sums(89, 80, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {R, R, R, R}, {R, R, R, R}, {R, R}, {R, R, R, R}"),
    sums(89, 80, "mma.sync.aligned.m16n8k16.row.col.f32.e5m2.e4m3.f32 {R, R, R, R}, {R, R}, {R}, {R, R, R, R}"),
    sums(89, 80, "mov.b32 %t, 0x807F7E85; mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e5m2.f32.ue8m0 {R, R, R, R}, {R, R, R, R}, {R, R}, {R, R, R, R}, %t, {3, 1}, %t, {0, 2}"),
    warp(80, "mma.sync.aligned.kind::mxf8f6f4.block_scale.m16n8k32.row.col.f32.e2m1.e2m3.f32.ue8m0 {R, R, R, R}, {R, R, R, R}, {R, R}, {R, R, R, R}, R, {2, 0}, {R}, {1, 3}"),
    warp(80, "mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e3m2.e2m1.f32.ue8m0 {R, R, R, R}, {R, R, R, R}, {R, R}, {R, R, R, R}, {R}, {0, 1}, R, {3, 0}"),
    warp(80, "mma.sync.aligned.kind::mxf4.block_scale.scale_vec::2X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0 {R, R, R, R}, {R, R, R, R}, {R, R}, {R, R, R, R}, R, {2, 1}, R, {0, 3}"),
    warp(80, "mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::2X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0 {R, R, R, R}, {R, R, R, R}, {R, R}, {R, R, R, R}, R, {0, 0}, R, {2, 0}"),
    warp(80, "mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3 {R, R, R, R}, {R, R, R, R}, {R, R}, {R, R, R, R}, {R}, {0, 0}, {R}, {0, 1}"),
    warp(80, "mov.u16 %h0, 0; mov.u16 %h1, 1; mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0 {R, R, R, R}, {R, R, R, R}, {R, R}, {R, R, R, R}, {R}, {%h0, %h1}, {R}, {%h0, %h1}"),
    warp(75, "st.shared.v4.b32 [S], {R, R, R, R}; bar.sync 0; ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {R, R}, [S]; bar.sync 0"),
    warp(75, "st.shared.v4.b32 [S], {R, R, R, R}; bar.sync 0; ldmatrix.sync.aligned.m16n16.x2.trans.shared::cta.b8 {R, R, R, R}, [S]; bar.sync 0"),
    warp(75, "st.shared.v4.b32 [S], {R, R, R, R}; bar.sync 0; ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8x16.b6x16_p32 {R, R, R, R}, [S]; bar.sync 0"),
    warp(75, "st.shared.v4.b32 [S], {R, R, R, R}; bar.sync 0; ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8x16.b4x16_p64 {R, R}, [S]; bar.sync 0"),
    warp(75, "st.shared.v4.b32 [S], {R, R, R, R}; bar.sync 0; ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32 {R}, [S]; bar.sync 0"),
    warp(75, "st.shared.v4.b32 [S], {R, R, R, R}; bar.sync 0; ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b6x16_p32 {R, R, R, R}, [S]; bar.sync 0"),
    warp(75, "st.shared.v4.b32 [S], {R, R, R, R}; bar.sync 0; ldmatrix.sync.aligned.m8n16.x2.shared.b8x16.b4x16_p64 {R, R}, [S]; bar.sync 0"),
    warp(75, "st.shared.v4.b32 [S], {R, R, R, R}; bar.sync 0; stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [S], {R}; bar.sync 0; ld.shared.v4.b32 {R, R, R, R}, [S]"),
    warp(75, "st.shared.v4.b32 [S], {R, R, R, R}; bar.sync 0; stmatrix.sync.aligned.m16n8.x4.trans.shared.b8 [S], {R, R, R, R}; bar.sync 0; ld.shared.v4.b32 {R, R, R, R}, [S]"),
    form(75, "cvt.rn.scaled::n2::ue8m0.bf16x2.e4m3x2 R, H, H"), form(75, "cvt.rn.relu.scaled::n2::ue8m0.bf16x2.e5m2x2 R, H, H"),
    form(75, "cvt.rn.satfinite.scaled::n2::ue8m0.bf16x2.e5m2x2 R, H, H"), form(75, "cvt.rn.relu.satfinite.scaled::n2::ue8m0.bf16x2.e4m3x2 R, H, H"),
    form(75, "cvt.rn.satfinite.scaled::n2::ue8m0.bf16x2.e2m3x2 R, H, H"), form(75, "cvt.rn.scaled::n2::ue8m0.bf16x2.e3m2x2 R, H, H"),
    form(75, "cvt.rn.scaled::n2::ue8m0.bf16x2.e2m1x2 R, B, H"), form(75, "cvt.rn.satfinite.relu.scaled::n2::ue8m0.bf16x2.s2f6x2 R, H, H"),
    form(75, "cvt.rn.scaled::n2::ue8m0.bf16x2.s2f6x2 R, H, H"), form(75, "cvt.rn.satfinite.bf16x2.e5m2x2 R, H"),
    form(75, "cvt.rn.bf16x2.e2m1x2 R, B"), form(75, "cvt.rn.relu.bf16x2.e4m3x2 R, H"), form(75, "cvt.rn.bf16x2.s2f6x2 R, H"),
    form(75, "cvt.rs.f16x2.f32 R, R, R, R"), form(75, "cvt.rs.relu.satfinite.f16x2.f32 R, R, R, R"),
    form(75, "cvt.rs.satfinite.bf16x2.f32 R, R, R, R"), form(75, "cvt.rs.relu.bf16x2.f32 R, R, R, R"),
    form(75, "cvt.rs.satfinite.e4m3x4.f32 R, {R, R, R, R}, R"), form(75, "cvt.rs.relu.satfinite.e5m2x4.f32 R, {R, R, R, R}, R"),
    form(75, "cvt.rs.satfinite.e2m3x4.f32 R, {R, R, R, R}, R"), form(75, "cvt.rs.satfinite.e3m2x4.f32 R, {R, R, R, R}, R"),
    form(75, "cvt.rs.satfinite.e2m1x4.f32 H, {R, R, R, R}, R"), form(75, "cvt.rs.relu.satfinite.e2m1x4.f32 H, {R, R, R, R}, R"),
    form(75, "mov.u32 R, %cluster_ctarank"), form(75, "mov.u32 R, %cluster_nctaid.x"), form(75, "mov.u32 R, %clusterid.x"),
];
