//! Kernels whose lanes disagree, and what the size of a launch alone decides.

use crate::zoo::fill::Fill;
use crate::zoo::kernel::{
    Argument::{F32, U32},
    Axis, Expected, Number, Reference, Work, ZooKernel, axis, input, near, written,
};
use crate::zoo::launch_space::{LINEAR, any, cover, ladder, none, over_grid};
use crate::{KeptSource, kept_source};

static SOURCE: KeptSource = kept_source!("zoo/control");

const FACTOR: f32 = 0.75;
const WORDS: Fill = Fill::Words(13);
const VALUES: Fill = Fill::Unit(14);
const N: Axis = axis("n", &[4_096, 65_536, 300_001, 1 << 20, 1 << 22], &[100, 1_000]);

/// The group.
pub(crate) static KERNELS: &[ZooKernel] = &[
    ZooKernel {
        name: "divergence_lanes",
        stands_for: "branches that only some lanes of a warp take",
        source: &SOURCE,
        variants: false,
        axes: &[
            N,
            axis("lanes", &[0, 1, 2, 8, 16, 24, 32], &[0, 5, 32]),
            axis("rounds", &[16, 128, 512], &[10]),
        ],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<1>()[0]),
        shared: none,
        accepts: any,
        arguments: |point| {
            let [n, lanes, rounds] = point.axes();
            vec![written(Number::F32, n), U32(n), U32(lanes), U32(rounds), F32(FACTOR)]
        },
        work: |point| {
            let [n, lanes, rounds] = point.axes().map(u64::from);
            let long = n / 32 * lanes + (n % 32).min(lanes);
            let taken = if lanes > 0 { rounds } else { 0 };
            // A product to begin with; then multiply-adds, or one more product.
            Work::words(0, n)
                .flops(n + long * 2 * rounds + (n - long))
                .about((n * (12 + 2 * taken)) as f64, 100.0 + taken as f64 * 6.0)
        },
        reference: Reference::Each(|point, _, index| {
            let [_, lanes, rounds] = point.axes();
            let begin = (index & 1_023) as f64 / 1_024.0;
            let value = match (index & 31) < lanes.into() {
                true => chained(begin, rounds),
                false => begin * f64::from(FACTOR),
            };
            near(value, value)
        }),
    },
    ZooKernel {
        name: "divergence_loop",
        stands_for: "loops whose length differs from lane to lane",
        source: &SOURCE,
        variants: false,
        axes: &[N, axis("least", &[1, 64], &[1, 7]), axis("slope", &[0, 1, 4, 16], &[0, 3])],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<1>()[0]),
        shared: none,
        accepts: any,
        arguments: |point| {
            let [n, least, slope] = point.axes();
            vec![written(Number::F32, n), U32(n), U32(least), U32(slope), F32(FACTOR)]
        },
        work: |point| {
            let [n, least, slope] = point.axes().map(u64::from);
            let rest = n % 32;
            let steps = n / 32 * 496 + rest * rest.saturating_sub(1) / 2;
            let longest = least + 31 * slope;
            Work::words(0, n)
                .flops(n + 2 * (n * least + steps * slope))
                .about((n * (12 + 2 * longest)) as f64, 100.0 + longest as f64 * 6.0)
        },
        reference: Reference::Each(|point, _, index| {
            let [_, least, slope] = point.axes();
            let begin = (index & 1_023) as f64 / 1_024.0;
            let value = chained(begin, least + (index as u32 & 31) * slope);
            near(value, value)
        }),
    },
    ZooKernel {
        name: "bank_stride",
        stands_for: "conflicts in shared memory, from none to 32 lanes at one bank",
        source: &SOURCE,
        variants: false,
        axes: &[
            N,
            axis("stride", &[0, 1, 2, 3, 4, 8, 16, 32, 33], &[0, 1, 32]),
            axis("rounds", &[64, 512], &[10]),
        ],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<1>()[0]),
        shared: none,
        accepts: any,
        arguments: |point| {
            let [n, stride, rounds] = point.axes();
            vec![written(Number::U32, n), U32(n), U32(stride), U32(rounds)]
        },
        work: |point| {
            let [n, stride, rounds] = point.axes();
            let ways = [32, 16, 8, 4, 2].into_iter().find(|way| stride > 0 && stride % way == 0);
            let each = 6.0 + 4.0 * f64::from(ways.unwrap_or(1));
            let filling = point.blocks() as f64 * 4_096.0 * 10.0;
            let loops = f64::from(4_096 / point.block[0]);
            Work::words(0, n.into()).about(
                f64::from(n) * f64::from(rounds) * each + filling,
                loops * 20.0 + f64::from(rounds) * 35.0,
            )
        },
        reference: Reference::Each(|point, _, index| {
            let [_, stride, rounds] = point.axes();
            let first = index as u32 % point.block[0] * stride;
            let sum = (0..rounds).fold(0u32, |sum, round| {
                let at = (first + 33 * round) & 4_095;
                sum.wrapping_mul(3).wrapping_add(at.wrapping_mul(2_654_435_761) >> 8)
            });
            Expected::Exact(sum >> 1)
        }),
    },
    ZooKernel {
        name: "occupancy_limited",
        stands_for: "latency that only resident warps hide, with residency bounded by shared memory",
        source: &SOURCE,
        variants: false,
        axes: &[axis("bits", &[16, 20, 22, 24], &[8, 11]), axis("length", &[0, 200], &[0, 5])],
        blocks: LINEAR,
        grids: |target, point| over_grid(target, point, 1 << point.axes::<1>()[0]),
        shared: ladder,
        accepts: any,
        arguments: |point| {
            let [bits, length] = point.axes();
            let n = 1 << bits;
            vec![
                input(Fill::Shuffled(bits), n),
                input(VALUES, n),
                written(Number::F32, n),
                U32(n),
                U32(length),
                F32(FACTOR),
            ]
        },
        work: |point| {
            let [bits, length] = point.axes();
            let n = 1u64 << bits;
            let length = u64::from(length);
            let threads = point.blocks() * u64::from(point.threads_per_block());
            let loops = n.div_ceil(threads) as f64;
            Work::words(2 * n, n)
                .flops(2 * length * n)
                .about((n * (14 + 2 * length)) as f64, loops * (1_200.0 + 5.0 * length as f64))
        },
        reference: Reference::Each(|point, _, index| {
            let [bits, length] = point.axes();
            let from = Fill::Shuffled(bits).word(index);
            near(chained(VALUES.number(from.into()), length), 1.0)
        }),
    },
    ZooKernel {
        name: "tiny",
        stands_for: "launches that do next to nothing: what a launch costs",
        source: &SOURCE,
        variants: false,
        axes: &[axis("n", &[1, 32, 100, 1_000, 4_096, 20_000, 100_000], &[1, 100, 1_000])],
        blocks: LINEAR,
        grids: |target, point| {
            let mut grids = cover(point, point.axes::<1>()[0]);
            // Blocks that find nothing to do.
            grids.push([grids[0][0] + target.multiprocessors, 1, 1]);
            grids
        },
        shared: none,
        accepts: any,
        arguments: |point| {
            let [n] = point.axes();
            vec![written(Number::U32, n), U32(n), U32(3)]
        },
        work: |point| {
            let [n] = point.axes();
            Work::words(0, n.into()).about(f64::from(n) * 6.0, 300.0)
        },
        reference: Reference::Each(|_, _, index| Expected::Exact(3 * index as u32)),
    },
    ZooKernel {
        name: "bitonic_step",
        stands_for: "one exchange of a sorting network: partners near and far",
        source: &SOURCE,
        variants: false,
        axes: &[
            axis("bits", &[10, 16, 20, 22, 24], &[6, 10]),
            axis("distance_bits", &[0, 3, 5, 8, 12, 20], &[0, 4]),
            axis("run_bits", &[1, 6, 13, 21], &[1, 5]),
        ],
        blocks: LINEAR,
        grids: |_, point| cover(point, 1 << point.axes::<1>()[0]),
        shared: none,
        accepts: |point| {
            let [bits, distance, run] = point.axes();
            distance < run && run <= bits
        },
        arguments: |point| {
            let [bits, distance, run] = point.axes();
            let n = 1 << bits;
            vec![
                input(WORDS, n),
                written(Number::U32, n),
                U32(n),
                U32(1 << distance),
                U32(1 << run),
            ]
        },
        work: |point| {
            let n = 1u64 << point.axes::<1>()[0];
            Work::words(n, n).about(n as f64 * 16.0, 900.0)
        },
        reference: Reference::Each(|point, _, index| {
            let [_, distance, run] = point.axes();
            let (own, other) = (WORDS.word(index), WORDS.word(index ^ 1 << distance));
            let lower = index & 1 << distance == 0;
            let ascending = index & 1 << run == 0;
            Expected::Exact(if lower == ascending { own.min(other) } else { own.max(other) })
        }),
    },
];

fn chained(begin: f64, length: u32) -> f64 {
    (0..length).fold(begin, |value, _| value * f64::from(FACTOR) + 0.125)
}
