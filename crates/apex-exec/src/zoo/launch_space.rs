//! Words of which the table's launch spaces are made: lists of blocks, rules for grids and shared memory.

use super::estimate::Target;
use super::point::Point;

const KIB: u32 = 1024;

/// Blocks in one dimension, bad ones included: too small, not of whole warps, the largest.
pub(crate) const LINEAR: &[[u32; 3]] = &[
    [1, 1, 1],
    [16, 1, 1],
    [32, 1, 1],
    [33, 1, 1],
    [64, 1, 1],
    [96, 1, 1],
    [128, 1, 1],
    [160, 1, 1],
    [192, 1, 1],
    [256, 1, 1],
    [384, 1, 1],
    [512, 1, 1],
    [768, 1, 1],
    [1000, 1, 1],
    [1024, 1, 1],
];

/// Blocks of whole warps, for kernels whose warps work together.
pub(crate) const WARPS: &[[u32; 3]] = &[
    [32, 1, 1],
    [64, 1, 1],
    [96, 1, 1],
    [128, 1, 1],
    [192, 1, 1],
    [256, 1, 1],
    [384, 1, 1],
    [512, 1, 1],
    [768, 1, 1],
    [1024, 1, 1],
];

/// Blocks in two dimensions: wide, tall, square, odd.
pub(crate) const PLANE: &[[u32; 3]] = &[
    [32, 1, 1],
    [32, 2, 1],
    [32, 4, 1],
    [32, 8, 1],
    [32, 32, 1],
    [16, 16, 1],
    [16, 4, 1],
    [8, 8, 1],
    [4, 4, 1],
    [64, 4, 1],
    [128, 1, 1],
    [256, 2, 1],
    [1, 128, 1],
    [4, 64, 1],
    [33, 3, 1],
    [10, 10, 1],
];

/// Blocks in three dimensions.
pub(crate) const VOLUME: &[[u32; 3]] = &[
    [32, 1, 1],
    [32, 4, 1],
    [32, 4, 2],
    [32, 8, 4],
    [64, 2, 2],
    [16, 4, 4],
    [8, 8, 8],
    [4, 4, 4],
    [5, 5, 5],
    [33, 2, 1],
    [256, 1, 1],
    [1, 1, 64],
    [2, 32, 4],
];

/// As many blocks as cover so many threads.
pub(crate) fn cover(point: &Point, threads: u32) -> Vec<[u32; 3]> {
    vec![[threads.div_ceil(point.threads_per_block()), 1, 1]]
}

/// As many blocks as cover a plane.
pub(crate) fn cover_plane(point: &Point, width: u32, height: u32) -> Vec<[u32; 3]> {
    vec![[width.div_ceil(point.block[0]), height.div_ceil(point.block[1]), 1]]
}

/// As many blocks as cover a volume.
pub(crate) fn cover_volume(point: &Point, sides: [u32; 3]) -> Vec<[u32; 3]> {
    vec![std::array::from_fn(|side| sides[side].div_ceil(point.block[side]))]
}

/// For loops over the grid: one block, too few, one for each multiprocessor, several, one not of whole
/// waves, and as many as cover all items, but no idle one.
pub(crate) fn over_grid(target: &Target, point: &Point, items: u32) -> Vec<[u32; 3]> {
    let covering = items.div_ceil(point.threads_per_block()).max(1);
    let device = target.multiprocessors;
    let wanted = [1, device / 4, device, 2 * device, 3 * device + 5, 8 * device, 32 * device];
    let mut grids: Vec<u32> =
        wanted.into_iter().filter(|&blocks| blocks > 0 && blocks < covering).collect();
    grids.push(covering);
    grids.into_iter().map(|blocks| [blocks, 1, 1]).collect()
}

/// No dynamic shared memory.
pub(crate) fn none(_: &Target, _: &Point) -> Vec<u32> {
    vec![0]
}

/// None, and sizes that nobody uses but that leave room for fewer blocks.
pub(crate) fn padding(_: &Target, _: &Point) -> Vec<u32> {
    vec![0, 20 * KIB, 70 * KIB]
}

/// Every step of residency that shared memory can make.
pub(crate) fn ladder(_: &Target, _: &Point) -> Vec<u32> {
    [0, 8, 20, 36, 64, 100, 160, 227].map(|kib| kib * KIB).to_vec()
}

/// Every combination makes sense.
pub(crate) fn any(_: &Point) -> bool {
    true
}

/// Element counts for kernels that stream: within one block, odd, around the caches, far beyond them.
pub(crate) const STREAM: &[u32] = &[1_000, 65_537, 1_000_003, 4 << 20, 16_777_259, 64 << 20];
/// Element counts for a check of them.
pub(crate) const STREAM_SMALL: &[u32] = &[1, 1_000, 4_097];
/// Thread counts for kernels that compute: a block, a part of the device, one full wave, several.
pub(crate) const THREADS: &[u32] = &[1_024, 20_000, 67_584, 270_336, 1 << 20];
/// Thread counts for a check of them.
pub(crate) const THREADS_SMALL: &[u32] = &[100, 1_024];
