//! The calls that `apex bench shim` measures, made in a process of their own.
//!
//! Both libraries are opened here by path and called through plain function pointers. Each launch is
//! timed alone with the processor's counter, whose own cost is in both figures and falls out of their
//! difference. Threads keep to the pace of real launches (a couple of microseconds each), because the
//! question is what one recorded launch costs, not how fast a ring can be flooded.

#![allow(unsafe_code, reason = "calls two driver libraries by their C functions")]

use super::library;
use anyhow::{Result, bail};
use apex_core::time::{self, Anchor, Scale};
use apex_cuda::types::{CUcontext, CUfunction, CUstream};
use apex_cuda::{Driver, Function, Library};
use serde_json::json;
use std::ffi::c_void;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Calls of one kind in a row before the other kind has its turn.
const BLOCK: usize = 256;
/// Calls before a block is timed.
const WARM_UP: usize = 16;
/// A launch of a real driver takes about four microseconds.
const PACE: Duration = Duration::from_nanos(2_000);

const KERNEL: &std::ffi::CStr =
    c".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry empty()\n{\n ret;\n}\n";

/// Measures and prints one JSON object.
pub(crate) fn measure(threads: usize, quick: bool) -> Result<ExitCode> {
    let began = Anchor::take();
    let direct = open(&library("libapex_standin.so")?)?;
    let shim = open(&library("libapex_shim.so")?)?;
    let (context, kernel) = prepare(&shim)?;
    let rounds = if quick { 40 } else { 400 };
    let trampoline = trampoline(&direct, &shim, if quick { 200 } else { 2_000 });

    let barrier = Barrier::new(threads);
    let (context, kernel) = (context as usize, kernel as usize);
    let mut direct_ticks = Vec::new();
    let mut shim_ticks = Vec::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    // SAFETY: the stand-in's own context, made above and never destroyed.
                    unsafe { (shim.cuCtxSetCurrent)(context as CUcontext) };
                    let kernel = kernel as CUfunction;
                    for _ in 0..2 * BLOCK {
                        launch(&shim, kernel);
                        launch(&direct, kernel);
                    }
                    barrier.wait();
                    alternate(&direct, &shim, kernel, rounds, threads)
                })
            })
            .collect();
        for worker in workers {
            if let Ok((direct, shim)) = worker.join() {
                direct_ticks.extend(direct);
                shim_ticks.extend(shim);
            }
        }
    });
    let scale = Scale::between(began, Anchor::take());
    let nanos = |ticks: f64| ticks * scale.nanos_per_tick();
    let (direct, shim) = (percentiles(direct_ticks), percentiles(shim_ticks));
    println!(
        "{}",
        json!({
            "trampoline_direct_ns": nanos(trampoline.0),
            "trampoline_shim_ns": nanos(trampoline.1),
            "trampoline_added_ns": nanos(trampoline.1 - trampoline.0),
            "direct_p50_ns": nanos(direct.0), "direct_p99_ns": nanos(direct.1),
            "shim_p50_ns": nanos(shim.0), "shim_p99_ns": nanos(shim.1),
            "added_p50_ns": nanos(shim.0 - direct.0), "added_p99_ns": nanos(shim.1 - direct.1),
            "launches": rounds * BLOCK * threads,
        })
    );
    Ok(ExitCode::SUCCESS)
}

pub(super) fn open(path: &Path) -> Result<Driver> {
    // SAFETY: a library of ours.
    let library = unsafe { Library::open(path) }?;
    let mut missing = None;
    let mut address = |function: Function| {
        library.symbol(function.c_name()).unwrap_or_else(|| {
            missing = Some(function.name());
            std::ptr::dangling()
        })
    };
    // SAFETY: both libraries export every function of the table with its signature; if one does not,
    // the driver is not used.
    let driver = unsafe { Driver::from_addresses(&mut address) };
    match missing {
        Some(name) => {
            bail!("{} has no {name}: it belongs to another version of apex", path.display())
        }
        None => Ok(driver),
    }
}

/// A context and a kernel of the stand-in, made through the shim.
fn prepare(shim: &Driver) -> Result<(CUcontext, CUfunction)> {
    let mut context = std::ptr::null_mut();
    let mut module = std::ptr::null_mut();
    let mut kernel = std::ptr::null_mut();
    // SAFETY: valid places for the answers; the image is PTX text.
    let results = unsafe {
        [
            (shim.cuInit)(0),
            (shim.cuDevicePrimaryCtxRetain)(&raw mut context, 0),
            (shim.cuCtxSetCurrent)(context),
            (shim.cuModuleLoadData)(&raw mut module, KERNEL.as_ptr().cast::<c_void>()),
            (shim.cuModuleGetFunction)(&raw mut kernel, module, c"empty".as_ptr()),
        ]
    };
    if results != [0; 5] {
        bail!("the stand-in driver answered {results:?}");
    }
    Ok((context, kernel))
}

/// Ticks per call of a function that only passes through: direct and by the shim.
fn trampoline(direct: &Driver, shim: &Driver, rounds: usize) -> (f64, f64) {
    let batch = |driver: &Driver| {
        let mut context = std::ptr::null_mut();
        let began = time::ticks();
        for _ in 0..BLOCK {
            // SAFETY: a valid place for the answer.
            unsafe { (driver.cuCtxGetCurrent)(&raw mut context) };
            std::hint::black_box(&mut context);
        }
        #[expect(clippy::cast_precision_loss, reason = "a few thousand ticks")]
        let each = (time::ticks() - began) as f64 / BLOCK as f64;
        each
    };
    let (mut by_direct, mut by_shim): (Vec<f64>, Vec<f64>) =
        (0..rounds).map(|_| (batch(direct), batch(shim))).unzip();
    (middle(&mut by_direct), middle(&mut by_shim))
}

fn alternate(
    direct: &Driver,
    shim: &Driver,
    kernel: CUfunction,
    rounds: usize,
    threads: usize,
) -> (Vec<u32>, Vec<u32>) {
    let mut by_direct = Vec::with_capacity(rounds * BLOCK);
    let mut by_shim = Vec::with_capacity(rounds * BLOCK);
    let block = |driver: &Driver, times: &mut Vec<u32>| {
        // The first calls after another library's are not what a program sees.
        (0..WARM_UP).for_each(|_| launch(driver, kernel));
        for _ in 0..BLOCK {
            let began = time::ticks();
            launch(driver, kernel);
            times.push(u32::try_from(time::ticks() - began).unwrap_or(u32::MAX));
        }
    };
    for _ in 0..rounds {
        block(direct, &mut by_direct);
        block(shim, &mut by_shim);
        keep_busy(PACE * u32::try_from(BLOCK * threads).unwrap_or(1));
    }
    (by_direct, by_shim)
}

/// A program that launches is busy in the driver meanwhile: a thread that slept would find its processor
/// slowed down and its caches cold.
fn keep_busy(length: Duration) {
    let began = Instant::now();
    while began.elapsed() < length {
        std::hint::spin_loop();
    }
}

#[inline]
fn launch(driver: &Driver, kernel: CUfunction) {
    let stream: CUstream = std::ptr::null_mut();
    // SAFETY: a kernel of the stand-in without parameters, in a current context.
    unsafe {
        (driver.cuLaunchKernel)(
            kernel,
            8,
            1,
            1,
            128,
            1,
            1,
            0,
            stream,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        );
    }
}

/// The median and the 99th percentile.
fn percentiles(mut ticks: Vec<u32>) -> (f64, f64) {
    ticks.sort_unstable();
    let at =
        |share: usize| ticks.get(ticks.len() * share / 100).copied().map_or(f64::NAN, f64::from);
    (at(50), at(99))
}

fn middle(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
