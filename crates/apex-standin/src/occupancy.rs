//! How many blocks fit on a multiprocessor, by the limits that the device states.

use apex_cuda::types::*;

use crate::border::put;
use crate::device::{
    BLOCKS_PER_MULTIPROCESSOR, MULTIPROCESSORS, REGISTERS_PER_MULTIPROCESSOR,
    SHARED_BYTES_PER_MULTIPROCESSOR, THREADS_PER_BLOCK, THREADS_PER_MULTIPROCESSOR, WARP_THREADS,
};
use crate::kernel::{REGISTERS, entry};

/// What the system keeps of the shared memory of each block.
const RESERVED_SHARED_BYTES: usize = 1024;

/// The most blocks of that size that run on one multiprocessor at once.
pub(crate) fn blocks_per_multiprocessor(threads: i32, shared_bytes: usize) -> i32 {
    if threads <= 0 || threads > THREADS_PER_BLOCK as i32 {
        return 0;
    }
    let threads = (threads + WARP_THREADS - 1) / WARP_THREADS * WARP_THREADS;
    let by_shared =
        SHARED_BYTES_PER_MULTIPROCESSOR as usize / (shared_bytes + RESERVED_SHARED_BYTES);
    (THREADS_PER_MULTIPROCESSOR / threads)
        .min(REGISTERS_PER_MULTIPROCESSOR / (REGISTERS * threads))
        .min(BLOCKS_PER_MULTIPROCESSOR)
        .min(by_shared as i32)
}

answers! {
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        out: *mut i32,
        function: CUfunction,
        threads: i32,
        shared_bytes: usize,
    ) {
        let most_shared = entry(function)?.dynamic_shared_bytes() as usize;
        if threads <= 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let fits = shared_bytes <= most_shared;
        put(out, if fits { blocks_per_multiprocessor(threads, shared_bytes) } else { 0 })
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        out: *mut i32,
        function: CUfunction,
        threads: i32,
        shared_bytes: usize,
        _flags: u32,
    ) {
        let most_shared = entry(function)?.dynamic_shared_bytes() as usize;
        if threads <= 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let fits = shared_bytes <= most_shared;
        put(out, if fits { blocks_per_multiprocessor(threads, shared_bytes) } else { 0 })
    }

    fn cuOccupancyMaxPotentialBlockSize(
        grid: *mut i32,
        block: *mut i32,
        function: CUfunction,
        shared_of_block: CUoccupancyB2DSize,
        shared_bytes: usize,
        limit: i32,
    ) {
        entry(function)?;
        let (blocks, threads) = best(shared_of_block, shared_bytes, limit);
        put(grid, blocks * MULTIPROCESSORS)?;
        put(block, threads)
    }

    fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        grid: *mut i32,
        block: *mut i32,
        function: CUfunction,
        shared_of_block: CUoccupancyB2DSize,
        shared_bytes: usize,
        limit: i32,
        _flags: u32,
    ) {
        entry(function)?;
        let (blocks, threads) = best(shared_of_block, shared_bytes, limit);
        put(grid, blocks * MULTIPROCESSORS)?;
        put(block, threads)
    }

    fn cuOccupancyAvailableDynamicSMemPerBlock(
        out: *mut usize,
        function: CUfunction,
        blocks: i32,
        threads: i32,
    ) {
        let most_shared = entry(function)?.dynamic_shared_bytes() as usize;
        if blocks <= 0 || threads <= 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let share = SHARED_BYTES_PER_MULTIPROCESSOR as usize / blocks as usize;
        let left = share.saturating_sub(RESERVED_SHARED_BYTES);
        put(out, left.min(most_shared))
    }
}

/// The block size that fills a multiprocessor best, the largest of equals.
///
/// # Safety
///
/// The callback is the program's.
unsafe fn best(shared_of_block: CUoccupancyB2DSize, shared_bytes: usize, limit: i32) -> (i32, i32) {
    let most = THREADS_PER_BLOCK as i32;
    let most = if limit > 0 { limit.min(most) } else { most };
    let sizes = (1..=most / WARP_THREADS).map(|warps| warps * WARP_THREADS);
    let rated = sizes.map(|threads| {
        // SAFETY: the caller vouches for the callback.
        let shared = shared_of_block.map_or(shared_bytes, |callback| unsafe { callback(threads) });
        (blocks_per_multiprocessor(threads, shared), threads)
    });
    rated.max_by_key(|(blocks, threads)| (blocks * threads, *threads)).unwrap_or((1, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_limit_counts() {
        assert_eq!(blocks_per_multiprocessor(1024, 0), 2);
        assert_eq!(blocks_per_multiprocessor(32, 0), 32);
        assert_eq!(blocks_per_multiprocessor(128, 0), 16);
        assert_eq!(blocks_per_multiprocessor(128, 100 << 10), 2);
        assert_eq!(blocks_per_multiprocessor(2000, 0), 0);
    }
}
