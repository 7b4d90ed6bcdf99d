//! The shape of a launch.
//!
//! Pure: what a shape means for a device is checked where it is launched, against that device and that kernel.

/// How many blocks of how many threads a launch has.
///
/// ```
/// use apex_exec::Grid;
///
/// let grid = Grid::for_elements(1000, 256);
/// assert_eq!((grid.blocks, grid.threads), ([4, 1, 1], [256, 1, 1]));
/// let tiles = Grid::new([8, 8, 1], [16, 16, 1]).with_shared(4096);
/// assert_eq!(tiles.shared_bytes, 4096);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Blocks along x, y and z. Where one of them is 0 the launch does nothing.
    pub blocks: [u32; 3],
    /// Threads of a block along x, y and z.
    pub threads: [u32; 3],
    /// Bytes of shared memory beyond what the kernel declares.
    pub shared_bytes: u32,
    /// Blocks that form a cluster, along x, y and z; none without clusters.
    pub cluster: Option<[u32; 3]>,
    /// Whether all blocks must be on the device at once, so that they can wait for each other.
    pub cooperative: bool,
}

impl Grid {
    /// As many blocks of `threads` threads as give every element a thread. None for no elements. A grid of
    /// more blocks than any device takes is refused by the launch.
    ///
    /// ```
    /// assert_eq!(apex_exec::Grid::for_elements(0, 256).blocks, [0, 1, 1]);
    /// ```
    #[must_use]
    pub fn for_elements(elements: u64, threads: u32) -> Grid {
        let blocks = elements.div_ceil(u64::from(threads.max(1)));
        Grid::linear(u32::try_from(blocks).unwrap_or(u32::MAX), threads)
    }

    /// Blocks and threads along all three axes.
    ///
    /// ```
    /// assert_eq!(apex_exec::Grid::new([3, 2, 1], [16, 16, 1]).blocks, [3, 2, 1]);
    /// ```
    #[must_use]
    pub fn new(blocks: [u32; 3], threads: [u32; 3]) -> Grid {
        Grid { blocks, threads, shared_bytes: 0, cluster: None, cooperative: false }
    }

    /// Blocks and threads along one axis.
    ///
    /// ```
    /// assert_eq!(apex_exec::Grid::linear(3, 32).threads, [32, 1, 1]);
    /// ```
    #[must_use]
    pub fn linear(blocks: u32, threads: u32) -> Grid {
        Grid::new([blocks, 1, 1], [threads, 1, 1])
    }

    /// The same with so many bytes of shared memory beyond what the kernel declares.
    ///
    /// ```
    /// assert_eq!(apex_exec::Grid::linear(3, 32).with_shared(1 << 16).shared_bytes, 65536);
    /// ```
    #[must_use]
    pub fn with_shared(self, bytes: u32) -> Grid {
        Grid { shared_bytes: bytes, ..self }
    }

    /// The same in clusters of so many blocks, for devices from compute capability 9.0 on.
    ///
    /// ```
    /// assert_eq!(apex_exec::Grid::linear(8, 32).with_cluster([2, 1, 1]).cluster, Some([2, 1, 1]));
    /// ```
    #[must_use]
    pub fn with_cluster(self, blocks: [u32; 3]) -> Grid {
        Grid { cluster: Some(blocks), ..self }
    }

    /// The same with all blocks on the device at once, as a grid-wide barrier needs it.
    ///
    /// ```
    /// assert!(apex_exec::Grid::linear(8, 32).with_all_blocks_at_once().cooperative);
    /// ```
    #[must_use]
    pub fn with_all_blocks_at_once(self) -> Grid {
        Grid { cooperative: true, ..self }
    }

    /// Threads of one block.
    pub(crate) fn threads_per_block(&self) -> u64 {
        self.threads.iter().map(|&threads| u64::from(threads)).product()
    }

    /// Whether nothing would run.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.contains(&0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_a_thread() {
        for (elements, threads, blocks) in
            [(0, 128, 0), (1, 128, 1), (128, 128, 1), (129, 128, 2), (1 << 40, 1, u32::MAX)]
        {
            assert_eq!(Grid::for_elements(elements, threads).blocks, [blocks, 1, 1]);
        }
    }

    #[test]
    fn a_grid_for_blocks_without_threads_does_not_divide_by_zero() {
        assert_eq!(Grid::for_elements(7, 0).blocks, [7, 1, 1]);
    }
}
