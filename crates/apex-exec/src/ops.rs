//! Operations on arrays: elementwise functions, softmax, normalisations, reductions, transpose, and (in
//! [`crate::Matmul`]) the matrix product.
//!
//! Each checks its shapes, chooses a kernel and a grid by shape, alignment and device, and puts it into a
//! stream; none waits. Rows lie one after the other without gaps. Whatever the kernels assume about
//! alignment is looked up here from the addresses, so a part of a buffer may begin anywhere.
//!
//! ```
//! # fn main() -> apex_exec::Result<()> {
//! let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
//! let x = executor.upload(&[-1.0_f32, 0.0, 2.0])?;
//! let mut y = executor.zeros::<f32>(3)?;
//! executor.ops().relu(&x, &mut y)?;
//! assert_eq!(executor.download(&y)?, [0.0, 0.0, 2.0]);
//! # Ok(())
//! # }
//! ```

mod batch_norm;
mod elementwise;
pub(crate) mod kernels;
mod layer_norm;
mod norm;
mod reduce;
mod rows;
mod softmax;
mod transpose;

pub use batch_norm::{BatchStatistics, Channels, Running};
pub use elementwise::Function;
pub(crate) use elementwise::launch_shape;
pub use norm::Norm;
pub use reduce::Reduction;

use crate::error::Result;
use crate::executor::Executor;
use crate::float::Float;
use crate::kept::KeptSource;
use crate::kernel::Kernel;
use crate::stream::Stream;

/// The operations of an executor, on one of its streams.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// let stream = executor.new_stream()?;
/// let mut x = executor.upload(&[0.0_f32; 4])?;
/// executor.ops().on(&stream).sigmoid_in_place(&mut x)?;
/// assert_eq!(executor.download(&x)?, [0.5; 4]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Ops<'a> {
    pub(crate) executor: &'a Executor,
    pub(crate) stream: &'a Stream,
}

impl Executor {
    /// The operations, on the executor's main stream.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let mut x = executor.upload(&[1.0_f32, -1.0])?;
    /// executor.ops().relu_in_place(&mut x)?;
    /// assert_eq!(executor.download(&x)?, [1.0, 0.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn ops(&self) -> Ops<'_> {
        Ops { executor: self, stream: self.stream() }
    }
}

impl<'a> Ops<'a> {
    /// The same operations on another stream.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let stream = executor.new_stream()?;
    /// let x = executor.upload(&[1.0_f32, 2.0])?;
    /// let mut y = executor.zeros::<f32>(2)?;
    /// executor.ops().on(&stream).tanh(&x, &mut y)?;
    /// assert!((executor.download(&y)?[1] - 2.0_f32.tanh()).abs() < 1e-6);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn on(self, stream: &'a Stream) -> Ops<'a> {
        Ops { stream, ..self }
    }

    /// A kernel of ours by its name without the type.
    pub(crate) fn kernel<T: Float>(
        &self,
        source: &'static KeptSource,
        name: &str,
    ) -> Result<Kernel> {
        self.executor.kept(source)?.kernel(&format!("{name}_{}", T::KERNEL_NAME))
    }

    /// Multiprocessors, which grids are sized by.
    pub(crate) fn multiprocessors(&self) -> u32 {
        self.executor.facts().multiprocessors.max(1)
    }
}
