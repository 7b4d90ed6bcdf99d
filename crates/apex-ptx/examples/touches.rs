//! Says for each kernel of PTX files whether its launches can be followed, and how long that takes a launch:
//! `touches FILE...`. Built with `--release` its times mean something.
//!
//! A file may also be a program or library with a fatbin inside.

use apex_ptx::touches::{Barrier, Scratch, Shape, Touches};
use apex_ptx::tree::FunctionKind;
use apex_ptx::{container, parse};
use std::collections::BTreeMap;
use std::time::Instant;

fn main() {
    let mut times = Vec::new();
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
                let size = found.as_ref().map_or(0, Touches::size);
                println!("{word:8} {size:5} {} {path}", kernel.name);
                times.extend(found.iter().map(nanos));
            }
        }
    }
    eprintln!("{kernels} kernels: {counts:?}");
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times.get(((times.len() as f64 - 1.0) * share) as usize);
    if let (Some(half), Some(most)) = (at(0.5), at(0.99)) {
        eprintln!(
            "a launch of a known kernel: {half:.0} ns in the middle, {most:.0} ns for the 99th of 100 kernels"
        );
    }
}

/// What a launch takes, on average of many: of eight pointers to allocations of their own, and small numbers.
fn nanos(touches: &Touches) -> f64 {
    const TURNS: u32 = 1_000;
    let mut parameters = Vec::new();
    for (nth, &(offset, bytes)) in touches.parameters().iter().enumerate() {
        parameters.resize(offset as usize, 0);
        let value = if bytes == 8 { (nth as u64 + 1) << 32 } else { 1_000 };
        parameters.extend(value.to_le_bytes().iter().cycle().take(bytes as usize));
    }
    let shape = Shape { grid: [64, 1, 1], block: [256, 1, 1], parameters: &parameters };
    let mut allocation = |at: u64| (at >> 32 > 0).then(|| at >> 32 << 32..((at >> 32) + 1) << 32);
    let (mut scratch, mut touched) = (Scratch::default(), Vec::new());
    let begin = Instant::now();
    for _ in 0..TURNS {
        let _ = touches.of(&shape, &mut allocation, &mut scratch, &mut touched);
    }
    begin.elapsed().as_nanos() as f64 / f64::from(TURNS)
}
