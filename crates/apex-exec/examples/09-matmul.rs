//! A layer of a network: a product with bias and activation in one kernel, and which kernel it is.

use apex_exec::{Activation, Device, Executor, Matmul, MatmulKernel};
use half::bf16;

fn main() -> apex_exec::Result<()> {
    let executor = Executor::new(Device::Auto)?;
    let (rows, inputs, outputs) = (32, 64, 48);

    // The weights are stored as many frameworks have them: one row per output.
    let layer = Matmul::new(rows, outputs, inputs).transpose_b().activation(Activation::Relu);
    println!("{}", executor.ops().explain_matmul::<bf16>(&layer)?);

    let numbers = |count: usize| -> Vec<bf16> {
        (0..count).map(|i| bf16::from_f32((i % 7) as f32 / 7.0 - 0.4)).collect()
    };
    let x = executor.upload(&numbers(rows * inputs))?;
    let weights = executor.upload(&numbers(outputs * inputs))?;
    let bias = executor.upload(&numbers(outputs))?;
    let mut y = executor.poisoned::<bf16>(rows * outputs)?;
    executor.ops().matmul_bias(&layer, &x, &weights, &bias, &mut y)?;
    let first = executor.download(&y)?;
    println!("the first outputs: {:?}", &first[..4]);

    // The same through the kernel that takes everything: both round the same sums once.
    executor.ops().matmul_bias(&layer.kernel(MatmulKernel::Plain), &x, &weights, &bias, &mut y)?;
    let plain = executor.download(&y)?;
    let far =
        first.iter().zip(&plain).map(|(a, b)| (a.to_f32() - b.to_f32()).abs()).fold(0.0, f32::max);
    println!("largest difference to the plain kernel: {far}");
    Ok(())
}
