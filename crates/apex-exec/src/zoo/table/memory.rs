//! Kernels that move words.

use crate::zoo::fill::{Fill, unshuffled};
use crate::zoo::kernel::{
    Argument::{F32, U32},
    Expected, Number, Reference, Work, ZooKernel, axis, input, near, written,
};
use crate::zoo::launch_space::{
    LINEAR, PLANE, STREAM, STREAM_SMALL, any, cover, cover_plane, none, over_grid, padding,
};
use crate::zoo::point::Point;
use crate::{KeptSource, kept_source};

static SOURCE: KeptSource = kept_source!("zoo/memory");

const WORDS: Fill = Fill::Words(1);
const FIRST: Fill = Fill::Unit(1);
const SECOND: Fill = Fill::Unit(2);
const FACTOR: f32 = 1.5;
const N: crate::zoo::kernel::Axis = axis("n", STREAM, STREAM_SMALL);
const ROWS: crate::zoo::kernel::Axis = axis("rows", &[512, 1_000, 2_048, 5_000, 8_192], &[31, 64]);
const COLUMNS: crate::zoo::kernel::Axis =
    axis("columns", &[512, 1_000, 2_048, 4_096, 8_192], &[33, 64]);

/// The group.
pub(crate) static KERNELS: &[ZooKernel] = &[
    ZooKernel {
        name: "copy",
        stands_for: "plain copies with 4, 8 or 16 bytes a thread",
        source: &SOURCE,
        variants: true,
        axes: &[axis("words", &[1, 2, 4], &[1, 2, 4]), N],
        blocks: LINEAR,
        grids: |_, point| {
            let [words, n] = point.axes();
            cover(point, n.div_ceil(words))
        },
        shared: none,
        accepts: any,
        arguments: |point| {
            let [_, n] = point.axes();
            vec![input(WORDS, n), written(Number::U32, n), U32(n)]
        },
        work: |point| {
            let [words, n] = point.axes();
            copied(n).about(f64::from(n) / f64::from(words) * 10.0, 900.0)
        },
        reference: Reference::Each(|_, _, index| Expected::Exact(WORDS.word(index))),
    },
    ZooKernel {
        name: "copy_strided",
        stands_for: "reads of which a warp needs one sector a lane: columns, arrays of structures",
        source: &SOURCE,
        variants: false,
        axes: &[N, axis("stride", &[1, 2, 3, 4, 8, 16, 32, 33, 1_024], &[1, 3, 32])],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<1>()[0]),
        shared: none,
        accepts: |point| {
            let [n, stride] = point.axes();
            stride <= n
        },
        arguments: |point| {
            let [n, stride] = point.axes();
            vec![input(WORDS, n), written(Number::U32, n), U32(n), U32(stride)]
        },
        work: |point| {
            let [n, stride] = point.axes();
            copied(n).about(f64::from(n) * 24.0, 1_000.0).serial(f64::from(n * stride.min(8)) / 1e3)
        },
        reference: Reference::Each(|point, _, index| {
            let [n, stride] = point.axes().map(u64::from);
            let rows = n / stride;
            let strided = index < rows * stride;
            let from = if strided { index % rows * stride + index / rows } else { index };
            Expected::Exact(WORDS.word(from))
        }),
    },
    ZooKernel {
        name: "copy_grid_stride",
        stands_for: "copies by a loop over the grid, with any number of blocks",
        source: &SOURCE,
        variants: false,
        axes: &[N],
        blocks: LINEAR,
        grids: |target, point| over_grid(target, point, point.axes::<1>()[0]),
        shared: none,
        accepts: any,
        arguments: |point| {
            let [n] = point.axes();
            vec![input(WORDS, n), written(Number::U32, n), U32(n)]
        },
        work: |point| {
            let [n] = point.axes();
            copied(n).about(f64::from(n) * 8.0, 900.0)
        },
        reference: Reference::Each(|_, _, index| Expected::Exact(WORDS.word(index))),
    },
    ZooKernel {
        name: "scale",
        stands_for: "elementwise operations with one input",
        source: &SOURCE,
        variants: false,
        axes: &[N],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<1>()[0]),
        shared: padding,
        accepts: any,
        arguments: |point| {
            let [n] = point.axes();
            vec![input(FIRST, n), written(Number::F32, n), U32(n), F32(FACTOR)]
        },
        work: |point| {
            let [n] = point.axes();
            copied(n).flops(n.into()).about(f64::from(n) * 11.0, 900.0)
        },
        reference: Reference::Each(|_, _, index| {
            let value = FIRST.number(index) * f64::from(FACTOR);
            near(value, value.abs())
        }),
    },
    ZooKernel {
        name: "triad",
        stands_for: "elementwise operations with two inputs, one element a thread",
        source: &SOURCE,
        variants: false,
        axes: &[N],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<1>()[0]),
        shared: padding,
        accepts: any,
        arguments: triad_arguments,
        work: triad_work,
        reference: Reference::Each(triad_value),
    },
    ZooKernel {
        name: "triad_grid_stride",
        stands_for: "elementwise operations with two inputs by a loop over the grid",
        source: &SOURCE,
        variants: false,
        axes: &[N],
        blocks: LINEAR,
        grids: |target, point| over_grid(target, point, point.axes::<1>()[0]),
        shared: none,
        accepts: any,
        arguments: triad_arguments,
        work: triad_work,
        reference: Reference::Each(triad_value),
    },
    ZooKernel {
        name: "gather",
        stands_for: "random reads: embeddings, indirections; from tables that fit the caches and that do not",
        source: &SOURCE,
        variants: false,
        axes: &[N, axis("table_bits", &[10, 14, 18, 22, 25], &[5, 10])],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<1>()[0]),
        shared: none,
        accepts: any,
        arguments: |point| {
            let [n, bits] = point.axes();
            vec![
                input(WORDS, 1 << bits),
                input(Fill::Shuffled(bits), n),
                written(Number::U32, n),
                U32(n),
            ]
        },
        work: |point| {
            let [n, bits] = point.axes();
            let table = u64::from(n).min(1 << bits);
            Work::words(u64::from(n) + table, n.into()).about(f64::from(n) * 12.0, 1_600.0)
        },
        reference: Reference::Each(|point, _, index| {
            let [_, bits] = point.axes();
            Expected::Exact(WORDS.word(Fill::Shuffled(bits).word(index).into()))
        }),
    },
    ZooKernel {
        name: "scatter",
        stands_for: "random writes: permutations, bucket sorts",
        source: &SOURCE,
        variants: false,
        axes: &[axis("bits", &[10, 14, 17, 20, 22, 24, 25], &[5, 10, 12])],
        blocks: LINEAR,
        grids: |_, point| cover(point, 1 << point.axes::<1>()[0]),
        shared: none,
        accepts: any,
        arguments: |point| {
            let [bits] = point.axes();
            let n = 1 << bits;
            vec![input(WORDS, n), input(Fill::Shuffled(bits), n), written(Number::U32, n), U32(n)]
        },
        work: |point| {
            let n = 1u64 << point.axes::<1>()[0];
            Work::words(2 * n, n).about(n as f64 * 12.0, 1_600.0)
        },
        reference: Reference::Each(|point, _, index| {
            let [bits] = point.axes();
            Expected::Exact(WORDS.word(unshuffled(index as u32, bits).into()))
        }),
    },
    ZooKernel {
        name: "transpose_naive",
        stands_for: "reads along rows and writes along columns",
        source: &SOURCE,
        variants: false,
        axes: &[ROWS, COLUMNS],
        blocks: PLANE,
        grids: |_, point| {
            let [rows, columns] = point.axes();
            cover_plane(point, columns, rows)
        },
        shared: none,
        accepts: any,
        arguments: transpose_arguments,
        work: transpose_work,
        reference: Reference::Each(transposed),
    },
    ZooKernel {
        name: "transpose_tiled",
        stands_for: "a tile in shared memory whose columns conflict in one bank",
        source: &SOURCE,
        variants: false,
        axes: &[ROWS, COLUMNS],
        blocks: TILE_ROWS,
        grids: tiles,
        shared: none,
        accepts: any,
        arguments: transpose_arguments,
        work: transpose_work,
        reference: Reference::Each(transposed),
    },
    ZooKernel {
        name: "transpose_padded",
        stands_for: "a tile in shared memory padded against conflicts",
        source: &SOURCE,
        variants: false,
        axes: &[ROWS, COLUMNS],
        blocks: TILE_ROWS,
        grids: tiles,
        shared: none,
        accepts: any,
        arguments: transpose_arguments,
        work: transpose_work,
        reference: Reference::Each(transposed),
    },
    ZooKernel {
        name: "constant_reads",
        stands_for: "tables in constant memory, read by a warp at one address or at several",
        source: &SOURCE,
        variants: false,
        axes: &[
            axis("n", &[4_096, 65_536, 1 << 20], &[100, 1_000]),
            axis("reads", &[16, 64, 256, 1_024], &[16]),
            axis("spread", &[0, 1, 2, 7], &[0, 7]),
        ],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<1>()[0]),
        shared: none,
        accepts: any,
        arguments: |point| {
            let [n, reads, spread] = point.axes();
            vec![written(Number::U32, n), U32(n), U32(reads), U32(spread)]
        },
        work: |point| {
            let [n, reads, spread] = point.axes();
            let ways = if spread == 0 { 1.0 } else { 24.0 };
            let steps = f64::from(n) * f64::from(reads);
            Work::words(0, n.into()).about(steps * 5.0 * ways, f64::from(reads) * 12.0)
        },
        reference: Reference::Each(|point, _, index| {
            let [_, reads, spread] = point.axes();
            let at = index as u32 % point.block[0] % 32 * spread;
            let sum = (0..reads).fold(0u32, |sum, read| {
                let constant = ((at + read) & 255).wrapping_mul(2_654_435_761) >> 8;
                sum.wrapping_mul(3).wrapping_add(constant)
            });
            Expected::Exact(sum >> 1)
        }),
    },
    ZooKernel {
        name: "pointer_chase",
        stands_for: "dependent loads: lists, trees; the latency of each level of memory",
        source: &SOURCE,
        variants: false,
        axes: &[
            axis("bits", &[10, 14, 18, 22, 25], &[8, 12]),
            axis("threads", &[1, 32, 1_024, 16_384], &[1, 100]),
            axis("steps", &[64, 256, 1_024], &[16]),
        ],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<2>()[1]),
        shared: none,
        accepts: |point| point.block[0] <= point.axes::<2>()[1].max(32),
        arguments: |point| {
            let [bits, threads, steps] = point.axes();
            vec![
                input(Fill::Ring(bits), 1 << bits),
                written(Number::U32, threads),
                U32(bits),
                U32(threads),
                U32(steps),
            ]
        },
        work: |point| {
            let [bits, threads, steps] = point.axes();
            let visited = (u64::from(threads) * u64::from(steps)).min(1 << bits);
            let latency = [(14, 40.0), (22, 300.0), (32, 900.0)];
            let cycles =
                latency.iter().find(|(most, _)| bits <= *most).map_or(900.0, |step| step.1);
            Work::words(visited, threads.into())
                .about(f64::from(threads) * f64::from(steps) * 3.0, f64::from(steps) * cycles)
        },
        reference: Reference::Each(|point, _, index| {
            let [bits, _, steps] = point.axes();
            let end = (index + 1) * u64::from(steps) % (1 << bits);
            Expected::Exact(Fill::Shuffled(bits).word(end))
        }),
    },
    ZooKernel {
        name: "byte_search",
        stands_for: "text and byte scans: single-byte loads, a chunk a thread",
        source: &SOURCE,
        variants: false,
        axes: &[
            axis("bytes", &[1 << 16, 1_000_003, 1 << 24, 1 << 27], &[1_000, 5_003]),
            axis("chunk", &[4, 16, 64, 256], &[4, 50]),
        ],
        blocks: LINEAR,
        grids: |_, point| {
            let [bytes, chunk] = point.axes();
            cover(point, bytes.div_ceil(chunk))
        },
        shared: none,
        accepts: any,
        arguments: |point| {
            let [bytes, chunk] = point.axes();
            let chunks = bytes.div_ceil(chunk);
            vec![
                input(Fill::Letters, bytes),
                written(Number::U32, chunks),
                U32(bytes),
                U32(chunk),
                U32(chunks),
                U32(u32::from_le_bytes(*b"ap\0\0")),
            ]
        },
        work: |point| {
            let [bytes, chunk] = point.axes();
            let work = Work::words(0, bytes.div_ceil(chunk).into())
                .about(f64::from(bytes) * 6.0, f64::from(chunk) * 40.0);
            Work { bytes_read: bytes.into(), ..work }
        },
        reference: Reference::Each(|point, _, index| {
            let [bytes, chunk] = point.axes().map(u64::from);
            let letter = |at: u64| Fill::Letters.word(at) as u8;
            let begin = index * chunk;
            let matches =
                |&at: &u64| letter(at) == b'a' && at + 1 < bytes && letter(at + 1) == b'p';
            let found = (begin..(begin + chunk).min(bytes)).filter(matches).count();
            Expected::Exact(found as u32)
        }),
    },
];

/// Blocks as wide as a tile, with fewer rows or as many.
const TILE_ROWS: &[[u32; 3]] =
    &[[32, 1, 1], [32, 2, 1], [32, 3, 1], [32, 4, 1], [32, 8, 1], [32, 16, 1], [32, 32, 1]];

fn copied(n: u32) -> Work {
    Work::words(n.into(), n.into())
}

fn triad_arguments(point: &Point) -> Vec<crate::zoo::kernel::Argument> {
    let [n] = point.axes();
    vec![input(FIRST, n), input(SECOND, n), written(Number::F32, n), U32(n), F32(FACTOR)]
}

fn triad_work(point: &Point) -> Work {
    let n = u64::from(point.axes::<1>()[0]);
    Work::words(2 * n, n).flops(2 * n).about(n as f64 * 12.0, 900.0)
}

fn triad_value(_: &Point, _: usize, index: u64) -> Expected {
    let (first, second) = (FIRST.number(index), SECOND.number(index) * f64::from(FACTOR));
    near(first + second, first.abs() + second.abs())
}

fn tiles(_: &crate::zoo::Target, point: &Point) -> Vec<[u32; 3]> {
    let [rows, columns] = point.axes();
    vec![[columns.div_ceil(32), rows.div_ceil(32), 1]]
}

fn transpose_arguments(point: &Point) -> Vec<crate::zoo::kernel::Argument> {
    let [rows, columns] = point.axes();
    let n = rows * columns;
    vec![input(WORDS, n), written(Number::U32, n), U32(rows), U32(columns)]
}

fn transpose_work(point: &Point) -> Work {
    let [rows, columns] = point.axes();
    copied(rows * columns).about(f64::from(rows * columns) * 20.0, 1_500.0)
}

fn transposed(point: &Point, _: usize, index: u64) -> Expected {
    let [rows, columns] = point.axes().map(u64::from);
    Expected::Exact(WORDS.word(index % rows * columns + index / rows))
}
