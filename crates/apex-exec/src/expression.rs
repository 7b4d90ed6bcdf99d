//! Chains of elementwise operations that become one kernel.
//!
//! An [`Expression`] is a formula over inputs of one length. [`Executor::fuse`] turns it into CUDA source,
//! compiles it once, and gives a [`Fused`] that reads every input once and writes the result once, whatever
//! stands between. Where there is no compiler the formula runs step by step with kept kernels; the result is
//! the same up to rounding, and [`Fused::explain`] says which it is.
//!
//! ```
//! # fn main() -> apex_exec::Result<()> {
//! use apex_exec::Expression;
//!
//! let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
//! let x = Expression::input(0);
//! let chain = executor.fuse::<f32>(&((x * 2.0 + Expression::input(1)).relu() - 1.0))?;
//! let a = executor.upload(&[1.0_f32, -5.0])?;
//! let b = executor.upload(&[0.5_f32, 0.5])?;
//! let mut y = executor.zeros::<f32>(2)?;
//! chain.run(&[a.view(), b.view()], &[], &mut y)?;
//! assert_eq!(executor.download(&y)?, [1.5, -1.0]);
//! # Ok(())
//! # }
//! ```

mod fused;
mod generate;
mod steps;

pub use fused::Fused;

use core::ops::{Add, Div, Mul, Neg, Sub};
use std::sync::Arc;

/// A formula over arrays of one length.
///
/// It is cheap to clone, and what is used twice is computed once.
///
/// ```
/// use apex_exec::Expression;
///
/// let x = Expression::input(0);
/// let swish = x.clone() * x.sigmoid();
/// assert_eq!(swish.to_string(), "(in0 * sigmoid(in0))");
/// ```
#[derive(Clone, Debug)]
pub struct Expression(pub(crate) Arc<Node>);

#[derive(Debug)]
pub(crate) enum Node {
    /// An array.
    Input(usize),
    /// A row that repeats.
    Row(usize),
    /// A number that stands in the kernel.
    Constant(f64),
    /// A number that every run gives.
    Parameter(usize),
    /// A function of one operand.
    One(One, Expression),
    /// A function of two.
    Two(Two, Expression, Expression),
}

/// Functions of one operand; the numbers are those of `kernels/ops/steps.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum One {
    Negate = 0,
    Absolute = 1,
    Exponential = 2,
    Logarithm = 3,
    SquareRoot = 4,
    Reciprocal = 5,
    Relu = 6,
    Sigmoid = 7,
    Tanh = 8,
    Gelu = 9,
    GeluTanh = 10,
}

/// Functions of two operands; the numbers are those of `kernels/ops/steps.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Two {
    Add = 20,
    Subtract = 21,
    Multiply = 22,
    Divide = 23,
    Greater = 24,
    Lesser = 25,
}

impl Expression {
    fn new(node: Node) -> Expression {
        Expression(Arc::new(node))
    }

    /// The array of that number, as given to [`Fused::run`].
    ///
    /// ```
    /// assert_eq!(apex_exec::Expression::input(1).to_string(), "in1");
    /// ```
    #[must_use]
    pub fn input(number: usize) -> Expression {
        Expression::new(Node::Input(number))
    }

    /// The input of that number as a row that repeats: the bias of a matrix whose rows are as long as it.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// use apex_exec::Expression;
    ///
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let chain = executor.fuse::<f32>(&(Expression::input(0) + Expression::row(1)))?;
    /// let (x, bias) = (executor.upload(&[1.0_f32, 2.0, 3.0, 4.0])?, executor.upload(&[10.0_f32, 20.0])?);
    /// let mut y = executor.zeros::<f32>(4)?;
    /// chain.run(&[x.view(), bias.view()], &[], &mut y)?;
    /// assert_eq!(executor.download(&y)?, [11.0, 22.0, 13.0, 24.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn row(number: usize) -> Expression {
        Expression::new(Node::Row(number))
    }

    /// A number that stands in the kernel: another number is another kernel.
    ///
    /// ```
    /// assert_eq!(apex_exec::Expression::constant(2.0).to_string(), "2");
    /// ```
    #[must_use]
    pub fn constant(value: f64) -> Expression {
        Expression::new(Node::Constant(value))
    }

    /// A number that every run gives anew: the kernel stays the same.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// use apex_exec::Expression;
    ///
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let scaled = executor.fuse::<f32>(&(Expression::input(0) * Expression::parameter(0)))?;
    /// let x = executor.upload(&[1.0_f32, 2.0])?;
    /// let mut y = executor.zeros::<f32>(2)?;
    /// for scale in [2.0, 3.0] {
    ///     scaled.run(&[x.view()], &[scale], &mut y)?;
    ///     assert_eq!(f64::from(executor.download(&y)?[1]), 2.0 * scale);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn parameter(number: usize) -> Expression {
        Expression::new(Node::Parameter(number))
    }

    /// The greater of two; NaN if one of them is.
    ///
    /// ```
    /// use apex_exec::Expression;
    ///
    /// assert_eq!(Expression::input(0).max(Expression::constant(0.0)).to_string(), "max(in0, 0)");
    /// ```
    #[must_use]
    pub fn max(self, other: Expression) -> Expression {
        Expression::new(Node::Two(Two::Greater, self, other))
    }

    /// The lesser of two; NaN if one of them is.
    ///
    /// ```
    /// use apex_exec::Expression;
    ///
    /// assert_eq!(Expression::input(0).min(Expression::constant(6.0)).to_string(), "min(in0, 6)");
    /// ```
    #[must_use]
    pub fn min(self, other: Expression) -> Expression {
        Expression::new(Node::Two(Two::Lesser, self, other))
    }
}

macro_rules! functions {
    ($($name:ident, $one:ident, $what:literal;)*) => {
        impl Expression {$(
            #[doc = $what]
            ///
            /// ```
            #[doc = concat!("let y = apex_exec::Expression::input(0).", stringify!($name), "();")]
            #[doc = concat!("assert_eq!(y.to_string(), \"", stringify!($name), "(in0)\");")]
            /// ```
            #[must_use]
            pub fn $name(self) -> Expression {
                Expression::new(Node::One(One::$one, self))
            }
        )*}

        impl One {
            /// As the method is called.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    One::Negate => "-",
                    $(One::$one => stringify!($name),)*
                }
            }
        }
    };
}

functions! {
    abs, Absolute, "Its magnitude.";
    exp, Exponential, "e to its power.";
    ln, Logarithm, "Its natural logarithm.";
    sqrt, SquareRoot, "Its square root.";
    reciprocal, Reciprocal, "One over it.";
    relu, Relu, "The greater of 0 and it.";
    sigmoid, Sigmoid, "The logistic function of it.";
    tanh, Tanh, "Its hyperbolic tangent.";
    gelu, Gelu, "The Gaussian error linear unit of it (with erf).";
    gelu_tanh, GeluTanh, "The Gaussian error linear unit of it (with tanh).";
}

macro_rules! operators {
    ($($trait:ident, $method:ident, $two:ident;)*) => {$(
        impl $trait for Expression {
            type Output = Expression;
            fn $method(self, other: Expression) -> Expression {
                Expression::new(Node::Two(Two::$two, self, other))
            }
        }
        impl $trait<f64> for Expression {
            type Output = Expression;
            fn $method(self, other: f64) -> Expression {
                self.$method(Expression::constant(other))
            }
        }
        impl $trait<Expression> for f64 {
            type Output = Expression;
            fn $method(self, other: Expression) -> Expression {
                Expression::constant(self).$method(other)
            }
        }
    )*};
}

operators! {
    Add, add, Add;
    Sub, sub, Subtract;
    Mul, mul, Multiply;
    Div, div, Divide;
}

impl Neg for Expression {
    type Output = Expression;
    fn neg(self) -> Expression {
        Expression::new(Node::One(One::Negate, self))
    }
}

impl core::fmt::Display for Expression {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match &*self.0 {
            Node::Input(number) => write!(out, "in{number}"),
            Node::Row(number) => write!(out, "row{number}"),
            Node::Constant(value) => write!(out, "{value}"),
            Node::Parameter(number) => write!(out, "p{number}"),
            Node::One(One::Negate, x) => write!(out, "-{x}"),
            Node::One(one, x) => write!(out, "{}({x})", one.name()),
            Node::Two(two, x, y) => match two {
                Two::Add => write!(out, "({x} + {y})"),
                Two::Subtract => write!(out, "({x} - {y})"),
                Two::Multiply => write!(out, "({x} * {y})"),
                Two::Divide => write!(out, "({x} / {y})"),
                Two::Greater => write!(out, "max({x}, {y})"),
                Two::Lesser => write!(out, "min({x}, {y})"),
            },
        }
    }
}
