//! Run files: kernels with inputs and the outputs hardware gave, on both tiers.
//!
//! Each `.ptx` under `tests/run/` shows one instruction form; its foot says how to run it.
//! What it expects came from a real GPU (`tests/device/run_files.py`), bit for bit, or within
//! the tolerance it names where the ISA leaves the bits open.

mod execute;
mod file;
mod generate;

use execute::{Outcome, execute};
use file::{Expect, RunFile, Tolerance};
use generate::{Input, Kind, Random, Type, generate};
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Differences reported of one file; the first ones show what is wrong.
const SHOWN: usize = 4;

#[test]
fn reference_tier_gives_what_hardware_gave() {
    check_all(false);
}

#[test]
fn fast_tier_gives_what_hardware_gave() {
    check_all(true);
}

#[test]
fn there_are_enough_files() {
    assert!(files().len() >= 450, "only {} run files", files().len());
}

#[test]
fn the_generator_gives_what_the_one_in_python_gives() {
    let mut random = Random::new(7);
    let mut got: Vec<String> = (0..3).map(|_| format!("{:016x}", random.next())).collect();
    let types = ["f32", "s16"].map(|name| Type::named(name).expect("a type"));
    for (place, seed) in [(0, 7), (1, 8)] {
        let ty = types[place];
        let place = u32::try_from(place).expect("a small number");
        let input = Input { ty, kind: Kind::Mixed, count: 40, seed, given: Vec::new(), place };
        let width = ty.bits as usize / 4;
        let values = generate(&input, &types);
        got.extend(values[29..].iter().map(|value| format!("{value:0width$x}")));
    }
    let python = include_str!("../../../../tests/device/run_files.py");
    let (_, known) = python.split_once("KNOWN_ANSWER = (").expect("the known answer");
    let (known, _) = known.split_once("\n)").expect("its end");
    let known: Vec<&str> =
        known.split(|c: char| !c.is_ascii_hexdigit()).filter(|w| !w.is_empty()).collect();
    assert_eq!(got, known);
}

/// Runs every file and tells all that differ.
fn check_all(jit: bool) {
    let mut report = String::new();
    let mut failed = 0;
    let files = files();
    for path in &files {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let result = catch_unwind(AssertUnwindSafe(|| check(path, jit)));
        let result = result.unwrap_or_else(|_| Err("panics".into()));
        if let Err(reason) = result {
            failed += 1;
            let _ = writeln!(report, "{name}: {reason}");
        }
    }
    assert!(failed == 0, "{failed} of {} run files fail:\n{report}", files.len());
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run");
    let entries = std::fs::read_dir(&folder).expect("the folder of run files");
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "ptx"));
    files.sort();
    files
}

fn check(path: &Path, jit: bool) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let file = RunFile::read(&text)?;
    let expected = match &file.expect {
        Expect::Pending => return Err("has no expected values yet".into()),
        Expect::Fault(number) => Err(*number),
        Expect::Values(values) => Ok(values),
    };
    match (execute(&text, &file, jit)?, expected) {
        (Outcome::Fault(got, _), Err(expected)) if got == expected => Ok(()),
        (Outcome::Fault(got, sentence), _) => Err(format!("fault {got}: {sentence}")),
        (Outcome::Values(_), Err(expected)) => Err(format!("does not fault, expected {expected}")),
        (Outcome::Values(got), Ok(expected)) => compare(&file, &got, expected),
    }
}

/// Tells where the values differ.
fn compare(file: &RunFile, got: &[u64], expected: &[u64]) -> Result<(), String> {
    if got.len() != expected.len() {
        return Err(format!("gives {} values, expected {}", got.len(), expected.len()));
    }
    let pairs = got.iter().zip(expected).enumerate();
    let different: Vec<_> = pairs
        .filter(|(at, (got, expected))| !open(file, *at) && !agree(file, **got, **expected))
        .collect();
    if different.is_empty() {
        return Ok(());
    }
    let width = file.out.bits as usize / 4;
    let mut report = format!("{} of {} differ:", different.len(), got.len());
    for (at, (got, expected)) in different.iter().take(SHOWN) {
        let _ = write!(report, " [{at}] got {got:0width$x}, expected {expected:0width$x};");
    }
    Err(report)
}

fn open(file: &RunFile, at: usize) -> bool {
    file.open.is_some_and(|(first, step)| at % step == first)
}

fn agree(file: &RunFile, got: u64, expected: u64) -> bool {
    let Some(tolerance) = file.tolerance else {
        return got == expected;
    };
    match file.out.half() {
        Some(half) => [0, 16]
            .into_iter()
            .all(|shift| near(half, got >> shift & 0xFFFF, expected >> shift & 0xFFFF, tolerance)),
        None => near(file.out, got, expected, tolerance),
    }
}

/// True when two floats are near enough; NaN is near NaN only.
fn near(ty: Type, got: u64, expected: u64, tolerance: Tolerance) -> bool {
    let Some((exponent_bits, mantissa_bits)) = ty.float else {
        return got == expected;
    };
    let sign = exponent_bits + mantissa_bits;
    let magnitude = |value: u64| value & ((1 << sign) - 1);
    let infinity = ((1u64 << exponent_bits) - 1) << mantissa_bits;
    let nan = |value: u64| magnitude(value) > infinity;
    if nan(got) || nan(expected) {
        return nan(got) && nan(expected);
    }
    let step = |value: u64| {
        let magnitude = i128::from(magnitude(value));
        if value >> sign == 0 { magnitude } else { -magnitude }
    };
    let apart = (number(ty, got) - number(ty, expected)).abs();
    step(got).abs_diff(step(expected)) <= u128::from(tolerance.ulp) || apart <= tolerance.absolute
}

/// The number a float's bits stand for.
fn number(ty: Type, bits: u64) -> f64 {
    let Some((exponent_bits, mantissa_bits)) = ty.float else {
        return 0.0;
    };
    let bias = (1i32 << (exponent_bits - 1)) - 1;
    let exponent = i32::try_from(bits >> mantissa_bits & ((1 << exponent_bits) - 1)).unwrap_or(0);
    let mantissa = (bits & ((1 << mantissa_bits) - 1)) as f64 / (1u64 << mantissa_bits) as f64;
    let value = match exponent {
        0 => mantissa * 2f64.powi(1 - bias),
        _ if exponent == (1 << exponent_bits) - 1 => f64::INFINITY,
        _ => (1.0 + mantissa) * 2f64.powi(exponent - bias),
    };
    if bits >> (exponent_bits + mantissa_bits) & 1 == 0 { value } else { -value }
}
