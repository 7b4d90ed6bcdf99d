//! Kernels that read a neighbourhood of each element.

use crate::zoo::fill::Fill;
use crate::zoo::kernel::{
    Argument::{self, U32},
    Axis, Expected, Number, Reference, Work, ZooKernel, axis, input, near, written,
};
use crate::zoo::launch_space::{
    LINEAR, PLANE, STREAM, STREAM_SMALL, VOLUME, any, cover, cover_plane, cover_volume, none,
};
use crate::zoo::point::Point;
use crate::{KeptSource, kept_source};

static SOURCE: KeptSource = kept_source!("zoo/stencil");

const FIELD: Fill = Fill::Unit(3);
const WEIGHTS: Fill = Fill::Unit(4);
const N: Axis = axis("n", STREAM, STREAM_SMALL);
const RADIUS: Axis = axis("radius", &[1, 2, 4, 8, 16], &[1, 5]);

/// The group.
pub(crate) static KERNELS: &[ZooKernel] = &[
    ZooKernel {
        name: "stencil_1d",
        stands_for: "neighbours along a line, found in the first-level cache",
        source: &SOURCE,
        variants: false,
        axes: &[N, RADIUS],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<1>()[0]),
        shared: none,
        accepts: any,
        arguments: line_arguments,
        work: line_work,
        reference: Reference::Each(line_value),
    },
    ZooKernel {
        name: "stencil_1d_shared",
        stands_for: "neighbours along a line, brought to shared memory with a halo",
        source: &SOURCE,
        variants: false,
        axes: &[N, RADIUS],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<1>()[0]),
        shared: |_, point| vec![4 * (point.block[0] + 2 * point.axes::<2>()[1])],
        accepts: any,
        arguments: line_arguments,
        work: line_work,
        reference: Reference::Each(line_value),
    },
    ZooKernel {
        name: "stencil_2d",
        stands_for: "five points of a plane: image filters, heat",
        source: &SOURCE,
        variants: false,
        axes: &[
            axis("width", &[256, 1_000, 2_048, 4_096, 8_192], &[31, 64]),
            axis("height", &[256, 1_000, 2_048, 8_192], &[3, 33]),
        ],
        blocks: PLANE,
        grids: |_, point| {
            let [width, height] = point.axes();
            cover_plane(point, width, height)
        },
        shared: none,
        accepts: any,
        arguments: |point| {
            let [width, height] = point.axes();
            let n = width * height;
            vec![input(FIELD, n), written(Number::F32, n), U32(width), U32(height)]
        },
        work: |point| {
            let [width, height] = point.axes().map(u64::from);
            let n = width * height;
            Work::words(n, n).flops(6 * (width - 2) * (height - 2)).about(n as f64 * 25.0, 1_200.0)
        },
        reference: Reference::Each(|point, _, index| {
            let [width, height] = point.axes().map(u64::from);
            let (x, y) = (index % width, index / width);
            let own = FIELD.number(index);
            if x == 0 || y == 0 || x + 1 == width || y + 1 == height {
                return near(own, own.abs());
            }
            let around = [index - 1, index + 1, index - width, index + width];
            let around: f64 = around.into_iter().map(|at| FIELD.number(at)).sum();
            near(0.125 * around + 0.5 * own, 1.0)
        }),
    },
    ZooKernel {
        name: "stencil_3d",
        stands_for: "seven points of a volume: simulations",
        source: &SOURCE,
        variants: false,
        axes: &[
            axis("side", &[32, 64, 100, 128, 256, 512], &[5, 17]),
            axis("depth", &[8, 64, 256], &[3, 10]),
        ],
        blocks: VOLUME,
        grids: |_, point| {
            let [side, depth] = point.axes();
            cover_volume(point, [side, side, depth])
        },
        shared: none,
        accepts: any,
        arguments: |point| {
            let [side, depth] = point.axes();
            let n = side * side * depth;
            vec![input(FIELD, n), written(Number::F32, n), U32(side), U32(side), U32(depth)]
        },
        work: |point| {
            let [side, depth] = point.axes().map(u64::from);
            let n = side * side * depth;
            Work::words(n, n)
                .flops(8 * (side - 2) * (side - 2) * (depth - 2))
                .about(n as f64 * 32.0, 1_200.0)
        },
        reference: Reference::Each(|point, _, index| {
            let [side, depth] = point.axes().map(u64::from);
            let (x, y, z) = (index % side, index / side % side, index / side / side);
            let own = FIELD.number(index);
            let inside = |at: u64, side: u64| at > 0 && at + 1 < side;
            if !(inside(x, side) && inside(y, side) && inside(z, depth)) {
                return near(own, own.abs());
            }
            let steps = [1, side, side * side];
            let around: f64 = steps
                .into_iter()
                .map(|step| FIELD.number(index - step) + FIELD.number(index + step))
                .sum();
            near(0.0625 * around + 0.5 * own, 1.0)
        }),
    },
    ZooKernel {
        name: "convolution_2d",
        stands_for: "small dense filters over images",
        source: &SOURCE,
        variants: false,
        axes: &[
            axis("width", &[256, 1_000, 2_048, 4_096], &[31, 40]),
            axis("height", &[256, 1_000, 4_096], &[7, 20]),
            axis("radius", &[1, 2, 3, 5, 7], &[1, 3]),
        ],
        blocks: PLANE,
        grids: |_, point| {
            let [width, height] = point.axes();
            cover_plane(point, width, height)
        },
        shared: none,
        accepts: any,
        arguments: |point| {
            let [width, height, radius] = point.axes();
            let (n, side) = (width * height, 2 * radius + 1);
            vec![
                input(FIELD, n),
                input(WEIGHTS, side * side),
                written(Number::F32, n),
                U32(width),
                U32(height),
                U32(radius),
            ]
        },
        work: |point| {
            let [width, height, radius] = point.axes().map(u64::from);
            let (n, side) = (width * height, 2 * radius + 1);
            let taps = n * side * side;
            Work::words(n + side * side, n)
                .flops(2 * taps)
                .about(taps as f64 * 9.0, (side * side) as f64 * 40.0)
        },
        reference: Reference::Each(|point, _, index| {
            let [width, height, radius] = point.axes().map(i64::from);
            let (x, y) = (index as i64 % width, index as i64 / width);
            let (mut sum, mut magnitude) = (0.0, 0.0);
            for down in -radius..=radius {
                for right in -radius..=radius {
                    let at =
                        (y + down).clamp(0, height - 1) * width + (x + right).clamp(0, width - 1);
                    let weight = (down + radius) * (2 * radius + 1) + right + radius;
                    let term = FIELD.number(at as u64) * WEIGHTS.number(weight as u64);
                    sum += term;
                    magnitude += term.abs();
                }
            }
            near(sum, magnitude)
        }),
    },
];

fn line_arguments(point: &Point) -> Vec<Argument> {
    let [n, radius] = point.axes();
    vec![input(FIELD, n), written(Number::F32, n), U32(n), U32(radius)]
}

fn line_work(point: &Point) -> Work {
    let [n, radius] = point.axes().map(u64::from);
    let reads = 2 * radius + 1;
    Work::words(n, n)
        .flops(n * (reads + 1))
        .about((n * reads) as f64 * 6.0, 900.0 + reads as f64 * 20.0)
}

fn line_value(point: &Point, _: usize, index: u64) -> Expected {
    let [n, radius] = point.axes().map(i64::from);
    let reads = (-radius..=radius).map(|offset| (index as i64 + offset).clamp(0, n - 1) as u64);
    let sum: f64 = reads.map(|at| FIELD.number(at)).sum();
    near(sum / (2 * radius + 1) as f64, 1.0)
}
