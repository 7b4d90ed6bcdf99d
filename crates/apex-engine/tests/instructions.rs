//! Instructions as PTX text, with the values the ISA gives.

mod support;

use support::{Run, check, check_all};

#[test]
fn integers_wrap_clamp_and_divide_like_the_hardware() {
    check_all("ld.global.u32 %r2, [%rd1]; add.u32 %r0, %r2, 1;", u32::MAX, 0);
    check_all("ld.global.u32 %r2, [%rd1]; add.sat.s32 %r0, %r2, 1;", 0x7fff_ffff, 0x7fff_ffff);
    check_all("ld.global.u32 %r2, [%rd1]; div.u32 %r0, 7, %r2;", 0, u32::MAX);
    check_all("ld.global.u32 %r2, [%rd1]; div.s32 %r0, 0x80000000, %r2;", u32::MAX, 0x8000_0000);
    check_all("ld.global.u32 %r2, [%rd1]; rem.s32 %r0, -7, %r2;", 3, -1i32 as u32);
    check_all("ld.global.u32 %r2, [%rd1]; shl.b32 %r0, 1, %r2;", 32, 0);
    check_all("ld.global.u32 %r2, [%rd1]; shr.s32 %r0, -8, %r2;", 99, u32::MAX);
    check_all("ld.global.u32 %r2, [%rd1]; mul.hi.s32 %r0, %r2, %r2;", 0x8000_0000, 0x4000_0000);
    check_all(
        "ld.global.u32 %r2, [%rd1]; mul.wide.s32 %rd9, %r2, -3; cvt.u32.u64 %r0, %rd9;",
        5,
        -15i32 as u32,
    );
    check_all("ld.global.u32 %r2, [%rd1]; sad.s32 %r0, %r2, 4, 10;", -6i32 as u32, 20);
    check_all("ld.global.u32 %r2, [%rd1]; mad24.lo.s32 %r0, %r2, 3, 1;", 0x00ff_ffff, -2i32 as u32);
    check_all("ld.global.u32 %r2, [%rd1]; abs.s32 %r0, %r2;", 0x8000_0000, 0x8000_0000);
    check_all("ld.global.u32 %r2, [%rd1]; bfind.s32 %r0, %r2;", u32::MAX, u32::MAX);
    check_all("ld.global.u32 %r2, [%rd1]; bfind.shiftamt.u32 %r0, %r2;", 0x100, 23);
    check_all("ld.global.u32 %r2, [%rd1]; popc.b32 %r0, %r2;", 0xf0f0, 8);
    check_all("ld.global.u32 %r2, [%rd1]; brev.b32 %r0, %r2;", 1, 0x8000_0000);
    check_all("ld.global.u32 %r2, [%rd1]; clz.b32 %r0, %r2;", 0, 32);
    check_all("ld.global.u32 %r2, [%rd1]; bfe.s32 %r0, %r2, 4, 4;", 0x80, -8i32 as u32);
    check_all("ld.global.u32 %r2, [%rd1]; bfe.u32 %r0, %r2, 28, 8;", 0xf000_0000, 0xf);
    check_all("ld.global.u32 %r2, [%rd1]; bfi.b32 %r0, 0xff, %r2, 8, 4;", 0, 0xf00);
    check_all(
        "ld.global.u32 %r2, [%rd1]; prmt.b32 %r0, %r2, 0x55667788, 0x7b12;",
        0x8233_4411,
        0x55ff_4433,
    );
    check_all(
        "ld.global.u32 %r2, [%rd1]; lop3.b32 %r0, %r2, 0xff00, 0xf0f0, 0x96;",
        0x1234,
        0x1234 ^ 0xff00 ^ 0xf0f0,
    );
    check_all("ld.global.u32 %r2, [%rd1]; shf.l.wrap.b32 %r0, %r2, 1, 36;", 0xf000_0000, 0x1f);
    check_all("ld.global.u32 %r2, [%rd1]; dp4a.s32.u32 %r0, %r2, 0x02020202, 5;", 0xff01_ff01, 5);
    check_all(
        "ld.global.u32 %r2, [%rd1]; add.cc.u32 %r3, %r2, 1; addc.u32 %r0, 0, 0;",
        u32::MAX,
        1,
    );
    check_all("ld.global.u32 %r2, [%rd1]; sub.cc.u32 %r3, %r2, 1; subc.u32 %r0, 5, 0;", 0, 4);
    check_all(
        "ld.global.u32 %r2, [%rd1]; vabsdiff4.u32.u32.u32.add %r0, %r2, 0x01010101, 100;",
        0x0301_0005,
        107,
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table: instruction, operand, result")]
fn floats_follow_their_modes() {
    let one = |x: f32| x.to_bits();
    check_all(
        "ld.global.f32 %f1, [%rd1]; add.rz.f32 %f2, %f1, 0f3F800000; mov.b32 %r0, %f2;",
        one(1e-10),
        one(1.0),
    );
    check_all(
        "ld.global.f32 %f1, [%rd1]; add.rp.f32 %f2, %f1, 0f3F800000; mov.b32 %r0, %f2;",
        one(1e-10),
        one(1.0) + 1,
    );
    check_all(
        "ld.global.f32 %f1, [%rd1]; mul.sat.f32 %f2, %f1, 0f40000000; mov.b32 %r0, %f2;",
        one(3.0),
        one(1.0),
    );
    check_all(
        "ld.global.f32 %f1, [%rd1]; mul.ftz.f32 %f2, %f1, 0f3F800000; mov.b32 %r0, %f2;",
        0x8000_0001,
        0x8000_0000,
    );
    check_all(
        "ld.global.f32 %f1, [%rd1]; sub.f32 %f2, %f1, %f1; mov.b32 %r0, %f2;",
        one(f32::INFINITY),
        0x7fff_ffff,
    );
    check_all(
        "ld.global.f32 %f1, [%rd1]; fma.rn.f32 %f2, %f1, %f1, 0fBF800000; mov.b32 %r0, %f2;",
        0x3f80_0003,
        0x3540_0002,
    );
    check_all(
        "ld.global.f32 %f1, [%rd1]; min.f32 %f2, %f1, 0f3F800000; mov.b32 %r0, %f2;",
        0x7fc0_0000,
        one(1.0),
    );
    check_all(
        "ld.global.f32 %f1, [%rd1]; max.NaN.f32 %f2, %f1, 0f3F800000; mov.b32 %r0, %f2;",
        0x7fc0_0000,
        0x7fff_ffff,
    );
    check_all(
        "ld.global.f32 %f1, [%rd1]; max.f32 %f2, %f1, 0f00000000; mov.b32 %r0, %f2;",
        0x8000_0000,
        0,
    );
    check_all(
        "ld.global.f32 %f1, [%rd1]; sqrt.rn.f32 %f2, %f1; mov.b32 %r0, %f2;",
        one(2.0),
        one(2f32.sqrt()),
    );
    check_all(
        "ld.global.f32 %f1, [%rd1]; ex2.approx.f32 %f2, %f1; mov.b32 %r0, %f2;",
        one(3.0),
        one(8.0),
    );
    check_all("ld.global.f32 %f1, [%rd1]; cvt.rzi.s32.f32 %r0, %f1;", one(-2.7), -2i32 as u32);
    check_all(
        "ld.global.f32 %f1, [%rd1]; cvt.rn.f16.f32 %h1, %f1; cvt.u32.u16 %r0, %h1;",
        one(1.5),
        0x3e00,
    );
    check_all(
        "ld.global.f32 %f1, [%rd1]; cvt.rni.f32.f32 %f2, %f1; mov.b32 %r0, %f2;",
        one(2.5),
        one(2.0),
    );
    check_all(
        "ld.global.u32 %r2, [%rd1]; fma.rn.f16x2 %r0, %r2, %r2, %r2;",
        0x3c00_4000,
        0x4000_4600,
    );
    check_all(
        "ld.global.u32 %r2, [%rd1]; setp.nan.f32 %p1, 0f00000000, 0f00000000; testp.subnormal.f32 %p2, 0f00000001; selp.u32 %r0, 1, 0, %p2;",
        0,
        1,
    );
    check_all(
        "ld.global.f32 %f1, [%rd1]; copysign.f32 %f2, %f1, 0f40000000; mov.b32 %r0, %f2;",
        one(-1.0),
        one(-2.0),
    );
    check_all(
        "ld.global.f32 %f1, [%rd1]; cvt.f64.f32 %fd1, %f1; div.rp.f64 %fd2, %fd1, 0d4008000000000000; cvt.rm.f32.f64 %f2, %fd2; mov.b32 %r0, %f2;",
        one(1.0),
        one(1.0 / 3.0) - 1,
    );
}

#[test]
fn lanes_tell_each_other() {
    check(
        "shfl.sync.down.b32 %r0|%p1, %r1, 4, 0x1f, -1; @!%p1 mov.u32 %r0, 99;",
        [0; 32],
        std::array::from_fn(|n| if n < 28 { n as u32 + 4 } else { 99 }),
    );
    check(
        "shfl.sync.up.b32 %r0, %r1, 1, 0x1800, -1;",
        [0; 32],
        std::array::from_fn(|n| if n % 8 == 0 { n as u32 } else { n as u32 - 1 }),
    );
    check(
        "and.b32 %r2, %r1, 3; match.any.sync.b32 %r0, %r2, -1;",
        [0; 32],
        std::array::from_fn(|n| 0x1111_1111 << (n % 4)),
    );
    check_all("setp.gt.u32 %p1, %r1, 29; vote.sync.ballot.b32 %r0, %p1, -1;", 0, 0xc000_0000);
    check_all("redux.sync.add.s32 %r0, %r1, -1;", 0, 496);
    check_all("redux.sync.min.s32 %r0, -5, -1;", 0, -5i32 as u32);
    check_all("elect.sync %r0|%p1, 0xfffffff0;", 0, 4);
    check(
        "setp.lt.u32 %p1, %r1, 8; mov.u32 %r0, 0; @%p1 activemask.b32 %r0;",
        [0; 32],
        std::array::from_fn(|n| if n < 8 { 0xff } else { 0 }),
    );
}

#[test]
fn atomics_count_every_lane() {
    check_all("atom.global.add.u32 %r2, [%rd2], 1; bar.sync 0; ld.global.u32 %r0, [%rd2];", 0, 32);
    check_all(
        "st.shared.u32 [space], 0; bar.sync 0; atom.shared.inc.u32 %r2, [space], 9; bar.sync 0; ld.shared.u32 %r0, [space];",
        0,
        2,
    );
    check_all(
        "setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.f32 [space], 0f00000000; bar.sync 0; red.shared.add.f32 [space], 0f3F000000; bar.sync 0; ld.shared.u32 %r0, [space];",
        0,
        16f32.to_bits(),
    );
    check_all(
        "cvt.u64.u32 %rd9, %r1; atom.global.max.u64 %rd8, [%rd2], %rd9; bar.sync 0; ld.global.u32 %r0, [%rd2];",
        0,
        31,
    );
    check_all(
        "mov.b64 %rd9, {%r1, %r1}; add.u32 %r2, %r1, 1; cvt.u16.u32 %h1, 0x3c00; atom.global.add.noftz.f16 %h2, [%rd2], %h1; bar.sync 0; ld.global.u32 %r0, [%rd2];",
        0,
        0x5000,
    );
}

#[test]
fn fragments_multiply() {
    // A is all 2, B is all 3, both f16: every element of the product is 16 * 6 + 1.
    check_all("mov.b32 %r2, 0x40004000; mov.b32 %r3, 0x42004200; mov.f32 %f1, 0f3F800000;
        mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f2,%f3,%f4,%f5}, {%r2,%r2,%r2,%r2}, {%r3,%r3}, {%f1,%f1,%f1,%f1}; mov.b32 %r0, %f5;", 0, 97f32.to_bits());
    // The identity in A gives B back: row `lane / 4`, column 2 * (lane % 4).
    check("shr.u32 %r2, %r1, 2; and.b32 %r3, %r1, 3; shl.b32 %r4, %r3, 1;
        setp.eq.u32 %p1, %r2, %r4; selp.b32 %r5, 0x3c00, 0, %p1; add.u32 %r4, %r4, 1;
        setp.eq.u32 %p1, %r2, %r4; selp.b32 %r6, 0x3c000000, 0, %p1; or.b32 %r5, %r5, %r6;
        add.u32 %r7, %r1, 0; cvt.rn.f16.u32 %h1, %r7; mov.b32 %r8, {%h1, %h1}; mov.b32 %r9, 0;
        mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f2,%f3,%f4,%f5}, {%r5,%r9}, {%r8}, {0f00000000,0f00000000,0f00000000,0f00000000}; cvt.rzi.u32.f32 %r0, %f2;",
        [0; 32], std::array::from_fn(|lane| {
            // D[g][2t] = B[g][2t]: held by lane 4 * (2t) + g / 2.
            let (g, t) = (lane as u32 / 4, lane as u32 % 4);
            4 * (2 * t) + g / 2
        }));
    check_all(
        "mov.b32 %r2, 0x01010101; mov.b32 %r3, 0xffffffff; mov.b32 %r4, 5;
        mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r0,%r5}, {%r2}, {%r3}, {%r4,%r4};",
        0,
        -11i32 as u32,
    );
    // ldmatrix: row r of the matrix holds 8 r to 8 r + 7.
    check("mov.u32 %r2, space; shl.b32 %r3, %r1, 2; add.u32 %r4, %r2, %r3; shl.b32 %r5, %r1, 1; add.u32 %r6, %r5, 1; shl.b32 %r6, %r6, 16; or.b32 %r5, %r5, %r6;
        st.shared.u32 [%r4], %r5; bar.sync 0; and.b32 %r7, %r1, 7; shl.b32 %r7, %r7, 4; add.u32 %r7, %r7, %r2;
        ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r0}, [%r7];",
        [0; 32], std::array::from_fn(|lane| {
            let (row, column) = (lane as u32 / 4, lane as u32 % 4 * 2);
            (column * 8 + row) | ((column + 1) * 8 + row) << 16
        }));
}

#[test]
fn copies_and_mbarriers() {
    check(
        "mov.u32 %r2, space; mad.lo.u32 %r3, %r1, 4, %r2; cp.async.ca.shared.global [%r3], [%rd1], 4; cp.async.wait_all; bar.sync 0; ld.shared.u32 %r0, [%r3];",
        std::array::from_fn(|n| n as u32 * 3),
        std::array::from_fn(|n| n as u32 * 3),
    );
    check_all(
        "setp.eq.u32 %p1, %r1, 0; @%p1 mbarrier.init.shared.b64 [space], 32; bar.sync 0;
        mbarrier.arrive.shared.b64 %rd9, [space];
        wait: mbarrier.try_wait.shared.b64 %p2, [space], %rd9; @!%p2 bra wait; mov.u32 %r0, 1;",
        0,
        1,
    );
    check_all("setp.eq.u32 %p1, %r1, 0; @!%p1 bra go; mbarrier.init.shared.b64 [space], 1;
        mbarrier.arrive.expect_tx.shared.b64 %rd9, [space], 64;
        mov.u32 %r2, space; add.u32 %r2, %r2, 128;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd2], 64, [space];
        go: bar.sync 0;
        wait: mbarrier.try_wait.parity.shared.b64 %p2, [space], 0; @!%p2 bra wait;
        ld.shared.u32 %r0, [space+188];", 77, 77);
}

#[test]
fn a_kernel_prints_and_asserts() {
    let text = r#".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
        .global .align 1 .b8 text[8] = {104, 105, 32, 37, 100, 10, 0, 0};
        .visible .entry k() { .local .align 8 .b8 depot[8]; .reg .b32 %r<4>; .reg .b64 %rd<8>;
        mov.u64 %rd1, depot; cvta.local.u64 %rd2, %rd1; mov.u32 %r1, %tid.x; st.u32 [%rd2], %r1;
        mov.u64 %rd3, text; cvta.global.u64 %rd4, %rd3;
        { .param .b64 p0; st.param.b64 [p0], %rd4; .param .b64 p1; st.param.b64 [p1], %rd2; .param .b32 q;
        call.uni (q), vprintf, (p0, p1); ld.param.b32 %r2, [q]; }
        ret; }"#;
    let run = Run::new(text).block(3);
    run.launch().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&run.recorder.printed.lock().unwrap()),
        "hi 0\nhi 1\nhi 2\n"
    );
}

#[test]
fn a_cluster_shares_its_memory() {
    // Each block writes its rank; after the cluster's barrier everyone reads the next one's.
    let text = ".visible .entry k(.param .u64 p) { .reg .b32 %r<20>; .reg .b64 %rd<8>; .reg .pred %p<3>;
        .shared .align 4 .b8 s[16];
        ld.param.u64 %rd1, [p]; mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %cluster_nctarank; mov.u32 %r3, s;
        add.u32 %r4, %r1, 50; st.shared.u32 [%r3], %r4;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
        add.u32 %r5, %r1, 1; rem.u32 %r5, %r5, %r2; mapa.shared::cluster.u32 %r6, %r3, %r5;
        ld.shared::cluster.u32 %r7, [%r6];
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
        mov.u32 %r8, %ctaid.x; mul.wide.u32 %rd2, %r8, 4; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r7; ret; }";
    let out = [0u32; 8];
    Run::new(text).grid(8).block(64).cluster(4).buffer(&out).launch().unwrap();
    // SAFETY: plain numbers, written by the kernel through their address.
    let out = unsafe { (&raw const out).read_volatile() };
    assert_eq!(out, [51, 52, 53, 50, 51, 52, 53, 50]);
}

#[test]
fn functions_recurse() {
    let text = ".func (.param .b32 r) fact(.param .b32 n) { .reg .b32 %r<6>; .reg .pred %p<2>;
        ld.param.u32 %r1, [n]; setp.le.u32 %p1, %r1, 1; @%p1 bra one; sub.u32 %r2, %r1, 1;
        { .param .b32 a; st.param.b32 [a], %r2; .param .b32 b; call.uni (b), fact, (a); ld.param.b32 %r3, [b]; }
        mul.lo.u32 %r4, %r3, %r1; st.param.b32 [r], %r4; ret;
        one: st.param.b32 [r], 1; ret; }
        .visible .entry k(.param .u64 p) { .reg .b32 %r<6>; .reg .b64 %rd<6>;
        ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x;
        { .param .b32 a; st.param.b32 [a], %r1; .param .b32 b; call.uni (b), fact, (a); ld.param.b32 %r2, [b]; }
        mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r2; ret; }";
    let out = [0u32; 8];
    Run::new(text).block(8).buffer(&out).launch().unwrap();
    // SAFETY: plain numbers, written by the kernel through their address.
    let out = unsafe { (&raw const out).read_volatile() };
    assert_eq!(out, [1, 1, 2, 6, 24, 120, 720, 5040]);
}

#[test]
fn a_callee_may_give_another_result_than_the_caller_was_told_of() {
    // What one compiler declares and another defines, in texts linked together.
    let call = |declared: &str, defined: &str, body: &str| {
        let text = format!(
            "{declared}
             .visible .entry k(.param .u64 out) {{
                 .reg .b64 %d<3>; .param .b64 a; .param .b32 r;
                 ld.param.u64 %d1, [out]; st.param.b64 [a], %d1; {body} ret; }}"
        );
        let head = ".version 8.7\n.target sm_90\n.address_size 64\n";
        let texts = [format!("{head}{text}"), format!("{head}{defined}")];
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let module = apex_engine::Module::load(&texts, &mut |_| None).expect("it loads");
        module.kernel("k").expect("it is there").unsupported.clone()
    };
    let gives = ".visible .func (.param .b32 r) f(.param .b64 a) { st.param.b32 [r], 1; ret; }";
    let none = ".visible .func f(.param .b64 a) { .reg .b64 %d1; ld.param.b64 %d1, [a]; \
                st.global.u32 [%d1], 7; ret; }";
    let recursive = ".visible .func f(.param .b64 a) { call f, (a); ret; }";
    let declared = ".extern .func (.param .b32 r) f(.param .b64 a);";
    let untold = ".extern .func f(.param .b64 a);";
    assert_eq!(call(declared, none, "call (r), f, (a);"), None);
    assert_eq!(call(declared, recursive, "call (r), f, (a);"), None);
    assert_eq!(call(untold, gives, "call f, (a);"), None);
    let other = call(".extern .func f();", none, "call f;").expect("it cannot run");
    assert!(other.contains("f takes other operands"), "{other}");
    let out = [0u32; 1];
    let text = format!(
        "{none}\n.visible .entry k(.param .u64 out) {{ .reg .b64 %d<3>; .param .b64 a; .param .b32 r; \
         ld.param.u64 %d1, [out]; st.param.b64 [a], %d1; call (r), f, (a); ret; }}"
    );
    Run::new(&text).buffer(&out).launch().expect("it runs");
    // SAFETY: the kernel wrote through the address; the compiler must not assume zeros.
    assert_eq!(unsafe { (&raw const out).read_volatile() }, [7]);
}

#[test]
fn fields_of_a_tensor_map_lie_side_by_side() {
    let mut body = String::new();
    for (field, ord, value) in [
        ("rank", "", "0x01010101"),
        ("box_dim", "0, ", "0x02020202"),
        ("box_dim", "4, ", "0x03030303"),
        ("global_dim", "0, ", "0x04040404"),
        ("global_dim", "4, ", "0x05050505"),
        ("element_stride", "0, ", "0x06060606"),
        ("element_stride", "4, ", "0x07070707"),
        ("elemtype", "", "8"),
        ("interleave_layout", "", "2"),
        ("swizzle_mode", "", "3"),
        ("fill_mode", "", "1"),
    ] {
        body +=
            &format!("tensormap.replace.tile.{field}.shared::cta.b1024.b32 [map], {ord}{value};\n");
    }
    for (field, ord, value) in [
        ("global_address", "", "0x0909090909090909"),
        ("global_stride", "0, ", "0x0A0A0A0A0A0A0A0A"),
        ("global_stride", "4, ", "0x0B0B0B0B0B0B0B0B"),
    ] {
        body +=
            &format!("tensormap.replace.tile.{field}.shared::cta.b1024.b64 [map], {ord}{value};\n");
    }
    let text = format!(
        ".shared .align 128 .b8 map[128];
         .visible .entry k(.param .u64 out) {{
             .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .pred %p<2>;
             mov.u32 %r1, %tid.x; mul.lo.u32 %r2, %r1, 4; mov.u32 %r3, map; add.u32 %r2, %r2, %r3;
             st.shared.b32 [%r2], 0; bar.sync 0;
             setp.ne.u32 %p1, %r1, 0; @%p1 bra done;
             {body}
             done: bar.sync 0;
             ld.shared.b32 %r2, [%r2]; ld.param.u64 %d1, [out]; mad.wide.u32 %d1, %r1, 4, %d1;
             st.global.b32 [%d1], %r2; ret; }}"
    );
    let out = [0u32; 32];
    Run::new(&text).buffer(&out).launch().expect("it runs");
    // SAFETY: as above.
    let out = unsafe { (&raw const out).read_volatile() };
    let mut bytes: Vec<u8> = out.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.retain(|byte| *byte != 0);
    bytes.sort_unstable();
    // Every byte of every field is still there: none lies on another.
    let mut expected = [vec![1, 1, 2, 3, 8], vec![9; 8], vec![10; 8], vec![11; 8]].concat();
    expected.extend(
        [1, 2, 3, 4, 5, 6, 7].iter().flat_map(|&byte| vec![byte; if byte == 1 { 3 } else { 4 }]),
    );
    expected.sort_unstable();
    assert_eq!(bytes, expected);
}
