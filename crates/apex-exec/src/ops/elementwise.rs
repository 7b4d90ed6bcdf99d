//! Functions of one element, and the sum of two arrays.
//!
//! A block takes vectors that lie together and each thread one of them, so the grid follows from the length.
//! Little work is cut into smaller blocks, so that every multiprocessor gets some.

use super::{Ops, kernels};
use crate::buffer::{Readable, Writable};
use crate::element::Element;
use crate::error::Result;
use crate::float::{Float, lanes};
use crate::grid::Grid;
use crate::shape;

/// A function of one element.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// use apex_exec::Function;
///
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// let mut x = executor.upload(&[-3.0_f32, 3.0])?;
/// executor.ops().apply_in_place(Function::Relu, &mut x)?;
/// assert_eq!(executor.download(&x)?, [0.0, 3.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// The greater of x and 0; NaN stays.
    Relu,
    /// 1 / (1 + e^-x).
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// x/2 · (1 + erf(x / √2)).
    Gelu,
    /// x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))).
    GeluTanh,
}

impl Function {
    /// All of them.
    ///
    /// ```
    /// assert_eq!(apex_exec::Function::ALL.len(), 5);
    /// ```
    pub const ALL: [Function; 5] =
        [Function::Relu, Function::Sigmoid, Function::Tanh, Function::Gelu, Function::GeluTanh];

    /// Its name: `relu`, `gelu_tanh`.
    ///
    /// ```
    /// assert_eq!(apex_exec::Function::GeluTanh.name(), "gelu_tanh");
    /// ```
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Function::Relu => "relu",
            Function::Sigmoid => "sigmoid",
            Function::Tanh => "tanh",
            Function::Gelu => "gelu",
            Function::GeluTanh => "gelu_tanh",
        }
    }
}

impl Ops<'_> {
    /// The sum of two arrays.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let (a, b) = (executor.upload(&[1.0_f32, 2.0])?, executor.upload(&[10.0_f32, 20.0])?);
    /// let mut sum = executor.zeros::<f32>(2)?;
    /// executor.ops().vector_add(&a, &b, &mut sum)?;
    /// assert_eq!(executor.download(&sum)?, [11.0, 22.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn vector_add<T: Float>(
        &self,
        left: impl Readable<T>,
        right: impl Readable<T>,
        mut sum: impl Writable<T>,
    ) -> Result<()> {
        let (left, right, mut sum) = (left.as_view(), right.as_view(), sum.as_view_mut());
        let count = shape::count("vector_add", left.len())?;
        shape::same("vector_add", ("the right side", right.len()), ("the left side", left.len()))?;
        shape::same("vector_add", ("the sum", sum.len()), ("the left side", left.len()))?;
        if count == 0 {
            return Ok(());
        }
        let kernel = self.kernel::<T>(&kernels::ELEMENTWISE, "vector_add")?;
        let grid = launch_shape::<T>(count, 1, self.multiprocessors());
        let grid = if grid.threads[0] == THREADS { in_large_blocks(grid) } else { grid };
        self.stream.launch(&kernel, grid).arg(&left).arg(&right).arg(&mut sum).arg(&count).run()
    }

    /// A function of every element.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let x = executor.upload(&[0.0_f64; 3])?;
    /// let mut y = executor.zeros::<f64>(3)?;
    /// executor.ops().apply(apex_exec::Function::Sigmoid, &x, &mut y)?;
    /// assert_eq!(executor.download(&y)?, [0.5; 3]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn apply<T: Float>(
        &self,
        function: Function,
        input: impl Readable<T>,
        mut output: impl Writable<T>,
    ) -> Result<()> {
        let (input, mut output) = (input.as_view(), output.as_view_mut());
        let count = shape::count(function.name(), input.len())?;
        shape::same(function.name(), ("the output", output.len()), ("the input", input.len()))?;
        if count == 0 {
            return Ok(());
        }
        let kernel = self.kernel::<T>(&kernels::ELEMENTWISE, function.name())?;
        let grid = launch_shape::<T>(count, 1, self.multiprocessors());
        self.stream.launch(&kernel, grid).arg(&input).arg(&mut output).arg(&count).run()
    }

    /// A function of every element, put where the element was.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let mut x = executor.upload(&[0.0_f32; 3])?;
    /// executor.ops().apply_in_place(apex_exec::Function::Gelu, &mut x)?;
    /// assert_eq!(executor.download(&x)?, [0.0; 3]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn apply_in_place<T: Float>(
        &self,
        function: Function,
        mut values: impl Writable<T>,
    ) -> Result<()> {
        let mut values = values.as_view_mut();
        let count = shape::count(function.name(), values.len())?;
        if count == 0 {
            return Ok(());
        }
        let kernel = self.kernel::<T>(&kernels::ELEMENTWISE, function.name())?;
        let grid = launch_shape::<T>(count, 1, self.multiprocessors());
        // The kernel reads and writes the same place; the mutable borrow orders both.
        let input = [*values.place().address];
        self.stream.launch(&kernel, grid).arg(&input).arg(&mut values).arg(&count).run()
    }
}

macro_rules! named {
    ($($name:ident, $in_place:ident, $function:ident, $what:literal;)*) => {
        impl Ops<'_> {$(
            #[doc = concat!($what, " of every element; see [`Ops::apply`].")]
            ///
            /// ```
            /// # fn main() -> apex_exec::Result<()> {
            /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
            /// let x = executor.upload(&[1.0_f32, 2.0])?;
            /// let mut y = executor.zeros::<f32>(2)?;
            #[doc = concat!("executor.ops().", stringify!($name), "(&x, &mut y)?;")]
            /// # Ok(())
            /// # }
            /// ```
            pub fn $name<T: Float>(&self, input: impl Readable<T>, output: impl Writable<T>) -> Result<()> {
                self.apply(Function::$function, input, output)
            }

            #[doc = concat!($what, " of every element in its place; see [`Ops::apply_in_place`].")]
            ///
            /// ```
            /// # fn main() -> apex_exec::Result<()> {
            /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
            /// let mut x = executor.upload(&[1.0_f32, 2.0])?;
            #[doc = concat!("executor.ops().", stringify!($in_place), "(&mut x)?;")]
            /// # Ok(())
            /// # }
            /// ```
            pub fn $in_place<T: Float>(&self, values: impl Writable<T>) -> Result<()> {
                self.apply_in_place(Function::$function, values)
            }
        )*}
    };
}

named! {
    relu, relu_in_place, Relu, "The greater of 0 and the value";
    sigmoid, sigmoid_in_place, Sigmoid, "The logistic function";
    tanh, tanh_in_place, Tanh, "The hyperbolic tangent";
    gelu, gelu_in_place, Gelu, "The Gaussian error linear unit (with erf)";
    gelu_tanh, gelu_tanh_in_place, GeluTanh, "The Gaussian error linear unit (with tanh)";
}

/// Threads of a block, where there are many.
const THREADS: u32 = 256;

/// The same grid in blocks of the most threads: two inputs are read half a per cent faster so, one four slower.
fn in_large_blocks(grid: Grid) -> Grid {
    const LARGE: u32 = 1024;
    Grid::linear(grid.blocks[0].div_ceil(LARGE / THREADS), LARGE)
}

/// The grid of a kernel whose threads take so many vectors each.
pub(crate) fn launch_shape<T: Element>(
    count: u32,
    vectors_each: u32,
    multiprocessors: u32,
) -> Grid {
    let shares = count.div_ceil(lanes::<T>()).div_ceil(vectors_each);
    let threads = if shares < 256 * multiprocessors { 64 } else { THREADS };
    Grid::linear(shares.div_ceil(threads), threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vector_has_a_thread() {
        for count in [1, 3, 255, 4096, 100_000, 1 << 20, (1 << 31) - 1, 1 << 31] {
            let grid = launch_shape::<f32>(count, 1, 132);
            let vectors = u64::from(grid.blocks[0]) * u64::from(grid.threads[0]);
            assert!(vectors * 4 >= u64::from(count));
            assert!((vectors - u64::from(grid.threads[0])) * 4 < u64::from(count));
        }
        let many = launch_shape::<f32>(1 << 24, 1, 132);
        assert_eq!(many.threads[0], 256);
        assert_eq!(in_large_blocks(many), Grid::linear(1 << 12, 1024));
        assert_eq!(launch_shape::<f32>(1 << 12, 1, 132).threads[0], 64);
    }
}
