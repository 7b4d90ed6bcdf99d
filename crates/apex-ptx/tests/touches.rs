//! What launches of small kernels touch, to the byte.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use apex_ptx::touches::{Barrier, Kind, Place, Scratch, Shape, Touch, Touches};

const A: u64 = 0x7000_0000_0000;
const B: u64 = A + 0x10_0000;
const BYTES: u64 = 0x8_0000;

const INDEX: &str = "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n\
    mad.lo.s32 %r4, %r1, %r2, %r3; ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b];\n\
    cvta.to.global.u64 %d1, %d1; cvta.to.global.u64 %d2, %d2; ld.param.u32 %r5, [n];\n";

fn touches(body: &str) -> Result<Touches, Barrier> {
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.global .align 4 .b8 table[400];\n\
         .extern .func f;\n\
         .visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n)\n{{\n\
         .reg .pred %p<9>; .reg .f32 %f<9>; .reg .b32 %r<20>; .reg .b64 %d<20>;\n{INDEX}{body}\nret;\n}}\n"
    );
    let module = apex_ptx::parse(&text).unwrap();
    let kernel = module.functions().find(|function| &*function.name == "k").unwrap();
    Touches::new(&module, kernel)
}

/// Of a launch of 4 blocks of 32 threads over the two allocations.
fn of(body: &str, n: u32) -> Result<Vec<Touch>, Barrier> {
    among(&[A, B], [A, B], body, n)
}

/// The same with these pointers, among allocations that begin at these places.
fn among(begins: &[u64], pointers: [u64; 2], body: &str, n: u32) -> Result<Vec<Touch>, Barrier> {
    let mut parameters = pointers.map(u64::to_le_bytes).concat();
    parameters.extend(n.to_le_bytes());
    let shape = Shape { grid: [4, 1, 1], block: [32, 1, 1], parameters: &parameters };
    let mut allocation = |address: u64| {
        begins.iter().map(|&from| from..from + BYTES).find(|range| range.contains(&address))
    };
    let mut touched = Vec::new();
    touches(body)?.of(&shape, &mut allocation, &mut Scratch::default(), &mut touched)?;
    Ok(touched)
}

#[track_caller]
fn check(body: &str, n: u32, expected: &[(u64, u64, u64, Kind)]) {
    let found = of(body, n).unwrap();
    let found: Vec<(u64, u64, u64, Kind)> = found
        .into_iter()
        .map(|touch| {
            assert_eq!(touch.place, Place::Memory);
            let base = if touch.bytes.start >= B { B } else { A };
            (base, touch.bytes.start - base, touch.bytes.end - base, touch.kind)
        })
        .collect();
    assert_eq!(found, expected, "{body}");
}

const WORD: &str = "mul.wide.s32 %d3, %r4, 4; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;";

#[test]
fn a_guard_bounds_what_threads_touch() {
    let body = format!(
        "setp.ge.s32 %p1, %r4, %r5; @%p1 bra END; {WORD}\n\
         ld.global.f32 %f1, [%d4]; st.global.f32 [%d5+4], %f1; END:"
    );
    check(&body, 100, &[(A, 0, 400, Kind::Read), (B, 4, 404, Kind::Write)]);
    check(&body, 1_000, &[(A, 0, 512, Kind::Read), (B, 4, 516, Kind::Write)]);
    check(&body, 0, &[]);
    // As Triton writes it: computed before, and each instruction has the guard.
    let body = format!("setp.lt.s32 %p1, %r4, %r5; {WORD} @%p1 ld.global.f32 %f1, [%d4];");
    check(&body, 100, &[(A, 0, 400, Kind::Read)]);
}

#[test]
fn a_loop_over_the_grid_ends_where_its_guard_does() {
    let body = "mov.u32 %r6, %nctaid.x; mul.lo.s32 %r6, %r6, %r2; setp.ge.s32 %p1, %r4, %r5; @%p1 bra END;\n\
        LOOP: mul.wide.s32 %d3, %r4, 4; add.s64 %d4, %d1, %d3; st.global.f32 [%d4], %f1;\n\
        add.s32 %r4, %r4, %r6; setp.lt.s32 %p2, %r4, %r5; @%p2 bra LOOP; END:";
    check(body, 1_000, &[(A, 0, 4_000, Kind::Write)]);
    // Tested where it begins.
    let body = "LOOP: setp.ge.s32 %p1, %r4, %r5; @%p1 bra END;\n\
        mul.wide.s32 %d3, %r4, 4; add.s64 %d4, %d1, %d3; st.global.f32 [%d4], %f1;\n\
        add.s32 %r4, %r4, 128; bra LOOP; END:";
    check(body, 1_000, &[(A, 0, 4_000, Kind::Write)]);
}

#[test]
fn a_pointer_that_wanders_is_bounded_by_the_turns_of_its_loop() {
    let body = "mov.u32 %r6, %r5; mov.u64 %d3, %d1;\n\
        LOOP: ld.global.f32 %f1, [%d3]; ld.global.f32 %f2, [%d3+12]; add.s64 %d3, %d3, 16;\n\
        add.s32 %r6, %r6, -4; setp.ne.s32 %p1, %r6, 0; @%p1 bra LOOP;";
    check(body, 400, &[(A, 0, 1_600, Kind::Read)]);
    // It does not end at zero: all of the allocation.
    check(body, 401, &[(A, 0, BYTES, Kind::Read)]);
}

#[test]
fn an_index_from_memory_is_bounded_by_the_allocation_of_its_pointer() {
    let body = format!(
        "{WORD} ld.global.u32 %r7, [%d4]; mul.wide.u32 %d6, %r7, 4; add.s64 %d7, %d2, %d6;\n\
         red.global.add.f32 [%d7], %f1;"
    );
    check(&body, 0, &[(A, 0, 512, Kind::Read), (B, 0, BYTES, Kind::Both)]);
}

#[test]
fn bounds_that_are_wider_than_a_buffer_do_not_reach_into_the_next() {
    let beside = A + BYTES;
    // Threads at the edge jump over one of both; that is not told from the bounds.
    let body = format!(
        "{WORD} setp.lt.s32 %p1, %r4, 1; @%p1 bra ONE; ld.global.f32 %f1, [%d4+-8];\n\
         ONE: st.global.f32 [%d5+4], %f1;"
    );
    let found = among(&[A, beside], [A, beside], &body, 0).unwrap();
    let bytes: Vec<_> = found.iter().map(|touch| touch.bytes.clone()).collect();
    assert_eq!(bytes, [A..A + 504, beside + 4..beside + 516]);
    // A pointer to before the first element of what stands behind.
    let found = among(&[A, beside], [A, beside - 4], &body, 0).unwrap();
    assert_eq!(found[1].bytes, beside..beside + 512);
    // Nothing is known of what would be written there.
    assert_eq!(among(&[A, B], [A, beside - 4], &body, 0), Err(Barrier::Memory));
}

#[test]
fn variables_of_the_module_are_places_of_their_own() {
    let found = of(
        "mov.u64 %d3, table; mul.wide.u32 %d4, %r3, 4; add.s64 %d5, %d3, %d4; st.global.u32 [%d5], %r3;",
        0,
    );
    let bytes = 0..128;
    assert_eq!(found, Ok(vec![Touch { place: Place::Variable(0), bytes, kind: Kind::Write }]));
}

#[test]
fn what_cannot_be_shown_is_a_barrier() {
    let cases = [
        ("ld.global.u64 %d3, [%d1]; st.global.u32 [%d3], %r1;", Barrier::Pointer),
        ("call f;", Barrier::Call),
        ("griddepcontrol.wait;", Barrier::Launch),
        ("somethingnew.u32 %r1, %r2;", Barrier::Unknown),
        (
            "W: ld.volatile.global.u32 %r1, [%d1]; setp.eq.u32 %p1, %r1, 0; @%p1 bra W;",
            Barrier::Spin,
        ),
        (
            "setp.eq.s32 %p1, %r1, 0; @%p1 bra Y; X: add.s32 %r1, %r1, 1; Y: setp.lt.s32 %p2, %r1, 9; @%p2 bra X;",
            Barrier::Loop,
        ),
        ("mov.u32 %r9, 0; cvt.u64.u32 %d9, %r9; st.global.u32 [%d9], %r1;", Barrier::Pointer),
    ];
    for (body, expected) in cases {
        assert_eq!(of(body, 0), Err(expected), "{body}");
    }
    // Two pointers in one address.
    assert_eq!(of("add.s64 %d3, %d1, %d2; st.global.u32 [%d3], %r1;", 0), Err(Barrier::Pointer));
}
