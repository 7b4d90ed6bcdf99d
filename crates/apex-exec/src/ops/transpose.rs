//! Transposes of matrices of any element.

use super::Ops;
use super::kernels;
use super::rows::on_borders;
use crate::buffer::{Readable, Writable};
use crate::element::Element;
use crate::error::Result;
use crate::grid::Grid;
use crate::shape;

/// Blocks along y and z are counted in 16 bits.
const MOST_BLOCKS: u32 = 65_535;

impl Ops<'_> {
    /// A matrix of `rows` rows of `columns` columns, turned into one of `columns` rows.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let x = executor.upload(&[1_u8, 2, 3, 4, 5, 6])?;
    /// let mut y = executor.zeros::<u8>(6)?;
    /// executor.ops().transpose(&x, 2, 3, &mut y)?;
    /// assert_eq!(executor.download(&y)?, [1, 4, 2, 5, 3, 6]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn transpose<T: Element>(
        &self,
        input: impl Readable<T>,
        rows: usize,
        columns: usize,
        output: impl Writable<T>,
    ) -> Result<()> {
        self.transpose_batch(input, 1, rows, columns, output)
    }

    /// So many matrices that lie one after the other, each transposed.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let x = executor.upload(&[1_u16, 2, 3, 4, 5, 6, 7, 8])?;
    /// let mut y = executor.zeros::<u16>(8)?;
    /// executor.ops().transpose_batch(&x, 2, 2, 2, &mut y)?;
    /// assert_eq!(executor.download(&y)?, [1, 3, 2, 4, 5, 7, 6, 8]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn transpose_batch<T: Element>(
        &self,
        input: impl Readable<T>,
        batch: usize,
        rows: usize,
        columns: usize,
        mut output: impl Writable<T>,
    ) -> Result<()> {
        let (input, mut output) = (input.as_view(), output.as_view_mut());
        let expected = shape::product("transpose", &[batch, rows, columns])?;
        shape::exact("transpose", "the input", input.len(), expected)?;
        shape::exact("transpose", "the output", output.len(), expected)?;
        if expected == 0 {
            return Ok(());
        }
        let even = rows.is_multiple_of(2) && columns.is_multiple_of(2);
        let aligned = on_borders(&[*input.place().address, *output.place().address]);
        let (name, tile) = match size_of::<T>() {
            1 => ("transpose_8", 32),
            2 if even && aligned => ("transpose_pairs_16", 64),
            2 => ("transpose_16", 32),
            4 => ("transpose_32", 32),
            _ => ("transpose_64", 32),
        };
        let (across, down) = ((columns as u32).div_ceil(tile), (rows as u32).div_ceil(tile));
        if down > MOST_BLOCKS || batch as u32 > MOST_BLOCKS {
            let reason = format!(
                "{batch} matrices of {rows} rows are more than one launch takes ({MOST_BLOCKS} \
                 matrices, {} rows): transpose parts of them",
                MOST_BLOCKS * tile
            );
            return Err(shape::refuse("transpose", reason));
        }
        let kernel = self.executor.kept(&kernels::TRANSPOSE)?.kernel(name)?;
        let grid = Grid::new([across, down, batch as u32], [32, 8, 1]);
        let (rows, columns) = (rows as u32, columns as u32);
        let mut launch = self.stream.launch(&kernel, grid);
        launch.arg(&input).arg(&mut output).arg(&rows).arg(&columns).run()
    }
}
