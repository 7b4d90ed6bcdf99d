//! More data than one would hold on the device, in pieces: upload, compute and download at the same time.

use apex_exec::{Device, EXAMPLE_PTX, Executor, Grid, Pipeline, Result};
use std::time::Instant;

fn main() -> Result<()> {
    let executor = Executor::new(Device::Auto)?;
    let scale = executor.load_ptx(EXAMPLE_PTX)?.kernel("scale")?;
    let input: Vec<f32> = (0..4 << 20).map(|number| (number % 1000) as f32).collect();

    for depth in [1, 3] {
        let pipeline = Pipeline::new(&executor, depth)?;
        let begin = Instant::now();
        let mut output: Vec<f32> = Vec::with_capacity(input.len());
        pipeline.run(
            input.chunks(1 << 18),
            |length| length,
            |stream, piece, result| {
                let length = piece.len() as u32;
                stream.copy(piece, &mut *result)?;
                let grid = Grid::for_elements(u64::from(length), 256);
                stream.launch(&scale, grid).arg(result).arg(&2.0_f32).arg(&length).run()
            },
            |result: &[f32]| {
                output.extend_from_slice(result);
                Ok(())
            },
        )?;
        assert!(output.iter().zip(&input).all(|(out, value)| *out == value * 2.0));
        println!("{depth} at a time: {:.1} ms", begin.elapsed().as_secs_f64() * 1e3);
    }
    Ok(())
}
