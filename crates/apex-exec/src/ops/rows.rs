//! How a row is shared among threads, for the kernels that hold it in registers.
//!
//! The kernels know the same numbers: four or eight vectors of 16 bytes per thread where rows begin on
//! 16-byte borders, else sixteen single elements; half of that for f64. As many threads share a row as hold it, a power of two; up
//! to a warp they need no shared memory, and a block of 128 threads takes several rows.

use crate::element::Element;
use crate::float::lanes;
use crate::grid::Grid;
use crate::shape::Rows;

/// The most threads that share a row; two such blocks fit on a multiprocessor with their registers.
const MOST_THREADS: u32 = 512;

/// A way to hold a row in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowPlan {
    /// What the kernel's name has after the operation's.
    pub(crate) variant: &'static str,
    /// Threads that share a row.
    pub(crate) group: u32,
    /// Whether the row fills all vectors that its threads hold; never so of single elements.
    pub(crate) full: bool,
}

impl RowPlan {
    /// The plan for rows of so many columns; none where they are too long for registers.
    pub(crate) fn new<T: Element>(columns: u32, aligned: bool) -> Option<RowPlan> {
        let lanes = lanes::<T>();
        let sharing = |per_thread: u32| columns.div_ceil(per_thread).next_power_of_two();
        let narrow = if size_of::<T>() == 8 { 2 } else { 4 };
        let in_vectors = aligned && columns.is_multiple_of(lanes);
        let ways: &[(&str, u32)] = if in_vectors {
            &[("rows", narrow * lanes), ("wide_rows", 2 * narrow * lanes)]
        } else {
            &[("odd_rows", 4 * narrow)]
        };
        ways.iter()
            .map(|&(variant, per_thread)| {
                let group = sharing(per_thread);
                let full =
                    in_vectors && u64::from(columns) == u64::from(group) * u64::from(per_thread);
                RowPlan { variant, group, full }
            })
            .find(|plan| plan.group <= MOST_THREADS)
    }

    /// Its grid.
    pub(crate) fn grid(self, rows: Rows) -> Grid {
        let threads = if self.group <= 32 { 128 } else { self.group };
        Grid::linear(rows.rows.div_ceil(threads / self.group), threads)
    }
}

/// Whether all these addresses are on 16-byte borders.
pub(crate) fn on_borders(addresses: &[u64]) -> bool {
    addresses.iter().all(|address| address % 16 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_as_many_threads_as_hold_it() {
        let plan = |columns, aligned| {
            RowPlan::new::<f32>(columns, aligned).map(|plan| (plan.variant, plan.group))
        };
        assert_eq!(plan(4, true), Some(("rows", 1)));
        assert_eq!(plan(1024, true), Some(("rows", 64)));
        assert_eq!(plan(1023, true), Some(("odd_rows", 64)));
        assert_eq!(plan(1024, false), Some(("odd_rows", 64)));
        assert_eq!(plan(8192, true), Some(("rows", 512)));
        assert_eq!(plan(8196, true), Some(("wide_rows", 512)));
        assert_eq!(plan(16388, true), None);
        assert_eq!(plan(8193, true), None);
    }

    #[test]
    fn a_full_row_leaves_no_vector_of_its_threads_empty() {
        let full = |columns, aligned| RowPlan::new::<half::bf16>(columns, aligned).unwrap().full;
        assert!(full(32, true) && full(4096, true) && full(8192, true) && full(32_768, true));
        assert!(!full(24, true) && !full(4104, true) && !full(6144, true) && !full(24_576, true));
        assert!(!full(4096, false));
        assert_eq!(RowPlan::new::<f32>(u32::MAX - 3, true), None);
    }

    #[test]
    fn short_rows_share_a_block() {
        let plan = RowPlan::new::<f32>(128, true).unwrap();
        assert_eq!(plan.grid(Rows { rows: 33, columns: 128 }), Grid::linear(3, 128));
        let plan = RowPlan::new::<f32>(4096, true).unwrap();
        assert_eq!(plan.grid(Rows { rows: 33, columns: 4096 }), Grid::linear(33, 256));
    }
}
