//! Says of how many kernels the launches can be followed, why not those of others, and how long that takes a launch:
//! `touches [--json] [--each] FOLDER|FILE...`. Built with `--release` its times mean something.
//!
//! Each argument is a group of its own. A file may also be a program or library with a fatbin inside. With `--each` every
//! kernel is named.

use apex_ptx::touches::{Barrier, Scratch, Shape, Touches};
use apex_ptx::tree::FunctionKind;
use apex_ptx::{container, parse};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What was found in one argument.
#[derive(Default)]
struct Group {
    name: String,
    files: usize,
    kernels: usize,
    /// Kernels by what became of them: `proven`, or why not.
    counts: BTreeMap<&'static str, usize>,
    /// Nanoseconds of a launch of each proven kernel.
    times: Vec<f64>,
}

fn main() {
    let (words, arguments): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let is_asked = |wanted: &str| words.iter().any(|word| word == wanted);
    let groups: Vec<Group> = arguments
        .iter()
        .map(|argument| Group::of(Path::new(argument), is_asked("--each")))
        .collect();
    for group in &groups {
        println!("{}", if is_asked("--json") { group.json() } else { group.line() });
    }
}

impl Group {
    fn of(argument: &Path, is_each: bool) -> Group {
        let name = argument.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut group = Group { name, ..Group::default() };
        for file in files(argument) {
            let Ok(bytes) = std::fs::read(&file) else {
                eprintln!("{} cannot be read", file.display());
                continue;
            };
            let texts = match container::begin(&bytes) {
                Some(at) => container::best(container::texts(&bytes[at..]), 90),
                None => vec![String::from_utf8_lossy(&bytes).into_owned()],
            };
            group.files += 1;
            for text in texts {
                group.add(&text, is_each);
            }
        }
        group.times.sort_by(f64::total_cmp);
        group
    }

    fn add(&mut self, text: &str, is_each: bool) {
        let Ok(module) = parse(text) else { return };
        for kernel in module.functions() {
            if kernel.kind != FunctionKind::Entry || kernel.body.is_none() {
                continue;
            }
            let found = Touches::new(&module, kernel);
            let word = found.as_ref().err().copied().map_or("proven", Barrier::word);
            self.kernels += 1;
            *self.counts.entry(word).or_default() += 1;
            if is_each {
                let size = found.as_ref().map_or(0, Touches::size);
                println!("{word:8} {size:5} {}", kernel.name);
            }
            self.times.extend(found.iter().map(nanos));
        }
    }

    /// The time that so many of a hundred kernels do not exceed.
    fn nanos(&self, of_hundred: usize) -> f64 {
        let last = self.times.len().saturating_sub(1);
        self.times.get(last * of_hundred / 100).copied().unwrap_or(0.0)
    }

    fn line(&self) -> String {
        let counts: Vec<String> =
            self.counts.iter().map(|(word, kernels)| format!("{word} {kernels}")).collect();
        format!(
            "{}: {} files, {} kernels: {}; a launch of a known kernel takes {:.0} ns in the middle, {:.0} ns at the 99th of 100",
            self.name,
            self.files,
            self.kernels,
            counts.join(", "),
            self.nanos(50),
            self.nanos(99)
        )
    }

    fn json(&self) -> String {
        let counts: Vec<String> =
            self.counts.iter().map(|(word, kernels)| format!("\"{word}\": {kernels}")).collect();
        format!(
            "{{\"group\": {:?}, \"files\": {}, \"kernels\": {}, \"by_outcome\": {{{}}}, \"p50_ns\": {:.0}, \"p99_ns\": {:.0}}}",
            self.name,
            self.files,
            self.kernels,
            counts.join(", "),
            self.nanos(50),
            self.nanos(99)
        )
    }
}

/// The file itself, or the files of the folder that have PTX.
fn files(argument: &Path) -> Vec<PathBuf> {
    let Ok(folder) = std::fs::read_dir(argument) else { return vec![argument.to_owned()] };
    let files = folder.flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "ptx")).collect();
    files.sort();
    files
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
