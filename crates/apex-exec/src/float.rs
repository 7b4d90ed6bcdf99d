//! The types that operations take, and what they are computed in.
//!
//! 16-bit floats are read and written as such and computed in f32, so a result is rounded once. Parameters and
//! statistics (gamma, beta, means, variances) are in the computing type: in 16 bits they would lose what the
//! computation kept.

use crate::element::Element;
use half::{bf16, f16};

/// A floating-point number that operations take: `f32`, `f64`, `f16` or `bf16`.
///
/// ```
/// use apex_exec::Float;
///
/// assert_eq!(half::bf16::from_f64(1.0 + 1.0 / 512.0).to_f64(), 1.0);
/// assert_eq!(<f32 as Float>::from_f64(0.5).to_f64(), 0.5);
/// ```
pub trait Float: Element {
    /// What it is computed in, and what its parameters and statistics are.
    type Wide: Float<Wide = Self::Wide>;
    /// Its name in our kernels.
    #[doc(hidden)]
    const KERNEL_NAME: &'static str;

    /// The nearest number of this type.
    #[must_use]
    fn from_f64(value: f64) -> Self;

    /// The same number.
    #[must_use]
    fn to_f64(self) -> f64;
}

impl Float for f32 {
    type Wide = f32;
    const KERNEL_NAME: &'static str = "float";

    fn from_f64(value: f64) -> f32 {
        value as f32
    }

    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

impl Float for f64 {
    type Wide = f64;
    const KERNEL_NAME: &'static str = "double";

    fn from_f64(value: f64) -> f64 {
        value
    }

    fn to_f64(self) -> f64 {
        self
    }
}

impl Float for f16 {
    type Wide = f32;
    const KERNEL_NAME: &'static str = "f16";

    fn from_f64(value: f64) -> f16 {
        f16::from_f64(value)
    }

    fn to_f64(self) -> f64 {
        f16::to_f64(self)
    }
}

impl Float for bf16 {
    type Wide = f32;
    const KERNEL_NAME: &'static str = "bf16";

    fn from_f64(value: f64) -> bf16 {
        bf16::from_f64(value)
    }

    fn to_f64(self) -> f64 {
        bf16::to_f64(self)
    }
}

/// Elements in a vector of 16 bytes.
pub(crate) fn lanes<T: Element>() -> u32 {
    (16 / size_of::<T>()) as u32
}
