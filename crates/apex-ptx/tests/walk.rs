//! Warps on their way through small kernels.

use apex_ptx::walk::{Counts, Launch, Program, walk};

const HEAD: &str = ".reg .pred %p<9>; .reg .b32 %r<99>; .reg .b64 %d<99>; .reg .f32 %f<99>;
    ld.param.u64 %d1, [memory]; ld.param.u32 %r1, [count];
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;";

fn program(body: &str) -> Program {
    let text = format!(
        ".version 8.5 .target sm_90\n.visible .entry k(.param .u64 memory, .param .u32 count) {{
        .shared .align 4 .b8 words[16384];\n{HEAD}\n{body}\n}}"
    );
    let module = apex_ptx::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let function = module.functions().next().expect("one function");
    Program::new(function, module.variables()).expect("a program")
}

fn walked(program: &Program, count: u64) -> Counts {
    let parameters = [Some(1 << 40), Some(count)];
    let launch = Launch {
        grid: [64, 1, 1],
        block: [128, 1, 1],
        dynamic_shared: 0,
        sharing: 32,
        parameters: &parameters,
        bytes: &[1 << 24, 0],
    };
    walk(program, &launch)
}

const LOOP: &str = "mov.u32 %r10, 0;
    LOOP: fma.rn.f32 %f1, %f1, %f2, %f3; add.s32 %r10, %r10, 1; setp.lt.u32 %p1, %r10, %r1; @%p1 bra LOOP; ret;";

#[test]
fn a_loop_turns_as_often_as_an_argument_says() {
    let program = program(LOOP);
    let of = |count: u64| walked(&program, count);
    // Nine turns are walked, a million are not: each still costs four instructions.
    for count in [9, 10, 11, 100, 12_345, 1_000_000] {
        let more = of(count).instructions - of(1).instructions;
        assert_eq!(more, 4.0 * (count - 1) as f32, "{count}");
    }
    let chain = of(1_000_000).cycles / 1e6;
    // The count, the comparison and the branch wait for each other longer than the sum for itself.
    assert!((7.9..8.2).contains(&chain), "{chain}");
    assert_eq!((of(100).guessed, of(100).flops), (0.0, 32.0 * 2.0 * 100.0));
}

#[test]
fn loops_in_loops_multiply() {
    let program = program(
        "mov.u32 %r10, 0;
        OUTER: mov.u32 %r11, 0;
        INNER: fma.rn.f32 %f1, %f1, %f2, %f3; add.s32 %r11, %r11, 1; setp.ne.s32 %p1, %r11, %r1; @%p1 bra INNER;
        add.s32 %r10, %r10, 1; setp.ne.s32 %p2, %r10, %r1; @%p2 bra OUTER; ret;",
    );
    let found = walked(&program, 300).flops / 64.0;
    assert!((found / 90_000.0 - 1.0).abs() < 1e-3, "{found}");
}

#[test]
fn lanes_that_part_wait_for_the_longest() {
    // Each lane turns as often as its number says, and once.
    let program = program(
        "mov.u32 %r10, 0; and.b32 %r12, %r5, 31; mul.lo.s32 %r12, %r12, %r1;
        LOOP: fma.rn.f32 %f1, %f1, %f2, %f3; setp.ge.u32 %p1, %r10, %r12; @%p1 bra END;
        add.s32 %r10, %r10, 1; bra LOOP; END: ret;",
    );
    let found = walked(&program, 100);
    assert_eq!(found.flops, 2.0 * (0..32).map(|lane| 100.0 * lane as f32 + 1.0).sum::<f32>());
    assert!((5.0 * 3_100.0..5.0 * 3_110.0).contains(&found.instructions), "{found:?}");
}

#[test]
fn neighbours_share_lines_and_strangers_do_not() {
    let reach = |address: &str| {
        let body = format!("{address} add.s64 %d3, %d1, %d2; ld.global.f32 %f1, [%d3]; ret;");
        let found = walked(&program(&body), 3);
        (found.lines, found.missed)
    };
    assert_eq!(reach("mul.wide.u32 %d2, %r5, 4;"), (1.0, 4.0));
    assert_eq!(reach("mul.wide.u32 %d2, %r5, 32;"), (8.0, 32.0));
    assert_eq!(reach("mul.wide.u32 %d2, %r5, 4096;"), (32.0, 32.0));
    assert_eq!(reach("mul.wide.u32 %d2, %r2, 4;"), (1.0, 1.0));
    // A word read before is found again.
    let again = "mul.wide.u32 %d2, %r5, 4; add.s64 %d3, %d1, %d2; ld.global.f32 %f1, [%d3]; ld.global.f32 %f2, [%d3];";
    let found = walked(&program(again), 3);
    assert_eq!((found.accesses, found.missed, found.rounds), (2.0, 4.0, 0.0));
}

#[test]
fn loads_that_need_loads_wait_for_each_other() {
    let found = walked(
        &program(
            "mul.wide.u32 %d2, %r5, 4; add.s64 %d3, %d1, %d2; ld.global.u32 %r10, [%d3];
            mul.wide.u32 %d4, %r10, 4; add.s64 %d5, %d1, %d4; ld.global.f32 %f1, [%d5];
            st.global.f32 [%d3], %f1; ret;",
        ),
        3,
    );
    assert_eq!((found.rounds, found.stored), (2.0, 4.0));
    assert!(found.gathered > 31.0, "{found:?}");
}

#[test]
fn a_bank_answers_one_lane_at_a_time() {
    let rounds = |stride: u32| {
        let body = format!(
            "mov.u32 %r10, words; mad.lo.s32 %r11, %r4, {stride}, %r10; ld.shared.f32 %f1, [%r11]; ret;"
        );
        walked(&program(&body), 3).shared
    };
    assert_eq!([rounds(0), rounds(4), rounds(8), rounds(128)], [1.0, 1.0, 2.0, 32.0]);
}

#[test]
fn a_loop_that_nobody_knows_the_end_of_is_left() {
    let found = walked(
        &program(
            "ld.global.u32 %r10, [%d1]; mov.u32 %r11, 0;
            LOOP: fma.rn.f32 %f1, %f1, %f2, %f3; add.s32 %r11, %r11, 1; setp.lt.u32 %p1, %r11, %r10; @%p1 bra LOOP;
            ret;",
        ),
        3,
    );
    assert!(found.guessed > 0.0 && found.flops < 64.0 * 100.0, "{found:?}");
    // One that never ends is given up.
    assert!(walked(&program("LOOP: bra LOOP;"), 3).instructions > 1_000.0);
}

#[test]
fn slow_ways_of_odd_numbers_are_passed_by() {
    let found = walked(
        &program(
            "mov.u32 %r11, 0; setp.lt.f32 %p1, %f1, %f2; @%p1 bra NEAR;
            FAR: fma.rn.f32 %f1, %f1, %f2, %f3; add.s32 %r11, %r11, 1; setp.lt.u32 %p2, %r11, 9; @%p2 bra FAR;
            NEAR: add.f32 %f1, %f1, %f2; ret;",
        ),
        3,
    );
    assert_eq!(found.flops, 32.0);
}

#[test]
fn atomics_meet_where_their_addresses_do() {
    let meeting = |address: &str, add: &str| {
        let body = format!("{address} add.s64 %d3, %d1, %d2; {add} ret;");
        let found = walked(&program(&body), 3);
        (found.atomics, found.meeting)
    };
    let whole = "red.global.add.u32 [%d3], 1;";
    assert_eq!(meeting("mul.wide.u32 %d2, %r5, 4;", whole), (32.0, 1.0));
    assert_eq!(meeting("mov.u64 %d2, 0;", whole), (32.0, 32.0));
    let crowd = |add: &str| walked(&program(&format!("mov.u64 %d3, %d1; {add} ret;")), 3).contended;
    // Integers that meet are added up on the way, floats are not.
    assert_eq!(crowd("red.global.add.f32 [%d3], %f1;"), 32.0 * crowd(whole));
}
