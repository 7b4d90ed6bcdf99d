//! Products of matrices, and of matrices with vectors, as cuBLAS has them.
//!
//! Every call becomes one description, [`Call`], and that a [`Product`]. The names of one family differ by the type of
//! their numbers and by the width of their sizes; a macro makes them.

#![allow(non_snake_case, reason = "exported functions bear cuBLAS's own names")]

use crate::handle::{Handle, of};
use crate::kernels::driver;
use crate::number::Number::{self, C64, C128, F16, F32, F64};
use crate::number::Scalar;
use crate::product::{Form, Matrix, Product};
use crate::status::{Answer, INVALID_VALUE, NOT_SUPPORTED, answers, of_driver};
use apex_cuda::types::CUdeviceptr;
use core::ffi::{c_int, c_void};

/// A matrix of a call: where it lies, or where the addresses of its batches do, and how.
#[derive(Clone, Copy)]
struct Given {
    address: CUdeviceptr,
    number: Number,
    leading: i64,
    /// Elements between batches.
    batch: i64,
}

/// A product as cuBLAS is asked for it.
struct Call {
    forms: [c_int; 2],
    sizes: [i64; 3],
    a: Given,
    b: Given,
    c: Given,
    alpha: *const c_void,
    beta: *const c_void,
    factors: Number,
    batches: i64,
    /// Whether the matrices are given as lists of addresses on the device.
    are_listed: bool,
}

/// # Safety
///
/// `handle` is null or live, and what the call names is there.
unsafe fn multiply(handle: *mut Handle, call: &Call) -> Answer {
    // SAFETY: the caller vouches for it.
    let handle = unsafe { of(handle) }?;
    let [m, n, k] = call.sizes;
    if m < 0
        || n < 0
        || k < 0
        || call.batches < 0
        || [call.a, call.b, call.c].iter().any(|one| one.leading < 1)
    {
        return Err(INVALID_VALUE);
    }
    if call.a.number != call.b.number {
        return Err(NOT_SUPPORTED);
    }
    let [first, second] = call.forms;
    let (first, second) = (Form::of(first)?, Form::of(second)?);
    let wide = call.a.number.wide();
    let factor = |place| {
        // SAFETY: the caller vouches for the factors.
        let scalar = unsafe { handle.scalar(place, call.factors) }?;
        scalar.converted(call.factors, wide).ok_or(NOT_SUPPORTED)
    };
    let result = Matrix {
        address: call.c.address,
        row: call.c.leading,
        column: 1,
        batch: call.c.batch,
        is_conjugated: false,
    };
    let product = Product {
        elements: call.a.number,
        results: call.c.number,
        sizes: [n as u64, m as u64, k as u64],
        left: Matrix::factor(call.b.address, second, call.b.leading, call.b.batch),
        right: Matrix::factor(call.a.address, first, call.a.leading, call.a.batch),
        added: result,
        result,
        batches: call.batches as u64,
        alpha: factor(call.alpha)?,
        beta: factor(call.beta)?,
        bias: 0,
        activation: 0,
    };
    if !call.are_listed {
        // SAFETY: the caller vouches for the matrices.
        return unsafe { product.run(handle.stream) };
    }
    let count = call.batches as usize;
    let listed = |list: CUdeviceptr| -> Result<Vec<CUdeviceptr>, c_int> {
        let mut addresses = vec![0; count];
        let driver = driver()?;
        // SAFETY: the list on the device has as many addresses; the copy is awaited.
        of_driver(unsafe {
            match (driver.cuMemcpyDtoHAsync_v2)(
                addresses.as_mut_ptr().cast(),
                list,
                8 * count,
                handle.stream,
            ) {
                0 => (driver.cuStreamSynchronize)(handle.stream),
                error => error,
            }
        })?;
        Ok(addresses)
    };
    let (a, b, c) = (listed(call.a.address)?, listed(call.b.address)?, listed(call.c.address)?);
    for nth in 0..count {
        let mut one = Product { batches: 1, ..product };
        (one.left.address, one.right.address) = (b[nth], a[nth]);
        (one.added.address, one.result.address) = (c[nth], c[nth]);
        // SAFETY: as above.
        unsafe { one.run(handle.stream) }?;
    }
    Ok(())
}

fn given(address: *const c_void, number: Number, leading: i64, batch: i64) -> Given {
    Given { address: address.addr() as CUdeviceptr, number, leading, batch }
}

fn number(data_type: c_int) -> Result<Number, c_int> {
    Number::of(data_type).ok_or(NOT_SUPPORTED)
}

macro_rules! typed_products {
    ($($plain:ident $strided:ident $listed:ident $size:ty, $number:ident;)*) => {
        answers! {
            $(
                fn $plain(
                    handle: *mut Handle, form_a: c_int, form_b: c_int, m: $size, n: $size, k: $size,
                    alpha: *const c_void, a: *const c_void, lda: $size, b: *const c_void, ldb: $size,
                    beta: *const c_void, c: *mut c_void, ldc: $size,
                ) {
                    multiply(handle, &Call {
                        forms: [form_a, form_b],
                        sizes: [m as i64, n as i64, k as i64],
                        a: given(a, $number, lda as i64, 0),
                        b: given(b, $number, ldb as i64, 0),
                        c: given(c, $number, ldc as i64, 0),
                        alpha, beta, factors: $number, batches: 1, are_listed: false,
                    })
                }
                fn $strided(
                    handle: *mut Handle, form_a: c_int, form_b: c_int, m: $size, n: $size, k: $size,
                    alpha: *const c_void, a: *const c_void, lda: $size, step_a: i64, b: *const c_void, ldb: $size,
                    step_b: i64, beta: *const c_void, c: *mut c_void, ldc: $size, step_c: i64, batches: $size,
                ) {
                    multiply(handle, &Call {
                        forms: [form_a, form_b],
                        sizes: [m as i64, n as i64, k as i64],
                        a: given(a, $number, lda as i64, step_a),
                        b: given(b, $number, ldb as i64, step_b),
                        c: given(c, $number, ldc as i64, step_c),
                        alpha, beta, factors: $number, batches: batches as i64, are_listed: false,
                    })
                }
                fn $listed(
                    handle: *mut Handle, form_a: c_int, form_b: c_int, m: $size, n: $size, k: $size,
                    alpha: *const c_void, a: *const c_void, lda: $size, b: *const c_void, ldb: $size,
                    beta: *const c_void, c: *mut c_void, ldc: $size, batches: $size,
                ) {
                    multiply(handle, &Call {
                        forms: [form_a, form_b],
                        sizes: [m as i64, n as i64, k as i64],
                        a: given(a, $number, lda as i64, 0),
                        b: given(b, $number, ldb as i64, 0),
                        c: given(c, $number, ldc as i64, 0),
                        alpha, beta, factors: $number, batches: batches as i64, are_listed: true,
                    })
                }
            )*
        }
    };
}

typed_products! {
    cublasSgemm_v2 cublasSgemmStridedBatched cublasSgemmBatched c_int, F32;
    cublasDgemm_v2 cublasDgemmStridedBatched cublasDgemmBatched c_int, F64;
    cublasCgemm_v2 cublasCgemmStridedBatched cublasCgemmBatched c_int, C64;
    cublasZgemm_v2 cublasZgemmStridedBatched cublasZgemmBatched c_int, C128;
    cublasHgemm cublasHgemmStridedBatched cublasHgemmBatched c_int, F16;
    cublasSgemm_v2_64 cublasSgemmStridedBatched_64 cublasSgemmBatched_64 i64, F32;
    cublasDgemm_v2_64 cublasDgemmStridedBatched_64 cublasDgemmBatched_64 i64, F64;
    cublasCgemm_v2_64 cublasCgemmStridedBatched_64 cublasCgemmBatched_64 i64, C64;
    cublasZgemm_v2_64 cublasZgemmStridedBatched_64 cublasZgemmBatched_64 i64, C128;
    cublasHgemm_64 cublasHgemmStridedBatched_64 cublasHgemmBatched_64 i64, F16;
}

macro_rules! named_products {
    ($($plain:ident $strided:ident $listed:ident $single:ident $size:ty;)*) => {
        answers! {
            $(
                fn $plain(
                    handle: *mut Handle, form_a: c_int, form_b: c_int, m: $size, n: $size, k: $size,
                    alpha: *const c_void, a: *const c_void, type_a: c_int, lda: $size, b: *const c_void,
                    type_b: c_int, ldb: $size, beta: *const c_void, c: *mut c_void, type_c: c_int, ldc: $size,
                    computed: c_int, _algorithm: c_int,
                ) {
                    let elements = number(type_a)?;
                    multiply(handle, &Call {
                        forms: [form_a, form_b],
                        sizes: [m as i64, n as i64, k as i64],
                        a: given(a, elements, lda as i64, 0),
                        b: given(b, number(type_b)?, ldb as i64, 0),
                        c: given(c, number(type_c)?, ldc as i64, 0),
                        alpha, beta, factors: Number::of_factors(computed, elements).ok_or(NOT_SUPPORTED)?,
                        batches: 1, are_listed: false,
                    })
                }
                fn $strided(
                    handle: *mut Handle, form_a: c_int, form_b: c_int, m: $size, n: $size, k: $size,
                    alpha: *const c_void, a: *const c_void, type_a: c_int, lda: $size, step_a: i64, b: *const c_void,
                    type_b: c_int, ldb: $size, step_b: i64, beta: *const c_void, c: *mut c_void, type_c: c_int,
                    ldc: $size, step_c: i64, batches: $size, computed: c_int, _algorithm: c_int,
                ) {
                    let elements = number(type_a)?;
                    multiply(handle, &Call {
                        forms: [form_a, form_b],
                        sizes: [m as i64, n as i64, k as i64],
                        a: given(a, elements, lda as i64, step_a),
                        b: given(b, number(type_b)?, ldb as i64, step_b),
                        c: given(c, number(type_c)?, ldc as i64, step_c),
                        alpha, beta, factors: Number::of_factors(computed, elements).ok_or(NOT_SUPPORTED)?,
                        batches: batches as i64, are_listed: false,
                    })
                }
                fn $listed(
                    handle: *mut Handle, form_a: c_int, form_b: c_int, m: $size, n: $size, k: $size,
                    alpha: *const c_void, a: *const c_void, type_a: c_int, lda: $size, b: *const c_void,
                    type_b: c_int, ldb: $size, beta: *const c_void, c: *mut c_void, type_c: c_int, ldc: $size,
                    batches: $size, computed: c_int, _algorithm: c_int,
                ) {
                    let elements = number(type_a)?;
                    multiply(handle, &Call {
                        forms: [form_a, form_b],
                        sizes: [m as i64, n as i64, k as i64],
                        a: given(a, elements, lda as i64, 0),
                        b: given(b, number(type_b)?, ldb as i64, 0),
                        c: given(c, number(type_c)?, ldc as i64, 0),
                        alpha, beta, factors: Number::of_factors(computed, elements).ok_or(NOT_SUPPORTED)?,
                        batches: batches as i64, are_listed: true,
                    })
                }
                fn $single(
                    handle: *mut Handle, form_a: c_int, form_b: c_int, m: $size, n: $size, k: $size,
                    alpha: *const c_void, a: *const c_void, type_a: c_int, lda: $size, b: *const c_void,
                    type_b: c_int, ldb: $size, beta: *const c_void, c: *mut c_void, type_c: c_int, ldc: $size,
                ) {
                    multiply(handle, &Call {
                        forms: [form_a, form_b],
                        sizes: [m as i64, n as i64, k as i64],
                        a: given(a, number(type_a)?, lda as i64, 0),
                        b: given(b, number(type_b)?, ldb as i64, 0),
                        c: given(c, number(type_c)?, ldc as i64, 0),
                        alpha, beta, factors: F32, batches: 1, are_listed: false,
                    })
                }
            )*
        }
    };
}

named_products! {
    cublasGemmEx cublasGemmStridedBatchedEx cublasGemmBatchedEx cublasSgemmEx c_int;
    cublasGemmEx_64 cublasGemmStridedBatchedEx_64 cublasGemmBatchedEx_64 cublasSgemmEx_64 i64;
}

/// A vector as a matrix of one row or column: its first element and the step to the next.
pub(crate) fn first_of(
    address: *const c_void,
    number: Number,
    count: i64,
    step: i64,
) -> CUdeviceptr {
    let passed = if step < 0 { (1 - count).wrapping_mul(step) } else { 0 };
    (address.addr() as CUdeviceptr).wrapping_add((passed as u64).wrapping_mul(number.bytes()))
}

/// y = alpha op(A) x + beta y, for a matrix of m rows.
struct WithVector {
    form: c_int,
    m: i64,
    n: i64,
    a: *const c_void,
    leading: i64,
    x: (*const c_void, i64),
    y: (*mut c_void, i64),
    alpha: *const c_void,
    beta: *const c_void,
    number: Number,
}

/// # Safety
///
/// As for [`multiply`].
unsafe fn multiply_vector(handle: *mut Handle, call: &WithVector) -> Answer {
    // SAFETY: the caller vouches for it.
    let handle = unsafe { of(handle) }?;
    if call.m < 0 || call.n < 0 || call.leading < 1 || call.x.1 == 0 || call.y.1 == 0 {
        return Err(INVALID_VALUE);
    }
    let (number, form) = (call.number, Form::of(call.form)?);
    let (rows, depth) = if form == Form::Plain { (call.m, call.n) } else { (call.n, call.m) };
    let (row, column) = if form == Form::Plain { (1, call.leading) } else { (call.leading, 1) };
    let y = Matrix {
        address: first_of(call.y.0, number, rows, call.y.1),
        row: call.y.1,
        column: 1,
        ..Matrix::default()
    };
    let product = Product {
        elements: number,
        results: number,
        sizes: [rows as u64, 1, depth as u64],
        left: Matrix {
            address: call.a.addr() as CUdeviceptr,
            row,
            column,
            batch: 0,
            is_conjugated: form == Form::Conjugated,
        },
        right: Matrix {
            address: first_of(call.x.0, number, depth, call.x.1),
            row: call.x.1,
            column: 1,
            ..Matrix::default()
        },
        added: y,
        result: y,
        batches: 1,
        // SAFETY: the caller vouches for the factors.
        alpha: unsafe { handle.scalar(call.alpha, number) }?,
        // SAFETY: as above.
        beta: unsafe { handle.scalar(call.beta, number) }?,
        bias: 0,
        activation: 0,
    };
    // SAFETY: the caller vouches for matrix and vectors.
    unsafe { product.run(handle.stream) }
}

/// A = alpha x yᵀ + A.
struct OuterProduct {
    m: i64,
    n: i64,
    x: (*const c_void, i64),
    y: (*const c_void, i64),
    a: *mut c_void,
    leading: i64,
    alpha: *const c_void,
    number: Number,
    is_conjugated: bool,
}

/// # Safety
///
/// As for [`multiply`].
unsafe fn add_outer_product(handle: *mut Handle, call: &OuterProduct) -> Answer {
    // SAFETY: the caller vouches for it.
    let handle = unsafe { of(handle) }?;
    if call.m < 0 || call.n < 0 || call.leading < 1 || call.x.1 == 0 || call.y.1 == 0 {
        return Err(INVALID_VALUE);
    }
    let number = call.number;
    let a = Matrix {
        address: call.a.addr() as CUdeviceptr,
        row: call.leading,
        column: 1,
        ..Matrix::default()
    };
    let product = Product {
        elements: number,
        results: number,
        sizes: [call.n as u64, call.m as u64, 1],
        left: Matrix {
            address: first_of(call.y.0, number, call.n, call.y.1),
            row: call.y.1,
            column: 1,
            batch: 0,
            is_conjugated: call.is_conjugated,
        },
        right: Matrix {
            address: first_of(call.x.0, number, call.m, call.x.1),
            row: 1,
            column: call.x.1,
            ..Matrix::default()
        },
        added: a,
        result: a,
        batches: 1,
        // SAFETY: the caller vouches for the factor.
        alpha: unsafe { handle.scalar(call.alpha, number) }?,
        beta: Scalar::whole(1, number),
        bias: 0,
        activation: 0,
    };
    // SAFETY: the caller vouches for matrix and vectors.
    unsafe { product.run(handle.stream) }
}

macro_rules! with_vectors {
    ($($multiply:ident $add:ident $conjugated:literal $size:ty, $number:ident;)*) => {
        answers! {
            $(
                fn $multiply(
                    handle: *mut Handle, form: c_int, m: $size, n: $size, alpha: *const c_void, a: *const c_void,
                    lda: $size, x: *const c_void, step_x: $size, beta: *const c_void, y: *mut c_void, step_y: $size,
                ) {
                    multiply_vector(handle, &WithVector {
                        form, m: m as i64, n: n as i64, a, leading: lda as i64, x: (x, step_x as i64),
                        y: (y, step_y as i64), alpha, beta, number: $number,
                    })
                }
                fn $add(
                    handle: *mut Handle, m: $size, n: $size, alpha: *const c_void, x: *const c_void, step_x: $size,
                    y: *const c_void, step_y: $size, a: *mut c_void, lda: $size,
                ) {
                    add_outer_product(handle, &OuterProduct {
                        m: m as i64, n: n as i64, x: (x, step_x as i64), y: (y, step_y as i64), a,
                        leading: lda as i64, alpha, number: $number, is_conjugated: $conjugated,
                    })
                }
            )*
        }
    };
}

with_vectors! {
    cublasSgemv_v2 cublasSger_v2 false c_int, F32;
    cublasDgemv_v2 cublasDger_v2 false c_int, F64;
    cublasCgemv_v2 cublasCgeru_v2 false c_int, C64;
    cublasZgemv_v2 cublasZgeru_v2 false c_int, C128;
    cublasSgemv_v2_64 cublasSger_v2_64 false i64, F32;
    cublasDgemv_v2_64 cublasDger_v2_64 false i64, F64;
    cublasCgemv_v2_64 cublasCgeru_v2_64 false i64, C64;
    cublasZgemv_v2_64 cublasZgeru_v2_64 false i64, C128;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_that_runs_backwards_begins_at_its_end() {
        let vector = core::ptr::without_provenance(1000);
        assert_eq!(first_of(vector, F32, 10, 2), 1000);
        assert_eq!(first_of(vector, F32, 10, -2), 1000 + 4 * 18);
        assert_eq!(first_of(vector, C128, 3, -1), 1000 + 16 * 2);
    }
}
