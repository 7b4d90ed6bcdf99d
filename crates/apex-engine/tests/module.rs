//! Loading: variables, their first values, linking, and what is said when it fails.

use apex_engine::code::FUNCTION_BASE;
use apex_engine::{LoadError, LoadErrorKind, Module, Space};

const HEAD: &str = ".version 8.5\n.target sm_90\n.address_size 64\n";

/// Memory for variables, and a module that lives in it.
struct Loaded {
    module: Module,
    _memory: Vec<Vec<u64>>,
}

fn load(texts: &[&str]) -> Result<Loaded, LoadError> {
    let texts: Vec<String> = texts.iter().map(|text| format!("{HEAD}{text}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut memory: Vec<Vec<u64>> = Vec::new();
    let module = Module::load(&texts, &mut |variable| {
        if variable.bytes > 1 << 20 {
            return None;
        }
        // Not zero before: the loader has to clear it.
        memory.push(vec![u64::MAX; (variable.bytes + variable.align) as usize / 8 + 2]);
        Some((memory.last()?.as_ptr() as u64).next_multiple_of(variable.align))
    })?;
    Ok(Loaded { module, _memory: memory })
}

impl Loaded {
    fn bytes(&self, name: &str) -> Vec<u8> {
        let variable = self.module.variable(name).expect("the variable is there");
        (0..variable.bytes)
            // SAFETY: the test gave this memory to the loader, and holds it.
            .map(|at| unsafe { *((variable.address + at) as *const u8) })
            .collect()
    }

    fn words(&self, name: &str) -> Vec<u64> {
        let bytes = self.bytes(name);
        let (words, rest) = bytes.as_chunks::<8>();
        assert!(rest.is_empty());
        words.iter().map(|word| u64::from_le_bytes(*word)).collect()
    }

    fn address(&self, name: &str) -> u64 {
        self.module.variable(name).expect("the variable is there").address
    }
}

fn failure(texts: &[&str]) -> LoadError {
    match load(texts) {
        Ok(_) => panic!("it loads"),
        Err(error) => error,
    }
}

#[test]
fn variables_begin_with_their_values() {
    let it = load(&[".global .align 4 .u32 numbers[4] = {1, -2, 0x30};\n\
         .const .f32 half = 0.5;\n\
         .global .f64 whole[2] = {0d3FF0000000000000, 2.0};\n\
         .global .u8 grid[2][3] = {{1, 2}, {3, 4, 5}};\n\
         .global .v2 .u16 pair = {7, 8};\n\
         .global .attribute(.managed) .align 8 .b8 seen[16];\n\
         .global .u16 open[] = {9, 10, 11};\n"])
    .expect("it loads");
    assert_eq!(it.bytes("numbers"), [1, 0, 0, 0, 254, 255, 255, 255, 48, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(it.bytes("half"), 0.5_f32.to_le_bytes());
    assert_eq!(it.words("whole"), [1_f64.to_bits(), 2_f64.to_bits()]);
    assert_eq!(it.bytes("grid"), [1, 2, 0, 3, 4, 5]);
    assert_eq!(it.bytes("pair"), [7, 0, 8, 0]);
    assert_eq!(it.bytes("open"), [9, 0, 10, 0, 11, 0]);
    assert_eq!(it.bytes("seen"), [0; 16]);
    let seen = it.module.variable("seen").unwrap();
    assert!(seen.managed && seen.space == Space::Global);
    assert_eq!(it.module.variable("half").unwrap().space, Space::Const);
}

#[test]
fn addresses_are_values_too() {
    let it = load(&[".global .align 4 .b8 target[16];\n\
         .func first() { ret; }\n.func second() { ret; }\n\
         .global .align 8 .u64 table[4] = {target, generic(target)+4, second, first};\n\
         .global .align 1 .u8 parts[2] = {0xff(target), 0xff00(target)};\n\
         .entry k() { ret; }\n"])
    .expect("it loads");
    let target = it.address("target");
    let functions = [FUNCTION_BASE + 1, FUNCTION_BASE];
    assert_eq!(it.words("table"), [target, target + 4, functions[0], functions[1]]);
    assert_eq!(it.bytes("parts"), [target as u8, (target >> 8) as u8]);
}

#[test]
fn kernels_say_what_they_need() {
    let it = load(&[".extern .shared .align 16 .b8 dynamic[];\n\
         .shared .align 4 .b8 unused[1000];\n\
         .shared .align 4 .b8 used[20];\n\
         .entry k(.param .u8 a, .param .align 16 .b8 b[20], .param .u64 c)\n\
         .maxntid 64, 2, 1 .reqnctapercluster 2, 1, 1\n\
         { .reg .b32 %r<3>; mov.u32 %r0, used; st.shared.u32 [%r0], 1;\n\
           st.shared.u32 [dynamic], 2; ret; }\n"])
    .expect("it loads");
    let kernel = it.module.kernel("k").expect("the kernel is there");
    let places: Vec<(u32, u32)> = kernel.params.iter().map(|it| (it.offset, it.bytes)).collect();
    assert_eq!(places, [(0, 1), (16, 20), (40, 8)]);
    assert_eq!(kernel.param_bytes, 48);
    assert_eq!(kernel.static_shared, 32);
    assert_eq!(kernel.max_threads, 128);
    assert_eq!(kernel.cluster, Some([2, 1, 1]));
    assert_eq!((kernel.ptx_version, kernel.required_block), (90, None));
}

#[test]
fn texts_are_linked() {
    let it = load(&[
        ".extern .global .align 4 .u32 counter;\n\
         .extern .func (.param .b32 r) other(.param .b32 a);\n\
         .visible .entry k() { .reg .b32 %r<2>; .param .b32 a; .param .b32 r;\n\
         st.param.b32 [a], 1; call (r), other, (a); ld.param.b32 %r0, [r];\n\
         st.global.u32 [counter], %r0; ret; }\n",
        ".visible .global .align 4 .u32 counter = 5;\n\
         .visible .func (.param .b32 r) other(.param .b32 a) { st.param.b32 [r], 3; ret; }\n",
    ])
    .expect("it loads");
    let kernel = it.module.kernel("k").expect("the kernel is there");
    assert_eq!(kernel.unsupported, None);
    assert_eq!(it.bytes("counter"), [5, 0, 0, 0]);
}

#[test]
fn failures_are_explained() {
    let error = failure(&[".entry k() { add.u32 %r0 %r1; }\n"]);
    assert_eq!(error.kind, LoadErrorKind::InvalidPtx);
    assert!(error.log.starts_with("ptxas application ptx input, line 4; "), "{}", error.log);
    let error = failure(&[".global .align 8 .u64 p = nobody;\n"]);
    assert_eq!(error.kind, LoadErrorKind::Unresolved);
    assert!(error.log.contains("'nobody'"), "{}", error.log);
    let error = failure(&[".global .b8 huge[2000000];\n"]);
    assert_eq!(error.kind, LoadErrorKind::OutOfMemory);
    let twice = ".visible .global .u32 x = 1;\n";
    assert_eq!(failure(&[twice, twice]).kind, LoadErrorKind::Unresolved);
    let error = Module::load(&[".version 12.0\n.target sm_90\n"], &mut |_| None);
    assert_eq!(error.expect_err("a later version").kind, LoadErrorKind::UnsupportedVersion);
}

/// The log of a text that must be refused, under this head.
fn refusal(head: &str, body: &str) -> String {
    let text = format!("{head}\n.address_size 64\n{body}");
    let error = Module::load(&[&text], &mut |_| None).expect_err(body);
    assert_eq!(error.kind, LoadErrorKind::InvalidPtx, "{body}");
    error.log
}

/// The words are those of ptxas 13.0 for the same texts.
#[test]
fn numbers_beyond_the_limits_of_ptx_are_refused() {
    let parameters = |head: &str, bytes: &str| {
        let entry = format!(".visible .entry k(.param .align 8 .b8 a[{bytes}]) {{ ret; }}\n");
        refusal(head, &entry)
    };
    let (old, new) = (".version 8.0\n.target sm_90", ".version 8.1\n.target sm_90");
    let log = parameters(new, "100000000");
    let expected = "ptxas application ptx input, line 4; error   : Entry function 'k' uses too much \
                    parameter space (0x5f5e100 bytes, 0x7ffc max).\n";
    assert!(log.starts_with(expected), "{log}");
    for (head, bytes, words) in [
        (old, "4353", "(0x1101 bytes, 0x1100 max)"),
        (new, "32765", "(0x7ffd bytes, 0x7ffc max)"),
        (".version 8.1\n.target sm_60", "4353", "(0x1101 bytes, 0x1100 max)"),
        (new, "10000000000", "parameter space"),
        (new, "4294967296][4294967296", "parameter space"),
    ] {
        let log = parameters(head, bytes);
        assert!(log.contains(words), "{bytes}: {log}");
    }
    let two = ".entry k(.param .b8 a[5000], .param .align 4 .b8 b[30000]) { ret; }";
    assert!(refusal(new, two).contains("'k' uses too much parameter space (0x88b8 bytes"));
    for (head, bytes) in [(old, 4352), (new, 32_764), (".version 8.1\n.target sm_70", 32_764)] {
        let text = format!("{head}\n.entry k(.param .align 4 .b8 a[{bytes}]) {{ ret; }}");
        let module = Module::load(&[&text], &mut |_| None).expect("it is allowed");
        assert_eq!(module.kernel("k").expect("it is there").param_bytes, bytes);
    }
    for text in [
        ".global .align 3 .b8 a[4];",
        ".global .align 0 .b8 a[4];",
        ".entry k(.param .u64 .ptr .global .align 6 p) { ret; }",
        ".entry k() { .shared .align 12 .b8 a[4]; ret; }",
    ] {
        let log = refusal(new, text);
        assert!(log.contains("Alignment must be a power of two"), "{text}: {log}");
    }
    for target in ["sm_999999999999", "sm_91", "sm_1", "sm_4294967386", "sm_90b", "foo_90", "sm_"] {
        let log = refusal(&format!(".version 8.1\n.target {target}"), "");
        assert!(log.contains(&format!("Unsupported .target '{target}'")), "{log}");
    }
    for target in ["sm_20", "sm_90a", "sm_100f", "sm_121", "compute_75", "sm_130"] {
        let text = format!(".version 8.1\n.target {target}\n");
        assert!(Module::load(&[&text], &mut |_| None).is_ok(), "{target}");
    }
    for (directive, word) in [
        (".reqntid 1,0,1", "reqntid"),
        (".maxntid 0", "maxntid"),
        (".maxnreg 0", "maxnreg"),
        (".maxntid 128 .minnctapersm 0", "minnctapersm"),
    ] {
        let log = refusal(new, &format!(".entry k() {directive} {{ ret; }}"));
        assert!(log.contains(&format!("Positive non-zero value expected for {word}")), "{log}");
    }
    let log = refusal(new, ".const .b8 c[65537]; .entry k() { ret; }");
    assert!(log.contains("too much global constant data (0x10001 bytes, 0x10000 max)"), "{log}");
}

#[test]
fn sizes_that_no_thread_has_room_for_concern_their_kernel_alone() {
    let kernel = |body: &str, outside: &str| {
        let it = load(&[&format!("{outside}\n.entry k(.param .u64 p) {{ {body} ret; }}")]);
        let kernel = it.expect("it loads").module.kernel("k").expect("it is there").clone();
        kernel.unsupported.clone().unwrap_or_default()
    };
    let local = |length: &str, align: u32| {
        let body = format!(
            ".local .align {align} .b8 a[{length}]; .local .b8 b[64]; .reg .b64 %d<2>; \
             mov.u64 %d0, a; st.global.u64 [%d0], %d0; mov.u64 %d1, b; st.global.u64 [%d1], %d1;"
        );
        kernel(&body, "")
    };
    assert_eq!(local("1000", 16), "");
    for length in ["600000", "4294967295", "4294967296", "60000000000"] {
        assert!(local(length, 4).contains("too much local memory"), "{length}");
    }
    assert!(local("8", 1 << 30).contains("too much local memory"));
    assert!(local("4294967295", 1 << 30).contains("too much local memory"));
    let shared = ".shared .align 4 .b8 s[4294967295]; .extern .shared .align 1024 .b8 d[];";
    let both = kernel("st.shared.b32 [s], 1; st.shared.b32 [d], 1;", shared);
    assert!(both.contains("too much shared data"), "{both}");
    // What a function is handed is copied piece by piece, where it is called.
    let called = ".func f(.param .align 8 .b8 a[100000000]) { { .param .align 8 .b8 x[100000000]; \
                  call f, (x); } ret; }";
    let called = kernel("{ .param .align 8 .b8 x[100000000]; call f, (x); }", called);
    assert!(called.contains("hands over 100000000 bytes"), "{called}");
}

#[test]
fn a_kernel_takes_nothing_for_the_others_of_its_module() {
    let kernels: String = (0..20_000).map(|n| format!(".entry k{n}() {{ ret; }}\n")).collect();
    let it = load(&[&kernels]).expect("it loads");
    assert_eq!(it.module.kernels().count(), 20_000);
    for number in 0..20_000 {
        let kernel = it.module.kernel(&format!("k{number}")).expect("it is there");
        let code = &kernel.code;
        let sizes =
            [code.steps.len(), code.blocks.len(), code.registers.len(), code.functions.len()];
        assert_eq!(sizes, [1, 1, 0, 0], "k{number}");
    }
}

#[test]
fn labels_jumps_and_calls_in_a_row_are_no_burden() {
    // Work that grew with the square of these would take minutes.
    let row = |line: &dyn Fn(usize) -> String| -> String { (0..50_000).map(line).collect() };
    for body in [
        row(&|n| format!("l{n}:\n")),
        row(&|n| format!("l{n}: bra l{};\n", n + 1)) + "l50000:\n",
        row(&|n| format!("l{n}: @%p0 bra l{};\n", n + 1)) + "l50000:\n",
        row(&|n| format!("l{n}: bar.sync 0;\n")),
        row(&|n| format!("l{n}: @%p0 bra l0;\n")),
        row(&|n| format!("@%p0 bra l{}; l{n}:\n", 49_999 - n)),
    ] {
        let text = format!(".entry k() {{ .reg .pred %p<2>; {body} ret; }}\n");
        let it = load(&[&text]).expect("it loads");
        assert_eq!(it.module.kernel("k").expect("it is there").unsupported, None);
    }
    let chain: String = (1..5000)
        .map(|n| format!(".func f{n}();\n"))
        .chain((0..5000).map(|n| match n {
            4999 => ".func f4999() { ret; }\n".to_owned(),
            n => format!(".func f{n}() {{ {{ call f{}; }} ret; }}\n", n + 1),
        }))
        .collect();
    let it = load(&[&format!("{chain}.entry k() {{ call f0; ret; }}\n")]).expect("it loads");
    assert_eq!(it.module.kernel("k").expect("it is there").unsupported, None);
}

#[test]
fn large_kernels_share_places() {
    // Thousands of registers, few of them alive at a time.
    let mut body = String::from("ld.param.u64 %d0, [p];\n");
    for index in 0..4000 {
        body += &format!("ld.global.u32 %r{index}, [%d0+{}];\n", index * 4);
        body += &format!("st.global.u32 [%d0+{}], %r{index};\n", index * 4 + 16384);
    }
    let text =
        format!(".entry k(.param .u64 p) {{ .reg .b64 %d0; .reg .b32 %r<4000>;\n{body}ret; }}\n");
    let it = load(&[&text]).expect("it loads");
    let kernel = it.module.kernel("k").expect("the kernel is there");
    assert_eq!(kernel.code.steps.len(), 8002);
    assert!(kernel.code.file_bytes < 1024, "{}", kernel.code.file_bytes);
    assert_eq!(kernel.registers, 8);
}

/// What nvcc made of small programs, in the folder of the crate that reads it.
#[test]
fn compiled_programs_are_lowered() {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../apex-ptx/tests/compiled");
    let mut kernels = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let mut memory: Vec<Vec<u64>> = Vec::new();
        let module = Module::load(&[&text], &mut |variable| {
            memory.push(vec![0; (variable.bytes + variable.align) as usize / 8 + 2]);
            Some((memory.last()?.as_ptr() as u64).next_multiple_of(variable.align))
        });
        let module = module.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        kernels += module.kernels().count();
        for warning in module.warnings() {
            // One text of a linked pair calls into the other.
            let known = warning.contains("'_Z5otherf'");
            assert!(known, "{}: {warning}", path.display());
        }
    }
    assert!(kernels > 20, "only {kernels} kernels");
}
