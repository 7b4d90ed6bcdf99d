//! Products of matrices and vectors, dense and sparse, and many small systems of equations.

use crate::zoo::fill::Fill;
use crate::zoo::kernel::{
    Argument::{self, U32},
    Axis, Expected, Number, Pipe, Reference, Work, ZooKernel, axis, input, near, written,
};
use crate::zoo::launch_space::{LINEAR, PLANE, WARPS, any, cover, cover_plane, none};
use crate::zoo::point::Point;
use crate::{KeptSource, kept_source};

static SOURCE: KeptSource = kept_source!("zoo/matrix");

const LEFT: Fill = Fill::Unit(6);
const RIGHT: Fill = Fill::Unit(7);
const LEFT_HALF: Fill = Fill::Half(6);
const RIGHT_HALF: Fill = Fill::Half(7);
const M: Axis = axis("m", &[64, 200, 512, 1_024, 2_048], &[1, 33, 64]);
const N: Axis = axis("n", &[64, 200, 512, 1_000, 2_048], &[17, 64]);
const K: Axis = axis("k", &[64, 300, 1_024, 2_048], &[1, 40]);
/// Operations of one instruction of a warp: 16 by 8 by 16 multiply-adds.
const TENSOR_FLOPS: u64 = 2 * 16 * 8 * 16;

/// The group.
pub(crate) static KERNELS: &[ZooKernel] = &[
    ZooKernel {
        name: "gemm_naive",
        stands_for: "a matrix product as one writes it first: one element a thread, from global memory",
        source: &SOURCE,
        variants: false,
        axes: &[M, N, K],
        blocks: PLANE,
        grids: |_, point| {
            let [m, n] = point.axes();
            cover_plane(point, n, m)
        },
        shared: none,
        accepts: any,
        arguments: |point| product_arguments(point, point.axes(), LEFT, RIGHT),
        work: |point| product_work(point.axes(), 4.0, 1.0),
        reference: Reference::Each(|point, _, index| product(point.axes(), index, LEFT, RIGHT)),
    },
    ZooKernel {
        name: "gemm_tiled",
        stands_for: "a matrix product by tiles in shared memory, one element a thread",
        source: &SOURCE,
        variants: true,
        axes: &[axis("tile", &[8, 16, 32], &[8, 16, 32]), M, N, K],
        blocks: &[[8, 8, 1], [16, 16, 1], [32, 32, 1]],
        grids: |_, point| {
            let [_, m, n] = point.axes();
            cover_plane(point, n, m)
        },
        shared: |_, _| vec![0, 24 << 10],
        accepts: |point| point.block[0] == point.axes::<1>()[0],
        arguments: |point| product_arguments(point, without_first(point), LEFT, RIGHT),
        work: |point| product_work(without_first(point), 3.5, 1.0),
        reference: Reference::Each(|point, _, index| {
            product(without_first(point), index, LEFT, RIGHT)
        }),
    },
    ZooKernel {
        name: "gemm_blocked",
        stands_for: "a matrix product with 4, 16 or 64 elements of each thread in registers",
        source: &SOURCE,
        variants: true,
        axes: &[axis("each", &[2, 4, 8], &[2, 4, 8]), M, N, K],
        blocks: &[[16, 16, 1]],
        grids: |_, point| {
            let [each, m, n] = point.axes();
            vec![[n.div_ceil(16 * each), m.div_ceil(16 * each), 1]]
        },
        shared: none,
        accepts: any,
        arguments: |point| product_arguments(point, without_first(point), LEFT, RIGHT),
        work: |point| {
            let each = f64::from(point.axes::<1>()[0]);
            product_work(without_first(point), 1.0 + 2.0 / each, each * each)
        },
        reference: Reference::Each(|point, _, index| {
            product(without_first(point), index, LEFT, RIGHT)
        }),
    },
    ZooKernel {
        name: "gemm_tensor",
        stands_for: "a product of halves on tensor cores, through shared memory",
        source: &SOURCE,
        variants: false,
        axes: &[
            axis("m", &[64, 500, 1_024, 2_048, 4_096], &[17, 64]),
            axis("n", &[64, 1_000, 1_024, 2_048, 4_096], &[33, 64]),
            axis("k", &[64, 300, 1_024, 4_096], &[20, 32]),
        ],
        blocks: &[[128, 1, 1]],
        grids: |_, point| {
            let [m, n] = point.axes();
            vec![[n.div_ceil(64), m.div_ceil(64), 1]]
        },
        shared: |_, _| vec![0, 24 << 10, 64 << 10],
        accepts: any,
        arguments: |point| product_arguments(point, point.axes(), LEFT_HALF, RIGHT_HALF),
        work: |point| half_product_work(point.axes(), 0.4),
        reference: Reference::Each(|point, _, index| {
            product(point.axes(), index, LEFT_HALF, RIGHT_HALF)
        }),
    },
    ZooKernel {
        name: "gemm_tensor_direct",
        stands_for: "a product of halves on tensor cores whose operands come from global memory",
        source: &SOURCE,
        variants: false,
        axes: &[
            axis("m", &[64, 512, 1_024, 2_048], &[16, 48]),
            axis("n", &[64, 512, 1_024, 2_048], &[32, 64]),
            axis("k", &[64, 256, 1_024, 2_048], &[16, 48]),
        ],
        blocks: WARPS,
        grids: |_, point| {
            let [m, n] = point.axes();
            cover(point, m / 16 * (n / 32) * 32)
        },
        shared: none,
        accepts: any,
        arguments: |point| product_arguments(point, point.axes(), LEFT_HALF, RIGHT_HALF),
        work: |point| half_product_work(point.axes(), 0.6),
        reference: Reference::Each(|point, _, index| {
            product(point.axes(), index, LEFT_HALF, RIGHT_HALF)
        }),
    },
    ZooKernel {
        name: "tensor_chain",
        stands_for: "tensor cores at their own speed, with one to four sums a warp",
        source: &SOURCE,
        variants: true,
        axes: &[
            axis("chains", &[1, 2, 4], &[1, 2, 4]),
            axis("threads", &[1_024, 20_000, 67_584, 270_336, 1 << 20], &[96, 1_024]),
            axis("length", &[16, 128, 1_024], &[5]),
        ],
        blocks: WARPS,
        grids: |_, point| cover(point, point.axes::<2>()[1]),
        shared: none,
        accepts: any,
        arguments: |point| {
            let [_, threads, length] = point.axes();
            vec![written(Number::F32, threads), U32(threads), U32(length)]
        },
        work: |point| {
            let [chains, threads, length] = point.axes().map(u64::from);
            let products = threads / 32 * chains * length;
            Work::words(0, threads)
                .flops(products * TENSOR_FLOPS + threads * chains)
                .on(Pipe::Tensor)
                .about(products as f64 * 32.0 * 3.0, length as f64 * 35.0)
        },
        reference: Reference::Each(|point, _, _| {
            let [chains, _, length] = point.axes().map(f64::from);
            near(chains * length / 16.0, chains * length / 16.0)
        }),
    },
    ZooKernel {
        name: "matvec_thread",
        stands_for: "a matrix times a vector with a row a thread: reads a row apart",
        source: &SOURCE,
        variants: false,
        axes: &[ROWS, COLUMNS],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<1>()[0]),
        shared: none,
        accepts: at_most_64_million,
        arguments: matvec_arguments,
        work: |point| {
            let [rows, columns] = point.axes();
            matvec_work(rows, columns, f64::from(columns) * 60.0)
        },
        reference: Reference::Each(matvec),
    },
    ZooKernel {
        name: "matvec_warp",
        stands_for: "a matrix times a vector with a row a warp",
        source: &SOURCE,
        variants: false,
        axes: &[ROWS, COLUMNS],
        blocks: WARPS,
        grids: |_, point| cover(point, 32 * point.axes::<1>()[0]),
        shared: none,
        accepts: at_most_64_million,
        arguments: matvec_arguments,
        work: |point| {
            let [rows, columns] = point.axes();
            matvec_work(rows, columns, 900.0 + f64::from(columns) * 2.0)
        },
        reference: Reference::Each(matvec),
    },
    ZooKernel {
        name: "spmv_thread",
        stands_for: "a sparse matrix by rows times a vector, a row a thread: uneven loops, random reads",
        source: &SOURCE,
        variants: false,
        axes: SPARSE,
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<1>()[0]),
        shared: none,
        accepts: few_enough_elements,
        arguments: sparse_arguments,
        work: |point| {
            let [_, least, step] = point.axes();
            sparse_work(point, f64::from(least + 15 * step) * 300.0)
        },
        reference: Reference::Each(sparse_row),
    },
    ZooKernel {
        name: "spmv_warp",
        stands_for: "a sparse matrix by rows times a vector, a row a warp: idle lanes in short rows",
        source: &SOURCE,
        variants: false,
        axes: SPARSE,
        blocks: WARPS,
        grids: |_, point| cover(point, 32 * point.axes::<1>()[0]),
        shared: none,
        accepts: few_enough_elements,
        arguments: sparse_arguments,
        work: |point| {
            let [rows, least, step] = point.axes();
            let work = sparse_work(point, 1_500.0 + f64::from(least + 15 * step) * 10.0);
            Work { instructions: work.instructions + f64::from(rows) * 32.0 * 30.0, ..work }
        },
        reference: Reference::Each(sparse_row),
    },
    ZooKernel {
        name: "batched_solve",
        stands_for: "many small systems of equations, one a thread, side by side or one after the other",
        source: &SOURCE,
        variants: true,
        axes: &[
            axis("side", &[2, 4, 8], &[2, 4, 8]),
            axis("systems", &[1_000, 20_000, 65_536, 1 << 20], &[1, 100, 333]),
            axis("interleaved", &[0, 1], &[0, 1]),
        ],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<2>()[1]),
        shared: none,
        // A thread with 64 elements needs so many registers that larger blocks do not start.
        accepts: |point| point.axes::<1>()[0] < 8 || point.block[0] <= 256,
        arguments: |point| {
            let [side, systems, interleaved] = point.axes();
            vec![
                input(LEFT, side * side * systems),
                input(RIGHT, side * systems),
                written(Number::F32, side * systems),
                U32(systems),
                U32(interleaved),
            ]
        },
        work: |point| {
            let [side, systems] = point.axes().map(u64::from);
            // Below each pivot: a factor, a multiply-add for each element to the right and one for the
            // right side. Then as many multiply-adds upwards, with a division and a product a row, and
            // the addition that makes the diagonal dominant.
            let below: u64 = (0..side).map(|left| left * (2 * left + 3)).sum();
            let flops = below + side * (side - 1) + 3 * side;
            Work::words((side * side + side) * systems, side * systems)
                .flops(flops * systems)
                .about((flops * systems) as f64 * 2.0, flops as f64 * 5.0 + 1_000.0)
        },
        reference: Reference::Each(solved),
    },
];

const ROWS: Axis = axis("rows", &[256, 1_024, 4_096, 16_384, 100_000, 1 << 20], &[1, 100]);
const COLUMNS: Axis = axis("columns", &[32, 100, 256, 1_024, 4_096], &[33, 64]);
const SPARSE: &[Axis] = &[
    axis("rows", &[1_024, 16_384, 100_000, 1 << 20], &[16, 333]),
    axis("least", &[1, 8, 32], &[1, 8]),
    axis("step", &[0, 2, 8], &[0, 3]),
    axis("column_bits", &[12, 16, 22], &[6, 10]),
];

fn without_first(point: &Point) -> [u32; 3] {
    let [_, m, n, k] = point.axes();
    [m, n, k]
}

fn product_arguments(_: &Point, [m, n, k]: [u32; 3], left: Fill, right: Fill) -> Vec<Argument> {
    vec![
        input(left, m * k),
        input(right, k * n),
        written(Number::F32, m * n),
        U32(m),
        U32(n),
        U32(k),
    ]
}

fn product_work(sides: [u32; 3], instructions_each: f64, elements_each: f64) -> Work {
    let [m, n, k] = sides.map(u64::from);
    let terms = (m * n * k) as f64;
    Work::words(m * k + k * n, m * n)
        .flops(2 * m * n * k)
        .about(terms * instructions_each, k as f64 * 8.0 * elements_each.sqrt())
}

fn half_product_work(sides: [u32; 3], instructions_each: f64) -> Work {
    let [m, n, k] = sides.map(u64::from);
    let work = product_work(sides, instructions_each, 8.0).on(Pipe::Tensor);
    Work { bytes_read: 2 * (m * k + k * n), ..work }
}

fn product([_, n, k]: [u32; 3], index: u64, left: Fill, right: Fill) -> Expected {
    let (n, k) = (u64::from(n), u64::from(k));
    let (row, column) = (index / n, index % n);
    let (mut sum, mut magnitude) = (0.0, 0.0);
    for i in 0..k {
        let term = left.number(row * k + i) * right.number(i * n + column);
        sum += term;
        magnitude += term.abs();
    }
    near(sum, magnitude)
}

fn at_most_64_million(point: &Point) -> bool {
    let [rows, columns] = point.axes().map(u64::from);
    rows * columns <= 64 << 20
}

fn matvec_arguments(point: &Point) -> Vec<Argument> {
    let [rows, columns] = point.axes();
    vec![
        input(LEFT, rows * columns),
        input(RIGHT, columns),
        written(Number::F32, rows),
        U32(rows),
        U32(columns),
    ]
}

fn matvec_work(rows: u32, columns: u32, chain: f64) -> Work {
    let (rows, columns) = (u64::from(rows), u64::from(columns));
    Work::words(rows * columns + columns, rows)
        .flops(2 * rows * columns)
        .about((rows * columns) as f64 * 5.0, chain)
}

fn matvec(point: &Point, _: usize, row: u64) -> Expected {
    let [_, columns] = point.axes();
    product([0, 1, columns], row, LEFT, RIGHT)
}

fn starts(point: &Point) -> Fill {
    let [_, least, step] = point.axes();
    Fill::RowStarts { least, step }
}

fn elements(point: &Point) -> u64 {
    starts(point).word(point.axes::<1>()[0].into()).into()
}

fn few_enough_elements(point: &Point) -> bool {
    let [rows, least, step] = point.axes().map(u64::from);
    rows * (least + 8 * step) <= 32 << 20
}

fn sparse_arguments(point: &Point) -> Vec<Argument> {
    let [rows, _, _, bits] = point.axes();
    let elements = elements(point) as u32;
    vec![
        input(starts(point), rows + 1),
        input(Fill::Shuffled(bits), elements),
        input(LEFT, elements),
        input(RIGHT, 1 << bits),
        written(Number::F32, rows),
        U32(rows),
    ]
}

fn sparse_work(point: &Point, chain: f64) -> Work {
    let [rows, _, _, bits] = point.axes();
    let (rows, elements) = (u64::from(rows), elements(point));
    // The columns repeat a permutation, so the vector is read whole or as often as there are elements.
    let vector = elements.min(1 << bits);
    Work::words(rows + 1 + 2 * elements + vector, rows)
        .flops(2 * elements)
        .about(elements as f64 * 8.0, chain)
}

fn sparse_row(point: &Point, _: usize, row: u64) -> Expected {
    let [_, _, _, bits] = point.axes();
    let (mut sum, mut magnitude) = (0.0, 0.0);
    for i in starts(point).word(row)..starts(point).word(row + 1) {
        let column = Fill::Shuffled(bits).word(i.into());
        let term = LEFT.number(i.into()) * RIGHT.number(column.into());
        sum += term;
        magnitude += term.abs();
    }
    near(sum, magnitude)
}

/// Solves the system in double precision, with the elimination of the kernel.
fn solved(point: &Point, _: usize, index: u64) -> Expected {
    let [side, systems, interleaved] = point.axes().map(u64::from);
    let (system, wanted) = match interleaved {
        0 => (index / side, index % side),
        _ => (index % systems, index / systems),
    };
    let place = |at: u64, each: u64| match interleaved {
        0 => system * each + at,
        _ => at * systems + system,
    };
    let count = side as usize;
    let mut x: Vec<f64> = (0..side).map(|row| RIGHT.number(place(row, side))).collect();
    let mut a: Vec<Vec<f64>> = (0..side)
        .map(|row| {
            let element = |column| LEFT.number(place(row * side + column, side * side));
            (0..side).map(element).collect()
        })
        .collect();
    for (row, elements) in a.iter_mut().enumerate() {
        elements[row] += 2.0 * side as f64;
    }
    for pivot in 0..count {
        let (above, below) = a.split_at_mut(pivot + 1);
        for (row, elements) in below.iter_mut().enumerate() {
            let factor = elements[pivot] / above[pivot][pivot];
            for (element, above) in elements.iter_mut().zip(&above[pivot]).skip(pivot + 1) {
                *element -= factor * above;
            }
            x[pivot + 1 + row] -= factor * x[pivot];
        }
    }
    for row in (0..count).rev() {
        for column in row + 1..count {
            x[row] -= a[row][column] * x[column];
        }
        x[row] /= a[row][row];
    }
    near(x[wanted as usize], 1.0)
}
