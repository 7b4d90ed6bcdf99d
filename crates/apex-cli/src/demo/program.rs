//! The program that `apex demo` runs: a plain user of CUDA, without a word to apex.
//!
//! It lies in the command so that the demo needs no compiler. It does two things that are often done wrong: blocks of one thread,
//! and the same upload in every step.

use anyhow::{Result, ensure};
use apex_exec::{Device, Executor, Grid};
use std::process::ExitCode;
use std::time::Instant;

const KERNELS: &str = include_str!("kernels.ptx");
/// Rounds of the kernel.
const ROUNDS: u32 = 1_024;
/// Threads of a block, too few.
const THREADS: u32 = 1;
const STEPS: u32 = 100;
/// Elements that are uploaded in every step, and of the part that is worked on.
const TABLE: u32 = 1 << 22;
const PART: u32 = 1 << 13;

/// Runs it: it says how long a step took, and fails if the device computed something wrong.
pub(crate) fn program() -> Result<ExitCode> {
    let executor = Executor::new(Device::Gpu(0))?;
    let kernel = executor.load_ptx(KERNELS)?.kernel("rounds")?;
    let table: Vec<u32> = (0..TABLE).collect();
    let mut input = executor.upload(&table)?;
    let mut output = executor.zeros::<u32>(PART as usize)?;
    let grid = Grid::for_elements(u64::from(PART), THREADS);
    let begun = Instant::now();
    for _ in 0..STEPS {
        executor.stream().write(&table, &mut input)?;
        executor.stream().launch(&kernel, grid).arg(&mut output).arg(&input).arg(&PART).run()?;
        executor.synchronize()?;
    }
    let step = begun.elapsed() / STEPS;
    let computed = |value: u32| (0..ROUNDS).fold(value, |x, _| x.wrapping_mul(5).wrapping_add(1));
    let result = executor.download(&output)?;
    ensure!((0..PART).map(computed).eq(result), "the kernel computed something else");
    // A time is another one in every run, and `apex tune` compares what a program says on standard output.
    eprintln!("{STEPS} steps, {:.2} ms each", step.as_secs_f64() * 1e3);
    Ok(ExitCode::SUCCESS)
}
