//! What a launch costs on the host, beside cudarc's own builder, and what many threads on one executor do.

#![allow(unsafe_code, reason = "cudarc's own launch has no safe form")]

use super::median;
use anyhow::{Result, bail};
use apex_exec::{Executor, Grid};
use cudarc::driver::{CudaContext, DriverError, LaunchConfig, PushKernelArg};
use std::time::Instant;

const NOTHING: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry nothing(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) { ret; }
";
const LAUNCHES: usize = 100;

/// Nanoseconds of a launch: ours, and cudarc's without its events, which is the bare call. Only on a GPU: cudarc
/// finds its driver by name.
pub(super) fn cost(executor: &Executor, quick: bool) -> Result<(f64, f64)> {
    let turns = if quick { 50 } else { 400 };
    let nothing = executor.load_ptx(NOTHING)?.kernel("nothing")?;
    let (a, b) = (executor.zeros::<f32>(64)?, executor.zeros::<f32>(64)?);
    let mut c = executor.zeros::<f32>(64)?;
    let stream = executor.stream();
    let mut theirs = match cudarcs() {
        Ok(theirs) => theirs,
        Err(error) => bail!("cudarc cannot launch here: {error:?}"),
    };
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..turns {
        let begin = Instant::now();
        for number in 0..LAUNCHES as u32 {
            let mut launch = stream.launch(&nothing, Grid::linear(1, 32));
            launch.arg(&a).arg(&b).arg(&mut c).arg(&number).run()?;
        }
        times[0].push(begin.elapsed().as_nanos() as f64 / LAUNCHES as f64);
        stream.synchronize()?;
        match theirs() {
            Ok(nanos) => times[1].push(nanos),
            Err(error) => bail!("cudarc cannot launch here: {error:?}"),
        }
    }
    let [ours, theirs] = times;
    Ok((median(ours), median(theirs)))
}

fn cudarcs()
-> core::result::Result<impl FnMut() -> core::result::Result<f64, DriverError>, DriverError> {
    let context = CudaContext::new(0)?;
    // SAFETY: everything below stays on one stream.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream()?;
    let module = context.load_module(cudarc::nvrtc::Ptx::from_src(NOTHING))?;
    let nothing = module.load_function("nothing")?;
    let (a, b) = (stream.alloc_zeros::<f32>(64)?, stream.alloc_zeros::<f32>(64)?);
    let mut c = stream.alloc_zeros::<f32>(64)?;
    Ok(move || {
        let config =
            LaunchConfig { grid_dim: (1, 1, 1), block_dim: (32, 1, 1), shared_mem_bytes: 0 };
        let begin = Instant::now();
        for number in 0..LAUNCHES as u32 {
            let mut launch = stream.launch_builder(&nothing);
            launch.arg(&a).arg(&b).arg(&mut c).arg(&number);
            // SAFETY: the kernel takes these arguments and does nothing.
            unsafe { launch.launch(config) }?;
        }
        let nanos = begin.elapsed().as_nanos() as f64 / LAUNCHES as f64;
        stream.synchronize()?;
        Ok(nanos)
    })
}

/// Threads that work on the global executor at once, each on a stream of its own, and how many results of how
/// many were wrong or failed.
pub(super) fn threads(threads: usize, rounds: usize) -> (usize, usize) {
    let failures: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || (0..rounds).filter(|round| !works(thread, *round)).count())
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or(rounds)).sum()
    });
    (threads * rounds, failures)
}

fn works(thread: usize, round: usize) -> bool {
    let once = || -> apex_exec::Result<bool> {
        let executor = apex_exec::global()?;
        let stream = executor.new_stream()?;
        let number = (thread * 1000 + round) as f32;
        let x = stream.upload(&vec![number; 1000 + thread])?;
        let mut y = stream.poisoned::<f32>(x.len())?;
        executor.ops().on(&stream).vector_add(&x, &x, &mut y)?;
        let mut sum = stream.poisoned::<f32>(1)?;
        executor.ops().on(&stream).reduce(apex_exec::Reduction::Max, &y, &mut sum)?;
        Ok(stream.download(&sum)?[0] == 2.0 * number)
    };
    once().unwrap_or(false)
}
