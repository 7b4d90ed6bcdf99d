//! What mistakes look like: each names the kernel, the argument and the remedy, and the executor goes on.

use apex_exec::{CompileOptions, Device, EXAMPLE_PTX, Executor, Grid, Result};

fn main() -> Result<()> {
    let executor = Executor::new(Device::Auto)?;
    let module = executor.load_ptx(EXAMPLE_PTX)?;
    let scale = module.kernel("scale")?;
    let mut values = executor.upload(&[1.0_f32; 8])?;
    let stream = executor.stream();
    let one = Grid::linear(1, 8);

    show("a wrong name", module.kernel("scales"));
    show("too few arguments", stream.launch(&scale, one).arg(&mut values).run());
    show(
        "a wrong size",
        stream.launch(&scale, one).arg(&mut values).arg(&2.0_f64).arg(&8_u32).run(),
    );
    show("a wrong type", stream.launch(&scale, one).arg(&mut values).arg(&2_u32).arg(&8_u32).run());
    let wide = Grid::linear(1, 4096);
    show(
        "a block too large",
        stream.launch(&scale, wide).arg(&mut values).arg(&2.0_f32).arg(&8_u32).run(),
    );
    show("truncated PTX", executor.load_ptx(&EXAMPLE_PTX[..EXAMPLE_PTX.len() / 2]));
    show("more memory than there is", executor.zeros::<u8>(1 << 50));
    let source = "extern \"C\" __global__ void broken() {\n    int x = y;\n}\n";
    show("a source that does not compile", executor.compile(source, &CompileOptions::default()));

    stream.launch(&scale, one).arg(&mut values).arg(&2.0_f32).arg(&8_u32).run()?;
    println!("and still it computes: {:?}", executor.download(&values)?);
    Ok(())
}

fn show<T>(what: &str, result: Result<T>) {
    match result {
        Ok(_) => println!("{what}: no error"),
        Err(error) => println!("{what}:\n    {error}\n"),
    }
}
