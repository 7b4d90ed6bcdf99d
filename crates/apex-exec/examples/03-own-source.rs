//! Compiles CUDA C++ at run time, with a constant of the run in it.
//!
//! Needs NVRTC (`pip install nvidia-cuda-nvrtc nvidia-cuda-runtime`, or the CUDA toolkit). The second run takes
//! the compiled kernel from the disk.

use apex_exec::{CompileOptions, Device, Executor, Grid, Result};

const SOURCE: &str = r#"
extern "C" __global__ void polynomial(const float* x, float* y, int length) {
    const float coefficients[] = { COEFFICIENTS };
    int place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= length) return;
    float sum = 0.0f;
    for (float coefficient : coefficients) sum = sum * x[place] + coefficient;
    y[place] = sum;
}
"#;

fn main() -> Result<()> {
    let executor = Executor::new(Device::Auto)?;
    let options = CompileOptions::default().define("COEFFICIENTS", "2.0f, -3.0f, 1.0f");
    let polynomial = executor.compile(SOURCE, &options)?.kernel("polynomial")?;
    println!("{polynomial:?} uses {} registers", polynomial.attributes().registers);

    let x = executor.upload(&[0.0_f32, 0.5, 1.0, 2.0])?;
    let mut y = executor.poisoned::<f32>(4)?;
    executor
        .stream()
        .launch(&polynomial, Grid::linear(1, 4))
        .arg(&x)
        .arg(&mut y)
        .arg(&4_i32)
        .run()?;
    println!("2x² - 3x + 1 at 0, 0.5, 1, 2: {:?}", executor.download(&y)?);
    Ok(())
}
