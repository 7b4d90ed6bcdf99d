//! Kernels whose threads work on one result together.

use crate::zoo::fill::Fill;
use crate::zoo::kernel::{
    Argument::{self, U32},
    Axis, Expected, Number, Reference, Work, ZooKernel, added_to, axis, input, near,
    partly_written, written,
};
use crate::zoo::launch_space::{LINEAR, STREAM, STREAM_SMALL, any, cover, none, over_grid};
use crate::zoo::point::Point;
use crate::{KeptSource, kept_source};

static SOURCE: KeptSource = kept_source!("zoo/reduce");

const TERMS: Fill = Fill::Unit(5);
const SMALL_NUMBERS: Fill = Fill::Below(256);
const N: Axis = axis("n", STREAM, STREAM_SMALL);
const BINS: Axis = axis("bins", &[16, 64, 256, 1_024, 4_096, 8_192], &[16, 64]);
/// Sixteen elements for each bin are the least that is taken: then no bin stays empty.
const PER_BIN: u32 = 16;
/// The values that are compacted: every number below 65,536 once in so many.
const SIEVED: Fill = Fill::Shuffled(16);

/// The group.
pub(crate) static KERNELS: &[ZooKernel] = &[
    ZooKernel {
        name: "reduce_tree",
        stands_for: "sums by halving in shared memory, a barrier for each half",
        source: &SOURCE,
        variants: false,
        axes: &[N],
        blocks: LINEAR,
        grids: |target, point| over_grid(target, point, point.axes::<1>()[0]),
        shared: |_, point| vec![4 * point.block[0]],
        accepts: any,
        arguments: partial_sums,
        work: sum_work,
        reference: Reference::Each(partial_sum),
    },
    ZooKernel {
        name: "reduce_shuffle",
        stands_for: "sums by exchange within warps",
        source: &SOURCE,
        variants: false,
        axes: &[N],
        blocks: LINEAR,
        grids: |target, point| over_grid(target, point, point.axes::<1>()[0]),
        shared: none,
        accepts: any,
        arguments: partial_sums,
        work: sum_work,
        reference: Reference::Each(partial_sum),
    },
    ZooKernel {
        name: "reduce_atomic",
        stands_for: "sums by floating additions to one address",
        source: &SOURCE,
        variants: false,
        axes: &[N],
        blocks: LINEAR,
        grids: |target, point| over_grid(target, point, point.axes::<1>()[0]),
        shared: none,
        accepts: any,
        arguments: |point| {
            let [n] = point.axes();
            vec![input(TERMS, n), added_to(Number::F32, 1), U32(n)]
        },
        work: |point| {
            let [n] = point.axes();
            let adders = (point.blocks() * u64::from(point.threads_per_block())) as f64;
            Work::words(n.into(), 1)
                .flops(n.into())
                .about(f64::from(n) * 8.0 + adders * 10.0, 900.0)
                .serial(adders)
        },
        reference: Reference::Whole(|point, _| {
            let terms = (0..point.axes::<1>()[0].into()).map(|index| TERMS.number(index));
            let (sum, magnitude) = terms
                .fold((0.0, 0.0), |(sum, magnitude), term| (sum + term, magnitude + term.abs()));
            vec![near(sum, magnitude)]
        }),
    },
    ZooKernel {
        name: "scan_shared",
        stands_for: "prefix sums of a block by doubling distances, a barrier for each",
        source: &SOURCE,
        variants: false,
        axes: &[N],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<1>()[0]),
        shared: |_, point| vec![8 * point.block[0], 8 * point.block[0] + (40 << 10)],
        accepts: any,
        arguments: scan_arguments,
        work: |point| {
            let [n] = point.axes();
            let rounds = f64::from(point.block[0].ilog2() + 1);
            Work::words(n.into(), n.into())
                .about(f64::from(n) * (12.0 + 12.0 * rounds), 900.0 + 60.0 * rounds)
        },
        reference: Reference::Each(scanned),
    },
    ZooKernel {
        name: "scan_shuffle",
        stands_for: "prefix sums of a block by exchange within warps",
        source: &SOURCE,
        variants: false,
        axes: &[N],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<1>()[0]),
        shared: none,
        accepts: any,
        arguments: scan_arguments,
        work: |point| {
            let [n] = point.axes();
            Work::words(n.into(), n.into()).about(f64::from(n) * 50.0, 1_600.0)
        },
        reference: Reference::Each(scanned),
    },
    ZooKernel {
        name: "compaction",
        stands_for: "filters that keep order: each block moves what passes to the front of its part",
        source: &SOURCE,
        variants: false,
        axes: &[N, axis("limit", &[1_000, 16_384, 32_768, 60_000], &[1_000, 32_768])],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<1>()[0]),
        shared: none,
        accepts: any,
        arguments: |point| {
            let [n, limit] = point.axes();
            vec![
                input(SIEVED, n),
                partly_written(Number::U32, n),
                written(Number::U32, point.grid[0]),
                U32(n),
                U32(limit),
            ]
        },
        work: |point| {
            let [n, limit] = point.axes();
            let rest = (0..u64::from(n % 65_536)).filter(|&at| SIEVED.word(at) < limit).count();
            let passing = u64::from(n / 65_536) * u64::from(limit) + rest as u64;
            Work::words(n.into(), passing + point.blocks()).about(f64::from(n) * 55.0, 1_700.0)
        },
        reference: Reference::Each(|point, output, index| {
            let [n, limit] = point.axes();
            let threads = u64::from(point.block[0]);
            let begin = if output == 0 { index / threads * threads } else { index * threads };
            let part = begin..(begin + threads).min(n.into());
            let mut passing = part.map(|at| SIEVED.word(at)).filter(|&value| value < limit);
            match output {
                0 => passing
                    .nth((index - begin) as usize)
                    .map_or(Expected::Untouched, Expected::Exact),
                _ => Expected::Exact(passing.count() as u32),
            }
        }),
    },
    ZooKernel {
        name: "histogram_shared",
        stands_for: "counts in shared memory, added up at the end",
        source: &SOURCE,
        variants: false,
        axes: &[N, BINS],
        blocks: LINEAR,
        grids: |target, point| over_grid(target, point, point.axes::<1>()[0]),
        shared: |_, point| vec![4 * point.axes::<2>()[1]],
        accepts: enough_for_all_bins,
        arguments: |point| {
            let [n, bins] = point.axes();
            vec![input(Fill::Below(bins), n), added_to(Number::U32, bins), U32(n), U32(bins)]
        },
        work: |point| {
            let [n, bins] = point.axes();
            let flushes = point.blocks() as f64 * f64::from(bins);
            Work::words(n.into(), bins.into())
                .about(f64::from(n) * 14.0 + flushes * 20.0, 900.0)
                .serial(flushes / f64::from(bins.min(64)))
        },
        reference: Reference::Whole(histogram),
    },
    ZooKernel {
        name: "histogram_global",
        stands_for: "counts by atomic additions to global memory",
        source: &SOURCE,
        variants: false,
        axes: &[N, BINS],
        blocks: LINEAR,
        grids: |target, point| over_grid(target, point, point.axes::<1>()[0]),
        shared: none,
        accepts: enough_for_all_bins,
        arguments: |point| {
            let [n, bins] = point.axes();
            vec![input(Fill::Below(bins), n), added_to(Number::U32, bins), U32(n)]
        },
        work: |point| {
            let [n, bins] = point.axes();
            Work::words(n.into(), bins.into())
                .about(f64::from(n) * 14.0, 900.0)
                .serial(f64::from(n) / f64::from(bins.min(64)))
        },
        reference: Reference::Whole(histogram),
    },
    ZooKernel {
        name: "atomics_same",
        stands_for: "counters and locks: every thread at one address",
        source: &SOURCE,
        variants: false,
        axes: &[
            axis("threads", &[1_024, 20_000, 65_536, 1 << 20], &[100, 1_000]),
            axis("repeats", &[1, 4, 16], &[1, 4]),
        ],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<1>()[0]),
        shared: none,
        accepts: any,
        arguments: |point| {
            let [threads, repeats] = point.axes();
            vec![added_to(Number::U32, 1), U32(threads), U32(repeats)]
        },
        work: |point| {
            let [threads, repeats] = point.axes();
            let adds = f64::from(threads) * f64::from(repeats);
            Work::words(0, 1).about(adds * 8.0, f64::from(repeats) * 400.0).serial(adds)
        },
        reference: Reference::Whole(|point, _| added(point, 1)),
    },
    ZooKernel {
        name: "atomics_spread",
        stands_for: "atomic additions over many addresses",
        source: &SOURCE,
        variants: false,
        axes: &[
            axis("threads", &[1_024, 20_000, 65_536, 1 << 20], &[100, 1_000]),
            axis("repeats", &[1, 4, 16], &[1, 4]),
            axis("slots", &[32, 1_000, 65_536, 1 << 20], &[32, 100]),
        ],
        blocks: LINEAR,
        grids: |_, point| cover(point, point.axes::<1>()[0]),
        shared: none,
        accepts: |point| {
            let [threads, _, slots] = point.axes();
            slots <= threads
        },
        arguments: |point| {
            let [threads, repeats, slots] = point.axes();
            vec![added_to(Number::U32, slots), U32(threads), U32(repeats), U32(slots)]
        },
        work: |point| {
            let [threads, repeats, slots] = point.axes();
            let adds = f64::from(threads) * f64::from(repeats);
            Work::words(0, slots.into())
                .about(adds * 12.0, f64::from(repeats) * 400.0)
                .serial(adds / f64::from(slots.min(64)))
        },
        reference: Reference::Whole(|point, _| added(point, point.axes::<3>()[2])),
    },
];

fn partial_sums(point: &Point) -> Vec<Argument> {
    let [n] = point.axes();
    vec![input(TERMS, n), written(Number::F32, point.grid[0]), U32(n)]
}

fn sum_work(point: &Point) -> Work {
    let n = u64::from(point.axes::<1>()[0]);
    let tree = point.blocks() as f64 * f64::from(point.block[0]) * 60.0;
    Work::words(n, point.blocks()).flops(n).about(n as f64 * 6.0 + tree, 1_500.0)
}

/// The sum of what the threads of one block take in their loop over the grid.
fn partial_sum(point: &Point, _: usize, block: u64) -> Expected {
    let n = u64::from(point.axes::<1>()[0]);
    let threads = u64::from(point.block[0]);
    let (mut sum, mut magnitude) = (0.0, 0.0);
    let mut begin = block * threads;
    while begin < n {
        for index in begin..(begin + threads).min(n) {
            sum += TERMS.number(index);
            magnitude += TERMS.number(index).abs();
        }
        begin += threads * point.blocks();
    }
    near(sum, magnitude)
}

fn scan_arguments(point: &Point) -> Vec<Argument> {
    let [n] = point.axes();
    vec![input(SMALL_NUMBERS, n), written(Number::U32, n), U32(n)]
}

fn scanned(point: &Point, _: usize, index: u64) -> Expected {
    let begin = index - index % u64::from(point.block[0]);
    Expected::Exact((begin..=index).map(|at| SMALL_NUMBERS.word(at)).sum())
}

fn enough_for_all_bins(point: &Point) -> bool {
    let [n, bins] = point.axes();
    n >= PER_BIN * bins
}

fn histogram(point: &Point, _: usize) -> Vec<Expected> {
    let [n, bins] = point.axes();
    let mut counts = vec![0; bins as usize];
    for index in 0..u64::from(n) {
        counts[Fill::Below(bins).word(index) as usize] += 1;
    }
    counts.into_iter().map(Expected::Exact).collect()
}

fn added(point: &Point, slots: u32) -> Vec<Expected> {
    let [threads, repeats] = point.axes();
    let mut sums = vec![0; slots as usize];
    for thread in 0..threads {
        for repeat in 0..repeats {
            sums[((thread + repeat * 37) % slots) as usize] += (thread + repeat) & 7;
        }
    }
    sums.into_iter().map(Expected::Exact).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes written are counted as all bins, so no bin may stay empty. What a longer input holds
    /// begins with the shorter one, so the shortest accepted tells for all.
    #[test]
    fn no_bin_stays_empty() {
        for (lengths, counts) in [(STREAM, BINS.full), (STREAM_SMALL, BINS.small)] {
            for &bins in counts {
                let shortest = lengths.iter().find(|&&n| n >= PER_BIN * bins).unwrap();
                let mut seen = vec![false; bins as usize];
                for index in 0..u64::from(*shortest) {
                    seen[Fill::Below(bins).word(index) as usize] = true;
                }
                assert!(seen.into_iter().all(|seen| seen), "{bins} bins, {shortest} elements");
            }
        }
    }
}
