//! What a launch costs here, and what it costs through cudarc's own builder, in one process and by turns.
//!
//! Both launch the same kernel, which takes three buffers and a number and does nothing, on the same driver:
//! whatever `libcuda.so.1` the loader finds (a GPU's, or the software GPU's by `LD_LIBRARY_PATH`). cudarc is
//! measured as it comes, with its events for every buffer, and without them, as the bare call. The medians of
//! many short turns are compared; a turn ends by waiting for the device, outside the measured time.

use apex_exec::{Device, Executor, Grid};
use cudarc::driver::{CudaContext, DriverError, LaunchConfig, PushKernelArg};
use std::time::Instant;

const SOURCE: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry nothing(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) { ret; }
";
const TURNS: usize = 400;
const LAUNCHES: usize = 100;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let executor = Executor::new(Device::Gpu(0))?;
    println!(
        "{}; {TURNS} turns of {LAUNCHES} launches; nanoseconds per launch",
        executor.facts().name
    );
    let nothing = executor.load_ptx(SOURCE)?.kernel("nothing")?;
    let (a, b) = (executor.zeros::<f32>(64)?, executor.zeros::<f32>(64)?);
    let mut c = executor.zeros::<f32>(64)?;
    let stream = executor.stream();
    let mut ours = || {
        let begin = Instant::now();
        for number in 0..LAUNCHES as u32 {
            let grid = Grid::linear(1, 32);
            let launched =
                stream.launch(&nothing, grid).arg(&a).arg(&b).arg(&mut c).arg(&number).run();
            launched.expect("the launch is right");
        }
        let taken = begin.elapsed();
        stream.synchronize().expect("the kernel does nothing");
        taken.as_nanos() as f64 / LAUNCHES as f64
    };

    let mut tracked = cudarcs(true).map_err(|error| format!("{error:?}"))?;
    let mut bare = cudarcs(false).map_err(|error| format!("{error:?}"))?;
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        times[0].push(ours());
        times[1].push(bare());
        times[2].push(tracked());
    }
    let [ours, bare, tracked] = times.map(Spread::of);
    println!("ours                    {ours}");
    println!("cudarc without events   {bare}");
    println!("cudarc as it comes      {tracked}");
    println!("ours - cudarc without events: {:+.0} ns", ours.median - bare.median);
    println!("ours - cudarc as it comes:    {:+.0} ns", ours.median - tracked.median);
    Ok(())
}

/// A turn of cudarc's own builder.
fn cudarcs(with_events: bool) -> Result<impl FnMut() -> f64, DriverError> {
    let context = CudaContext::new(0)?;
    if !with_events {
        // SAFETY: everything below stays on one stream.
        unsafe { context.disable_event_tracking() };
    }
    let stream = context.new_stream()?;
    let module = context.load_module(cudarc::nvrtc::Ptx::from_src(SOURCE))?;
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
            unsafe { launch.launch(config) }.expect("the launch is right");
        }
        let taken = begin.elapsed();
        stream.synchronize().expect("the kernel does nothing");
        taken.as_nanos() as f64 / LAUNCHES as f64
    })
}

struct Spread {
    median: f64,
    low: f64,
    high: f64,
}

impl Spread {
    fn of(mut times: Vec<f64>) -> Spread {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[(share * (times.len() - 1) as f64) as usize];
        Spread { median: at(0.5), low: at(0.1), high: at(0.9) }
    }
}

impl core::fmt::Display for Spread {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            out,
            "{:7.0}  (a tenth below {:.0}, a tenth above {:.0})",
            self.median, self.low, self.high
        )
    }
}
