//! Adds two vectors: memory, a module, a launch.
//!
//! `cargo run -p apex-exec --example 01-vector-add` uses the first GPU, or the software GPU where there is none.

use apex_exec::{Device, EXAMPLE_PTX, Executor, Grid, Result};

fn main() -> Result<()> {
    let executor = Executor::new(Device::Auto)?;
    println!("on {}", executor.facts().name);

    let length = 1_000_000_u32;
    let host: Vec<f32> = (0..length).map(|number| number as f32).collect();
    let a = executor.upload(&host)?;
    let b = executor.upload(&host)?;
    let mut sum = executor.poisoned::<f32>(host.len())?;

    let add = executor.load_ptx(EXAMPLE_PTX)?.kernel("add")?;
    let grid = Grid::for_elements(u64::from(length), 256);
    executor.stream().launch(&add, grid).arg(&a).arg(&b).arg(&mut sum).arg(&length).run()?;

    let result = executor.download(&sum)?;
    assert!(result.iter().zip(&host).all(|(sum, value)| *sum == value + value));
    println!("{} sums, the last is {}", result.len(), result[result.len() - 1]);
    Ok(())
}
