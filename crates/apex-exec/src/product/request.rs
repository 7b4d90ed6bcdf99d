//! What is multiplied, and whether it fits the memory given.

use super::matmul_kernel::MatmulKernel;
use crate::error::Result;
use crate::shape::{self, refuse};

/// What is applied to every element of a product before it is stored.
///
/// ```
/// use apex_exec::{Activation, Matmul};
///
/// let layer = Matmul::new(8, 8, 8).activation(Activation::Gelu);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// Nothing.
    #[default]
    None = 0,
    /// The greater of 0 and the value.
    Relu = 1,
    /// The Gaussian error linear unit (with erf).
    Gelu = 2,
    /// The logistic function.
    Sigmoid = 3,
    /// The hyperbolic tangent.
    Tanh = 4,
}

/// A matrix product: C = activation(alpha · op(A) op(B) + beta · C + bias), all in rows.
///
/// op(A) is m by k, op(B) is k by n, C is m by n. Without more said, rows lie side by side and the matrices of
/// a batch one after the other. Where beta is 0, C is not read.
///
/// ```
/// use apex_exec::Matmul;
///
/// // Sixteen products of a transposed A, all with the same B.
/// let product = Matmul::new(64, 32, 128).transpose_a().batch(16).batch_strides(64 * 128, 0, 64 * 32);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Matmul {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) transpose_a: bool,
    pub(crate) transpose_b: bool,
    pub(crate) batch: usize,
    pub(crate) alpha: f64,
    pub(crate) beta: f64,
    pub(crate) activation: Activation,
    pub(crate) row_strides: Option<[usize; 3]>,
    pub(crate) batch_strides: Option<[usize; 3]>,
    pub(crate) kernel: Option<MatmulKernel>,
}

impl Matmul {
    /// An m by k matrix times a k by n one.
    ///
    /// ```
    /// let product = apex_exec::Matmul::new(2, 3, 4);
    /// ```
    #[must_use]
    pub fn new(m: usize, n: usize, k: usize) -> Matmul {
        Matmul {
            m,
            n,
            k,
            transpose_a: false,
            transpose_b: false,
            batch: 1,
            alpha: 1.0,
            beta: 0.0,
            activation: Activation::None,
            row_strides: None,
            batch_strides: None,
            kernel: None,
        }
    }

    /// A is stored as k rows of m.
    ///
    /// ```
    /// let product = apex_exec::Matmul::new(2, 3, 4).transpose_a();
    /// ```
    #[must_use]
    pub fn transpose_a(self) -> Matmul {
        Matmul { transpose_a: true, ..self }
    }

    /// B is stored as n rows of k.
    ///
    /// ```
    /// let product = apex_exec::Matmul::new(2, 3, 4).transpose_b();
    /// ```
    #[must_use]
    pub fn transpose_b(self) -> Matmul {
        Matmul { transpose_b: true, ..self }
    }

    /// So many products at once.
    ///
    /// ```
    /// let product = apex_exec::Matmul::new(2, 3, 4).batch(10);
    /// ```
    #[must_use]
    pub fn batch(self, batch: usize) -> Matmul {
        Matmul { batch, ..self }
    }

    /// What the product is multiplied by; 1 if not said.
    ///
    /// ```
    /// let product = apex_exec::Matmul::new(2, 3, 4).alpha(0.5);
    /// ```
    #[must_use]
    pub fn alpha(self, alpha: f64) -> Matmul {
        Matmul { alpha, ..self }
    }

    /// What C is multiplied by before the product is added; 0 if not said.
    ///
    /// ```
    /// let product = apex_exec::Matmul::new(2, 3, 4).beta(1.0);
    /// ```
    #[must_use]
    pub fn beta(self, beta: f64) -> Matmul {
        Matmul { beta, ..self }
    }

    /// What is applied before the result is stored.
    ///
    /// ```
    /// let product = apex_exec::Matmul::new(2, 3, 4).activation(apex_exec::Activation::Tanh);
    /// ```
    #[must_use]
    pub fn activation(self, activation: Activation) -> Matmul {
        Matmul { activation, ..self }
    }

    /// Elements from one stored row of A, B and C to the next, where rows do not lie side by side.
    ///
    /// ```
    /// // The left halves of matrices of 8 columns.
    /// let product = apex_exec::Matmul::new(4, 4, 4).row_strides(8, 8, 8);
    /// ```
    #[must_use]
    pub fn row_strides(self, a: usize, b: usize, c: usize) -> Matmul {
        Matmul { row_strides: Some([a, b, c]), ..self }
    }

    /// Elements from one matrix of A, B and C to the next of the batch; 0 uses one A or B for all.
    ///
    /// ```
    /// let product = apex_exec::Matmul::new(4, 4, 4).batch(3).batch_strides(16, 0, 16);
    /// ```
    #[must_use]
    pub fn batch_strides(self, a: usize, b: usize, c: usize) -> Matmul {
        Matmul { batch_strides: Some([a, b, c]), ..self }
    }

    /// This kernel and no other, for measurements and tests; refused where it cannot do the product.
    ///
    /// ```
    /// use apex_exec::{Matmul, MatmulKernel};
    ///
    /// let product = Matmul::new(4, 4, 4).kernel(MatmulKernel::Plain);
    /// ```
    #[must_use]
    pub fn kernel(self, kernel: MatmulKernel) -> Matmul {
        Matmul { kernel: Some(kernel), ..self }
    }
}

/// A stored matrix: rows of columns, and where rows and matrices begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) row_stride: usize,
    pub(crate) batch_stride: usize,
}

/// The three matrices as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operands {
    pub(crate) a: Stored,
    pub(crate) b: Stored,
    pub(crate) c: Stored,
    pub(crate) m: u32,
    pub(crate) n: u32,
    pub(crate) k: u32,
    pub(crate) batch: u32,
}

/// Where the matrices begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) a: u64,
    pub(crate) b: u64,
    pub(crate) c: u64,
    pub(crate) has_bias: bool,
}

impl Operands {
    pub(crate) fn new(product: &Matmul) -> Result<Operands> {
        let &Matmul { m, n, k, batch, transpose_a, transpose_b, .. } = product;
        let side = |name: &str, side: usize| {
            // Kernels count sides and batches with signs in 32 bits.
            match i32::try_from(side) {
                Ok(side) => Ok(side.cast_unsigned()),
                Err(_) => {
                    Err(refuse("matmul", format!("{name} is {side}, more than 2^31 - 1, the most")))
                }
            }
        };
        let sizes = [(m, k, transpose_a, "A"), (k, n, transpose_b, "B"), (m, n, false, "C")];
        let mut stored = [Stored { rows: 0, columns: 0, row_stride: 0, batch_stride: 0 }; 3];
        for (index, (rows, columns, transposed, name)) in sizes.into_iter().enumerate() {
            let (rows, columns) = if transposed { (columns, rows) } else { (rows, columns) };
            let row_stride = product.row_strides.map_or(columns, |strides| strides[index]);
            if row_stride < columns {
                let reason = format!(
                    "rows of {name} have {columns} elements and begin {row_stride} apart: they overlap"
                );
                return Err(refuse("matmul", reason));
            }
            let matrix = shape::product("matmul", &[rows, row_stride])?;
            let batch_stride = product.batch_strides.map_or(matrix, |strides| strides[index]);
            let reach = rows.saturating_sub(1) * row_stride + columns;
            if index == 2 && batch > 1 && batch_stride < reach {
                let reason = format!(
                    "matrices of C have {reach} elements and begin {batch_stride} apart: they overlap"
                );
                return Err(refuse("matmul", reason));
            }
            stored[index] = Stored { rows, columns, row_stride, batch_stride };
        }
        let [a, b, c] = stored;
        Ok(Operands {
            a,
            b,
            c,
            m: side("m", m)?,
            n: side("n", n)?,
            k: side("k", k)?,
            batch: side("the batch", batch)?,
        })
    }

    pub(crate) fn check(&self, a: usize, b: usize, bias: Option<usize>, c: usize) -> Result<()> {
        for (name, stored, len) in [("A", self.a, a), ("B", self.b, b), ("C", self.c, c)] {
            let needed = self.reach(stored)?;
            if len < needed {
                let reason = format!(
                    "{name} has {len} elements, {} matrices of {} x {} need {needed}",
                    self.batch, stored.rows, stored.columns
                );
                return Err(refuse("matmul", reason));
            }
        }
        match bias {
            Some(len) => shape::exact("matmul", "the bias", len, self.n as usize),
            None => Ok(()),
        }
    }

    /// Elements from the first to the last of a stored batch.
    fn reach(&self, stored: Stored) -> Result<usize> {
        let Stored { rows, columns, row_stride, batch_stride } = stored;
        if rows == 0 || columns == 0 || self.batch == 0 {
            return Ok(0);
        }
        let far = shape::product("matmul", &[self.batch as usize - 1, batch_stride])?;
        let reach = far + (rows - 1) * row_stride + columns;
        shape::product("matmul", &[reach])
    }

    /// Whether there is nothing to compute.
    pub(crate) fn is_empty(&self) -> bool {
        self.m == 0 || self.n == 0 || self.batch == 0
    }
}

/// What the choice needs to know of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    pub(crate) element: &'static str,
    pub(crate) m: u32,
    pub(crate) n: u32,
    pub(crate) k: u32,
    pub(crate) batch: u32,
    pub(crate) transpose_a: bool,
    pub(crate) transpose_b: bool,
    /// Whether all addresses and strides are multiples of 16 bytes.
    pub(crate) aligned: bool,
    pub(crate) activation: Activation,
    /// Whether something is added to the product: a bias, or what C held.
    pub(crate) adds: bool,
}

impl Question {
    /// `nn`, `tn`, `nt` or `tt`.
    pub(crate) fn layout(&self) -> &'static str {
        match (self.transpose_a, self.transpose_b) {
            (false, false) => "nn",
            (true, false) => "tn",
            (false, true) => "nt",
            (true, true) => "tt",
        }
    }

    pub(crate) fn is_16_bit(&self) -> bool {
        matches!(self.element, "f16" | "bf16")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(product: &Matmul, a: usize, b: usize, bias: Option<usize>, c: usize) -> String {
        Operands::new(product)
            .and_then(|operands| operands.check(a, b, bias, c))
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let product = Matmul::new(2, 3, 4);
        assert_eq!(Operands::new(&product).unwrap().check(8, 12, Some(3), 6), Ok(()));
        for (text, words) in [
            (refusal(&product, 7, 12, None, 6), "A has 7 elements, 1 matrices of 2 x 4 need 8"),
            (refusal(&product, 8, 11, None, 6), "B has 11 elements, 1 matrices of 4 x 3 need 12"),
            (refusal(&product, 8, 12, None, 5), "C has 5 elements, 1 matrices of 2 x 3 need 6"),
            (refusal(&product, 8, 12, Some(2), 6), "the bias has 2 elements, the shape asks for 3"),
            (refusal(&product.clone().row_strides(3, 3, 3), 8, 12, None, 6), "they overlap"),
            (
                refusal(&product.clone().batch(2).batch_strides(8, 12, 5), 16, 24, None, 12),
                "they overlap",
            ),
            (refusal(&Matmul::new(1 << 20, 1 << 20, 1), 0, 0, None, 0), "more than 2^31"),
            (refusal(&Matmul::new(1 << 32, 0, 0), 0, 0, None, 0), "more than 2^31"),
        ] {
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn a_transpose_is_stored_turned() {
        let operands = Operands::new(&Matmul::new(2, 3, 4).transpose_a().transpose_b()).unwrap();
        assert_eq!((operands.a.rows, operands.a.columns), (4, 2));
        assert_eq!((operands.b.rows, operands.b.columns), (3, 4));
        assert_eq!((operands.c.rows, operands.c.columns), (2, 3));
    }
}
