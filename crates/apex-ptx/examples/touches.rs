//! Says for each kernel of PTX files whether its launches can be followed: `touches FILE...`.
//!
//! A file may also be a program or library with a fatbin inside.

use apex_ptx::touches::{Barrier, Touches};
use apex_ptx::tree::FunctionKind;
use apex_ptx::{container, parse};
use std::collections::BTreeMap;

fn main() {
    let (mut counts, mut kernels) = (BTreeMap::<&str, usize>::new(), 0);
    for path in std::env::args().skip(1) {
        let Ok(bytes) = std::fs::read(&path) else {
            eprintln!("{path} cannot be read");
            continue;
        };
        let texts = match container::begin(&bytes) {
            Some(at) => container::best(container::texts(&bytes[at..]), 90),
            None => vec![String::from_utf8_lossy(&bytes).into_owned()],
        };
        for text in texts {
            let Ok(module) = parse(&text) else { continue };
            for kernel in module.functions() {
                if kernel.kind != FunctionKind::Entry || kernel.body.is_none() {
                    continue;
                }
                kernels += 1;
                let found = Touches::new(&module, kernel);
                let word = found.as_ref().err().copied().map_or("proven", Barrier::word);
                *counts.entry(word).or_default() += 1;
                let size = found.map_or(0, |touches| touches.size());
                println!("{word:8} {size:5} {} {path}", kernel.name);
            }
        }
    }
    eprintln!("{kernels} kernels: {counts:?}");
}
