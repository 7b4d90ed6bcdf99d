//! Kernels in which a block works on a row at a time.

use crate::zoo::Target;
use crate::zoo::fill::Fill;
use crate::zoo::kernel::{
    Argument::U32, Axis, Expected, Number, Reference, Work, ZooKernel, axis, input, written,
};
use crate::zoo::launch_space::{LINEAR, none};
use crate::zoo::point::Point;
use crate::{KeptSource, kept_source};

static SOURCE: KeptSource = kept_source!("zoo/rows");

const VALUES: Fill = Fill::Unit(8);
const SCALE: Fill = Fill::Unit(9);
const SHIFT: Fill = Fill::Unit(10);
const SHAPE: &[Axis] = &[
    axis("rows", &[1, 32, 132, 1_000, 8_192, 65_536], &[1, 5]),
    axis("columns", &[32, 100, 256, 1_024, 4_096, 16_384], &[33, 300]),
];

/// The group.
pub(crate) static KERNELS: &[ZooKernel] = &[
    ZooKernel {
        name: "softmax_rows",
        stands_for: "attention and classifiers: three passes over each row, two sums over the block",
        source: &SOURCE,
        variants: false,
        axes: SHAPE,
        blocks: LINEAR,
        grids: rows_or_waves,
        shared: none,
        accepts: few_enough,
        arguments: |point| {
            let [rows, columns] = point.axes();
            let n = rows * columns;
            vec![input(VALUES, n), written(Number::F32, n), U32(rows), U32(columns)]
        },
        work: |point| {
            let [rows, columns] = point.axes().map(u64::from);
            let n = rows * columns;
            // Twice a difference and an exponential, an addition, a product; an inverse for each row.
            effort(Work::words(n, n).flops(6 * n + rows), point, 60.0)
        },
        reference: Reference::Each(|point, _, index| {
            let row = row_of(point, index);
            let value = VALUES.number(index).exp() / row.map(f64::exp).sum::<f64>();
            Expected::Near { value, within: 1e-5 * value }
        }),
    },
    ZooKernel {
        name: "layer_norm",
        stands_for: "normalisation of rows: mean, deviation, scale and shift",
        source: &SOURCE,
        variants: false,
        axes: SHAPE,
        blocks: LINEAR,
        grids: rows_or_waves,
        shared: none,
        accepts: few_enough,
        arguments: |point| {
            let [rows, columns] = point.axes();
            let n = rows * columns;
            vec![
                input(VALUES, n),
                input(SCALE, columns),
                input(SHIFT, columns),
                written(Number::F32, n),
                U32(rows),
                U32(columns),
            ]
        },
        work: |point| {
            let [rows, columns] = point.axes().map(u64::from);
            let n = rows * columns;
            // Each element: one for the mean, three for the deviation, four to normalise; each row: two
            // divisions, the small addend, the root.
            effort(Work::words(n + 2 * columns, n).flops(8 * n + 4 * rows), point, 35.0)
        },
        reference: Reference::Each(|point, _, index| {
            let columns = f64::from(point.axes::<2>()[1]);
            let column = index % point.axes::<2>().map(u64::from)[1];
            let mean = row_of(point, index).sum::<f64>() / columns;
            let squares: f64 = row_of(point, index).map(|value| (value - mean).powi(2)).sum();
            let unit = (VALUES.number(index) - mean) / (squares / columns + 1e-5).sqrt();
            let value = unit * SCALE.number(column) + SHIFT.number(column);
            Expected::Near { value, within: 1e-5 }
        }),
    },
];

/// A block for each row, or a few waves of blocks that loop.
fn rows_or_waves(target: &Target, point: &Point) -> Vec<[u32; 3]> {
    let [rows] = point.axes();
    let waves = [1, target.multiprocessors, 4 * target.multiprocessors];
    let mut grids: Vec<u32> = waves.into_iter().filter(|&blocks| blocks < rows).collect();
    grids.push(rows);
    grids.into_iter().map(|blocks| [blocks, 1, 1]).collect()
}

fn few_enough(point: &Point) -> bool {
    let [rows, columns] = point.axes().map(u64::from);
    rows * columns <= 64 << 20
}

fn effort(work: Work, point: &Point, instructions: f64) -> Work {
    let [rows, columns] = point.axes();
    let elements = f64::from(rows) * f64::from(columns);
    let sums = f64::from(rows) * f64::from(point.block[0].next_multiple_of(32)) * 100.0;
    let loops =
        f64::from(columns.div_ceil(point.block[0])) * f64::from(rows.div_ceil(point.grid[0]));
    work.about(elements * instructions + sums, 2_000.0 + loops * 500.0)
}

fn row_of(point: &Point, index: u64) -> impl Iterator<Item = f64> + use<> {
    let columns = u64::from(point.axes::<2>()[1]);
    let begin = index - index % columns;
    (begin..begin + columns).map(|at| VALUES.number(at))
}
