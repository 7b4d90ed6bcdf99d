//! Work on several streams, ordered by the memory it shares, and measured by events.

use apex_exec::{Device, EXAMPLE_PTX, Executor, Grid, Result};

fn main() -> Result<()> {
    let executor = Executor::new(Device::Auto)?;
    let scale = executor.load_ptx(EXAMPLE_PTX)?.kernel("scale")?;
    let length = 1_u32 << 20;
    let grid = Grid::for_elements(u64::from(length), 256);

    // Each stream has its own memory: they run side by side.
    let streams = [executor.new_stream()?, executor.new_stream()?, executor.new_stream()?];
    let mut buffers = Vec::new();
    for stream in &streams {
        let before = stream.record()?;
        let mut values = stream.upload(&vec![1.0_f32; length as usize])?;
        stream.launch(&scale, grid).arg(&mut values).arg(&2.0_f32).arg(&length).run()?;
        buffers.push((before, stream.record()?, values));
    }

    // The same memory on another stream: it waits for the first, on the device, without being told.
    for (index, (before, after, values)) in buffers.iter_mut().enumerate() {
        let next = &streams[(index + 1) % streams.len()];
        next.launch(&scale, grid).arg(&mut *values).arg(&2.0_f32).arg(&length).run()?;
        let milliseconds = after.seconds_since(before)? * 1e3;
        println!(
            "stream {index}: {milliseconds:.3} ms, value {}",
            next.download(values.slice(..1))?[0]
        );
    }
    Ok(())
}
