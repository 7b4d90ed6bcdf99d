//! Threads that wait for each other come to an end, however they are spread.

mod support;

use support::{Run, check};

fn read<T: Copy>(data: &[T]) -> Vec<T> {
    // SAFETY: plain numbers, written by the kernel through their address.
    data.iter().map(|value| unsafe { (&raw const *value).read_volatile() }).collect()
}

#[test]
fn lanes_meet_again_after_a_divergent_loop() {
    // Lane n goes round n times; the shuffle after the loop needs all lanes together.
    check(
        "mov.u32 %r2, 0; mov.u32 %r0, 0;
        loop: setp.ge.u32 %p1, %r2, %r1; @%p1 bra done;
        add.u32 %r2, %r2, 1; add.u32 %r0, %r0, 2; bra loop;
        done: shfl.sync.bfly.b32 %r0, %r0, 1, 0x1f, 0xffffffff;",
        [0; 32],
        std::array::from_fn(|lane| 2 * (lane as u32 ^ 1)),
    );
}

#[test]
fn lanes_that_leave_a_long_loop_wait_for_the_others() {
    // Long enough to burn what a group may burn while others wait, before anybody waits. The
    // lanes that leave first must not run ahead to the instruction that sees who is there.
    check(
        "mov.u32 %r2, 0; add.u32 %r3, %r1, 5000;
        loop: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r3; @%p1 bra loop;
        activemask.b32 %r0;",
        [0; 32],
        [u32::MAX; 32],
    );
}

#[test]
fn lanes_that_jump_to_where_others_wait_join_them() {
    check(
        "setp.lt.u32 %p1, %r1, 16; setp.ge.u32 %p2, %r1, 16; mov.u32 %r2, 0;
        @%p1 bra end; add.u32 %r2, %r2, 1; @%p2 bra end; add.u32 %r2, %r2, 1;
        end: activemask.b32 %r0;",
        [0; 32],
        [u32::MAX; 32],
    );
}

#[test]
fn a_shuffle_in_a_branch_takes_its_mask() {
    check(
        "mov.u32 %r0, 7; setp.lt.u32 %p1, %r1, 16; @!%p1 bra high;
        shfl.sync.idx.b32 %r0, %r1, 3, 0x1f, 0x0000ffff; bra.uni end;
        high: shfl.sync.idx.b32 %r0, %r1, 20, 0x1f, 0xffff0000;
        end:",
        [0; 32],
        std::array::from_fn(|lane| if lane < 16 { 3 } else { 20 }),
    );
}

#[test]
fn a_warp_barrier_joins_two_ways() {
    check(
        "setp.lt.u32 %p1, %r1, 16; mov.u32 %r2, space; mad.lo.u32 %r3, %r1, 4, %r2;
        @!%p1 bra high;
        st.shared.u32 [%r3], %r1; bar.warp.sync 0xffffffff; ld.shared.u32 %r0, [%r3+64]; bra.uni end;
        high: st.shared.u32 [%r3], %r1; bar.warp.sync 0xffffffff; ld.shared.u32 %r0, [%r3+-64];
        end:",
        [0; 32],
        std::array::from_fn(|lane| lane as u32 ^ 16),
    );
}

#[test]
fn a_spin_lock_between_lanes_of_a_warp_ends() {
    check(
        "mov.u32 %r0, 0;
        loop: atom.global.cas.b32 %r2, [%rd2], 0, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra loop;
        ld.volatile.global.u32 %r3, [%rd2+4]; add.u32 %r3, %r3, 1; st.volatile.global.u32 [%rd2+4], %r3;
        membar.gl; atom.global.exch.b32 %r4, [%rd2], 0;
        bar.sync 0;
        ld.volatile.global.u32 %r0, [%rd2+4];",
        [0; 32],
        [32; 32],
    );
}

const LOCK: &str = ".visible .entry k(.param .u64 p) {
    .reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p];
    loop: atom.global.cas.b32 %r2, [%rd1], 0, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra loop;
    ld.volatile.global.u32 %r3, [%rd1+4]; add.u32 %r3, %r3, 1; st.volatile.global.u32 [%rd1+4], %r3;
    membar.gl; atom.global.exch.b32 %r4, [%rd1], 0;
    ret; }";

#[test]
fn a_lock_between_blocks_ends() {
    for workers in 1..4 {
        let words = [0u32; 2];
        Run::new(LOCK).grid(10).block(64).workers(workers).buffer(&words).launch().unwrap();
        assert_eq!(read(&words), [0, 10 * 64]);
    }
}

#[test]
fn a_block_may_wait_for_a_later_one() {
    // Every block counts itself and then waits until all have.
    let text = ".visible .entry k(.param .u64 p, .param .u32 n) {
        .reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %rd<4>;
        ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n];
        mov.u32 %r2, %tid.x; setp.ne.u32 %p1, %r2, 0; @%p1 bra wait;
        atom.global.add.u32 %r3, [%rd1], 1;
        loop: ld.acquire.gpu.global.u32 %r4, [%rd1]; setp.lt.u32 %p2, %r4, %r1; @%p2 bra loop;
        wait: bar.sync 0; atom.global.add.u32 %r3, [%rd1+4], 1; ret; }";
    for workers in [1, 2] {
        let words = [0u32; 2];
        Run::new(text)
            .grid(50)
            .block(64)
            .workers(workers)
            .buffer(&words)
            .value(50)
            .launch()
            .unwrap();
        assert_eq!(read(&words), [50, 50 * 64]);
    }
}

/// A kernel that counts its threads, meets the others by the device's runtime, and counts those that
/// then see all of them.
const MEETS: &str = "
    .extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 scope);
    .extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 handle, .param .b32 flags);
    .visible .entry k(.param .u64 p) {
        .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %d<3>; .param .b32 a; .param .b64 h; .param .b32 e;
        ld.param.u64 %d1, [p];
        red.global.add.u32 [%d1], 1;
        st.param.b32 [a], 1;
        call.uni (h), cudaCGGetIntrinsicHandle, (a);
        ld.param.b64 %d2, [h];
        st.param.b32 [a], 0;
        call.uni (e), cudaCGSynchronize, (h, a);
        ld.param.b32 %r1, [e];
        ld.global.u32 %r2, [%d1]; mov.u32 %r3, %ntid.x; mov.u32 %r4, %nctaid.x; mul.lo.u32 %r3, %r3, %r4;
        setp.eq.u32 %p1, %r2, %r3; setp.eq.and.u32 %p1, %r1, 0, %p1;
        @%p1 red.global.add.u32 [%d1+4], 1;
        call.uni (e), cudaCGSynchronize, (h, a);
        ld.global.u32 %r2, [%d1+4];
        setp.eq.u32 %p1, %r2, %r3;
        @%p1 red.global.add.u32 [%d1+8], 1;
        ret; }";

#[test]
fn the_runtime_brings_the_barrier_of_a_grid() {
    // What NVIDIA's library defines them as: its own function leads to one that only its driver has.
    let library = MEETS.replace(
        ".extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 scope);",
        ".extern .func (.param .b64 r) __cuda_syscall_CGS_get_intrinsic_handle(.param .b32 scope);
         .visible .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 scope) {
             .reg .b32 %r<2>; .reg .b64 %d<2>; .param .b32 a; .param .b64 h;
             ld.param.b32 %r1, [scope]; st.param.b32 [a], %r1;
             call.uni (h), __cuda_syscall_CGS_get_intrinsic_handle, (a);
             ld.param.b64 %d1, [h]; st.param.b64 [r], %d1; ret; }",
    );
    for text in [MEETS, &library] {
        let words = [0u32; 3];
        Run::new(text).grid(40).block(64).cooperative().buffer(&words).launch().unwrap();
        assert_eq!(read(&words), [40 * 64; 3]);
    }
    // Without a workspace there is nothing to meet at: to go on would be wrong without a word.
    let words = [0u32; 3];
    let fault = Run::new(MEETS).grid(2).buffer(&words).launch().expect_err("no cooperative launch");
    assert!(fault.to_string().contains("trap"), "{fault}");
}

#[test]
fn a_cooperative_grid_meets_at_its_barrier() {
    // What cooperative groups compile to: the workspace is in %envreg1 and %envreg2.
    let text = ".visible .entry k(.param .u64 p) {
        .reg .pred %p<6>; .reg .b32 %r<20>; .reg .b64 %rd<10>;
        ld.param.u64 %rd1, [p];
        mov.u32 %r1, %envreg2; mov.u32 %r2, %envreg1; mov.b64 %rd2, {%r1, %r2};
        mov.u32 %r3, %tid.x; mov.u32 %r4, %ctaid.x; mov.u32 %r5, %nctaid.x;
        red.global.add.u32 [%rd1], 1;
        bar.sync 0; setp.ne.u32 %p1, %r3, 0; @%p1 bra wait;
        setp.eq.u32 %p2, %r4, 0; sub.u32 %r6, 0x80000001, %r5; selp.b32 %r7, %r6, 1, %p2;
        membar.gl; atom.add.release.gpu.u32 %r8, [%rd2+4], %r7;
        spin: ld.acquire.gpu.u32 %r9, [%rd2+4]; xor.b32 %r10, %r9, %r8;
        setp.ge.s32 %p3, %r10, 0; @%p3 bra spin;
        wait: bar.sync 0;
        ld.volatile.global.u32 %r11, [%rd1]; mov.u32 %r12, %ntid.x; mul.lo.u32 %r12, %r12, %r5;
        setp.eq.u32 %p4, %r11, %r12; @%p4 red.global.add.u32 [%rd1+4], 1;
        ret; }";
    for workers in [1, 2] {
        let words = [0u32; 2];
        Run::new(text)
            .grid(40)
            .block(64)
            .workers(workers)
            .cooperative()
            .buffer(&words)
            .launch()
            .unwrap();
        assert_eq!(read(&words), [40 * 64, 40 * 64]);
    }
}

#[test]
fn barriers_in_divergent_code_count_threads() {
    // Half of each warp waits at one barrier step, the rest at another: it is the same barrier.
    let text = ".visible .entry k(.param .u64 p) {
        .reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %rd<6>;
        .shared .align 4 .b8 s[1024];
        ld.param.u64 %rd1, [p];
        mov.u32 %r1, %tid.x; mov.u32 %r2, s; mad.lo.u32 %r3, %r1, 4, %r2;
        st.shared.u32 [%r3], %r1;
        and.b32 %r4, %r1, 1; setp.eq.u32 %p1, %r4, 0; @%p1 bra even;
        barrier.sync 0; bra.uni end;
        even: barrier.sync 0;
        end: xor.b32 %r5, %r1, 33; mad.lo.u32 %r6, %r5, 4, %r2; ld.shared.u32 %r7, [%r6];
        mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r7; ret; }";
    let out = [0u32; 128];
    Run::new(text).block(128).buffer(&out).launch().unwrap();
    assert_eq!(read(&out), (0..128).map(|n| n ^ 33).collect::<Vec<_>>());
}

#[test]
fn ended_threads_count_at_a_barrier() {
    let text = ".visible .entry k(.param .u64 p) {
        .reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %rd<6>;
        ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x;
        setp.ge.u32 %p1, %r1, 40; @%p1 exit;
        bar.sync 0; red.global.add.u32 [%rd1], 1;
        setp.eq.u32 %p2, %r1, 3;
        barrier.red.popc.u32 %r2, 1, %p2; setp.eq.u32 %p3, %r2, 1; @%p3 red.global.add.u32 [%rd1+4], 1;
        ret; }";
    let words = [0u32; 2];
    Run::new(text).block(100).buffer(&words).launch().unwrap();
    assert_eq!(read(&words), [40, 40]);
}

#[test]
fn named_barriers_hand_over_between_warps() {
    // Warp 0 produces and arrives; warp 1 waits.
    let text = ".visible .entry k(.param .u64 p) {
        .reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %rd<6>;
        .shared .align 4 .b8 s[256];
        ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, s;
        setp.ge.u32 %p1, %r1, 32; @%p1 bra consume;
        mad.lo.u32 %r3, %r1, 4, %r2; add.u32 %r4, %r1, 100; st.shared.u32 [%r3], %r4;
        bar.arrive 1, 64; ret;
        consume: bar.sync 1, 64; sub.u32 %r5, %r1, 32; mad.lo.u32 %r3, %r5, 4, %r2;
        ld.shared.u32 %r4, [%r3]; mul.wide.u32 %rd2, %r5, 4; add.u64 %rd3, %rd1, %rd2;
        st.global.u32 [%rd3], %r4; ret; }";
    let out = [0u32; 32];
    Run::new(text).block(64).buffer(&out).launch().unwrap();
    assert_eq!(read(&out), (100..132).collect::<Vec<_>>());
}

#[test]
fn a_barrier_nobody_can_complete_is_named() {
    let text = ".visible .entry k() { .reg .pred %p<2>; .reg .b32 %r<3>;
        mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bra low;
        bar.sync 1; ret; low: bar.sync 2; ret; }";
    let fault = Run::new(text).block(64).launch().unwrap_err();
    assert!(fault.to_string().contains("cannot complete"), "{fault}");
}

#[test]
fn memory_that_is_not_there_names_the_thread() {
    let text =
        ".visible .entry k(.param .u64 p) { .reg .pred %p<2>; .reg .b32 %r<3>; .reg .b64 %rd<4>;
        ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 5;
        @%p1 add.u64 %rd1, %rd1, 0x100000000000;
        st.global.u32 [%rd1], %r1; ret; }";
    let words = [0u32; 2];
    let fault = Run::new(text).block(64).buffer(&words).launch().unwrap_err();
    let text = fault.to_string();
    assert!(
        text.contains("line 7 of its PTX, block (0,0,0) thread (5,0,0): writes 4 bytes at 0x"),
        "{text}"
    );
    let text = ".visible .entry k(.param .u64 p) { .reg .b32 %r<3>; .reg .b64 %rd<4>;
        ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1+2]; st.global.u32 [%rd1], %r1; ret; }";
    let fault = Run::new(text).buffer(&words).launch().unwrap_err();
    assert!(fault.to_string().contains("not aligned to 4"), "{fault}");
}
