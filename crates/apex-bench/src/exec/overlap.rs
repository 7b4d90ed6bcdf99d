//! The pipeline beside the serial form: upload, compute and download of many pieces in pinned memory, balanced so
//! that computing takes about as long as copying.

use super::median;
use anyhow::Result;
use apex_exec::{CompileOptions, Executor, Grid, Kernel, Pinned, Pipeline};
use std::cell::Cell;
use std::time::Instant;

/// Multiplies and adds `steps` times per element, so that computing can be made as long as copying.
const SOURCE: &str = r#"
extern "C" __global__ void spin(const float *input, float *output, unsigned count, unsigned steps) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float value = input[i];
    for (unsigned step = 0; step < steps; step++) value = value * 0.999f + 0.001f;
    output[i] = value;
}
"#;

/// Seconds of the serial form and of the pipeline, for the same pieces.
pub(super) fn measure(executor: &Executor, quick: bool) -> Result<(f64, f64)> {
    let is_software = executor.facts().is_software;
    let (pieces, elements) = if is_software { (4, 1 << 12) } else { (24, 4 << 20) };
    let kernel = executor.compile(SOURCE, &CompileOptions::default())?.kernel("spin")?;
    let data: Vec<Pinned<f32>> = (0..pieces)
        .map(|piece| executor.pinned_from(&vec![piece as f32; elements]))
        .collect::<apex_exec::Result<_>>()?;
    let data = Cell::new(data);
    let steps = balanced_steps(executor, &kernel, elements)?;
    let run = |depth: usize| -> Result<f64> {
        let pipeline = Pipeline::new(executor, depth)?;
        // The pieces come back with their results and are used again.
        let mut used = Vec::with_capacity(pieces);
        let begin = Instant::now();
        pipeline.run_pinned(
            data.take(),
            |length| length,
            |stream, piece, result| {
                let count = piece.len() as u32;
                let grid = Grid::for_elements(u64::from(count), 256);
                stream.launch(&kernel, grid).arg(piece).arg(result).arg(&count).arg(&steps).run()
            },
            |piece, _: &[f32]| {
                used.push(piece);
                Ok(())
            },
        )?;
        let seconds = begin.elapsed().as_secs_f64();
        data.set(used);
        Ok(seconds)
    };
    let mut times = [Vec::new(), Vec::new()];
    run(1)?;
    run(4)?;
    for _ in 0..if quick { 3 } else { 9 } {
        times[0].push(run(1)?);
        times[1].push(run(4)?);
    }
    let [serial, pipeline] = times;
    Ok((median(serial), median(pipeline)))
}

/// Steps at which the kernel takes as long as one copy of its input.
fn balanced_steps(executor: &Executor, kernel: &Kernel, elements: usize) -> Result<u32> {
    let stream = executor.stream();
    let host = executor.pinned_from(&vec![1.0_f32; elements])?;
    let mut input = executor.zeros::<f32>(elements)?;
    let mut output = executor.zeros::<f32>(elements)?;
    let begin = stream.record()?;
    let host = stream.write_async(host, &mut input)?;
    let copied = stream.record()?;
    let count = elements as u32;
    let grid = Grid::for_elements(u64::from(count), 256);
    const PROBE: u32 = 4096;
    stream.launch(kernel, grid).arg(&input).arg(&mut output).arg(&count).arg(&PROBE).run()?;
    let begin_again = stream.record()?;
    stream.launch(kernel, grid).arg(&input).arg(&mut output).arg(&count).arg(&PROBE).run()?;
    let done = stream.record()?;
    let (copy, compute) = (copied.seconds_since(&begin)?, done.seconds_since(&begin_again)?);
    drop(host);
    Ok((f64::from(PROBE) * copy / compute.max(1e-9)).clamp(1.0, 1e6) as u32)
}
