//! Layer normalisation over rows.
//!
//! A row that fits in registers is read once; a longer one twice, by one block. Where rows are long and many,
//! a block takes several and keeps gamma and beta, which are more bytes than a row of a 16-bit type.

use super::rows::{RowPlan, on_borders};
use super::shape::{self, Rows};
use super::{Float, Norm, Ops, kernels};
use crate::buffer::{Readable, Writable};
use crate::error::Result;
use crate::grid::Grid;

/// Threads of a block that takes a long row.
const LONG_THREADS: u32 = 512;

/// Columns from which gamma and beta are kept, if every block then has at least two rows.
const KEPT_COLUMNS: u32 = 4096;

/// Threads of a multiprocessor whose registers hold a row, the next one, gamma and beta.
const KEPT_THREADS: u32 = 512;

impl Ops<'_> {
    /// Brings every row to mean 0 and variance 1, then scales and shifts it by column.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// use apex_exec::Norm;
    ///
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let x = executor.upload(&[1.0_f32, 3.0, 10.0, 30.0])?;
    /// let mut y = executor.zeros::<f32>(4)?;
    /// executor.ops().layer_norm(&x, 2, &Norm::new(0.0), &mut y)?;
    /// assert_eq!(executor.download(&y)?, [-1.0, 1.0, -1.0, 1.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn layer_norm<T: Float>(
        &self,
        input: impl Readable<T>,
        columns: usize,
        norm: &Norm<'_, T::Wide>,
        mut output: impl Writable<T>,
    ) -> Result<()> {
        let (input, mut output) = (input.as_view(), output.as_view_mut());
        let rows = shape::rows("layer_norm", input.len(), columns)?;
        shape::same("layer_norm", ("the output", output.len()), ("the input", input.len()))?;
        norm.check("layer_norm", columns)?;
        if input.is_empty() {
            return Ok(());
        }
        let mut addresses = vec![*input.place().address, *output.place().address];
        addresses.extend(norm.addresses());
        let (gamma, beta, epsilon) = norm.parts();
        let plan = RowPlan::new::<T>(rows.columns, on_borders(&addresses));
        let kept = plan.and_then(|plan| kept_grid(plan, rows, self.multiprocessors()));
        let kept = kept.filter(|_| gamma.is_some() || beta.is_some());
        let (variant, grid) = match (kept, plan) {
            (Some(grid), _) => ("kept_rows", grid),
            (None, Some(plan)) => (plan.variant, plan.grid(rows)),
            (None, None) => ("long", Grid::linear(rows.rows, LONG_THREADS)),
        };
        let kernel = self.kernel::<T>(&kernels::LAYER_NORM, &format!("layer_norm_{variant}"))?;
        let absent = [0_u64];
        let mut launch = self.stream.launch(&kernel, grid);
        launch.arg(&input);
        for parameter in [&gamma, &beta] {
            match parameter {
                Some(view) => launch.arg(view),
                None => launch.arg(&absent),
            };
        }
        launch.arg(&mut output);
        if plan.is_some() {
            launch.arg(&rows.rows);
        }
        launch.arg(&rows.columns);
        if let (Some(plan), None) = (&plan, kept) {
            launch.arg(&plan.group);
        }
        launch.arg(&epsilon).run()
    }
}

/// The grid in which blocks keep gamma and beta, if that pays.
fn kept_grid(plan: RowPlan, rows: Rows, multiprocessors: u32) -> Option<Grid> {
    if plan.variant != "rows" || plan.group <= 32 || rows.columns < KEPT_COLUMNS {
        return None;
    }
    let blocks = multiprocessors * (KEPT_THREADS / plan.group).max(1);
    (rows.rows >= 2 * blocks).then(|| Grid::linear(blocks, plan.group))
}
