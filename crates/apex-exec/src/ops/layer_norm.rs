//! Layer normalisation over rows.
//!
//! A row that fits in registers is read once; a longer one twice, by one block. A row that fills its registers,
//! with gamma and beta, has a kernel that asks for none of the three.

use super::rows::{RowPlan, on_borders};
use super::{Norm, Ops, kernels};
use crate::buffer::{Readable, Writable};
use crate::error::Result;
use crate::float::Float;
use crate::grid::Grid;
use crate::shape;

/// Threads of a block that takes a long row.
const LONG_THREADS: u32 = 512;

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
        let (variant, grid) = match plan {
            Some(plan) if plan.full && gamma.is_some() && beta.is_some() => {
                (format!("full_{}", plan.variant), plan.grid(rows))
            }
            Some(plan) => (plan.variant.to_owned(), plan.grid(rows)),
            None => ("long".to_owned(), Grid::linear(rows.rows, LONG_THREADS)),
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
        if let Some(plan) = &plan {
            launch.arg(&plan.group);
        }
        launch.arg(&epsilon).run()
    }
}
