//! Several modules become one.

use apex_ptx::tree::{Item, Module};
use apex_ptx::{LinkError, Linked, link, parse};

fn module(items: &str) -> Module {
    let text = format!(".version 8.5\n.target sm_90\n.address_size 64\n{items}");
    parse(&text).unwrap_or_else(|error| panic!("{error}"))
}

fn linked(texts: &[&str]) -> Linked {
    let modules: Vec<Module> = texts.iter().map(|text| module(text)).collect();
    link(&modules).unwrap_or_else(|error| panic!("{error}"))
}

/// What comes out, without head and blank lines.
fn check(texts: &[&str], expected: &str) {
    let printed = linked(texts).module.to_string();
    let lines = |text: &str| -> Vec<String> {
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_string).collect()
    };
    assert_eq!(lines(&printed)[3..], lines(expected));
}

fn check_error(texts: &[&str], expected: &str) {
    let modules: Vec<Module> = texts.iter().map(|text| module(text)).collect();
    assert_eq!(link(&modules).expect_err("must not link").to_string(), expected);
}

#[test]
fn a_reference_finds_its_definition() {
    check(
        &[
            ".extern .global .u32 x; .extern .func f(.param .b32 a); .entry k() { call f, (1); ld.global.u32 r, [x]; }",
            ".visible .global .u32 x = 5; .visible .func f(.param .b32 b) { ret; }",
        ],
        ".visible .func f(
        .param .b32 b);
        .visible .global .u32 x = 5;
        .entry k()
        {
        call f, (1);
        ld.global.u32 r, [x];
        }
        .visible .func f(
        .param .b32 b)
        {
        ret;
        }",
    );
}

#[test]
fn own_symbols_of_two_modules_are_told_apart() {
    check(
        &[
            ".global .u32 s = 1; .global .u64 t = generic(s)+4; .visible .entry one(.param .u64 s) { ld.param.u64 a, [s]; }",
            ".global .u32 s = 2; .visible .entry two() { ld.global.u32 a, [s+4]; { .reg .b32 s; mov.u32 s, s; } mov.u64 a, s; }",
        ],
        ".global .u32 s$module1 = 1;
        .global .u64 t = generic(s$module1)+4;
        .global .u32 s$module2 = 2;
        .visible .entry one(
        .param .u64 s)
        {
        ld.param.u64 a, [s];
        }
        .visible .entry two()
        {
        ld.global.u32 a, [s$module2+4];
        {
        .reg .b32 s;
        mov.u32 s, s;
        }
        mov.u64 a, s$module2;
        }",
    );
}

#[test]
fn an_own_symbol_does_not_answer_for_another_module() {
    let outcome = linked(&[
        ".global .u32 x = 1;",
        ".extern .global .u32 x; .entry k() { ld.global.u32 a, [x]; }",
    ]);
    assert_eq!(outcome.unresolved.len(), 1);
    assert_eq!(&*outcome.unresolved[0].name, "x");
    assert_eq!((outcome.unresolved[0].module, outcome.unresolved[0].line), (1, 4));
    let printed = outcome.module.to_string();
    assert!(
        printed.contains(".global .u32 x$module1 = 1;")
            && printed.contains("ld.global.u32 a, [x];")
    );
}

#[test]
fn weak_and_common_give_way() {
    check(&[".weak .global .u32 w = 1;", ".weak .global .u32 w = 2;"], ".weak .global .u32 w = 1;");
    check(
        &[".weak .global .u32 w = 1;", ".visible .global .u32 w = 2;"],
        ".visible .global .u32 w = 2;",
    );
    check(
        &[".visible .global .u32 w = 2;", ".weak .global .u32 w = 1;"],
        ".visible .global .u32 w = 2;",
    );
    check(
        &[".common .global .b8 c[4];", ".common .global .b8 c[16];", ".common .global .b8 c[8];"],
        ".common .global .b8 c[16];",
    );
    check(
        &[".common .global .b8 c[4];", ".visible .global .b8 c[2];"],
        ".visible .global .b8 c[2];",
    );
}

#[test]
fn two_strong_definitions_are_an_error() {
    check_error(
        &[".visible .global .u32 x;", "", ".visible .global .u32 x;"],
        "x is defined twice: in module 1 and in module 3; rename one, or make it static or weak",
    );
    check_error(
        &[".visible .entry k() { }", ".visible .entry k() { }"],
        "k is defined twice: in module 1 and in module 2; rename one, or make it static or weak",
    );
    check_error(
        &[".visible .global .u32 f;", ".visible .func f() { }"],
        "f is a variable in one module and a function in another",
    );
    assert_eq!(link(&[]), Err(LinkError::Nothing));
}

#[test]
fn dynamic_shared_memory_is_one_and_resolved() {
    let outcome = linked(&[
        ".extern .shared .align 4 .b8 s[];",
        ".extern .shared .align 16 .b8 s[]; .extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);",
    ]);
    let names: Vec<&str> = outcome.unresolved.iter().map(|symbol| &*symbol.name).collect();
    assert_eq!(names, ["vprintf"]);
    assert!(outcome.unresolved[0].is_function);
    let shared: Vec<Option<u32>> =
        outcome.module.variables().map(|variable| variable.align).collect();
    assert_eq!(shared, [Some(16)]);
}

#[test]
fn variables_stand_behind_what_they_point_to() {
    check(
        &[
            ".extern .global .u32 late; .global .u64 early = generic(late);",
            ".visible .global .u32 late = 1; .global .u64 table[2] = {f, late}; .func f() { }",
        ],
        ".func f();
        .visible .global .u32 late = 1;
        .global .u64 early = generic(late);
        .global .u64 table[2] = {f, late};
        .func f()
        {
        }",
    );
}

#[test]
fn debug_information_of_several_modules_is_left_out() {
    check(
        &[
            ".file 1 \"a\"\n.entry a() { .loc 1 2 3\n { .loc 1 3 4\n ret; } .pragma \"x\"; }\n.section .debug_str { }",
            ".pragma \"y\"; .entry b() { }",
        ],
        ".pragma \"y\";
        .entry a()
        {
        {
        ret;
        }
        .pragma \"x\";
        }
        .entry b()
        {
        }",
    );
}

#[test]
fn one_module_comes_back_as_it_is() {
    let alone = module(".file 1 \"a\"\n.extern .global .u32 x;\n.entry k() { .loc 1 2 3\n ret; }");
    let outcome = link(std::slice::from_ref(&alone)).unwrap();
    assert_eq!(outcome.module, alone);
    assert_eq!(outcome.unresolved.len(), 1);
}

#[test]
fn the_head_is_the_newest() {
    let old = parse(".version 6.0 .target sm_75, texmode_independent").unwrap();
    let new = parse(".version 8.5 .target sm_90a, debug").unwrap();
    let both = link(&[old.clone(), new]).unwrap().module;
    assert_eq!(both.version, (8, 5));
    assert_eq!(both.target.join(" "), "sm_90a texmode_independent");
    let small = parse(".version 6.0 .target sm_75 .address_size 32").unwrap();
    assert_eq!(link(&[old, small]), Err(LinkError::AddressSize));
}

#[test]
fn relocatable_device_code_of_nvcc_links() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compiled");
    for architecture in ["90", "120"] {
        let modules: Vec<Module> = ["rdc1", "rdc2"]
            .map(|unit| {
                let path = folder.join(format!("{unit}_{architecture}.ptx"));
                parse(&std::fs::read_to_string(path).unwrap()).unwrap()
            })
            .into();
        let outcome = link(&modules).unwrap();
        assert_eq!(outcome.unresolved, []);
        let again = parse(&outcome.module.to_string()).unwrap();
        assert_eq!(again.without_lines(), outcome.module.clone().without_lines());
        let bodies = outcome
            .module
            .items
            .iter()
            .filter(|item| matches!(item, Item::Function(function) if function.body.is_some()));
        assert_eq!(bodies.count(), 5);
    }
}
