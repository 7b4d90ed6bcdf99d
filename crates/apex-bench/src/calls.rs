//! The calls that `apex bench shim` measures, made in a process of their own.
//!
//! Both libraries are opened here by path and called through plain function pointers. Each launch is
//! timed alone with the processor's counter, whose own cost is in both figures and falls out of their
//! difference. Threads keep to the pace of real launches (a couple of microseconds each), because the
//! question is what one recorded launch costs, not how fast a ring can be flooded.

#![allow(unsafe_code, reason = "calls two driver libraries by their C functions")]

use crate::libraries::{library, open};
use anyhow::{Result, bail};
use apex_core::time::{self, Anchor, Scale};
use apex_cuda::types::{CUcontext, CUfunction, CUstream};
use apex_cuda::{Driver, Library};
use serde_json::json;
use std::ffi::c_void;
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

/// Measures and prints one JSON object. With `gate` the launches of one thread go through an open gate too.
pub(crate) fn measure(threads: usize, gate: bool, quick: bool) -> Result<ExitCode> {
    let began = Anchor::take();
    let direct = open(&library("libapex_standin.so")?)?;
    let shim = open(&library("libapex_shim.so")?)?;
    let take_part = gate.then(find_take_part).transpose()?;
    let (context, kernel) = prepare(&shim)?;
    let rounds = if quick { 40 } else { 400 };
    let trampoline = trampoline(&direct, &shim, if quick { 200 } else { 2_000 });

    let barrier = Barrier::new(threads);
    let (context, kernel) = (context as usize, kernel as usize);
    let ways = [
        Some(Way { driver: &direct, take_part: None }),
        Some(Way { driver: &shim, take_part: None }),
        take_part.map(|take_part| Way { driver: &shim, take_part: Some(take_part) }),
    ];
    let mut ticks: [Vec<u32>; 3] = Default::default();
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
                    alternate(&ways, kernel, rounds, threads)
                })
            })
            .collect();
        for worker in workers {
            for (all, more) in ticks.iter_mut().zip(worker.join().unwrap_or_default()) {
                all.extend(more);
            }
        }
    });
    let scale = Scale::between(began, Anchor::take());
    let nanos = |ticks: f64| ticks * scale.nanos_per_tick();
    let [direct, shim, gated] = ticks.map(summary);
    println!(
        "{}",
        json!({
            "trampoline_direct_ns": nanos(trampoline.0),
            "trampoline_shim_ns": nanos(trampoline.1),
            "trampoline_added_ns": nanos(trampoline.1 - trampoline.0),
            "direct_p50_ns": nanos(direct.p50), "direct_p99_ns": nanos(direct.p99),
            "shim_p50_ns": nanos(shim.p50), "shim_p99_ns": nanos(shim.p99),
            "added_p50_ns": nanos(shim.p50 - direct.p50),
            "added_p99_ns": nanos(shim.p99 - direct.p99),
            "added_mean_ns": nanos(shim.mean - direct.mean),
            "gate_added_p50_ns": nanos(gated.p50 - shim.p50),
            "gate_added_p99_ns": nanos(gated.p99 - shim.p99),
            "gate_added_mean_ns": nanos(gated.mean - shim.mean),
            "launches": rounds * BLOCK * threads,
        })
    );
    Ok(ExitCode::SUCCESS)
}

/// Launches at a steady rate through the shim and prints one JSON object. Between its launches the thread is
/// busy, as a program's thread is in the driver.
pub(crate) fn launch_steadily(launches: u64, rate: u64) -> Result<ExitCode> {
    /// Launches between two looks at the clock.
    const AT_ONCE: u64 = 16;
    /// Further behind than this is not caught up with.
    const CAUGHT_UP: Duration = Duration::from_millis(1);
    let shim = open(&library("libapex_shim.so")?)?;
    let (_, kernel) = prepare(&shim)?;
    let pace = Duration::from_nanos(AT_ONCE * 1_000_000_000 / rate.max(1));
    let began = Instant::now();
    let mut due = began;
    let mut done = 0;
    while done < launches {
        let now = Instant::now();
        // A thread that was not given the processor goes on at its pace: it does not make up for it.
        due = if now > due + CAUGHT_UP { now } else { due };
        keep_busy(due.saturating_duration_since(now));
        for _ in 0..AT_ONCE.min(launches - done) {
            launch(&shim, kernel);
            done += 1;
        }
        due += pace;
    }
    let seconds = began.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a few million launches")]
    let reached = launches as f64 / seconds;
    println!("{}", json!({"launches": launches, "reached_per_second": reached}));
    Ok(ExitCode::SUCCESS)
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

/// The shim's function by which a program begins and stops to take part in scheduling.
type TakePart = unsafe extern "C" fn(i32) -> i32;

fn find_take_part() -> Result<TakePart> {
    // SAFETY: a library of ours.
    let shim = unsafe { Library::open(&library("libapex_shim.so")?) }?;
    match shim.symbol(c"apex_enable_scheduling") {
        // SAFETY: the function of `include/apex.h`, in a library that is never closed.
        Some(address) => Ok(unsafe { std::mem::transmute::<*const c_void, TakePart>(address) }),
        None => bail!("the shim has no gate: it belongs to another version of apex"),
    }
}

/// How launches are made: through which library, and with the program's class or without.
#[derive(Clone, Copy)]
struct Way<'a> {
    driver: &'a Driver,
    take_part: Option<TakePart>,
}

impl Way<'_> {
    fn take_part(&self, on: bool) {
        if let Some(take_part) = self.take_part {
            // SAFETY: takes a number, from any thread at any time.
            unsafe { take_part(i32::from(on)) };
        }
    }
}

fn alternate(
    ways: &[Option<Way<'_>>; 3],
    kernel: CUfunction,
    rounds: usize,
    threads: usize,
) -> [Vec<u32>; 3] {
    let mut times = [(); 3].map(|()| Vec::with_capacity(rounds * BLOCK));
    let block = |way: &Way<'_>, times: &mut Vec<u32>| {
        way.take_part(true);
        // The first calls after another library's are not what a program sees.
        (0..WARM_UP).for_each(|_| launch(way.driver, kernel));
        for _ in 0..BLOCK {
            let began = time::ticks();
            launch(way.driver, kernel);
            times.push(u32::try_from(time::ticks() - began).unwrap_or(u32::MAX));
        }
        way.take_part(false);
    };
    ways.iter().flatten().for_each(|way| way.take_part(false));
    for _ in 0..rounds {
        for (way, times) in ways.iter().zip(&mut times) {
            if let Some(way) = way {
                block(way, times);
            }
        }
        keep_busy(PACE * u32::try_from(BLOCK * threads).unwrap_or(1));
    }
    times
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

/// What many calls took, in ticks.
struct Summary {
    p50: f64,
    p99: f64,
    /// Of all but the slowest hundredth, which the machine has disturbed.
    mean: f64,
}

fn summary(mut ticks: Vec<u32>) -> Summary {
    ticks.sort_unstable();
    let at =
        |share: usize| ticks.get(ticks.len() * share / 100).copied().map_or(f64::NAN, f64::from);
    let usual = &ticks[..ticks.len() * 99 / 100];
    #[expect(clippy::cast_precision_loss, reason = "a hundred thousand calls")]
    let mean = usual.iter().copied().map(f64::from).sum::<f64>() / usual.len() as f64;
    Summary { p50: at(50), p99: at(99), mean }
}

fn middle(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
