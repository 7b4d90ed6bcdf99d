//! Kernels that compute and hardly touch memory.

use crate::zoo::fill::Fill;
use crate::zoo::kernel::{
    Argument::{self, F32, F64, U32},
    Axis, Expected, Number, Pipe, Reference, Work, ZooKernel, axis, input, near, written,
};
use crate::zoo::launch_space::{
    LINEAR, PLANE, THREADS, THREADS_SMALL, any, cover, cover_plane, none, padding,
};
use crate::zoo::point::Point;
use crate::{KeptSource, kept_source};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

static SOURCE: KeptSource = kept_source!("zoo/arithmetic");

const FACTOR: f32 = 0.75;
const ADDEND: f32 = 0.125;
const ANGLES: Fill = Fill::Unit(11);
const BODIES: Fill = Fill::Unit(12);
const THREAD_COUNT: Axis = axis("threads", THREADS, THREADS_SMALL);

/// The group.
pub(crate) static KERNELS: &[ZooKernel] = &[
    ZooKernel {
        name: "fma_chain",
        stands_for: "single-precision arithmetic with 1 to 8 independent chains a thread",
        source: &SOURCE,
        variants: true,
        axes: &[
            axis("chains", &[1, 2, 4, 8], &[1, 2, 4, 8]),
            THREAD_COUNT,
            axis("length", &[16, 256, 4_096], &[10]),
        ],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<2>()[1]),
        shared: padding,
        accepts: any,
        arguments: |point| {
            let [_, threads, length] = point.axes();
            vec![written(Number::F32, threads), U32(threads), U32(length), F32(FACTOR), F32(ADDEND)]
        },
        work: |point| chain_work(point, 1, 1.0),
        reference: Reference::Each(|point, _, index| {
            let value = chained(point, index);
            near(value, value)
        }),
    },
    ZooKernel {
        name: "fma_double",
        stands_for: "double-precision arithmetic with 1 to 4 independent chains a thread",
        source: &SOURCE,
        variants: true,
        axes: &[
            axis("chains", &[1, 2, 4], &[1, 2, 4]),
            THREAD_COUNT,
            axis("length", &[16, 256, 2_048], &[10]),
        ],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<2>()[1]),
        shared: none,
        accepts: any,
        arguments: |point| {
            let [_, threads, length] = point.axes();
            vec![
                written(Number::F64, threads),
                U32(threads),
                U32(length),
                F64(FACTOR.into()),
                F64(ADDEND.into()),
            ]
        },
        work: |point| chain_work(point, 2, 2.0).on(Pipe::Double),
        reference: Reference::Each(|point, _, index| {
            let value = chained(point, index);
            Expected::Near { value, within: 1e-14 * value }
        }),
    },
    ZooKernel {
        name: "transcendental",
        stands_for: "sine, exponential, logarithm and root: the special-function units",
        source: &SOURCE,
        variants: false,
        axes: &[
            axis("n", &[1_024, 20_000, 270_336, 1 << 20, 1 << 24], &[100, 1_000]),
            axis("rounds", &[1, 4, 16, 64], &[1, 3]),
        ],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<1>()[0]),
        shared: padding,
        accepts: any,
        arguments: |point| {
            let [n, rounds] = point.axes();
            vec![input(ANGLES, n), written(Number::F32, n), U32(n), U32(rounds)]
        },
        work: |point| {
            let [n, rounds] = point.axes().map(u64::from);
            Work::words(n, n)
                .flops(8 * n * rounds)
                .about((n * rounds) as f64 * 80.0, 900.0 + rounds as f64 * 300.0)
        },
        reference: Reference::Each(|point, _, index| {
            let [_, rounds] = point.axes();
            let value = (0..rounds).fold(ANGLES.number(index), |value, _| {
                0.5 * value.sin() + 0.25 * (1.0 + value.exp()).ln().sqrt()
            });
            near(value, 4.0)
        }),
    },
    ZooKernel {
        name: "integer_mix",
        stands_for: "hashes and random numbers: multiply, shift, rotate, count of bits",
        source: &SOURCE,
        variants: false,
        axes: &[
            axis("n", &[1_024, 20_000, 270_336, 1 << 20, 1 << 23], &[100, 1_000]),
            axis("rounds", &[4, 16, 64, 256], &[4]),
        ],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<1>()[0]),
        shared: none,
        accepts: any,
        arguments: |point| {
            let [n, rounds] = point.axes();
            vec![written(Number::U32, n), U32(n), U32(rounds)]
        },
        work: |point| {
            let [n, rounds] = point.axes();
            Work::words(0, n.into())
                .about(f64::from(n) * f64::from(rounds) * 10.0, f64::from(rounds) * 40.0)
        },
        reference: Reference::Each(|point, _, index| {
            let [_, rounds] = point.axes();
            let mixed = (0..rounds).fold(index as u32, |value, round| {
                let value = value ^ value >> 15;
                let value = value.wrapping_mul(0x2c1b_3c6d).wrapping_add(round).rotate_left(13);
                value.wrapping_add(value.count_ones())
            });
            Expected::Exact(mixed >> 1)
        }),
    },
    ZooKernel {
        name: "register_pressure",
        stands_for: "16 to 200 values alive at once: occupancy bounded by registers",
        source: &SOURCE,
        variants: true,
        axes: &[
            axis("live", &[16, 48, 96, 200], &[16, 48, 96, 200]),
            THREAD_COUNT,
            axis("rounds", &[4, 16, 64], &[2]),
        ],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<2>()[1]),
        shared: none,
        // Larger blocks need more registers than a multiprocessor has, and are refused.
        accepts: |point| {
            let most = [(16, 1_024), (48, 1_024), (96, 512), (200, 256)];
            let [live] = point.axes();
            most.iter().any(|&(count, threads)| count == live && point.block[0] <= threads)
        },
        arguments: live_arguments,
        work: live_work,
        reference: Reference::Each(kept_alive),
    },
    ZooKernel {
        name: "register_spill",
        stands_for: "more values alive than registers allowed: spilled to local memory",
        source: &SOURCE,
        variants: true,
        axes: &[
            axis("live", &[96, 200], &[96, 200]),
            THREAD_COUNT,
            axis("rounds", &[4, 16, 64], &[2]),
        ],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<2>()[1]),
        shared: none,
        accepts: any,
        arguments: live_arguments,
        work: |point| {
            let work = live_work(point);
            Work { instructions: 3.0 * work.instructions, ..work }
        },
        reference: Reference::Each(kept_alive),
    },
    ZooKernel {
        name: "local_memory",
        stands_for: "arrays of a thread's own that are indexed by data",
        source: &SOURCE,
        variants: true,
        axes: &[
            axis("words", &[16, 64, 256], &[16, 64, 256]),
            THREAD_COUNT,
            axis("rounds", &[16, 64, 256], &[10]),
        ],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<2>()[1]),
        shared: none,
        accepts: any,
        arguments: |point| {
            let [_, threads, rounds] = point.axes();
            vec![written(Number::U32, threads), U32(threads), U32(rounds)]
        },
        work: |point| {
            let [words, threads, rounds] = point.axes().map(f64::from);
            Work::words(0, u64::from(point.axes::<2>()[1]))
                .about(threads * (rounds * 20.0 + words * 8.0), rounds * 60.0)
        },
        reference: Reference::Each(|point, _, index| {
            let [words, _, rounds] = point.axes();
            let thread = index as u32;
            let mut array: Vec<u32> = (0..words).map(|word| thread.wrapping_mul(word)).collect();
            let mut value = thread;
            for _ in 0..rounds {
                let at = ((value >> 7) % words) as usize;
                value = value
                    .wrapping_mul(1_664_525)
                    .wrapping_add(array[at])
                    .wrapping_add(1_013_904_223);
                array[at] = value;
            }
            Expected::Exact(value >> 1)
        }),
    },
    ZooKernel {
        name: "mandelbrot",
        stands_for: "loops whose length depends on the data, with neighbours alike",
        source: &SOURCE,
        variants: false,
        axes: &[
            axis("side", &[128, 256, 512, 1_024], &[16, 32]),
            axis("limit", &[16, 64, 256, 1_024], &[50]),
        ],
        blocks: PLANE,
        grids: |_, point| {
            let [side] = point.axes();
            cover_plane(point, side, side)
        },
        shared: none,
        accepts: any,
        arguments: |point| {
            let [side, limit] = point.axes();
            vec![
                written(Number::U32, side * side),
                U32(side),
                U32(side),
                U32(limit),
                F32(mandelbrot_step(side)),
            ]
        },
        work: |point| {
            let [side, limit] = point.axes();
            let pixels = u64::from(side) * u64::from(side);
            let flops = mandelbrot_flops(side, limit);
            Work::words(0, pixels).flops(flops).about(flops as f64 * 2.0, f64::from(limit) * 40.0)
        },
        reference: Reference::Each(|point, _, index| {
            let [side, limit] = point.axes();
            let (column, row) = (index as u32 % side, index as u32 / side);
            Expected::Exact(mandelbrot_steps(side, limit, column, row))
        }),
    },
    ZooKernel {
        name: "nbody",
        stands_for: "all pairs, with what a block needs in shared memory",
        source: &SOURCE,
        variants: false,
        axes: &[axis("n", &[256, 1_000, 4_096, 10_000, 16_384, 40_000, 65_536], &[1, 100, 257])],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<1>()[0]),
        shared: |_, point| vec![16 * point.block[0], 16 * point.block[0] + (30 << 10)],
        accepts: any,
        arguments: |point| {
            let [n] = point.axes();
            vec![input(BODIES, 4 * n), written(Number::F32, 4 * n), U32(n)]
        },
        work: |point| {
            let n = u64::from(point.axes::<1>()[0]);
            // Three differences, five for the square of the distance, one to soften it, a root, three for
            // the pull, six to add it.
            Work::words(4 * n, 4 * n)
                .flops(19 * n * n)
                .about((n * n) as f64 * 18.0, n as f64 * 60.0)
        },
        reference: Reference::Each(|point, _, index| {
            let n = u64::from(point.axes::<1>()[0]);
            let (body, part) = (index / 4, index % 4);
            let at = |body: u64| [0, 1, 2, 3].map(|part| BODIES.number(4 * body + part));
            let own = at(body);
            if part == 3 {
                return near(own[3], own[3].abs());
            }
            let (mut sum, mut magnitude) = (0.0, 0.0);
            for other in (0..n).map(at) {
                let off = [0, 1, 2].map(|side| other[side] - own[side]);
                let square: f64 = off.iter().map(|side| side * side).sum::<f64>() + 0.01;
                let term = other[3] * square.powf(-1.5) * off[part as usize];
                sum += term;
                magnitude += term.abs();
            }
            near(sum, 2.0 * magnitude)
        }),
    },
    ZooKernel {
        name: "monte_carlo",
        stands_for: "simulation with random numbers made on the way",
        source: &SOURCE,
        variants: false,
        axes: &[THREAD_COUNT, axis("samples", &[16, 64, 256, 1_024], &[20])],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<1>()[0]),
        shared: none,
        accepts: any,
        arguments: |point| {
            let [threads, samples] = point.axes();
            vec![written(Number::U32, threads), U32(threads), U32(samples)]
        },
        work: |point| {
            let [threads, samples] = point.axes().map(u64::from);
            Work::words(0, threads)
                .flops(5 * threads * samples)
                .about((threads * samples) as f64 * 24.0, samples as f64 * 60.0)
        },
        reference: Reference::Each(|point, _, index| {
            let [_, samples] = point.axes();
            let mut state = (index as u32 + 1).wrapping_mul(0x9e37_79b9) | 1;
            let mut side = || {
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                (state >> 8) as f32 / (1 << 24) as f32
            };
            let inside = (0..samples).filter(|_| {
                let (x, y) = (side(), side());
                x * x + y * y < 1.0
            });
            Expected::Exact(inside.count() as u32)
        }),
    },
];

fn chain_work(point: &Point, words: u64, cost: f64) -> Work {
    let [chains, threads, length] = point.axes().map(u64::from);
    // Each chain begins with a product, and the chains are added up in the end.
    let flops = threads * (chains * (2 * length + 1) + chains - 1);
    Work::words(0, words * threads).flops(flops).about(
        flops as f64 * 0.6 * cost,
        length as f64 * 4.5 * cost * (chains as f64 / 2.0).max(1.0),
    )
}

fn chained(point: &Point, index: u64) -> f64 {
    let [chains, _, length] = point.axes();
    let chain = |chain: u32| {
        let begin = f64::from((index as u32 + chain) & 255) / 256.0;
        (0..length).fold(begin, |value, _| value * f64::from(FACTOR) + f64::from(ADDEND))
    };
    (0..chains).map(chain).sum()
}

fn live_arguments(point: &Point) -> Vec<Argument> {
    let [_, threads, rounds] = point.axes();
    vec![written(Number::F32, threads), U32(threads), U32(rounds), F32(0.5)]
}

fn live_work(point: &Point) -> Work {
    let [live, threads, rounds] = point.axes().map(u64::from);
    // A product to begin with and an addition in the end, and in each round a product and a multiply-add.
    let flops = threads * live * (2 + 3 * rounds);
    Work::words(0, threads).flops(flops).about(flops as f64, (live * (4 + 3 * rounds)) as f64)
}

fn kept_alive(point: &Point, _: usize, index: u64) -> Expected {
    let [live, _, rounds] = point.axes();
    let begin = |j: u32| f64::from((index as u32 + 37 * j) & 255) / 256.0;
    let mut values: Vec<f64> = (0..live).map(begin).collect();
    for _ in 0..rounds {
        let mut next = values.clone();
        next.rotate_left(1);
        for (value, next) in values.iter_mut().zip(next) {
            *value = 0.5 * *value + 0.5 * next;
        }
    }
    let sum: f64 = values.iter().sum();
    near(sum, sum)
}

/// The distance between neighbouring points; exact where the side is a power of two.
fn mandelbrot_step(side: u32) -> f32 {
    3.0 / side as f32
}

/// The steps of one point, with the kernel's own roundings.
fn mandelbrot_steps(side: u32, limit: u32, column: u32, row: u32) -> u32 {
    let step = mandelbrot_step(side);
    let (cx, cy) = (column as f32 * step - 2.0, row as f32 * step - 1.5);
    let (mut x, mut y) = (0.0f32, 0.0f32);
    for steps in 0..limit {
        let (xx, yy) = (x * x, y * y);
        if xx + yy > 4.0 {
            return steps;
        }
        y = 2.0 * x * y + cy;
        x = xx - yy + cx;
    }
    limit
}

/// Whether a point lies in the heart or the largest disc of the set, where nine tenths of all steps are done.
/// Rounding does not carry a point out of them within the steps that are taken here.
fn never_escapes(side: u32, column: u32, row: u32) -> bool {
    let step = f64::from(mandelbrot_step(side));
    let (x, y) = (f64::from(column) * step - 2.0, f64::from(row) * step - 1.5);
    let from_cusp = (x - 0.25).powi(2) + y * y;
    let in_heart = from_cusp * (from_cusp + x - 0.25) <= 0.25 * y * y;
    in_heart || (x + 1.0).powi(2) + y * y <= 0.0625
}

/// The operations of a whole picture, kept because many points share it: a product and a sum for each
/// coordinate, three for each test, five for each step.
fn mandelbrot_flops(side: u32, limit: u32) -> u64 {
    static KNOWN: Mutex<Option<HashMap<(u32, u32), u64>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let count = || {
        let mut flops = 0;
        for pixel in 0..side * side {
            let (column, row) = (pixel % side, pixel / side);
            let steps = match never_escapes(side, column, row) {
                true => limit,
                false => mandelbrot_steps(side, limit, column, row),
            };
            let tests = if steps == limit { steps } else { steps + 1 };
            flops += 4 + 3 * u64::from(tests) + 5 * u64::from(steps);
        }
        flops
    };
    *known.get_or_insert_default().entry((side, limit)).or_insert_with(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_escapes_takes_all_steps() {
        for (column, row) in (0..128).flat_map(|column| (0..128).map(move |row| (column, row))) {
            if never_escapes(128, column, row) {
                assert_eq!(mandelbrot_steps(128, 1_024, column, row), 1_024, "{column} {row}");
            }
        }
    }
}
