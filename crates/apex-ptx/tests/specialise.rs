//! Files of PTX, what a kernel of it is called with, and what the kernel then becomes.
//!
//! The first line of a file says the call: `// kernel NAME`, then any of `block=256,1,1`, `grid=4,1,1`, `n=1024` for a
//! parameter, `variable:NAME=ADDRESS`, `without:PASS`. Behind the marker stands what is printed, or `refused:` and the
//! reason. `UPDATE_EXPECT=1` writes what comes out now; read the diff before it is kept.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use apex_ptx::parse;
use apex_ptx::specialise::{
    Call, Foldable, Specialised, entry, foldable, given, left_alone, needs_check, places,
    specialise, variables,
};
use std::fs;
use std::path::Path;

const MARKER: &str = "//---- specialised\n";

#[test]
fn kernels_become_what_is_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/specialise");
    let mut files = 0;
    for entry in fs::read_dir(folder).unwrap() {
        check(&entry.unwrap().path());
        files += 1;
    }
    assert!(files >= 8, "only {files} files");
}

fn check(path: &Path) {
    let text = fs::read_to_string(path).expect("a file is text");
    let (input, expected) = text.split_once(MARKER).expect("a file has a marker line");
    let made = match made(input) {
        Ok(made) => {
            let printed = made.module.to_string();
            let again =
                parse(&printed).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(again.to_string(), printed);
            format!("// {}\n{printed}", made.changed.join(", "))
        }
        Err(reason) => format!("refused: {reason}\n"),
    };
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(path, format!("{input}{MARKER}{made}")).expect("a file can be renewed");
    } else {
        assert_eq!(made, expected, "{}; renew with UPDATE_EXPECT=1", path.display());
    }
}

fn made(input: &str) -> Result<Specialised, String> {
    let module = parse(input).map_err(|error| error.to_string())?;
    let first = input.lines().next().unwrap_or_default();
    let mut words = first.split_whitespace().skip(2);
    let kernel = words.next().expect("the first line names a kernel");
    let places = entry(&module, kernel).and_then(places).expect("parameters have places");
    let (mut call, mut without) = (Call::default(), Vec::new());
    let sides = |text: &str| -> [u32; 3] {
        let sides: Vec<u32> = text.split(',').map(|side| side.parse().unwrap()).collect();
        sides.try_into().unwrap()
    };
    for word in words {
        if let Some(pass) = word.strip_prefix("without:") {
            without.push(pass);
        } else if let Some(variable) = word.strip_prefix("variable:") {
            let (name, address) = variable.split_once('=').unwrap();
            let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).unwrap();
            call.addresses.push((name.into(), address));
        } else if let Some(block) = word.strip_prefix("block=") {
            call.block = Some(sides(block));
        } else if let Some(grid) = word.strip_prefix("grid=") {
            call.grid = Some(sides(grid));
        } else {
            call.known.push(given(&places, word)?);
        }
    }
    specialise(&module, kernel, &call, &without)
}

fn kernel(declared: &str, params: &str, body: &str) -> apex_ptx::tree::Module {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n{declared}\n.visible .entry k({params})\n{{\n\
         .reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<20>; .reg .f32 %f<20>; .reg .b64 %d<20>;\n{body}\nret;\n}}\n"
    );
    parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[track_caller]
fn refused(declared: &str, body: &str, reason: &str) {
    let said = left_alone(&kernel(declared, ".param .u64 a", body), "k").unwrap_err();
    assert!(said.contains(reason), "{said}");
}

#[test]
fn what_is_not_for_all_launches_the_same_is_left_alone() {
    refused("", "mov.u64 %d1, %clock64;", "looks at %clock64");
    refused("", "mov.u32 %r1, %globaltimer_lo;", "looks at %globaltimer_lo");
    refused("", "mov.b32 %r1, %envreg3;", "looks at %envreg3");
    refused("", "somethingnew.u32 %r1, %r2;", "not known");
    refused("", "brkpt;", "debugger");
    refused(
        ".global .texref image;",
        "tex.1d.v4.f32.s32 {%f1,%f2,%f3,%f4}, [image, {%r1}];",
        "image",
    );
    refused("", ".global .u32 count; ld.global.u32 %r1, [count];", "variable of its own");
    let printf = ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);";
    let call = ".param .b32 r; .param .b64 a; .param .b64 b; call.uni (r), vprintf, (a, b);";
    refused(printf, call, "calls vprintf, which is not in the text");
    refused("", "proto: .callprototype _ (); call %d1, (), proto;", "calls %d1");
    let inner = ".func inner() { .reg .b64 %d<2>; mov.u64 %d1, %clock64; ret; }";
    refused(inner, "call.uni inner, ();", "inner looks at %clock64");
    refused(inner, "mov.u64 %d1, inner;", "takes the address of a function, inner");
    let module = kernel("", "", "");
    assert!(left_alone(&module, "other").unwrap_err().contains("the text has: k"));
    let call = Call { block: Some([2048, 1, 1]), ..Call::default() };
    assert!(specialise(&module, "k", &call, &[]).unwrap_err().contains("cannot be launched"));
}

#[test]
fn a_kernel_whose_bits_may_change_is_named() {
    #[track_caller]
    fn check(body: &str, expected: Option<&str>) {
        let found = needs_check(&kernel("", ".param .u64 a, .param .f32 b", body), "k");
        match expected {
            Some(expected) => {
                assert!(found.as_ref().is_some_and(|it| it.contains(expected)), "{found:?}")
            }
            None => assert_eq!(found, None),
        }
    }
    let load = "ld.param.u64 %d1, [a]; ld.global.f32 %f1, [%d1]; ld.global.f32 %f2, [%d1+4];";
    check(&format!("{load} mul.f32 %f3, %f1, %f2; add.f32 %f4, %f3, %f1;"), Some("fused"));
    check(
        &format!("{load} mul.f32 %f3, %f1, %f2; mov.f32 %f5, %f3; sub.f32 %f4, %f1, %f5;"),
        Some("fused"),
    );
    check(&format!("{load} mul.rn.f32 %f3, %f1, %f2; add.f32 %f4, %f3, %f1;"), None);
    check(&format!("{load} mul.f32 %f3, %f1, %f2; add.rn.f32 %f4, %f3, %f1;"), None);
    check(&format!("{load} mul.f32 %f3, %f1, %f2; add.f32 %f4, %f2, %f1;"), None);
    check(&format!("{load} fma.rn.f32 %f3, %f1, %f2, %f1; add.f32 %f4, %f3, %f1;"), None);
    let spilled =
        ".local .f32 s; mul.f32 %f3, %f1, %f2; st.local.f32 [s], %f3; ld.local.f32 %f5, [s];";
    check(&format!("{load} {spilled} add.f32 %f4, %f5, %f1;"), Some("fused"));
    check(&format!("{load} ex2.approx.f32 %f3, %f1;"), None);
    check(
        &format!("{load} ld.param.f32 %f6, [b]; ex2.approx.f32 %f3, %f6;"),
        Some("ex2.approx.f32"),
    );
    check(
        &format!("{load} ld.param.f32 %f6, [b]; div.full.f32 %f3, %f1, %f6;"),
        Some("div.full.f32"),
    );
    check(&format!("{load} ld.param.f32 %f6, [b]; div.rn.f32 %f3, %f1, %f6;"), None);
    let turns = "mov.u32 %r1, 0; L: add.s32 %r1, %r1, 1; cvt.rn.f32.s32 %f3, %r1; cos.approx.f32 %f4, %f3;\n\
                 setp.lt.s32 %p1, %r1, 8; @%p1 bra L;";
    check(turns, Some("cos.approx"));
}

#[test]
fn pointers_are_not_folded() {
    let module = kernel(
        "",
        ".param .u64 p, .param .u32 n, .param .u64 long, .param .align 8 .b8 both[24], .param .u8 small",
        "ld.param.u64 %d1, [p]; cvta.to.global.u64 %d2, %d1; ld.param.u32 %r1, [n];\n\
         ld.param.u64 %d3, [long]; setp.lt.u64 %p1, %d3, 7; shl.b64 %d4, %d3, 2; add.s64 %d5, %d2, %d4;\n\
         ld.global.u32 %r2, [%d5];\n\
         ld.param.u64 %d6, [both]; ld.param.u32 %r3, [both+8]; ld.param.v2.u32 {%r4, %r5}, [both+16];\n\
         add.s64 %d7, %d6, %d4; st.global.u32 [%d7], %r3; ld.param.u8 %h1, [small];",
    );
    let at = |offset, bytes| Foldable { offset, bytes };
    let found = foldable(entry(&module, "k").unwrap());
    assert_eq!(found, [at(8, 4), at(16, 8), at(32, 4), at(40, 4), at(44, 4), at(48, 1)]);
}

#[test]
fn values_are_read_as_people_write_them() {
    let module = kernel(
        "",
        ".param .u64 k_param_0, .param .u32 k_param_1, .param .f32 alpha, .param .align 4 .b8 s[4], .param .u16 h",
        "",
    );
    let places = places(entry(&module, "k").unwrap()).unwrap();
    let bytes = |text: &str| given(&places, text).map(|known| (known.offset, known.bytes));
    assert_eq!(bytes("k_param_1=258"), Ok((8, vec![2, 1, 0, 0])));
    assert_eq!(bytes("param_1=-1"), Ok((8, vec![255; 4])));
    assert_eq!(bytes("0=0x10"), Ok((0, vec![16, 0, 0, 0, 0, 0, 0, 0])));
    assert_eq!(bytes("alpha=1.5"), Ok((12, 1.5_f32.to_le_bytes().to_vec())));
    assert_eq!(bytes("3=7"), Ok((16, vec![7, 0, 0, 0])));
    assert!(bytes("h=65536").unwrap_err().contains("no value of h, which has 2 bytes"));
    assert!(bytes("m=1").unwrap_err().contains("none of the kernel's parameters: k_param_0, "));
    assert!(bytes("n").unwrap_err().contains("NAME=VALUE"));
}

#[test]
fn variables_of_the_module_are_told() {
    let declared = ".global .u32 hits; .global .u32 other; .shared .u32 tile;";
    let body = "mov.u32 %r1, tile; atom.global.add.u32 %r2, [hits], 1;";
    let module = kernel(declared, "", body);
    assert_eq!(variables(&module, "k").unwrap(), ["hits".into()]);
    let reason = specialise(&module, "k", &Call::default(), &[]).unwrap_err();
    assert!(reason.contains("address is not known, hits"), "{reason}");
}
