//! Measures the engine alone on the kernels of `apex bench softgpu`: GFLOP/s, GB/s and the time of compiling;
//! compiled code free to touch everything, and held to a window of device memory by asking at accesses or by trusting
//! parameters that were looked at, in turns. Beside a rate stands the median of its time over that of free code.
//!
//! `cargo run --release -p apex-engine --example kernels [threads] [kernel|all] [rounds] [compiled]`

use apex_engine::frame::FastTier;
use apex_engine::{Device, Grid, Identity, Kernel, Launch, Module, Services, Variable, Window};
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

/// Memory in a window of its own.
struct Memory {
    window: Window,
    next: u64,
}

const BITS: u32 = 42;

impl Memory {
    fn reserve() -> Memory {
        let unused = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a plain request for addresses.
        let all =
            unsafe { libc::mmap(std::ptr::null_mut(), 2 << BITS, libc::PROT_NONE, unused, -1, 0) };
        assert_ne!(all, libc::MAP_FAILED, "no addresses");
        let window =
            Window::new((all.expose_provenance() as u64).next_multiple_of(1 << BITS), BITS);
        Memory { window, next: window.start() }
    }

    fn take<T>(&mut self, count: usize, make: impl Fn(usize) -> T) -> &'static mut [T] {
        let bytes = (count * size_of::<T>()).next_multiple_of(2 << 20);
        let place = std::ptr::with_exposed_provenance_mut(self.next as usize);
        self.next += bytes as u64;
        // SAFETY: the addresses are reserved and not used yet; every element is written before it is lent.
        unsafe {
            assert_eq!(libc::mprotect(place, bytes, libc::PROT_READ | libc::PROT_WRITE), 0);
            libc::madvise(place, bytes, libc::MADV_HUGEPAGE);
            let place = place.cast::<T>();
            (0..count).for_each(|index| place.add(index).write(make(index)));
            std::slice::from_raw_parts_mut(place, count)
        }
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

/// A square matrix of floats as Numba's kernels take it.
fn numba_matrix(data: u64, side: u64) -> [u64; 9] {
    [0, 0, side * side, 4, data, side, side, 4 * side, 4]
}

/// The kernels with their launches, over memory that is taken and filled here.
fn cases(memory: &mut Memory) -> Vec<Case> {
    let (side, count, pixels) = (512usize, 1usize << 24, 1024usize);
    let a = memory.take(count, |i| (i % 97) as f32 * 0.25);
    let b = memory.take(count, |i| (i % 89) as f32 * 0.5);
    let c = memory.take(count, |_| 0f32);
    let words = memory.take(count, |i| ((i as u64 * 2_654_435_761) >> 13) as u8 as u32);
    let bins = memory.take(256, |_| 0u32);
    let image = memory.take(pixels * pixels, |_| 0i32);
    let (pa, pb, pc) = (a.as_ptr() as u64, b.as_ptr() as u64, c.as_mut_ptr() as u64);
    let tiles = (side / 16) as u32;
    let cells = 4096u32;
    let case =
        |name, grid, block, params, amount, unit| Case { name, grid, block, params, amount, unit };
    let linear = [256, 1, 1];
    let product = |name| {
        case(
            name,
            [tiles, tiles, 1],
            [16, 16, 1],
            params(&[pa, pb, pc], &[side as i32]),
            2.0 * (side * side * side) as f64,
            "GFLOP/s",
        )
    };
    let turns = 300_000;
    let long_loop = |name, threads: u32| {
        let params = params(&[pc], &[turns]);
        case(name, [1, 1, 1], [threads, 1, 1], params, f64::from(turns), "G turns/s")
    };
    vec![
        case(
            "vector_add",
            [(count / 256) as u32, 1, 1],
            linear,
            params(&[pa, pb, pc], &[count as i32]),
            count as f64 * 12.0,
            "GB/s",
        ),
        product("matmul"),
        product("matmul_cp_async"),
        product("matmul_cp_async_16"),
        product("matmul_barrier"),
        Case {
            params: params(&[pa, pb, pc].map(|data| numba_matrix(data, side as u64)).concat(), &[]),
            ..product("numba_matmul")
        },
        long_loop("long_loop", 32),
        long_loop("long_loop", 1),
        case(
            "reduction",
            [128, 1, 1],
            linear,
            params(&[pa, pc], &[count as i32]),
            count as f64 * 4.0,
            "GB/s",
        ),
        case(
            "histogram",
            [64, 1, 1],
            linear,
            params(&[words.as_ptr() as u64, bins.as_mut_ptr() as u64], &[count as i32]),
            count as f64 * 4.0,
            "GB/s",
        ),
        case(
            "mandelbrot",
            [(pixels / 32) as u32, (pixels / 8) as u32, 1],
            [32, 8, 1],
            params(&[image.as_mut_ptr() as u64], &[pixels as i32, pixels as i32, 256]),
            (pixels * pixels) as f64,
            "G pixels/s",
        ),
        case(
            "stencil",
            [cells / 32, cells / 8, 1],
            [32, 8, 1],
            params(&[pa, pc], &[cells as i32, cells as i32]),
            f64::from(cells * cells) * 8.0,
            "GB/s",
        ),
    ]
}

/// Devices free to touch everything, and held to the window.
struct Devices {
    free: Arc<Device>,
    held: Arc<Device>,
    window: Window,
}

impl Devices {
    fn new(window: Window) -> Devices {
        let device = |window| {
            Arc::new(Device {
                identity: Identity::default(),
                checked: false,
                jit: true,
                window,
                services: Box::new(Quiet),
            })
        };
        Devices { free: device(None), held: device(Some(window)), window }
    }
}

/// Compiles a case in three ways, runs these in turns and prints its line.
fn measure(
    kernel: &Arc<Kernel>,
    case: &Case,
    devices: &Devices,
    threads: usize,
    rounds: usize,
    quick: bool,
) {
    let made = |(window, trusting): (Option<Window>, bool)| {
        let start = processor_seconds();
        let fast = apex_engine::compile(&kernel.code, case.block, window, trusting);
        (fast, (processor_seconds() - start) * 1e3)
    };
    let window = Some(devices.window);
    let (ways, millis): (Vec<_>, Vec<_>) =
        [(None, false), (window, false), (window, true)].map(made).into_iter().unzip();
    let mut best = [f64::INFINITY; 3];
    let mut ratios = [const { Vec::new() }; 3];
    for round in 0..rounds {
        let mut now = [0.0; 3];
        for turn in 0..3 {
            let way = (round + turn) % 3;
            let device = if way == 0 { &devices.free } else { &devices.held };
            now[way] = run(kernel, case, device, ways[way].as_ref(), threads);
            best[way] = best[way].min(now[way]);
        }
        (0..3).for_each(|way| ratios[way].push(now[way] / now[0]));
    }
    let rate = |way: usize| case.amount / best[way] / 1e9;
    let ratio = |way: usize| {
        let mut all: Vec<f64> = ratios[way].clone();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let interpreted = if quick {
        f64::NAN
    } else {
        case.amount / run(kernel, case, &devices.held, None, threads) / 1e9
    };
    println!(
        "{:<19}{:>6}{:>7.2}{:>11.3}{:>10.3} {:>7.4}{:>10.3} {:>7.4}{interpreted:>13.3} {}",
        case.name,
        kernel.code.steps.len(),
        millis[2],
        rate(0),
        rate(1),
        ratio(1),
        rate(2),
        ratio(2),
        case.unit
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let threads: usize = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(1);
    let only = arguments.next().filter(|only| only != "all");
    let rounds: usize = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(5);
    let quick = arguments.next().is_some();
    let texts = [
        include_str!("../../../benches/softgpu/kernels.ptx"),
        include_str!("../../../benches/softgpu/frameworks.ptx"),
        include_str!("../../../benches/softgpu/numba_matmul.ptx"),
    ];
    let mut memory = Memory::reserve();
    let modules = texts.map(|text| {
        let mut place = |variable: Variable<'_>| {
            Some(memory.take(variable.bytes as usize, |_| 0u8).as_ptr() as u64)
        };
        Module::load(&[text], &mut place).expect("the kernels load")
    });
    let devices = Devices::new(memory.window);
    println!(
        "{:<19}{:>6}{:>7}{:>11}{:>18}{:>18}{:>13}",
        "kernel", "steps", "ms", "free", "asking", "trusting", "interpreted"
    );
    let cases = cases(&mut memory);
    for case in cases.iter().filter(|case| only.as_deref().is_none_or(|only| only == case.name)) {
        let kernel = modules.iter().find_map(|module| module.kernel(case.name));
        let kernel = kernel.expect("the kernel is there");
        measure(kernel, case, &devices, threads, rounds, quick);
    }
}
