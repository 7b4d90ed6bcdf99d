//! Scopes, control flow, classes and liveness of small bodies.

use apex_ptx::cfg::{BlockId, Graph};
use apex_ptx::classes::{Class, Classes};
use apex_ptx::code::{Code, RegisterId};
use apex_ptx::liveness::Liveness;
use apex_ptx::tree::Function;

fn function(body: &str) -> Function {
    let text = format!(".version 8.5 .target sm_90\n.entry k(.param .u64 out) {{\n{body}\n}}");
    let module = apex_ptx::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    module.functions().next().expect("one function").clone()
}

fn code(body: &str) -> Code {
    Code::new(&function(body)).unwrap_or_else(|error| panic!("{error}"))
}

/// Blocks as `first..end -> successors`, `!` where the function may end.
fn check_blocks(body: &str, expected: &[&str], post_dominators: &[Option<u32>]) {
    let graph = Graph::new(&code(body));
    let shown: Vec<String> = graph
        .blocks
        .iter()
        .map(|block| {
            let to: Vec<String> = block.successors.iter().map(|to| to.0.to_string()).collect();
            let end = if block.ends { "!" } else { "" };
            format!("{:?} -> {}{end}", block.instructions, to.join(","))
        })
        .collect();
    assert_eq!(shown, expected);
    let found: Vec<Option<u32>> =
        graph.post_dominators().into_iter().map(|block| block.map(|block| block.0)).collect();
    assert_eq!(found, post_dominators);
    for (number, block) in graph.blocks.iter().enumerate() {
        for instruction in block.instructions.clone() {
            assert_eq!(graph.block_of(instruction), Some(BlockId(number as u32)));
        }
    }
}

#[test]
fn a_branch_meets_again_behind_both_sides() {
    check_blocks(
        ".reg .pred p; .reg .b32 a;
        @p bra ELSE;
        mov.u32 a, 1;
        bra END;
        ELSE: mov.u32 a, 2;
        END: mov.u32 a, a;
        ret;",
        &["0..1 -> 2,1", "1..3 -> 3", "3..4 -> 3", "4..6 -> !"],
        &[Some(3), Some(3), Some(3), None],
    );
}

#[test]
fn a_loop_meets_again_behind_itself() {
    check_blocks(
        ".reg .pred p;
        TOP: @p exit;
        nanosleep.u32 1;
        @p bra TOP;
        trap;",
        &["0..1 -> 1!", "1..3 -> 0,2", "3..4 -> !"],
        &[None, None, None],
    );
}

#[test]
fn an_endless_loop_has_no_end_and_a_table_has_many() {
    check_blocks(
        ".reg .b32 i; .reg .pred p;
        list: .branchtargets A, B, A;
        @p bra FOREVER;
        brx.idx i, list;
        A: bra C;
        B: membar.gl;
        C: membar.gl;
        ret;
        FOREVER: bra FOREVER;",
        &["0..1 -> 5,1", "1..2 -> 2,3", "2..3 -> 4", "3..4 -> 4", "4..6 -> !", "6..7 -> 5"],
        &[Some(1), Some(4), Some(4), Some(4), None, None],
    );
}

#[test]
fn falling_off_the_end_is_a_return() {
    check_blocks(
        ".reg .pred p; @p bra END; membar.gl; END:",
        &["0..1 -> 1!", "1..2 -> !"],
        &[None, None],
    );
    check_blocks("", &[], &[]);
}

#[test]
fn dominators_of_a_diamond() {
    let graph =
        Graph::new(&code(".reg .pred p; @p bra B; bra C; B: membar.gl; C: ret; NEVER: ret;"));
    let found: Vec<Option<u32>> =
        graph.dominators().into_iter().map(|block| block.map(|block| block.0)).collect();
    assert_eq!(found, [None, Some(0), Some(0), Some(0), None]);
}

fn check_code_error(body: &str, expected: &str) {
    let error = Code::new(&function(body)).expect_err(body);
    assert_eq!(error.to_string(), expected);
}

#[test]
fn impossible_bodies_are_named() {
    check_code_error("bra NOWHERE;", "line 3: no label NOWHERE in this function");
    check_code_error("{ IN: }\nbra IN;", "line 4: no label IN in this function");
    check_code_error("A: A: ret;", "line 3: A is declared twice in the same block");
    check_code_error(".reg .b32 out;", "line 3: out is declared twice in the same block");
    check_code_error(
        ".reg .b32 %r<3>;\n.reg .b64 %r<4>;",
        "line 4: %r is declared twice in the same block",
    );
    check_code_error("brx.idx %r1, list;", "line 3: this branch has no target");
}

#[test]
fn names_of_inner_blocks_are_told_apart() {
    let code = code(
        ".reg .b32 %r<3>, x;
        mov.u32 x, %r1;
        { .reg .f64 x; .reg .b32 %r<2>; L: mov.f64 x, 1.0; mov.u32 %r1, %r2; bra L; }
        { L: bra L; mov.u32 x, 1; .reg .pred x; mov.pred x, x; }",
    );
    let printed: Vec<String> =
        code.instructions.iter().map(|instruction| instruction.to_string()).collect();
    assert_eq!(
        printed,
        [
            "mov.u32 x, %r1;",
            "mov.f64 x$scope1, 0d3FF0000000000000;",
            "mov.u32 %r1$scope1, %r2;",
            "bra L$scope1;",
            "bra L$scope2;",
            "mov.u32 x, 1;",
            "mov.pred x$scope2, x$scope2;",
        ]
    );
    assert_eq!(code.labels["L$scope1"], 1);
    assert_eq!(code.labels["L$scope2"], 4);
    assert!(code.register("x$scope1").is_some() && code.register("L$scope1").is_none());
    assert_eq!(code.registers.len(), 6);
}

#[test]
fn a_huge_declaration_costs_nothing() {
    let code =
        code(".reg .b32 %r<4294967295>, %r1<10>; mov.u32 %r7, %r4294967294; mov.u32 %r19, %r01;");
    let names: Vec<&str> = code.registers.iter().map(|register| &*register.name).collect();
    assert_eq!(names, ["%r7", "%r4294967294", "%r19"]);
}

fn check_class(body: &str, register: &str, class: Class, float: bool, integer: bool) {
    let code = code(body);
    let id = code.register(register).expect("the register is used");
    let inferred = Classes::new(&code).registers[id.0 as usize];
    assert_eq!(
        (inferred.class, inferred.float, inferred.integer),
        (class, float, integer),
        "{body}"
    );
}

#[test]
fn uses_tell_width_and_kind() {
    use Class::{Bits16, Bits32, Bits64, Bits128, Predicate};
    check_class(".reg .b32 a; add.f32 a, a, a;", "a", Bits32, true, false);
    check_class(".reg .b32 a; add.s32 a, a, a;", "a", Bits32, false, true);
    check_class(".reg .b32 a; ld.global.b32 a, [out];", "a", Bits32, false, false);
    // A declaration that no use confirms is overruled.
    check_class(".reg .b32 a; add.f64 a, a, a;", "a", Bits64, true, false);
    check_class(".reg .b32 a; @a ret;", "a", Predicate, false, false);
    check_class(".reg .b16 a; ld.global.u64 a, [out];", "a", Bits64, false, true);
    // Wider registers are allowed for loads, stores and integer conversions.
    check_class(".reg .b32 a; ld.global.u8 a, [out];", "a", Bits32, false, true);
    check_class(".reg .b64 a; st.global.u8 [out], a;", "a", Bits64, false, true);
    check_class(".reg .b32 a; cvt.u8.u32 a, a;", "a", Bits32, false, true);
    check_class(".reg .b64 a; ld.global.f32 a, [out];", "a", Bits64, true, false);
    check_class(".reg .v2 .b16 a; .reg .b32 b; mov.b32 a, b;", "a", Bits16, false, false);
    check_class(".reg .b64 d; .reg .b32 a; mul.wide.u32 d, a, a;", "d", Bits64, false, true);
    check_class(".reg .b64 d; .reg .b32 a; mul.wide.u32 d, a, a;", "a", Bits32, false, true);
    check_class(".reg .b32 d; .reg .b64 a; popc.b64 d, a;", "d", Bits32, false, false);
    check_class(".reg .b32 a; .reg .b64 d; shl.b64 d, d, a;", "a", Bits32, false, false);
    check_class(".reg .b64 d; .reg .b32 a; mov.b64 d, {a, a};", "a", Bits32, false, false);
    check_class(".reg .b64 d; .reg .b16 a; mov.b64 {a, a, a, a}, d;", "a", Bits16, false, false);
    check_class(".reg .b128 d; .reg .b64 a; mov.b128 d, {a, a};", "d", Bits128, false, false);
    check_class(
        ".reg .pred q; .reg .b32 a; shfl.sync.down.b32 a|q, a, 1, 31, -1;",
        "q",
        Predicate,
        false,
        false,
    );
    check_class(
        ".reg .b16 h; .reg .b32 a; cvt.rn.satfinite.e4m3x2.f32 h, a, a;",
        "h",
        Bits16,
        false,
        false,
    );
    check_class(".reg .pred q; .reg .b32 a; setp.lt.and.f32 q, a, a, q;", "a", Bits32, true, false);
    check_class(".reg .b32 d; .reg .b64 a; selp.b32 d, d, d, a;", "a", Predicate, false, false);
    check_class(".reg .b64 a; mystery.f32 a, a;", "a", Bits64, false, false);
}

#[test]
fn contradictory_uses_are_reported() {
    let code = code(".reg .b32 a; add.s32 a, a, a; add.s64 a, a, a;");
    let inferred = Classes::new(&code).registers[0];
    assert!(inferred.contradiction);
    assert_eq!(inferred.class, Class::Bits32);
}

fn liveness(body: &str) -> (Code, Liveness) {
    let code = code(body);
    let graph = Graph::new(&code);
    let classes = Classes::new(&code);
    let liveness = Liveness::new(&code, &graph, &classes).expect("small");
    (code, liveness)
}

fn names(code: &Code, registers: impl Iterator<Item = RegisterId>) -> Vec<String> {
    registers.map(|id| code.registers[id.0 as usize].name.to_string()).collect()
}

#[test]
fn values_live_around_a_loop() {
    let (code, liveness) = liveness(
        ".reg .b32 i, sum, unused; .reg .b64 a; .reg .pred q;
        ld.param.u64 a, [out];
        mov.u32 i, 0; mov.u32 sum, 0;
        TOP: add.u32 sum, sum, i;
        mov.u32 unused, 7;
        add.u32 i, i, 1;
        setp.lt.u32 q, i, 10;
        @q bra TOP;
        st.global.u32 [a], sum;
        ret;",
    );
    assert_eq!(names(&code, liveness.live_in(BlockId(0))), [""; 0]);
    assert_eq!(names(&code, liveness.live_in(BlockId(1))), ["a", "i", "sum"]);
    assert_eq!(names(&code, liveness.live_out(BlockId(1))), ["a", "i", "sum"]);
    assert_eq!(names(&code, liveness.live_in(BlockId(2))), ["a", "sum"]);
    // a takes two, i and sum one each, and unused needs a place at its instruction.
    assert_eq!((liveness.most_registers, liveness.most_predicates), (5, 1));
    assert_eq!(liveness.registers_per_thread(&function("")), 10);
    assert!(liveness.is_live_in(BlockId(1), code.register("i").expect("used")));
    assert!(!liveness.is_live_in(BlockId(2), code.register("i").expect("used")));
}

#[test]
fn a_guarded_write_keeps_the_old_value() {
    let (code, liveness) = liveness(
        ".reg .b32 x, y; .reg .pred q;
        bra NEXT;
        UNUSED: NEXT: @q mov.u32 x, 1;
        mov.u32 y, x;
        ret;",
    );
    assert_eq!(names(&code, liveness.live_in(BlockId(1))), ["q", "x"]);
}

#[test]
fn stores_barriers_and_calls_have_no_result() {
    let (code, liveness) = liveness(
        ".reg .b32 a, b, c, d; .reg .b64 f;
        bra NEXT;
        NEXT: st.shared.u32 [a], b;
        bar.sync c, d;
        call f;
        ret;",
    );
    assert_eq!(names(&code, liveness.live_in(BlockId(1))), ["a", "b", "c", "d", "f"]);
}

#[test]
fn a_function_that_limits_itself_gets_no_more_registers() {
    let registers: String =
        (0..100).map(|place| format!("ld.param.u32 %r{place}, [out];")).collect();
    let uses: String = (0..100).map(|place| format!("st.global.u32 [out], %r{place};")).collect();
    let limited = |directives: &str| {
        let text = format!(
            ".version 8.5 .target sm_90 .entry k(.param .u64 out) {directives} {{ .reg .b32 %r<100>; {registers} {uses} }}"
        );
        let module = apex_ptx::parse(&text).unwrap_or_else(|error| panic!("{error}"));
        let function = module.functions().next().expect("one function");
        let code = Code::new(function).unwrap_or_else(|error| panic!("{error}"));
        let liveness = Liveness::new(&code, &Graph::new(&code), &Classes::new(&code));
        liveness.expect("small").registers_per_thread(function)
    };
    assert_eq!(limited(""), 104);
    assert_eq!(limited(".maxnreg 40"), 40);
    assert_eq!(limited(".maxntid 1024"), 64);
    assert_eq!(limited(".maxntid 256 .minnctapersm 4"), 64);
    assert_eq!(limited(".reqntid 100 .minnctapersm 8"), 64);
    assert_eq!(limited(".maxntid 4294967295, 4294967295, 4294967295 .minnctapersm 4294967295"), 8);
}
