//! The matrix product: C = activation(alpha · op(A) op(B) + beta · C + bias), in rows, alone or in batches.
//!
//! A [`Matmul`] says what is multiplied; [`Ops::matmul`] checks it against the memory given, asks
//! [`choose`](crate::product::choose::choose) for a kernel, and launches it; [`Ops::explain_matmul`] gives the choice
//! with its reason. What a product is, and what is remembered of it, stands below in [`crate::product`].

mod launch;
mod measure;

pub use measure::{MatmulShape, measure_matmul};

use crate::buffer::{Readable, View, Writable};
use crate::error::Result;
use crate::float::Float;
use crate::ops::Ops;
use crate::product::request::{Operands, Places};
use crate::product::{Matmul, MatmulChoice};

impl Ops<'_> {
    /// Multiplies matrices.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// use apex_exec::Matmul;
    ///
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let a = executor.upload(&[1.0_f32, 2.0, 3.0, 4.0])?;
    /// let b = executor.upload(&[1.0_f32, 0.0, 0.0, 2.0])?;
    /// let mut c = executor.zeros::<f32>(4)?;
    /// executor.ops().matmul(&Matmul::new(2, 2, 2), &a, &b, &mut c)?;
    /// assert_eq!(executor.download(&c)?, [1.0, 4.0, 3.0, 8.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn matmul<T: Float>(
        &self,
        product: &Matmul,
        a: impl Readable<T>,
        b: impl Readable<T>,
        mut c: impl Writable<T>,
    ) -> Result<()> {
        self.multiply(product, a.as_view(), b.as_view(), None, c.as_view_mut())
    }

    /// Multiplies matrices and adds a bias, one number per column, before the activation.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// use apex_exec::{Activation, Matmul};
    ///
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let a = executor.upload(&[1.0_f32, 2.0, 3.0, 4.0])?;
    /// let one = executor.upload(&[1.0_f32, 0.0, 0.0, 1.0])?;
    /// let bias = executor.upload(&[-2.0_f32, 10.0])?;
    /// let mut c = executor.zeros::<f32>(4)?;
    /// let product = Matmul::new(2, 2, 2).activation(Activation::Relu);
    /// executor.ops().matmul_bias(&product, &a, &one, &bias, &mut c)?;
    /// assert_eq!(executor.download(&c)?, [0.0, 12.0, 1.0, 14.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn matmul_bias<T: Float>(
        &self,
        product: &Matmul,
        a: impl Readable<T>,
        b: impl Readable<T>,
        bias: impl Readable<T>,
        mut c: impl Writable<T>,
    ) -> Result<()> {
        self.multiply(product, a.as_view(), b.as_view(), Some(bias.as_view()), c.as_view_mut())
    }

    /// Which kernel a product would take, and why, for matrices that begin where allocations do.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let choice = executor.ops().explain_matmul::<f32>(&apex_exec::Matmul::new(256, 256, 256))?;
    /// println!("{choice}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn explain_matmul<T: Float>(&self, product: &Matmul) -> Result<MatmulChoice> {
        let operands = Operands::new(product)?;
        self.choose::<T>(product, &operands, Places { a: 0, b: 0, c: 0, has_bias: false })
    }

    fn multiply<T: Float>(
        &self,
        product: &Matmul,
        a: View<'_, T>,
        b: View<'_, T>,
        bias: Option<View<'_, T>>,
        c: crate::buffer::ViewMut<'_, T>,
    ) -> Result<()> {
        let operands = Operands::new(product)?;
        operands.check(a.len(), b.len(), bias.as_ref().map(View::len), c.len())?;
        if operands.is_empty() {
            return Ok(());
        }
        let places = Places {
            a: *a.place().address,
            b: *b.place().address,
            c: *c.place().address,
            has_bias: bias.is_some(),
        };
        let plan = self.plan::<T>(product, &operands, places)?;
        self.run_matmul(&plan, product, &operands, a, b, bias, c)
    }
}
