//! Any product of matrices as one launch: C = activate(alpha A B + beta D + bias).
//!
//! The kernel works in rows. cuBLAS's matrices lie in columns, so the transposes are multiplied: Cᵀ = Bᵀ Aᵀ, whose rows
//! are the columns of C. That takes no copy, because the kernel reads both factors by any two strides.

use crate::kernels::{Source, launch};
use crate::number::{Number, Scalar};
use crate::status::{Answer, INVALID_VALUE, NOT_SUPPORTED};
use apex_cuda::types::{CUdeviceptr, CUstream};
use core::ffi::{c_int, c_void};

/// What a factor is before the product: as it is, transposed, or transposed and conjugated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    Transposed,
    Conjugated,
}

impl Form {
    /// By the number of `cublasOperation_t`.
    pub(crate) fn of(operation: c_int) -> Result<Form, c_int> {
        match operation {
            0 => Ok(Form::Plain),
            1 => Ok(Form::Transposed),
            2 => Ok(Form::Conjugated),
            3 => Err(NOT_SUPPORTED),
            _ => Err(INVALID_VALUE),
        }
    }
}

/// A matrix on the device: its element in row i and column j of batch b is at `i row + j column + b batch`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Matrix {
    pub(crate) address: CUdeviceptr,
    pub(crate) row: i64,
    pub(crate) column: i64,
    pub(crate) batch: i64,
    pub(crate) is_conjugated: bool,
}

impl Matrix {
    /// A factor that lies in columns, in its form, as the kernel sees it: transposed.
    pub(crate) fn factor(address: CUdeviceptr, form: Form, leading: i64, batch: i64) -> Matrix {
        let (row, column) = if form == Form::Plain { (leading, 1) } else { (1, leading) };
        Matrix { address, row, column, batch, is_conjugated: form == Form::Conjugated }
    }
}

/// A product as the kernel does it, in rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub(crate) elements: Number,
    pub(crate) results: Number,
    /// Rows of A, columns of B, columns of A.
    pub(crate) sizes: [u64; 3],
    pub(crate) left: Matrix,
    pub(crate) right: Matrix,
    pub(crate) added: Matrix,
    pub(crate) result: Matrix,
    pub(crate) batches: u64,
    pub(crate) alpha: Scalar,
    pub(crate) beta: Scalar,
    /// One number for each column; 0 for none.
    pub(crate) bias: CUdeviceptr,
    pub(crate) activation: c_int,
}

/// Blocks that a grid has in y and z.
const GRID_AT_MOST: u64 = 65_535;

impl Product {
    /// Launches it. A product without results is nothing to do.
    ///
    /// # Safety
    ///
    /// The matrices lie on the device and are as large as said.
    pub(crate) unsafe fn run(&self, stream: CUstream) -> Answer {
        let name = self.kernel()?;
        let [rows, columns, depth] = self.sizes;
        if rows == 0 || columns == 0 || self.batches == 0 {
            return Ok(());
        }
        let tile = if matches!(self.elements, Number::C64 | Number::C128) { 32 } else { 64 };
        let (across, down) = (columns.div_ceil(tile), rows.div_ceil(tile));
        let narrow = |size: u64| u32::try_from(size).map_err(|_| NOT_SUPPORTED);
        if down > GRID_AT_MOST {
            return Err(NOT_SUPPORTED);
        }
        let mut begun = 0;
        while begun < self.batches {
            let batches = (self.batches - begun).min(GRID_AT_MOST);
            let grid = [narrow(across)?, narrow(down)?, narrow(batches)?];
            let sizes = [narrow(rows)?, narrow(columns)?, narrow(depth)?];
            // SAFETY: the parameters are the kernel's, and the caller vouches for the matrices.
            unsafe { self.launch(&name, grid, sizes, begun, stream) }?;
            begun += batches;
        }
        Ok(())
    }

    /// The kernel for these types.
    pub(crate) fn kernel(&self) -> Result<String, c_int> {
        use Number::*;
        match (self.elements, self.results) {
            (one, other) if one == other && !matches!(one, I8 | I32) => {
                Ok(format!("gemm_{}", one.word()))
            }
            (F16 | Bf16, F32) | (I8, I32) => {
                Ok(format!("gemm_{}_{}", self.elements.word(), self.results.word()))
            }
            _ => Err(NOT_SUPPORTED),
        }
    }

    /// # Safety
    ///
    /// As for [`Product::run`].
    unsafe fn launch(
        &self,
        name: &str,
        grid: [u32; 3],
        sizes: [u32; 3],
        begun: u64,
        stream: CUstream,
    ) -> Answer {
        let at = |matrix: &Matrix, number: Number| {
            let passed = (matrix.batch as u64).wrapping_mul(begun).wrapping_mul(number.bytes());
            matrix.address.wrapping_add(passed)
        };
        let mut addresses = [
            at(&self.left, self.elements),
            at(&self.right, self.elements),
            self.bias,
            at(&self.added, self.results),
            at(&self.result, self.results),
        ];
        let mut sizes = sizes;
        let mut strides = [
            self.left.row,
            self.left.column,
            self.right.row,
            self.right.column,
            self.added.row,
            self.result.row,
            self.left.batch,
            self.right.batch,
            self.added.batch,
            self.result.batch,
        ];
        let mut factors = [self.alpha, self.beta];
        let mut numbers = [
            self.activation,
            c_int::from(self.left.is_conjugated),
            c_int::from(self.right.is_conjugated),
        ];
        let mut parameters: Vec<*mut c_void> = Vec::with_capacity(23);
        parameters.extend(addresses.iter_mut().map(|value| (&raw mut *value).cast::<c_void>()));
        parameters.extend(sizes.iter_mut().map(|value| (&raw mut *value).cast::<c_void>()));
        parameters.extend(strides.iter_mut().map(|value| (&raw mut *value).cast::<c_void>()));
        parameters.extend(factors.iter_mut().map(|value| (&raw mut *value).cast::<c_void>()));
        parameters.extend(numbers.iter_mut().map(|value| (&raw mut *value).cast::<c_void>()));
        // SAFETY: in the order of the kernel, each with its type; the caller vouches for the matrices.
        unsafe { launch(Source::Products, name, grid, stream, &mut parameters) }
    }
}
