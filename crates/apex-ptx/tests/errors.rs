//! Text that is not PTX: one sentence, with the line and column it speaks of.

fn check(text: &str, expected: &str) {
    let error = apex_ptx::parse(text).expect_err(text);
    assert_eq!(error.to_string(), expected, "for {text:?}");
}

/// The error of a body, and how many bytes into the body it is.
fn check_body(body: &str, offset: usize, expected: &str) {
    let head = ".version 8.5 .target sm_90 .entry k() { ";
    let column = head.len() + offset + 1;
    check(&format!("{head}{body} }}"), &format!("line 1, column {column}: {expected}"));
}

#[test]
fn a_module_begins_with_its_head() {
    check(
        "",
        "line 1, column 1: expected `.version` at the beginning of the module, found the end of the text",
    );
    check(
        "hello",
        "line 1, column 1: expected `.version` at the beginning of the module, found `hello`",
    );
    check(".version 8", "line 1, column 10: expected a version number such as 8.5, found `8`");
    check(
        ".version 8.5\n.entry",
        "line 2, column 1: expected `.target` after the version, found `.entry`",
    );
    check(
        ".version 8.5 .target sm_90 .address_size 16",
        "line 1, column 42: the address size must be between 32 and 64",
    );
    check(
        ".version 8.5 .target sm_90\n.version 8.5",
        "line 2, column 1: expected only one module in a text, found `.version`",
    );
}

#[test]
fn what_is_opened_is_closed() {
    check("/* ", "line 1, column 1: this comment is never closed");
    check(
        ".version 8.5 .target sm_90 .file 1 \"a\n\"",
        "line 1, column 36: this string is never closed",
    );
    check(
        ".version 8.5 .target sm_90\n.entry k() { ret;",
        "line 2, column 12: this brace is never closed",
    );
    check(
        ".version 8.5 .target sm_90\n.section .x {{}",
        "line 2, column 13: this brace is never closed",
    );
}

#[test]
fn bodies_say_what_was_expected() {
    check_body("ret", 4, "expected an operand, found `}`");
    check_body("add.u32 a b;", 10, "expected `;` at the end of the instruction, found `b`");
    check_body("add.u32 a,;", 10, "expected an operand, found `;`");
    check_body("ld.u32 a, [b;", 12, "expected `]` at the end of the address, found `;`");
    check_body("@ 1;", 2, "expected a predicate register, found `1`");
    check_body("mov.u32 a, 1/0;", 12, "division by zero");
    check_body("mov.u32 a, 0xZZ;", 11, "expected a number, found `0xZZ`");
    check_body("mov.u32 a, 08;", 11, "expected a number, found `08`");
    check_body("mov.u32 a, \u{e9};", 11, "expected an operand, found `\u{e9}`");
    check_body(".reg a;", 5, "expected the type of a register, found `a`");
    check_body(".reg .b32 %r<x>;", 13, "expected the number of registers");
    check_body(".reg .b32 %r<4294967296>;", 13, "expected the number of registers");
    check_body(
        ".branchtargets a;",
        0,
        "expected a label before this directive, found `.branchtargets`",
    );
    check_body(".func f;", 0, "expected no function inside a function, found `.func`");
}

#[test]
fn declarations_say_what_was_expected() {
    let head = ".version 8.5 .target sm_90\n";
    check(
        &format!("{head}.global x;"),
        "line 2, column 9: expected a type such as .u32, found `x`",
    );
    check(
        &format!("{head}.global .u32 .u32 x;"),
        "line 2, column 14: expected a type, an alignment or a name, found `.u32`",
    );
    check(
        &format!("{head}.visible .weak .global .u32 x;"),
        "line 2, column 10: expected only one linkage word, found `.weak`",
    );
    check(
        &format!("{head}.entry k() x"),
        "line 2, column 12: expected `;` or a body after the function's head, found `x`",
    );
    for align in ["0", "3", "2*3"] {
        let text = format!("{head}.global .align {align} .b8 x;");
        check(&text, "line 2, column 16: Alignment must be a power of two");
    }
    check(&format!("{head}ret;"), "line 2, column 1: expected a directive, found `ret`");
}

#[test]
fn nesting_has_a_bound() {
    for (open, close) in [("{", "}"), ("(", ")")] {
        let deep = format!("mov.b32 a, {}1{};", open.repeat(5000), close.repeat(5000));
        let body = format!(".version 8.5 .target sm_90 .entry k() {{ {deep} }}");
        let error = apex_ptx::parse(&body).expect_err("too deep");
        assert_eq!(error.message, "nested deeper than 100 levels");
    }
    let blocks = format!(
        ".version 8.5 .target sm_90 .entry k() {{ {} {} }}",
        "{".repeat(5000),
        "}".repeat(5000)
    );
    assert!(apex_ptx::parse(&blocks).is_err());
    let real = blocks
        .replace(&"{".repeat(5000), &"{".repeat(50))
        .replace(&"}".repeat(5000), &"}".repeat(50));
    assert!(apex_ptx::parse(&real).is_ok());
}
