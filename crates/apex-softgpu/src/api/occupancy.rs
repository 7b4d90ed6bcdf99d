//! How many blocks fit on a multiprocessor, by the same arithmetic as everywhere in apex.

use apex_cuda::types::*;
use apex_policy::occupancy;

use crate::border::{get, put};
use crate::module::kernel::{Entry, entry};

/// The most blocks of that size that run on one multiprocessor at once.
fn blocks(entry: &Entry, threads: i32, shared_bytes: usize) -> Result<i32, CUresult> {
    let threads = u32::try_from(threads).ok().filter(|&threads| threads > 0);
    let threads = threads.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let Ok(shared) = u32::try_from(shared_bytes) else { return Ok(0) };
    Ok(occupancy(&entry.device.chip, &entry.needs(shared), threads).blocks_per_sm as i32)
}

answers! {
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        out: *mut i32,
        function: CUfunction,
        threads: i32,
        shared_bytes: usize,
    ) {
        put(out, blocks(entry(function)?, threads, shared_bytes)?)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        out: *mut i32,
        function: CUfunction,
        threads: i32,
        shared_bytes: usize,
        _flags: u32,
    ) {
        put(out, blocks(entry(function)?, threads, shared_bytes)?)
    }

    fn cuOccupancyMaxPotentialBlockSize(
        grid: *mut i32,
        block: *mut i32,
        function: CUfunction,
        shared_of_block: CUoccupancyB2DSize,
        shared_bytes: usize,
        limit: i32,
    ) {
        let entry = entry(function)?;
        let (blocks, threads) = best(entry, shared_of_block, shared_bytes, limit);
        put(grid, blocks * entry.device.identity.multiprocessors as i32)?;
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
        let entry = entry(function)?;
        let (blocks, threads) = best(entry, shared_of_block, shared_bytes, limit);
        put(grid, blocks * entry.device.identity.multiprocessors as i32)?;
        put(block, threads)
    }

    fn cuOccupancyAvailableDynamicSMemPerBlock(
        out: *mut usize,
        function: CUfunction,
        blocks: i32,
        threads: i32,
    ) {
        let entry = entry(function)?;
        if blocks <= 0 || threads <= 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let (chip, kernel) = (&entry.device.chip, &entry.kernel);
        let most = chip.max_shared_per_block_optin.saturating_sub(kernel.static_shared);
        // The most in steps of the allocation unit with which the blocks still fit.
        let fits = |shared: u32| {
            let needs = apex_policy::KernelNeeds { max_dynamic_shared: most, ..entry.needs(shared) };
            occupancy(chip, &needs, threads as u32).blocks_per_sm >= blocks as u32
        };
        let (mut low, mut high) = (0, most / chip.shared_unit);
        if !fits(0) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        while low < high {
            let middle = (low + high).div_ceil(2);
            if fits(middle * chip.shared_unit) { low = middle } else { high = middle - 1 }
        }
        put(out, (low * chip.shared_unit) as usize)
    }

    fn cuOccupancyMaxPotentialClusterSize(
        out: *mut i32,
        function: CUfunction,
        config: *const CUlaunchConfig,
    ) {
        let entry = entry(function)?;
        get(config)?;
        if entry.device.identity.capability.0 < 9 {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
        put(out, entry.largest_cluster() as i32)
    }

    fn cuOccupancyMaxActiveClusters(
        out: *mut i32,
        function: CUfunction,
        config: *const CUlaunchConfig,
    ) {
        let entry = entry(function)?;
        let config = get(config)?;
        if entry.device.identity.capability.0 < 9 {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
        let threads = config.blockDimX.saturating_mul(config.blockDimY).saturating_mul(config.blockDimZ);
        let each = blocks(entry, threads.min(4096) as i32, config.sharedMemBytes as usize)?;
        let cluster = crate::run::launch_attributes::cluster_of(&config)?.or(entry.cluster()).unwrap_or([1; 3]);
        let size = cluster.iter().fold(1_u32, |all, &side| all.saturating_mul(side)).max(1);
        let blocks = u64::from(each as u32) * u64::from(entry.device.identity.multiprocessors);
        put(out, (blocks / u64::from(size)) as i32)
    }
}

/// The block size that fills a multiprocessor best, the largest of equals.
///
/// # Safety
///
/// The callback is the program's.
unsafe fn best(
    entry: &Entry,
    shared_of_block: CUoccupancyB2DSize,
    shared_bytes: usize,
    limit: i32,
) -> (i32, i32) {
    let chip = &entry.device.chip;
    let most = entry.max_threads() as i32;
    let most = if limit > 0 { limit.min(most) } else { most };
    let warp = chip.warp_threads as i32;
    let sizes = (1..=(most + warp - 1) / warp).map(|warps| (warps * warp).min(most));
    let rated = sizes.map(|threads| {
        // SAFETY: the caller vouches for the callback.
        let shared = shared_of_block.map_or(shared_bytes, |callback| unsafe { callback(threads) });
        (blocks(entry, threads, shared).unwrap_or(0), threads)
    });
    rated.max_by_key(|(blocks, threads)| (blocks * threads, *threads)).unwrap_or((1, most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::context::tests::with_context;
    use crate::api::module::tests::ptx_function;

    #[test]
    fn the_tightest_limit_counts() {
        with_context(|| {
            let function = ptx_function(c"other");
            let mut out = 0;
            // SAFETY: plain calls of the driver's own kind.
            unsafe {
                for (threads, shared, expected) in
                    [(1024, 0, 2), (32, 0, 32), (128, 0, 16), (2000, 0, 0)]
                {
                    let answer = cuOccupancyMaxActiveBlocksPerMultiprocessor(
                        &raw mut out,
                        function,
                        threads,
                        shared,
                    );
                    assert_eq!((answer, out), (CUDA_SUCCESS, expected), "{threads} {shared}");
                }
                let mut bytes = 0;
                let answer =
                    cuOccupancyAvailableDynamicSMemPerBlock(&raw mut bytes, function, 2, 128);
                assert_eq!((answer, bytes), (CUDA_SUCCESS, 113 << 10));
            }
        });
    }
}
