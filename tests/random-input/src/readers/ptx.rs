//! PTX, as the software GPU loads it, as tuning looks at it, as it is walked for what its launches do, and brought down
//! to older chips.

use super::{Examples, Read, Reader, no_variables, project};
use anyhow::Result;
use apex_engine::{Module, Variable};
use apex_ptx::lower::{Goal, Target, lower};
use apex_ptx::tree::Function;
use apex_ptx::walk::{Launch, Program, walk};
use std::fs;
use std::path::Path;

pub(crate) const READER: Reader = Reader {
    name: "ptx",
    gather,
    variables: no_variables,
    open,
    words: &[
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "<",
        ">",
        ",",
        ";",
        ":",
        "::",
        "|",
        "@",
        "!",
        "-",
        "+",
        "~",
        "?",
        "_",
        "%",
        "$",
        ".",
        "\"",
        "/*",
        "*/",
        "//",
        "\n",
        "\0",
        "0x",
        "0f3F800000",
        "9223372036854775808",
        "-1",
        "1/0",
        "1<<64",
        ".reg .b32 %r<4294967295>;",
        ".param .b8 p[100000000]",
        ".align 3",
        ".target sm_999999999999",
        ".v4",
        ".entry e()",
        ".func",
        ".local .align 16 .b8 l[4294967295];",
        ".shared .b8 s[18446744073709551615];",
        ".maxnreg 0",
        "L: bra L;",
        "call (a), f, (b);",
        "trap;",
        "{{{{{{{{",
        "((((((((",
        ".reqntid 1,2,3",
        "mov.b64 {}, {};",
        ".version 99.9",
        ".version 8.8\n.target sm_120a\n",
        "add.rn.f32x2 %rd1, %rd2, %rd3;",
        "ld.global.v8.b32 {%r1, _, %r1, %r1, %r1, %r1, %r1, %r1}, [%rd1];",
        "redux.sync.min.abs.NaN.f32 %r1, %r1, -1;",
        "cvt.rn.satfinite.relu.e2m1x2.f32 %r1, %r1, %r1;",
        "st.bulk.shared::cta [%rd1], %rd1, 0;",
        "elect.sync _|%p1, -1;",
        "cp.async.ca.shared.global [%r1], [%rd1], 16, %r1;",
    ],
    cases: u64::MAX,
};

/// A variable of a module gets at most so much memory, and no stricter alignment than a page.
const VARIABLE_BYTES: u64 = 1 << 16;
const PAGE: u64 = 4096;

fn gather(folder: &Path) -> Result<()> {
    for (crate_name, place) in
        [("apex-ptx", "golden"), ("apex-ptx", "compiled"), ("apex-engine", "lowered")]
    {
        for entry in fs::read_dir(project(&format!("crates/{crate_name}/tests/{place}")))? {
            let path = entry?.path();
            if path.extension().is_some_and(|end| end == "ptx") {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                fs::copy(&path, folder.join(format!("{place}-{name}")))?;
            }
        }
    }
    for name in ["add-sub-f32x2", "mul-fma-f32x2", "min-max-three-f32"] {
        let path = project(&format!("crates/apex-engine/tests/run/{name}.ptx"));
        fs::copy(path, folder.join(format!("newer-{name}.ptx")))?;
    }
    Ok(())
}

/// Brings a text down; what comes out must be PTX, and load where the text itself does.
fn bring_down(text: &str, mut loads: impl FnMut(&str) -> bool) {
    for number in [90, 80, 75] {
        let goal = Goal { target: Target { number, is_own: false }, version: (8, 0) };
        let Ok(lowered) = lower(text, goal) else { continue };
        assert!(
            apex_ptx::parse(&lowered.text).is_ok(),
            "no PTX for sm_{number}:\n{}",
            lowered.text
        );
        let is_worse = lowered.text != text && loads(text) && !loads(&lowered.text);
        assert!(!is_worse, "does not load any more for sm_{number}:\n{}", lowered.text);
    }
}

fn open(_: &Examples, _: &Path) -> Result<Read> {
    let mut memory = vec![0_u64; usize::try_from(2 * (VARIABLE_BYTES + PAGE)).unwrap_or(0) / 8];
    Ok(Box::new(move |_, bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Ok(module) = apex_ptx::parse(&text) {
            for function in module.functions() {
                apex_ptx::reshape::reshape(&module, function);
                walk_through(function, &module);
            }
        }
        let start = (memory.as_mut_ptr() as u64).next_multiple_of(PAGE);
        let loads = |text: &str| {
            let place = &mut |variable: Variable<'_>| {
                (variable.bytes <= VARIABLE_BYTES && variable.align <= PAGE).then_some(start)
            };
            Module::load(&[text], place).is_ok()
        };
        bring_down(&text, loads);
        loads(&text)
    }))
}

/// Walks a launch of a function, with odd sides and with parameters that mean nothing.
fn walk_through(function: &Function, module: &apex_ptx::tree::Module) {
    let Some(program) = Program::new(function, module.variables()) else { return };
    let count = program.pointers().len();
    let parameters: Vec<Option<u64>> =
        (0..count as u64).map(|nth| (nth % 3 != 2).then_some(nth << 40 | 100)).collect();
    let launch = Launch {
        grid: [u32::MAX, 3, 0],
        block: [33, 1, 2],
        dynamic_shared: 100,
        sharing: 8,
        parameters: &parameters,
        bytes: &vec![1 << 20; count],
    };
    let _ = walk(&program, &launch);
}
