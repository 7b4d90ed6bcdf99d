//! The kernels that `apex bench softgpu` measures, launched in a process of their own.
//!
//! The software GPU is opened by its path and called as a driver, without the shim. A kernel's time is from
//! its launch to the end of the wait for it. Results are checked against the loops' mathematics before
//! anything is printed: a fast wrong answer is no measurement.

#![allow(unsafe_code, reason = "calls a driver library by its C functions")]

use crate::libraries::{library, open};
use anyhow::{Result, bail};
use apex_cuda::Driver;
use apex_cuda::types::{CUdeviceptr, CUfunction};
use std::ffi::{CString, c_void};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Instant;

const KERNELS: &str = include_str!("../../../benches/softgpu/kernels.ptx");
const FRAMEWORKS: &str = include_str!("../../../benches/softgpu/frameworks.ptx");
const NUMBA: &str = include_str!("../../../benches/softgpu/numba_matmul.ptx");
const ELEMENTS: usize = 1 << 24;
const SIDE: usize = 512;
const WIDTH: usize = 1024;
const GRID: usize = 4096;
const ROUNDS: usize = 3;
const LONG_TURNS: u64 = 300_000;
/// Later launches of the long loop, of which the quickest counts.
const LATER: usize = 20;
/// Instructions of the kernel whose first launch is timed.
const INSTRUCTIONS: usize = 500;

/// Measures and prints a name and seconds in each line.
pub(crate) fn measure() -> Result<ExitCode> {
    let gpu = Gpu::new()?;
    let a: Vec<f32> = (0..ELEMENTS).map(|i| (i % 97) as f32 / 97.0).collect();
    let b: Vec<f32> = (0..ELEMENTS).map(|i| (i % 89) as f32 / 89.0).collect();
    let (a_on, b_on, c_on) = (gpu.upload(&a)?, gpu.upload(&b)?, gpu.upload(&a)?);
    let count = ELEMENTS as u32;

    let add = gpu.kernel("vector_add")?;
    let arguments = [a_on, b_on, c_on, u64::from(count)];
    gpu.time("vector_add", add, [count / 256, 1], [256, 1], &arguments)?;
    let sums = gpu.download(c_on, ELEMENTS)?;
    check("vector_add", (0..ELEMENTS).all(|i| sums[i] == a[i] + b[i]))?;

    let matmul = gpu.kernel("matmul")?;
    let tiles = (SIDE / 16) as u32;
    gpu.time("matmul", matmul, [tiles, tiles], [16, 16], &[a_on, b_on, c_on, SIDE as u64])?;
    let product = gpu.download(c_on, SIDE * SIDE)?;
    let wanted = |row: usize, column: usize| -> f64 {
        (0..SIDE).map(|k| f64::from(a[row * SIDE + k]) * f64::from(b[k * SIDE + column])).sum()
    };
    let close = |row: usize, column: usize| {
        (f64::from(product[row * SIDE + column]) - wanted(row, column)).abs() < 1e-2
    };
    check("matmul", (0..SIDE).all(|i| close(i, (i * 7) % SIDE)))?;

    let frameworks = gpu.load(FRAMEWORKS)?;
    let numba = gpu.load(NUMBA)?;
    let matrix =
        |data| [0, 0, (SIDE * SIDE) as u64, 4, data, SIDE as u64, SIDE as u64, 4 * SIDE as u64, 4];
    for (module, name, arguments) in [
        (frameworks, "matmul_cp_async", vec![a_on, b_on, c_on, SIDE as u64]),
        (frameworks, "matmul_cp_async_16", vec![a_on, b_on, c_on, SIDE as u64]),
        (frameworks, "matmul_barrier", vec![a_on, b_on, c_on, SIDE as u64]),
        (numba, "numba_matmul", [matrix(a_on), matrix(b_on), matrix(c_on)].concat()),
    ] {
        gpu.upload_to(c_on, &vec![0.0; SIDE * SIDE])?;
        gpu.time(name, gpu.kernel_of(module, name)?, [tiles, tiles], [16, 16], &arguments)?;
        check(name, gpu.download(c_on, SIDE * SIDE)? == product)?;
    }

    let texture = gpu.texture(a_on, WIDTH)?;
    let scale = gpu.kernel_of(frameworks, "texture_scale")?;
    let wide = WIDTH as u32;
    let arguments = [c_on, texture, WIDTH as u64, WIDTH as u64];
    gpu.time("texture", scale, [wide / 32, wide / 8], [32, 8], &arguments)?;
    let image = gpu.download(c_on, WIDTH)?;
    // The middle between texels 0 and 1 of the first row lies a quarter from the first.
    check("texture", (image[1] - (0.75 * a[0] + 0.25 * a[1])).abs() < 1e-3)?;

    gpu.launches(frameworks, "long_loop", 32, c_on)?;
    gpu.launches(gpu.load(FRAMEWORKS)?, "lone_thread", 1, c_on)?;

    let reduction = gpu.kernel("reduction")?;
    gpu.time("reduction", reduction, [64, 1], [256, 1], &[a_on, c_on, u64::from(count)])?;
    let total: f64 = gpu.download(c_on, 64)?.iter().map(|&part| f64::from(part)).sum();
    let exact: f64 = a.iter().map(|&value| f64::from(value)).sum();
    check("reduction", (total / exact - 1.0).abs() < 1e-4)?;

    let histogram = gpu.kernel("histogram")?;
    gpu.time("histogram", histogram, [64, 1], [256, 1], &[a_on, c_on, u64::from(count)])?;

    let mandelbrot = gpu.kernel("mandelbrot")?;
    let side = WIDTH as u32;
    let arguments = [c_on, WIDTH as u64, WIDTH as u64, 256];
    gpu.time("mandelbrot", mandelbrot, [side / 32, side / 8], [32, 8], &arguments)?;
    let steps = gpu.download(c_on, WIDTH * WIDTH)?;
    check("mandelbrot", steps[0].to_bits() == 1 && steps.iter().any(|step| step.to_bits() == 256))?;

    let stencil = gpu.kernel("stencil")?;
    let side = GRID as u32;
    let arguments = [a_on, c_on, GRID as u64, GRID as u64];
    gpu.time("stencil", stencil, [side / 32, side / 8], [32, 8], &arguments)?;

    let empty = gpu.kernel("empty")?;
    gpu.time_many("null_launch", empty, 2_000)?;
    gpu.first_launch("compile_500")?;
    Ok(ExitCode::SUCCESS)
}

fn check(kernel: &str, right: bool) -> Result<()> {
    if right { Ok(()) } else { bail!("{kernel} gives a wrong result on the software GPU") }
}

struct Gpu {
    driver: Driver,
    module: *mut c_void,
}

impl Gpu {
    fn new() -> Result<Gpu> {
        let driver = open(&library(apex_daemon::find::SOFTGPU)?)?;
        let mut context = std::ptr::null_mut();
        // SAFETY: valid places for the answers.
        let results = unsafe {
            [
                (driver.cuInit)(0),
                (driver.cuDevicePrimaryCtxRetain)(&raw mut context, 0),
                (driver.cuCtxSetCurrent)(context),
            ]
        };
        if results != [0; 3] {
            bail!("the software GPU answered {results:?}");
        }
        let mut gpu = Gpu { driver, module: std::ptr::null_mut() };
        gpu.module = gpu.load(KERNELS)?;
        Ok(gpu)
    }

    fn load(&self, text: &str) -> Result<*mut c_void> {
        let image = CString::new(text)?;
        let mut module = std::ptr::null_mut();
        // SAFETY: a valid place for the answer; the image is PTX text with a NUL at its end.
        let result = unsafe {
            (self.driver.cuModuleLoadData)(&raw mut module, image.as_ptr().cast::<c_void>())
        };
        if result != 0 {
            bail!("the kernels are refused: CUDA error {result}")
        }
        Ok(module.cast())
    }

    fn kernel(&self, name: &str) -> Result<CUfunction> {
        self.kernel_of(self.module, name)
    }

    fn kernel_of(&self, module: *mut c_void, name: &str) -> Result<CUfunction> {
        let c_name = CString::new(name)?;
        let mut kernel = std::ptr::null_mut();
        // SAFETY: a module of this driver, a name, a valid place for the answer.
        let result = unsafe {
            (self.driver.cuModuleGetFunction)(&raw mut kernel, module.cast(), c_name.as_ptr())
        };
        if result != 0 {
            bail!("{name} is not found: CUDA error {result}")
        }
        Ok(kernel)
    }

    fn upload(&self, values: &[f32]) -> Result<u64> {
        let bytes = size_of_val(values);
        let mut address: CUdeviceptr = 0;
        // SAFETY: a valid place for the answer, and as many bytes on both sides.
        let results = unsafe {
            [
                (self.driver.cuMemAlloc_v2)(&raw mut address, bytes),
                (self.driver.cuMemcpyHtoD_v2)(address, values.as_ptr().cast(), bytes),
            ]
        };
        if results != [0; 2] {
            bail!("memory is refused: CUDA errors {results:?}")
        }
        Ok(address)
    }

    fn upload_to(&self, address: u64, values: &[f32]) -> Result<()> {
        let bytes = size_of_val(values);
        // SAFETY: as many bytes on both sides.
        let result =
            unsafe { (self.driver.cuMemcpyHtoD_v2)(address, values.as_ptr().cast(), bytes) };
        if result != 0 {
            bail!("a copy is refused: CUDA error {result}")
        }
        Ok(())
    }

    /// A texture over square memory of floats, filtered between texels.
    fn texture(&self, address: u64, side: usize) -> Result<u64> {
        // The driver's own descriptions, by their words: pitched memory of floats, one channel; coordinates are
        // clamped and texels mixed.
        let mut resource = [0_u64; 18];
        resource[..6].copy_from_slice(&[
            3,
            address,
            0x20 | 1 << 32,
            side as u64,
            side as u64,
            4 * side as u64,
        ]);
        let mut sampling = [0_u32; 26];
        sampling[..4].copy_from_slice(&[1, 1, 1, 1]);
        let mut texture = 0;
        // SAFETY: valid places; the descriptions have the driver's sizes.
        let result = unsafe {
            (self.driver.cuTexObjectCreate)(
                &raw mut texture,
                resource.as_ptr().cast(),
                sampling.as_ptr().cast(),
                std::ptr::null(),
            )
        };
        if result != 0 {
            bail!("a texture is refused: CUDA error {result}")
        }
        Ok(texture)
    }

    /// One block with a long loop, from its first launch on: seconds of the first, of the second, and of the
    /// quickest later one.
    fn launches(&self, module: *mut c_void, name: &str, threads: u32, out: u64) -> Result<()> {
        let kernel = self.kernel_of(module, "long_loop")?;
        let mut seconds = [0.0; 2 + LATER];
        for second in &mut seconds {
            let began = Instant::now();
            self.launch(kernel, [1, 1], [threads, 1], &[out, LONG_TURNS])?;
            *second = began.elapsed().as_secs_f64();
        }
        let [first, second, later @ ..] = seconds;
        let compiled = later.into_iter().fold(f64::INFINITY, f64::min);
        println!(
            "{name}_first {first:.9}\n{name}_second {second:.9}\n{name}_compiled {compiled:.9}"
        );
        Ok(())
    }

    fn download(&self, address: u64, count: usize) -> Result<Vec<f32>> {
        let mut values = vec![0.0_f32; count];
        // SAFETY: as many bytes on both sides.
        let result = unsafe {
            (self.driver.cuMemcpyDtoH_v2)(values.as_mut_ptr().cast(), address, 4 * count)
        };
        if result != 0 {
            bail!("a copy is refused: CUDA error {result}")
        }
        Ok(values)
    }

    /// Launches and waits.
    fn launch(
        &self,
        kernel: CUfunction,
        grid: [u32; 2],
        block: [u32; 2],
        arguments: &[u64],
    ) -> Result<()> {
        let mut places: Vec<*mut c_void> =
            arguments.iter().map(|argument| (&raw const *argument).cast_mut().cast()).collect();
        // SAFETY: each argument is a pointer or a number of at most eight bytes, as the kernels declare.
        let results = unsafe {
            [
                (self.driver.cuLaunchKernel)(
                    kernel,
                    grid[0],
                    grid[1],
                    1,
                    block[0],
                    block[1],
                    1,
                    0,
                    std::ptr::null_mut(),
                    places.as_mut_ptr(),
                    std::ptr::null_mut(),
                ),
                (self.driver.cuCtxSynchronize)(),
            ]
        };
        if results != [0; 2] {
            bail!("a launch failed: CUDA errors {results:?}")
        }
        Ok(())
    }

    fn time(
        &self,
        name: &str,
        kernel: CUfunction,
        grid: [u32; 2],
        block: [u32; 2],
        arguments: &[u64],
    ) -> Result<()> {
        self.launch(kernel, grid, block, arguments)?;
        let mut best = f64::INFINITY;
        for _ in 0..ROUNDS {
            let began = Instant::now();
            self.launch(kernel, grid, block, arguments)?;
            best = best.min(began.elapsed().as_secs_f64());
        }
        println!("{name} {best:.9}");
        Ok(())
    }

    /// Seconds per launch and wait, over many.
    fn time_many(&self, name: &str, kernel: CUfunction, times: u32) -> Result<()> {
        self.launch(kernel, [1, 1], [32, 1], &[])?;
        let began = Instant::now();
        for _ in 0..times {
            self.launch(kernel, [1, 1], [32, 1], &[])?;
        }
        println!("{name} {:.9}", began.elapsed().as_secs_f64() / f64::from(times));
        Ok(())
    }

    /// What the first launch of a long kernel takes more than a later one: its compilation. The quickest of
    /// several later ones counts, so that a slow phase of the machine makes the figure larger, never less.
    fn first_launch(&self, name: &str) -> Result<()> {
        let kernel = self.kernel_of(self.load(&long_kernel())?, "long_kernel")?;
        let out = self.upload(&vec![0.0; 1 << 16])?;
        let mut seconds = [0.0; 1 + ROUNDS];
        for second in &mut seconds {
            let began = Instant::now();
            self.launch(kernel, [256, 1], [256, 1], &[out])?;
            *second = began.elapsed().as_secs_f64();
        }
        let [first, later @ ..] = seconds;
        let later = later.into_iter().fold(f64::INFINITY, f64::min);
        println!("{name} {:.9}", (first - later).max(0.0));
        Ok(())
    }
}

/// A kernel of 500 instructions: loads, integer and floating arithmetic, no two alike.
fn long_kernel() -> String {
    let mut text = String::from(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry long_kernel(.param .u64 out)\n{\n\
         .reg .b64 %rd<4>;\n.reg .b32 %r<520>;\n.reg .f32 %f<520>;\n\
         ld.param.u64 %rd1, [out];\nmov.u32 %r0, %tid.x;\nmad.lo.s32 %r0, %r0, 1, 0;\n\
         mul.wide.u32 %rd2, %r0, 4;\nadd.s64 %rd3, %rd1, %rd2;\nld.global.f32 %f0, [%rd3];\n",
    );
    for nth in 1..(INSTRUCTIONS / 2 - 4) {
        let before = nth - 1;
        let _ = writeln!(text, "fma.rn.f32 %f{nth}, %f{before}, %f{}, 0f3F800000;", before / 2);
        let _ = writeln!(text, "mad.lo.s32 %r{nth}, %r{before}, {nth}, %r{};", before / 2);
    }
    let last = INSTRUCTIONS / 2 - 5;
    let _ = write!(
        text,
        "cvt.rn.f32.s32 %f519, %r{last};\nadd.f32 %f518, %f519, %f{last};\nst.global.f32 [%rd3], %f518;\nret;\n}}\n"
    );
    text
}
