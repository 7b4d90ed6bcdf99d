//! What both normalisations scale by.

use super::Float;
use crate::buffer::View;
use crate::error::Result;
use crate::shape;

/// Gamma, beta and epsilon of a normalisation: y = (x - mean) / √(variance + epsilon) · gamma + beta.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// use apex_exec::Norm;
///
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// let gamma = executor.upload(&[2.0_f32, 2.0])?;
/// let norm = Norm::new(1e-5).gamma(gamma.view());
/// let x = executor.upload(&[1.0_f32, 3.0])?;
/// let mut y = executor.zeros::<f32>(2)?;
/// executor.ops().layer_norm(&x, 2, &norm, &mut y)?;
/// assert!((executor.download(&y)?[1] - 2.0).abs() < 1e-4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Norm<'a, W: Float> {
    gamma: Option<View<'a, W>>,
    beta: Option<View<'a, W>>,
    epsilon: f64,
}

impl<'a, W: Float> Norm<'a, W> {
    /// Without gamma and beta.
    ///
    /// ```
    /// let norm = apex_exec::Norm::<f32>::new(1e-5);
    /// ```
    #[must_use]
    pub fn new(epsilon: f64) -> Norm<'a, W> {
        Norm { gamma: None, beta: None, epsilon }
    }

    /// The same with gamma: a number per column or channel, in the type that is computed in.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let gamma = executor.upload(&[2.0_f32, 2.0])?;
    /// let norm = apex_exec::Norm::new(1e-5).gamma(gamma.view());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn gamma(self, gamma: View<'a, W>) -> Norm<'a, W> {
        Norm { gamma: Some(gamma), ..self }
    }

    /// The same with beta: a number per column or channel, in the type that is computed in.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let beta = executor.upload(&[1.0_f32, 1.0])?;
    /// let norm = apex_exec::Norm::new(1e-5).beta(beta.view());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn beta(self, beta: View<'a, W>) -> Norm<'a, W> {
        Norm { beta: Some(beta), ..self }
    }

    pub(crate) fn check(&self, operation: &'static str, len: usize) -> Result<()> {
        if !(self.epsilon >= 0.0 && self.epsilon.is_finite()) {
            let reason = format!("epsilon is {}: it must be zero or more", self.epsilon);
            return Err(shape::refuse(operation, reason));
        }
        for (name, view) in [("gamma", &self.gamma), ("beta", &self.beta)] {
            if let Some(view) = view {
                shape::exact(operation, name, view.len(), len)?;
            }
        }
        Ok(())
    }

    pub(crate) fn parts(&self) -> (Option<View<'a, W>>, Option<View<'a, W>>, W) {
        (self.gamma, self.beta, W::from_f64(self.epsilon))
    }

    /// The addresses of what there is.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = u64> {
        [self.gamma, self.beta].into_iter().flatten().map(|view| *view.place().address)
    }
}
