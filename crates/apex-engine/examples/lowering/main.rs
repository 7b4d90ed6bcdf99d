//! Compares random kernels of newer instructions, directly and brought down to older chips.
//!
//! `cargo run --release -p apex-engine --example lowering -- 100000 [FIRST]` compares so many, from a seed on; it ends at
//! the first difference and says it. `--write FOLDER` writes what a GPU is to be given and must answer
//! (`tests/device/lowering.py`).

mod compare;
mod forms;
mod random;
#[path = "../../tests/support/mod.rs"]
mod support;

use compare::{Random, filled, kernel, lines, run, to_chip};
use forms::FORMS;
use std::io::Error;
use std::path::Path;
use std::process::ExitCode;

/// The chip of the GPU that the written kernels are for.
const CHIP: u32 = 90;
/// Blocks of the input that all written kernels read.
const BLOCKS: usize = 8;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--write", folder] => write(Path::new(folder)).map_err(|error| error.to_string()),
        [count] => compare_many(count, "0"),
        [count, first] => compare_many(count, first),
        _ => Err("usage: lowering COUNT [FIRST SEED] | --write FOLDER".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn compare_many(count: &str, first: &str) -> Result<(), String> {
    let number = |word: &str| word.parse::<u64>().map_err(|_| format!("{word} is no number"));
    let (count, first) = (number(count)?, number(first)?);
    for seed in first..first + count {
        random::check(seed).map_err(|error| format!("seed {seed}: {error}"))?;
    }
    println!("{count} kernels from seed {first} on give the same bits on older chips");
    Ok(())
}

/// Each form's kernel for the chip, and what it gives on the software GPU as it was.
fn write(folder: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(folder)?;
    let input = lines(BLOCKS, &mut Random::new(1));
    let words = input.iter().flat_map(|line| line.0);
    std::fs::write(folder.join("input"), words.flat_map(u32::to_le_bytes).collect::<Vec<_>>())?;
    let mut list = String::new();
    for (nth, form) in FORMS.iter().enumerate().filter(|(_, form)| form.oldest <= CHIP) {
        let text = kernel(&[filled(form, &mut Random::new(nth as u64))]);
        let lowered = to_chip(&text, CHIP).map_err(Error::other)?;
        let output = run(&text, &input).map_err(Error::other)?;
        std::fs::write(folder.join(format!("{nth}.ptx")), lowered.text)?;
        let bytes: Vec<u8> = output.into_iter().flat_map(u32::to_le_bytes).collect();
        std::fs::write(folder.join(format!("{nth}.out")), bytes)?;
        list.push_str(&format!("{nth} {}\n", form.text));
    }
    std::fs::write(folder.join("list.txt"), list)
}
