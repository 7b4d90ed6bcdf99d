//! cuBLASLt: products by description.
//!
//! A description is a list of attributes; those that say nothing about the numbers are accepted. What a kernel here
//! cannot do is refused when a caller asks for an algorithm: then there is none, and the caller goes another way.

#![allow(non_snake_case, reason = "exported functions bear cuBLASLt's own names")]

use crate::handle::read_scalar;
use crate::number::Number;
use crate::product::{Form, Matrix, Product};
use crate::status::{Answer, INVALID_VALUE, NOT_SUPPORTED, answers, put};
use apex_cuda::types::{CUdeviceptr, CUstream};
use core::ffi::{c_int, c_void};

/// A product's description. It may lie in a place of the caller's of 256 bytes.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Description {
    computed: c_int,
    factors: c_int,
    pointer_mode: c_int,
    form_a: c_int,
    form_b: c_int,
    form_c: c_int,
    epilogue: u32,
    bias_type: c_int,
    bias: CUdeviceptr,
    bias_batch: i64,
}

/// A matrix's description, in a place of 112 bytes.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Layout {
    number: c_int,
    order: c_int,
    rows: u64,
    columns: u64,
    leading: i64,
    batches: c_int,
    batch: i64,
}

const _: () = assert!(size_of::<Description>() <= 256 && size_of::<Layout>() <= 112);

/// An algorithm that was found; there is one.
#[repr(C)]
pub(crate) struct Found {
    algorithm: [u64; 8],
    workspace_bytes: usize,
    state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

/// `CUBLASLT_ORDER_ROW`.
const IN_ROWS: c_int = 1;
/// The bias has the type of the result.
const SAME_TYPE: c_int = -1;

impl Description {
    fn new(computed: c_int, factors: c_int) -> Description {
        Description {
            computed,
            factors,
            epilogue: 1,
            bias_type: SAME_TYPE,
            ..Description::default()
        }
    }

    /// The bytes of an attribute; none for one that is not kept.
    fn attribute(&mut self, number: c_int) -> Option<(*mut u8, usize)> {
        Some(match number {
            0 => place(&mut self.computed),
            1 => place(&mut self.factors),
            2 => place(&mut self.pointer_mode),
            3 => place(&mut self.form_a),
            4 => place(&mut self.form_b),
            5 => place(&mut self.form_c),
            7 => place(&mut self.epilogue),
            8 => place(&mut self.bias),
            10 => place(&mut self.bias_batch),
            26 => place(&mut self.bias_type),
            _ => return None,
        })
    }
}

impl Layout {
    fn new(number: c_int, rows: u64, columns: u64, leading: i64) -> Layout {
        Layout { number, rows, columns, leading, batches: 1, ..Layout::default() }
    }

    fn attribute(&mut self, number: c_int) -> Option<(*mut u8, usize)> {
        Some(match number {
            0 => place(&mut self.number),
            1 => place(&mut self.order),
            2 => place(&mut self.rows),
            3 => place(&mut self.columns),
            4 => place(&mut self.leading),
            5 => place(&mut self.batches),
            6 => place(&mut self.batch),
            _ => return None,
        })
    }

    /// The matrix at an address, in rows.
    fn matrix(&self, address: CUdeviceptr) -> Matrix {
        let (row, column) =
            if self.order == IN_ROWS { (self.leading, 1) } else { (1, self.leading) };
        Matrix { address, row, column, batch: self.batch, is_conjugated: false }
    }
}

fn place<T>(value: &mut T) -> (*mut u8, usize) {
    ((&raw mut *value).cast(), size_of::<T>())
}

impl Matrix {
    fn transposed(self) -> Matrix {
        Matrix { row: self.column, column: self.row, ..self }
    }

    fn in_form(self, form: Form) -> Matrix {
        match form {
            Form::Plain => self,
            Form::Transposed => self.transposed(),
            Form::Conjugated => Matrix { is_conjugated: true, ..self.transposed() },
        }
    }
}

/// The product of a description, without addresses and factors.
fn product(
    of: &Description,
    a: &Layout,
    b: &Layout,
    c: &Layout,
    d: &Layout,
) -> Result<Product, c_int> {
    let number = |layout: &Layout| Number::of(layout.number).ok_or(NOT_SUPPORTED);
    let (elements, results) = (number(a)?, number(d)?);
    let is_like = number(b)? == elements && number(c)? == results && c.order == d.order;
    let orders = [a.order, b.order, d.order].iter().all(|order| (0..=IN_ROWS).contains(order));
    if !is_like || !orders || of.form_c != 0 || of.bias_batch != 0 {
        return Err(NOT_SUPPORTED);
    }
    let factors = Number::of(of.factors).ok_or(NOT_SUPPORTED)?;
    if !can_be(factors, elements.wide()) {
        return Err(NOT_SUPPORTED);
    }
    let (has_bias, activation) = match of.epilogue {
        1 => (false, 0),
        2 => (false, 1),
        4 => (true, 0),
        6 => (true, 1),
        32 => (false, 2),
        36 => (true, 2),
        _ => return Err(NOT_SUPPORTED),
    };
    let is_bias_odd = of.bias_type != SAME_TYPE && of.bias_type != d.number;
    if has_bias && (is_bias_odd || d.order == IN_ROWS) {
        return Err(NOT_SUPPORTED);
    }
    let (form_a, form_b) = (Form::of(of.form_a)?, Form::of(of.form_b)?);
    let (left, right) = (a.matrix(0).in_form(form_a), b.matrix(0).in_form(form_b));
    let depth = if form_a == Form::Plain { a.columns } else { a.rows };
    let (added, result) = (c.matrix(0), d.matrix(0));
    let product = Product {
        elements,
        results,
        sizes: [d.rows, d.columns, depth],
        left,
        right,
        added,
        result,
        batches: d.batches.max(0) as u64,
        alpha: Default::default(),
        beta: Default::default(),
        bias: if has_bias { of.bias } else { 0 },
        activation,
    };
    product.kernel()?;
    Ok(if d.order == IN_ROWS { product } else { product.transposed() })
}

/// Whether factors of one type can be what a kernel sums in.
fn can_be(factors: Number, wide: Number) -> bool {
    crate::number::Scalar::default().converted(factors, wide).is_some()
}

impl Product {
    /// The same product with all matrices transposed, so that results that lie in columns lie in rows.
    fn transposed(self) -> Product {
        let [rows, columns, depth] = self.sizes;
        Product {
            sizes: [columns, rows, depth],
            left: self.right.transposed(),
            right: self.left.transposed(),
            added: self.added.transposed(),
            result: self.result.transposed(),
            ..self
        }
    }
}

/// # Safety
///
/// `place` is null or live.
unsafe fn known<'a, T>(place: *mut T) -> Result<&'a mut T, c_int> {
    // SAFETY: the caller vouches for it.
    unsafe { place.as_mut() }.ok_or(INVALID_VALUE)
}

/// # Safety
///
/// `from` holds `bytes` bytes.
unsafe fn set(attribute: Option<(*mut u8, usize)>, from: *const c_void, bytes: usize) -> Answer {
    if from.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller vouches for them.
    let given = unsafe { core::slice::from_raw_parts(from.cast::<u8>(), bytes) };
    match attribute {
        Some((place, room)) if room == bytes => {
            // SAFETY: an attribute's own bytes.
            unsafe { place.copy_from_nonoverlapping(given.as_ptr(), bytes) };
            Ok(())
        }
        Some(_) => Err(INVALID_VALUE),
        // One that is not kept may be what it is anyway.
        None if given.iter().all(|&byte| byte == 0) => Ok(()),
        None => Err(NOT_SUPPORTED),
    }
}

/// # Safety
///
/// `to` has room for `bytes` bytes; `written` is null or can be written.
unsafe fn get(
    attribute: Option<(*mut u8, usize)>,
    to: *mut c_void,
    bytes: usize,
    written: *mut usize,
) -> Answer {
    let (place, room) = attribute.ok_or(NOT_SUPPORTED)?;
    if !written.is_null() {
        // SAFETY: the caller vouches for the place.
        unsafe { written.write(room) };
    }
    if bytes == 0 {
        return Ok(());
    }
    if to.is_null() || bytes < room {
        return Err(INVALID_VALUE);
    }
    // SAFETY: an attribute's own bytes, and room for them.
    unsafe { to.cast::<u8>().copy_from_nonoverlapping(place, room) };
    Ok(())
}

/// # Safety
///
/// `place` is null or what a function here made.
unsafe fn destroy<T>(place: *mut T) -> Answer {
    if place.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller gives back what it was given.
    drop(unsafe { Box::from_raw(place) });
    Ok(())
}

answers! {
    fn cublasLtCreate(handle: *mut *mut u64) {
        crate::kernels::driver()?;
        put(handle, Box::into_raw(Box::new(0)))
    }
    fn cublasLtDestroy(handle: *mut u64) { destroy(handle) }

    fn cublasLtMatmulDescCreate(made: *mut *mut Description, computed: c_int, factors: c_int) {
        put(made, Box::into_raw(Box::new(Description::new(computed, factors))))
    }
    fn cublasLtMatmulDescInit_internal(place: *mut Description, bytes: usize, computed: c_int, factors: c_int) {
        if bytes < size_of::<Description>() {
            return Err(INVALID_VALUE);
        }
        put(place, Description::new(computed, factors))
    }
    fn cublasLtMatmulDescDestroy(description: *mut Description) { destroy(description) }
    fn cublasLtMatmulDescSetAttribute(of: *mut Description, number: c_int, from: *const c_void, bytes: usize) {
        set(known(of)?.attribute(number), from, bytes)
    }
    fn cublasLtMatmulDescGetAttribute(of: *mut Description, number: c_int, to: *mut c_void, bytes: usize, written: *mut usize) {
        get(known(of)?.attribute(number), to, bytes, written)
    }

    fn cublasLtMatrixLayoutCreate(made: *mut *mut Layout, number: c_int, rows: u64, columns: u64, leading: i64) {
        put(made, Box::into_raw(Box::new(Layout::new(number, rows, columns, leading))))
    }
    fn cublasLtMatrixLayoutInit_internal(place: *mut Layout, bytes: usize, number: c_int, rows: u64, columns: u64, leading: i64) {
        if bytes < size_of::<Layout>() {
            return Err(INVALID_VALUE);
        }
        put(place, Layout::new(number, rows, columns, leading))
    }
    fn cublasLtMatrixLayoutDestroy(layout: *mut Layout) { destroy(layout) }
    fn cublasLtMatrixLayoutSetAttribute(of: *mut Layout, number: c_int, from: *const c_void, bytes: usize) {
        set(known(of)?.attribute(number), from, bytes)
    }
    fn cublasLtMatrixLayoutGetAttribute(of: *mut Layout, number: c_int, to: *mut c_void, bytes: usize, written: *mut usize) {
        get(known(of)?.attribute(number), to, bytes, written)
    }

    fn cublasLtMatmulPreferenceCreate(made: *mut *mut [u64; 12]) { put(made, Box::into_raw(Box::new([0; 12]))) }
    fn cublasLtMatmulPreferenceInit_internal(place: *mut u64, bytes: usize) {
        if place.is_null() {
            return Err(INVALID_VALUE);
        }
        place.cast::<u8>().write_bytes(0, bytes);
        Ok(())
    }
    fn cublasLtMatmulPreferenceDestroy(preference: *mut [u64; 12]) { destroy(preference) }
    // What is preferred among algorithms, of which there is one.
    fn cublasLtMatmulPreferenceSetAttribute(_of: *mut u64, _number: c_int, _from: *const c_void, _bytes: usize) { Ok(()) }

    fn cublasLtMatmulAlgoGetHeuristic(
        _handle: *mut u64, of: *mut Description, a: *mut Layout, b: *mut Layout, c: *mut Layout, d: *mut Layout,
        _preference: *mut u64, room: c_int, found: *mut Found, count: *mut c_int,
    ) {
        if room < 1 {
            return Err(INVALID_VALUE);
        }
        put(count, 0)?;
        product(known(of)?, known(a)?, known(b)?, known(c)?, known(d)?)?;
        put(found, Found { algorithm: [1, 0, 0, 0, 0, 0, 0, 0], workspace_bytes: 0, state: 0, waves: 1.0, reserved: [0; 4] })?;
        put(count, 1)
    }

    fn cublasLtMatmul(
        _handle: *mut u64, of: *mut Description, alpha: *const c_void, a: *const c_void, layout_a: *mut Layout,
        b: *const c_void, layout_b: *mut Layout, beta: *const c_void, c: *const c_void, layout_c: *mut Layout,
        d: *mut c_void, layout_d: *mut Layout, _algorithm: *const u64, _workspace: *mut c_void, _bytes: usize,
        stream: CUstream,
    ) {
        let of = known(of)?;
        let layouts = [known(layout_a)?, known(layout_b)?, known(layout_c)?, known(layout_d)?];
        let mut product = product(of, layouts[0], layouts[1], layouts[2], layouts[3])?;
        let factors = Number::of(of.factors).ok_or(NOT_SUPPORTED)?;
        let on_device = match of.pointer_mode {
            0 => false,
            1 => true,
            _ => return Err(NOT_SUPPORTED),
        };
        let wide = product.elements.wide();
        let factor = |place| -> Result<_, c_int> {
            // SAFETY: the caller vouches for the factors.
            unsafe { read_scalar(place, factors, on_device, stream) }?.converted(factors, wide).ok_or(NOT_SUPPORTED)
        };
        (product.alpha, product.beta) = (factor(alpha)?, factor(beta)?);
        let (first, second) = if layouts[3].order == IN_ROWS { (a, b) } else { (b, a) };
        product.left.address = first.addr() as CUdeviceptr;
        product.right.address = second.addr() as CUdeviceptr;
        product.added.address = c.addr() as CUdeviceptr;
        product.result.address = d.addr() as CUdeviceptr;
        product.run(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F32: c_int = 0;

    fn described(of: &Description, d: &Layout) -> Result<Product, c_int> {
        let (a, b) = (Layout::new(F32, 4, 3, 4), Layout::new(F32, 3, 5, 3));
        product(of, &a, &b, d, d)
    }

    #[test]
    fn results_in_columns_are_the_transposed_product() {
        let of = Description::new(68, F32);
        let in_columns = described(&of, &Layout::new(F32, 4, 5, 6)).unwrap();
        assert_eq!(in_columns.sizes, [5, 4, 3]);
        assert_eq!((in_columns.result.row, in_columns.result.column), (6, 1));
        assert_eq!((in_columns.left.row, in_columns.left.column), (3, 1));
        let rows = Layout { order: IN_ROWS, ..Layout::new(F32, 4, 5, 7) };
        let in_rows = described(&of, &rows).unwrap();
        assert_eq!((in_rows.sizes, in_rows.result.row), ([4, 5, 3], 7));
    }

    #[test]
    fn what_no_kernel_does_is_refused() {
        let layout = Layout::new(F32, 4, 5, 4);
        for (number, value, allowed) in
            [(7, 36_u32, true), (7, 130, false), (5, 1, false), (3, 0, true)]
        {
            let mut of = Description::new(68, F32);
            // SAFETY: four bytes are there.
            unsafe { set(of.attribute(number), (&raw const value).cast(), 4) }.unwrap();
            assert_eq!(described(&of, &layout).is_ok(), allowed, "{number} {value}");
        }
        let of = Description::new(68, F32);
        assert!(described(&of, &Layout::new(1, 4, 5, 4)).is_err(), "f32 into f64");
    }
}
