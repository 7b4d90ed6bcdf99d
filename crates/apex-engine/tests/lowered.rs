//! What short pieces of PTX become.
//!
//! Each file under `tests/lowered` is PTX, a marker line, and the code it is lowered to.
//! `UPDATE_EXPECT=1` writes the second part anew; read the difference before it is kept.

use apex_engine::Module;
use std::fmt::Write;
use std::path::Path;

const MARKER: &str = "// lowered:\n";

/// The kernels of a text, printed. Variables lie at round addresses.
fn lowered(text: &str) -> String {
    let mut memory = vec![0_u64; 1 << 10];
    let start = memory.as_mut_ptr() as u64;
    let mut next = start.next_multiple_of(256);
    let module = Module::load(&[text], &mut |variable| {
        let address = next.next_multiple_of(variable.align.max(1));
        next = (address + variable.bytes).next_multiple_of(256);
        (next < start + 8192).then_some(address)
    });
    let module = match module {
        Ok(module) => module,
        Err(error) => return format!("{error}\n"),
    };
    let mut out = String::new();
    for kernel in module.kernels() {
        let code = &kernel.code;
        let _ =
            write!(out, "{}: width {}, {} registers", kernel.name, code.width, kernel.registers);
        for (name, bytes) in [
            ("parameters", kernel.param_bytes),
            ("shared", kernel.static_shared),
            ("local", code.local_bytes),
            ("stack", code.stack_bytes),
        ] {
            if bytes > 0 {
                let _ = write!(out, ", {name} {bytes}");
            }
        }
        let _ = writeln!(out);
        match &kernel.unsupported {
            Some(reason) => _ = writeln!(out, "unsupported: {reason}"),
            None => _ = write!(out, "{code}"),
        }
    }
    named(&out, &module)
}

/// Addresses differ from run to run: numbers that are some become names.
fn named(text: &str, module: &Module) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let digits = &rest[start..];
        let length = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
        let (number, after) = digits.split_at(length);
        out.push_str(&rest[..start]);
        let address: u64 = number.parse().unwrap_or(0);
        let mut variables = module.variables().iter();
        match variables.find(|it| (it.address..it.address + it.bytes).contains(&address)) {
            Some(it) => _ = write!(out, "&{}+{}", it.name, address - it.address),
            None => out.push_str(number),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

#[test]
fn files_become_what_they_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lowered");
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file = std::fs::read_to_string(&path).unwrap();
        let (text, expected) = file.split_once(MARKER).unwrap_or((&file, ""));
        let found = lowered(text);
        if update {
            std::fs::write(&path, format!("{text}{MARKER}{found}")).unwrap();
        } else {
            assert_eq!(found, expected, "{}", path.display());
        }
        seen += 1;
    }
    assert!(seen > 10, "the files are gone");
}
