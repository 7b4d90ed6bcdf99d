//! A launch with another block and as many threads on every side.

use crate::LaunchShape;

/// The most blocks of a grid, by side.
const MOST_BLOCKS: [u64; 3] = [(1 << 31) - 1, 65_535, 65_535];
/// Below so many threads a side, 32-bit arithmetic on the parts of an index gives what it gives on the whole.
const MOST_THREADS: u64 = 1 << 31;

/// The launch with block `to`, if every side then has exactly as many threads as before. Whether the kernel allows
/// it is not asked here.
#[must_use]
pub fn reshaped(shape: &LaunchShape, to: [u32; 3]) -> Option<LaunchShape> {
    let mut grid = [0; 3];
    for side in 0..3 {
        if to[side] == 0 {
            return None;
        }
        let threads = u64::from(shape.grid[side]) * u64::from(shape.block[side]);
        let blocks = threads / u64::from(to[side]);
        let whole = threads.is_multiple_of(u64::from(to[side]));
        let changed = to[side] != shape.block[side];
        if !whole || threads == 0 || blocks > MOST_BLOCKS[side] {
            return None;
        }
        if changed && threads >= MOST_THREADS {
            return None;
        }
        grid[side] = u32::try_from(blocks).ok()?;
    }
    Some(LaunchShape { grid, block: to })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(grid: [u32; 3], block: [u32; 3], to: [u32; 3], expected: Option<[u32; 3]>) {
        let found = reshaped(&LaunchShape { grid, block }, to);
        assert_eq!(found, expected.map(|grid| LaunchShape { grid, block: to }), "{block:?} {to:?}");
    }

    #[test]
    fn threads_stay_as_many_on_every_side() {
        check([100, 1, 1], [48, 1, 1], [96, 1, 1], Some([50, 1, 1]));
        check([100, 1, 1], [256, 1, 1], [64, 1, 1], Some([400, 1, 1]));
        check([101, 1, 1], [256, 1, 1], [512, 1, 1], None);
        check([8, 6, 1], [16, 16, 1], [32, 8, 1], Some([4, 12, 1]));
        check([8, 5, 1], [16, 16, 1], [32, 32, 1], None);
        check([0, 1, 1], [16, 1, 1], [32, 1, 1], None);
        check([1, 1, 1], [16, 1, 1], [0, 1, 1], None);
        // Beyond what a grid may have, and beyond 32 bits.
        check([1, 65_535, 1], [1, 4, 1], [1, 2, 1], None);
        check([1 << 24, 1, 1], [256, 1, 1], [128, 1, 1], None);
        check([1 << 22, 1, 1], [256, 1, 1], [128, 1, 1], Some([1 << 23, 1, 1]));
    }
}
