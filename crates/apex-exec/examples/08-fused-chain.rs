//! Five elementwise operations as one kernel: every input is read once, the result written once.

use apex_exec::{Device, Executor, Expression};

fn main() -> apex_exec::Result<()> {
    let executor = Executor::new(Device::Auto)?;

    // y = tanh(relu(x * scale + bias) * 0.9): the bias is a row that repeats, the scale comes with every run.
    let (x, bias, scale) = (Expression::input(0), Expression::row(1), Expression::parameter(0));
    let chain = executor.fuse::<f32>(&((x * scale + bias).relu() * 0.9).tanh())?;
    println!("{}", chain.explain());

    let columns = 4;
    let x = executor.upload(&[0.0_f32, 1.0, -1.0, 2.0, 0.5, -0.5, 3.0, -3.0])?;
    let bias = executor.upload(&[0.5_f32, 0.0, 0.0, -1.0])?;
    let mut y = executor.poisoned::<f32>(x.len())?;
    for scale in [1.0, 2.0] {
        chain.run(&[x.view(), bias.view()], &[scale], &mut y)?;
        println!("scale {scale}:");
        for row in executor.download(&y)?.chunks(columns) {
            println!("  {row:?}");
        }
    }
    Ok(())
}
