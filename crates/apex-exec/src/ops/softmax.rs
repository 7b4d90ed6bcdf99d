//! Softmax over rows.
//!
//! A row that fits in registers is read once. A longer one is read twice: by one block, so that the second
//! time comes from the cache, or where there are too few rows to fill the device by several blocks each.

use super::rows::{RowPlan, on_borders};
use super::{Ops, kernels};
use crate::buffer::{Readable, View, ViewMut, Writable};
use crate::error::Result;
use crate::float::{Float, lanes};
use crate::grid::Grid;
use crate::shape::{self, Rows};

/// Threads of a block that takes a long row, or a part of one.
const LONG_THREADS: u32 = 512;

impl Ops<'_> {
    /// e^x over the sum of e^x in its row; every row of the output sums to one.
    ///
    /// The greatest value of a row is taken off first, so no exponential overflows. A row with NaN or
    /// +∞, or of nothing but -∞, becomes NaN.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let x = executor.upload(&[1000.0_f32, 1000.0, 0.0, 0.0])?;
    /// let mut y = executor.zeros::<f32>(4)?;
    /// executor.ops().softmax(&x, 2, &mut y)?;
    /// assert_eq!(executor.download(&y)?, [0.5; 4]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn softmax<T: Float>(
        &self,
        input: impl Readable<T>,
        columns: usize,
        mut output: impl Writable<T>,
    ) -> Result<()> {
        let (input, mut output) = (input.as_view(), output.as_view_mut());
        let rows = shape::rows("softmax", input.len(), columns)?;
        shape::same("softmax", ("the output", output.len()), ("the input", input.len()))?;
        if input.is_empty() {
            return Ok(());
        }
        let aligned = on_borders(&[*input.place().address, *output.place().address]);
        let Some(plan) = RowPlan::new::<T>(rows.columns, aligned) else {
            return self.softmax_of_long_rows(input, rows, output);
        };
        let kernel = self.kernel::<T>(&kernels::SOFTMAX, &format!("softmax_{}", plan.variant))?;
        self.stream
            .launch(&kernel, plan.grid(rows))
            .arg(&input)
            .arg(&mut output)
            .arg(&rows.rows)
            .arg(&rows.columns)
            .arg(&plan.group)
            .run()
    }

    fn softmax_of_long_rows<T: Float>(
        &self,
        input: View<'_, T>,
        rows: Rows,
        mut output: ViewMut<'_, T>,
    ) -> Result<()> {
        let parts = parts_of_row(rows, lanes::<T>(), self.multiprocessors());
        if parts == 1 {
            let kernel = self.kernel::<T>(&kernels::SOFTMAX, "softmax_long")?;
            let grid = Grid::linear(rows.rows, LONG_THREADS);
            let mut launch = self.stream.launch(&kernel, grid);
            return launch.arg(&input).arg(&mut output).arg(&rows.columns).run();
        }
        let part = self.kernel::<T>(&kernels::SOFTMAX, "softmax_part")?;
        let join = self.kernel::<T>(&kernels::SOFTMAX, "softmax_join")?;
        let grid = Grid::new([rows.rows, parts, 1], [LONG_THREADS, 1, 1]);
        let results = rows.rows as usize * parts as usize * 2;
        let mut tails = self.stream.uninitialized::<T::Wide>(results)?;
        self.stream.launch(&part, grid).arg(&input).arg(&mut tails).arg(&rows.columns).run()?;
        self.stream
            .launch(&join, grid)
            .arg(&input)
            .arg(&tails)
            .arg(&mut output)
            .arg(&rows.columns)
            .run()
    }
}

/// How many blocks take a long row: enough to fill the device, each with enough to do.
fn parts_of_row(rows: Rows, lanes: u32, multiprocessors: u32) -> u32 {
    let wanted = (4 * multiprocessors).div_ceil(rows.rows.max(1));
    let worthwhile = rows.columns / (LONG_THREADS * lanes * 4);
    if wanted <= 2 { 1 } else { wanted.min(worthwhile).clamp(1, 64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_long_rows_are_split_and_many_are_not() {
        let parts = |rows, columns| parts_of_row(Rows { rows, columns }, 4, 132);
        assert_eq!(parts(1, 1 << 24), 64);
        assert_eq!(parts(16, 1 << 20), 33);
        assert_eq!(parts(16, 20_000), 2);
        assert_eq!(parts(1000, 1 << 20), 1);
    }
}
