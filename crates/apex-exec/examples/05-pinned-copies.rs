//! Copies that go on while the processor does something else.
//!
//! Pinned memory is given to the copy and comes back when it is done; to read it earlier does not compile.

use apex_exec::{Device, EXAMPLE_PTX, Executor, Grid, Result};

fn main() -> Result<()> {
    let executor = Executor::new(Device::Auto)?;
    let scale = executor.load_ptx(EXAMPLE_PTX)?.kernel("scale")?;
    let stream = executor.new_stream()?;
    let length = 1_u32 << 20;
    let grid = Grid::for_elements(u64::from(length), 256);

    let mut staging = executor.pinned::<f32>(length as usize)?;
    for round in 1..=3 {
        staging.fill(round as f32);
        let (mut values, uploading) = stream.upload_async(staging)?;
        stream.launch(&scale, grid).arg(&mut values).arg(&10.0_f32).arg(&length).run()?;
        let downloading = stream.download_async(&values)?;

        // The processor is free here. What it may not touch it does not have.
        let squares: u64 = (0..1000_u64).map(|number| number * number).sum();

        let result = downloading.wait()?;
        println!("round {round}: {} (meanwhile {squares})", result[0]);
        staging = uploading.wait()?;
    }
    Ok(())
}
