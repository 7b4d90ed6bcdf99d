//! Measures the engine alone on the kernels of `apex bench softgpu`: GFLOP/s, GB/s and the time of compiling.
//!
//! `cargo run --release -p apex-engine --example kernels [threads] [kernel] [compiled]`

use apex_engine::frame::FastTier;
use apex_engine::{Device, Grid, Identity, Kernel, Launch, Module, Services};
use std::sync::Arc;

struct Quiet;

impl Services for Quiet {
    fn print(&self, _: &[u8]) {}
    fn assert_failed(&self, _: &str) {}
    fn heap_alloc(&self, _: u64) -> u64 {
        0
    }
    fn heap_free(&self, _: u64) {}
    fn find(&self, _: u64) -> Option<(u64, u64)> {
        None
    }
}

/// One measurement: a kernel, its launch and what it does.
struct Case {
    name: &'static str,
    grid: [u32; 3],
    block: [u32; 3],
    params: Vec<u8>,
    /// Operations or bytes, and their unit per nanosecond.
    amount: f64,
    unit: &'static str,
}

/// Time the processor gave this process: other programs on the machine do not count.
fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn params(pointers: &[u64], numbers: &[i32]) -> Vec<u8> {
    let mut bytes: Vec<u8> = pointers.iter().flat_map(|p| p.to_le_bytes()).collect();
    bytes.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    bytes
}

fn run(
    kernel: &Arc<Kernel>,
    case: &Case,
    device: &Arc<Device>,
    fast: Option<&Arc<dyn FastTier>>,
    threads: usize,
) -> f64 {
    let launch = Launch {
        kernel: kernel.clone(),
        grid: case.grid,
        block: case.block,
        dynamic_shared: 0,
        params: case.params.clone(),
        cooperative: false,
        cluster: [1; 3],
    };
    let grid = Grid::with_fast_tier(launch, device.clone(), fast.cloned()).expect("a valid launch");
    let start = processor_seconds();
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| grid.work());
        }
        grid.work();
    });
    let seconds = (processor_seconds() - start) / threads as f64;
    assert!(grid.fault().is_none(), "{}: {:?}", case.name, grid.fault());
    seconds
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let threads: usize = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(1);
    let only = arguments.next();
    let quick = arguments.next().is_some();
    let text = include_str!("../../../benches/softgpu/kernels.ptx");
    let module = Module::load(&[text], &mut |_| None).expect("the kernels load");
    let device = Arc::new(Device {
        identity: Identity::default(),
        checked: false,
        jit: true,
        services: Box::new(Quiet),
    });
    let (side, count, pixels) = (512usize, 1usize << 24, 1024usize);
    let a: Vec<f32> = (0..count).map(|i| (i % 97) as f32 * 0.25).collect();
    let b: Vec<f32> = (0..count).map(|i| (i % 89) as f32 * 0.5).collect();
    let mut c = vec![0f32; count];
    let words: Vec<u32> =
        (0..count).map(|i| ((i as u64 * 2_654_435_761) >> 13) as u8 as u32).collect();
    let mut bins = vec![0u32; 256];
    let mut image = vec![0i32; pixels * pixels];
    let (pa, pb, pc) = (a.as_ptr() as u64, b.as_ptr() as u64, c.as_mut_ptr() as u64);
    let tiles = (side / 16) as u32;
    let cells = 4096u32;
    let cases = [
        Case {
            name: "vector_add",
            grid: [(count / 256) as u32, 1, 1],
            block: [256, 1, 1],
            params: params(&[pa, pb, pc], &[count as i32]),
            amount: count as f64 * 12.0,
            unit: "GB/s",
        },
        Case {
            name: "matmul",
            grid: [tiles, tiles, 1],
            block: [16, 16, 1],
            params: params(&[pa, pb, pc], &[side as i32]),
            amount: 2.0 * (side * side * side) as f64,
            unit: "GFLOP/s",
        },
        Case {
            name: "reduction",
            grid: [128, 1, 1],
            block: [256, 1, 1],
            params: params(&[pa, pc], &[count as i32]),
            amount: count as f64 * 4.0,
            unit: "GB/s",
        },
        Case {
            name: "histogram",
            grid: [64, 1, 1],
            block: [256, 1, 1],
            params: params(&[words.as_ptr() as u64, bins.as_mut_ptr() as u64], &[count as i32]),
            amount: count as f64 * 4.0,
            unit: "GB/s",
        },
        Case {
            name: "mandelbrot",
            grid: [(pixels / 32) as u32, (pixels / 8) as u32, 1],
            block: [32, 8, 1],
            params: params(&[image.as_mut_ptr() as u64], &[pixels as i32, pixels as i32, 256]),
            amount: (pixels * pixels) as f64,
            unit: "G pixels/s",
        },
        Case {
            name: "stencil",
            grid: [cells / 32, cells / 8, 1],
            block: [32, 8, 1],
            params: params(&[pa, pc], &[cells as i32, cells as i32]),
            amount: f64::from(cells * cells) * 8.0,
            unit: "GB/s",
        },
    ];
    println!("{:<12}{:>6}{:>7}{:>14}{:>14}", "kernel", "steps", "ms", "compiled", "interpreted");
    for case in cases.iter().filter(|case| only.as_deref().is_none_or(|only| only == case.name)) {
        let kernel = module.kernel(case.name).expect("the kernel is there");
        let start = processor_seconds();
        let fast = apex_engine::compile(&kernel.code, case.block);
        let compile = (processor_seconds() - start) * 1e3;
        let best = |fast: Option<&Arc<dyn FastTier>>, runs: usize| {
            let seconds = (0..runs)
                .map(|_| run(kernel, case, &device, fast, threads))
                .fold(f64::INFINITY, f64::min);
            case.amount / seconds / 1e9
        };
        let compiled = fast.as_ref().map_or(f64::NAN, |fast| best(Some(fast), 5));
        let interpreted = if quick { f64::NAN } else { best(None, 1) };
        let steps = kernel.code.steps.len();
        println!(
            "{:<12}{steps:>6}{compile:>7.2}{compiled:>14.3}{interpreted:>14.3} {}",
            case.name, case.unit
        );
    }
}
