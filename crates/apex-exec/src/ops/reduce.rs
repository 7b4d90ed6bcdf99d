//! Sums, means, greatest and least values.
//!
//! A reduction over everything is one over a single row. Where there are fewer results than fill the device,
//! each is made in parts, and a second kernel joins them; the order of additions follows from shape and
//! device, so the same call gives the same bits.

use super::{Ops, kernels};
use crate::buffer::{Readable, View, ViewMut, Writable};
use crate::error::Result;
use crate::float::{Float, lanes};
use crate::grid::Grid;
use crate::shape::{self, Rows};

/// Threads of every block here.
const THREADS: u32 = 256;

/// What many values become one by.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// use apex_exec::Reduction;
///
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// let x = executor.upload(&[1.0_f32, 2.0, 6.0])?;
/// let mut mean = executor.zeros::<f32>(1)?;
/// executor.ops().reduce(Reduction::Mean, &x, &mut mean)?;
/// assert_eq!(executor.download(&mean)?, [3.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// The sum; of nothing it is 0.
    Sum,
    /// The sum over the number of values; there must be one at least.
    Mean,
    /// The greatest value, or NaN if there is one; there must be one at least.
    Max,
    /// The least value, or NaN if there is one; there must be one at least.
    Min,
}

impl Reduction {
    /// All of them.
    ///
    /// ```
    /// assert_eq!(apex_exec::Reduction::ALL.len(), 4);
    /// ```
    pub const ALL: [Reduction; 4] =
        [Reduction::Sum, Reduction::Mean, Reduction::Max, Reduction::Min];

    /// Its name.
    ///
    /// ```
    /// assert_eq!(apex_exec::Reduction::Mean.name(), "mean");
    /// ```
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Reduction::Sum => "sum",
            Reduction::Mean => "mean",
            Reduction::Max => "max",
            Reduction::Min => "min",
        }
    }

    /// The kernel's name: a mean is a scaled sum.
    fn kernel(self) -> &'static str {
        if self == Reduction::Mean { "sum" } else { self.name() }
    }

    fn scale<W: Float>(self, values: u32) -> W {
        W::from_f64(if self == Reduction::Mean { 1.0 / f64::from(values) } else { 1.0 })
    }

    fn of_nothing(self) -> Result<()> {
        match self {
            Reduction::Sum => Ok(()),
            _ => Err(shape::refuse(
                self.name(),
                "it has no value over no elements: give at least one",
            )),
        }
    }
}

impl Ops<'_> {
    /// All values become one.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let x = executor.upload(&[1.0_f64, 2.0, 6.0])?;
    /// let mut sum = executor.zeros::<f64>(1)?;
    /// executor.ops().reduce(apex_exec::Reduction::Sum, &x, &mut sum)?;
    /// assert_eq!(executor.download(&sum)?, [9.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn reduce<T: Float>(
        &self,
        reduction: Reduction,
        input: impl Readable<T>,
        output: impl Writable<T>,
    ) -> Result<()> {
        let columns = input.as_view().len();
        let mut output = output;
        shape::exact(reduction.name(), "the output", output.as_view_mut().len(), 1)?;
        self.reduce_rows(reduction, input, columns, output)
    }

    /// Every row becomes one value.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let x = executor.upload(&[1.0_f32, 2.0, 30.0, 40.0])?;
    /// let mut sums = executor.zeros::<f32>(2)?;
    /// executor.ops().reduce_rows(apex_exec::Reduction::Sum, &x, 2, &mut sums)?;
    /// assert_eq!(executor.download(&sums)?, [3.0, 70.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn reduce_rows<T: Float>(
        &self,
        reduction: Reduction,
        input: impl Readable<T>,
        columns: usize,
        mut output: impl Writable<T>,
    ) -> Result<()> {
        let (input, output) = (input.as_view(), output.as_view_mut());
        if columns == 0 {
            // Rows of nothing: as many as there are results.
            shape::exact(reduction.name(), "the input", input.len(), 0)?;
            return if output.is_empty() { Ok(()) } else { self.nothing(reduction, output) };
        }
        let rows = shape::rows(reduction.name(), input.len(), columns)?;
        shape::exact(reduction.name(), "the output", output.len(), rows.rows as usize)?;
        if rows.rows == 0 {
            return Ok(());
        }
        let group = (rows.columns.div_ceil(lanes::<T>() * 4)).next_power_of_two().min(THREADS);
        // A group beyond a warp is the whole block.
        let threads = if group <= 32 { THREADS } else { group };
        let blocks = rows.rows.div_ceil(threads / group);
        let parts = parts_of_result(blocks, rows.columns / lanes::<T>(), self.multiprocessors());
        let grid = Grid::new([blocks, parts, 1], [threads, 1, 1]);
        let rows_of_parts = Parts { results: rows.rows, parts, result_pitch: parts, part_pitch: 1 };
        self.reduce_in_parts(
            reduction,
            "rows",
            input,
            rows,
            Some(group),
            grid,
            rows_of_parts,
            output,
        )
    }

    /// Every column becomes one value.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let x = executor.upload(&[1.0_f32, 2.0, 30.0, 40.0])?;
    /// let mut sums = executor.zeros::<f32>(2)?;
    /// executor.ops().reduce_columns(apex_exec::Reduction::Sum, &x, 2, &mut sums)?;
    /// assert_eq!(executor.download(&sums)?, [31.0, 42.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn reduce_columns<T: Float>(
        &self,
        reduction: Reduction,
        input: impl Readable<T>,
        columns: usize,
        mut output: impl Writable<T>,
    ) -> Result<()> {
        let (input, output) = (input.as_view(), output.as_view_mut());
        let rows = shape::rows(reduction.name(), input.len(), columns)?;
        shape::exact(reduction.name(), "the output", output.len(), columns)?;
        if columns == 0 {
            return Ok(());
        }
        if rows.rows == 0 {
            return self.nothing(reduction, output);
        }
        let whole = rows.columns % lanes::<T>() == 0 && *input.place().address % 16 == 0;
        let (variant, run) = if whole { ("columns", lanes::<T>()) } else { ("odd_columns", 1) };
        let blocks = rows.columns.div_ceil(32 * run);
        let parts = parts_of_result(blocks, rows.rows, self.multiprocessors());
        let grid = Grid::new([blocks, parts, 1], [32, THREADS / 32, 1]);
        let columns_of_parts =
            Parts { results: rows.columns, parts, result_pitch: 1, part_pitch: rows.columns };
        self.reduce_in_parts(reduction, variant, input, rows, None, grid, columns_of_parts, output)
    }

    /// One launch, or two where results are made in parts.
    #[allow(clippy::too_many_arguments, reason = "two callers, each with all of it at hand")]
    fn reduce_in_parts<T: Float>(
        &self,
        reduction: Reduction,
        variant: &str,
        input: View<'_, T>,
        rows: Rows,
        group: Option<u32>,
        grid: Grid,
        parts: Parts,
        mut output: ViewMut<'_, T>,
    ) -> Result<()> {
        let name = reduction.kernel();
        let kernel = self.kernel::<T>(&kernels::REDUCE, &format!("{name}_{variant}"))?;
        let values = if group.is_some() { rows.columns } else { rows.rows };
        let scale: T::Wide = reduction.scale(values);
        let mut wide = match parts.parts {
            1 => None,
            count => Some(
                self.stream.uninitialized::<T::Wide>(parts.results as usize * count as usize)?,
            ),
        };
        let is_part = u32::from(parts.parts > 1);
        let mut launch = self.stream.launch(&kernel, grid);
        launch.arg(&input);
        match &mut wide {
            Some(wide) => launch.arg(wide),
            None => launch.arg(&mut output),
        };
        launch.arg(&rows.rows).arg(&rows.columns);
        if let Some(group) = &group {
            launch.arg(group);
        }
        launch.arg(&scale).arg(&is_part).run()?;
        let Some(wide) = wide else { return Ok(()) };
        let finish = self.kernel::<T>(&kernels::REDUCE, &format!("{name}_finish"))?;
        // Parts that lie side by side are read by a warp, others by one thread each with its neighbours.
        let group: u32 = if parts.part_pitch == 1 { 32 } else { 1 };
        let grid = Grid::linear(parts.results.div_ceil(THREADS / group), THREADS);
        self.stream
            .launch(&finish, grid)
            .arg(&wide)
            .arg(&mut output)
            .arg(&parts.results)
            .arg(&parts.parts)
            .arg(&parts.result_pitch)
            .arg(&parts.part_pitch)
            .arg(&group)
            .arg(&scale)
            .run()
    }

    /// Results over no values.
    fn nothing<T: Float>(&self, reduction: Reduction, output: ViewMut<'_, T>) -> Result<()> {
        reduction.of_nothing()?;
        self.stream.fill_bytes(output, 0)
    }
}

/// How the parts of results lie.
#[derive(Clone, Copy)]
struct Parts {
    results: u32,
    parts: u32,
    result_pitch: u32,
    part_pitch: u32,
}

/// Parts of a result: enough to fill the device, each with at least 64 steps per result.
fn parts_of_result(blocks: u32, steps: u32, multiprocessors: u32) -> u32 {
    let wanted = (8 * multiprocessors) / blocks.max(1);
    wanted.min(steps / 1024).clamp(1, 1024)
}

macro_rules! host_results {
    ($($name:ident, $reduction:ident, $what:literal, $result:literal;)*) => {
        impl Ops<'_> {$(
            #[doc = concat!($what, " of all values; waits for it.")]
            ///
            /// ```
            /// # fn main() -> apex_exec::Result<()> {
            /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
            /// let x = executor.upload(&[1.0_f32, 2.0, 6.0])?;
            #[doc = concat!("assert_eq!(executor.ops().", stringify!($name), "(&x)?, ", $result, ");")]
            /// # Ok(())
            /// # }
            /// ```
            pub fn $name<T: Float>(&self, input: impl Readable<T>) -> Result<T> {
                let mut output = self.stream.uninitialized::<T>(1)?;
                self.reduce(Reduction::$reduction, input, &mut output)?;
                Ok(self.stream.download(&output)?[0])
            }
        )*}
    };
}

host_results! {
    sum, Sum, "The sum", "9.0";
    mean, Mean, "The mean", "3.0";
    max, Max, "The greatest", "6.0";
    min, Min, "The least", "1.0";
}
