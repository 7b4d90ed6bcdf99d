//! Products through cuBLASLt.
//!
//! cuBLASLt thinks in columns. What lies in rows is, read by columns, the transpose; so it is asked for
//! Cᵀ = op(B)ᵀ op(A)ᵀ with the operands exchanged, and the bias over our columns is one over its rows. The
//! algorithm is the first that its heuristic gives, looked up once per shape.

use super::request::{Activation, Matmul, Operands, Stored};
use crate::buffer::{Buffer, View, ViewMut};
use crate::error::{Error, Result};
use crate::float::Float;
use crate::foreign::ForeignCall;
use crate::libraries::Companion;
use crate::stream::Stream;
use core::ffi::c_void;
use cudarc::cublaslt::result as lt;
use cudarc::cublaslt::sys;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// What cuBLASLt may use beside the matrices.
const WORKSPACE_BYTES: usize = 32 << 20;

/// Shapes whose algorithm is remembered.
const MOST_PLANS: usize = 4096;

/// cuBLASLt for one executor.
pub(crate) struct Cublas {
    handle: sys::cublasLtHandle_t,
    plans: HashMap<Key, Plan>,
    /// One per stream, so that products on different streams do not wait for each other.
    workspaces: HashMap<u16, Buffer<u8>>,
}

// SAFETY: cuBLASLt's objects may be used by any thread, one at a time, which the executor's lock sees to.
unsafe impl Send for Cublas {}

/// What the algorithm depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    element: &'static str,
    sides: [u32; 4],
    strides: [usize; 6],
    transposes: (bool, bool),
    is_relu: bool,
    has_bias: bool,
    /// Largest power of two, up to 256, that divides the addresses of A, B and C.
    alignments: [u32; 3],
}

impl Cublas {
    /// Opens the library for the stream's executor.
    pub(crate) fn new(stream: &Stream) -> Result<Cublas> {
        Companion::CublasLt.open()?;
        stream.context().bind()?;
        let handle = lt::create_handle().map_err(|error| failed("cublasLtCreate", error))?;
        Ok(Cublas { handle, plans: HashMap::new(), workspaces: HashMap::new() })
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "a product has three matrices, a bias and a shape"
    )]
    pub(crate) fn multiply<T: Float>(
        &mut self,
        stream: &Stream,
        product: &Matmul,
        operands: &Operands,
        a: View<'_, T>,
        b: View<'_, T>,
        bias: Option<View<'_, T>>,
        mut c: ViewMut<'_, T>,
    ) -> Result<()> {
        let places = [*a.place().address, *b.place().address, *c.place().address];
        let key = Key {
            element: T::NAME,
            sides: [operands.m, operands.n, operands.k, operands.batch],
            strides: [
                operands.a.row_stride,
                operands.b.row_stride,
                operands.c.row_stride,
                operands.a.batch_stride,
                operands.b.batch_stride,
                operands.c.batch_stride,
            ],
            transposes: (product.transpose_a, product.transpose_b),
            is_relu: product.activation == Activation::Relu,
            has_bias: bias.is_some(),
            alignments: places.map(|address| 1 << address.trailing_zeros().min(8)),
        };
        if !self.plans.contains_key(&key) {
            stream.context().bind()?;
            // A program whose shapes never repeat must not fill the memory with them.
            if self.plans.len() >= MOST_PLANS {
                self.plans.clear();
            }
            let plan = Plan::new(self.handle, &key, operands)?;
            self.plans.insert(key.clone(), plan);
        }
        let number = stream.queue().number();
        let workspace = match self.workspaces.entry(number) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(place) => place.insert(stream.uninitialized(WORKSPACE_BYTES)?),
        };
        let Some(plan) = self.plans.get(&key) else { return Ok(()) };
        let mut workspace = workspace.view_mut();
        let (alpha, beta) = (product.alpha as f32, product.beta as f32);
        let handle = self.handle;
        let mut call = ForeignCall::new(stream);
        let (a, b, c) = (call.reads(&a)?, call.reads(&b)?, call.writes(&mut c)?);
        let bias = match &bias {
            Some(bias) => Some(call.reads(bias)?),
            None => None,
        };
        let workspace = call.writes(&mut workspace)?;
        call.run(|stream| {
            if let Some(bias) = bias {
                use sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER;
                plan.describe(CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias)?;
            }
            // SAFETY: the plan's layouts describe the memory that was checked against the same shape; all of
            // it is used in the order of this stream.
            unsafe {
                lt::matmul(
                    handle,
                    plan.description,
                    (&raw const alpha).cast(),
                    (&raw const beta).cast(),
                    b as *const c_void,
                    plan.b,
                    a as *const c_void,
                    plan.a,
                    c as *const c_void,
                    plan.c,
                    c as *mut c_void,
                    plan.c,
                    &raw const plan.algorithm,
                    workspace as *mut c_void,
                    WORKSPACE_BYTES,
                    stream.cast(),
                )
            }
            .map_err(|error| failed("cublasLtMatmul", error))
        })
    }
}

impl Drop for Cublas {
    fn drop(&mut self) {
        self.plans.clear();
        // SAFETY: made by `create_handle`, dropped once, after its plans.
        let _ = unsafe { lt::destroy_handle(self.handle) };
    }
}

/// A product as cuBLASLt sees it, and the algorithm for it.
struct Plan {
    description: sys::cublasLtMatmulDesc_t,
    a: sys::cublasLtMatrixLayout_t,
    b: sys::cublasLtMatrixLayout_t,
    c: sys::cublasLtMatrixLayout_t,
    algorithm: sys::cublasLtMatmulAlgo_t,
}

impl Plan {
    fn new(handle: sys::cublasLtHandle_t, key: &Key, operands: &Operands) -> Result<Plan> {
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        use sys::cudaDataType_t as Type;
        let element = match key.element {
            "f16" => Type::CUDA_R_16F,
            "bf16" => Type::CUDA_R_16BF,
            _ => Type::CUDA_R_32F,
        };
        let compute = sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
        let description = lt::create_matmul_desc(compute, Type::CUDA_R_32F)
            .map_err(|error| failed("cublasLtMatmulDescCreate", error))?;
        // From here on the plan owns what was made, and drops it if a later step fails.
        let nothing = core::ptr::null_mut();
        // SAFETY: an algorithm's bytes may all be zero.
        let algorithm = unsafe { core::mem::zeroed() };
        let mut plan = Plan { description, a: nothing, b: nothing, c: nothing, algorithm };
        // CUBLAS_OP_N and CUBLAS_OP_T.
        let turned = |transposed: bool| i32::from(transposed);
        plan.describe(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &turned(key.transposes.1))?;
        plan.describe(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, &turned(key.transposes.0))?;
        use sys::cublasLtEpilogue_t as Epilogue;
        let epilogue = match (key.is_relu, key.has_bias) {
            (false, false) => Epilogue::CUBLASLT_EPILOGUE_DEFAULT,
            (false, true) => Epilogue::CUBLASLT_EPILOGUE_BIAS,
            (true, false) => Epilogue::CUBLASLT_EPILOGUE_RELU,
            (true, true) => Epilogue::CUBLASLT_EPILOGUE_RELU_BIAS,
        };
        plan.describe(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &(epilogue as u32))?;
        plan.a = layout(element, operands.a, operands.batch)?;
        plan.b = layout(element, operands.b, operands.batch)?;
        plan.c = layout(element, operands.c, operands.batch)?;
        plan.algorithm = plan.first_algorithm(handle, key)?;
        Ok(plan)
    }

    fn describe<V>(&self, attribute: sys::cublasLtMatmulDescAttributes_t, value: &V) -> Result<()> {
        let place: *const V = value;
        // SAFETY: the description is alive, and the value has as many bytes as are told.
        unsafe {
            lt::set_matmul_desc_attribute(self.description, attribute, place.cast(), size_of::<V>())
        }
        .map_err(|error| failed("cublasLtMatmulDescSetAttribute", error))
    }

    fn first_algorithm(
        &self,
        handle: sys::cublasLtHandle_t,
        key: &Key,
    ) -> Result<sys::cublasLtMatmulAlgo_t> {
        use sys::cublasLtMatmulPreferenceAttributes_t as Attribute;
        let preference = Preference(
            lt::create_matmul_pref()
                .map_err(|error| failed("cublasLtMatmulPreferenceCreate", error))?,
        );
        preference.set(Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &WORKSPACE_BYTES)?;
        // Parts of a sum are joined in the type they were computed in: joined in 16 bits, a product can be off
        // by two last places.
        let joined_in =
            sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;
        preference.set(Attribute::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &joined_in)?;
        let [a, b, c] = key.alignments;
        preference.set(Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &b)?;
        preference.set(Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &a)?;
        preference.set(Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c)?;
        preference.set(Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c)?;
        // SAFETY: all objects are alive.
        unsafe {
            lt::get_matmul_algo_heuristic(
                handle,
                self.description,
                self.b,
                self.a,
                self.c,
                self.c,
                preference.0,
            )
        }
        .map(|found| found.algo)
        .map_err(|error| failed("cublasLtMatmulAlgoGetHeuristic", error))
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: each was made once, is dropped once, and no call with it is under way on the host.
        unsafe {
            let _ = lt::destroy_matmul_desc(self.description);
            for layout in [self.a, self.b, self.c] {
                if !layout.is_null() {
                    let _ = lt::destroy_matrix_layout(layout);
                }
            }
        }
    }
}

struct Preference(sys::cublasLtMatmulPreference_t);

impl Preference {
    fn set<V>(
        &self,
        attribute: sys::cublasLtMatmulPreferenceAttributes_t,
        value: &V,
    ) -> Result<()> {
        let place: *const V = value;
        // SAFETY: the preference is alive, and the value has as many bytes as are told.
        unsafe { lt::set_matmul_pref_attribute(self.0, attribute, place.cast(), size_of::<V>()) }
            .map_err(|error| failed("cublasLtMatmulPreferenceSetAttribute", error))
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: made by `create_matmul_pref`, dropped once.
        let _ = unsafe { lt::destroy_matmul_pref(self.0) };
    }
}

/// A matrix in rows, as the matrix in columns that it is to cuBLASLt.
fn layout(
    element: sys::cudaDataType_t,
    stored: Stored,
    batch: u32,
) -> Result<sys::cublasLtMatrixLayout_t> {
    use sys::cublasLtMatrixLayoutAttribute_t as Attribute;
    let (rows, columns) = (stored.columns as u64, stored.rows as u64);
    let layout = lt::create_matrix_layout(element, rows, columns, stored.row_stride as i64)
        .map_err(|error| failed("cublasLtMatrixLayoutCreate", error))?;
    let (batch, stride) = (batch.cast_signed(), stored.batch_stride as i64);
    let (batch_place, stride_place): (*const i32, *const i64) =
        (&raw const batch, &raw const stride);
    // SAFETY: the layout is alive, and the values have as many bytes as are told.
    let result = unsafe {
        lt::set_matrix_layout_attribute(
            layout,
            Attribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
            batch_place.cast(),
            size_of::<i32>(),
        )
        .and_then(|()| {
            lt::set_matrix_layout_attribute(
                layout,
                Attribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                stride_place.cast(),
                size_of::<i64>(),
            )
        })
    };
    if let Err(error) = result {
        // SAFETY: made above, and nobody else has it.
        let _ = unsafe { lt::destroy_matrix_layout(layout) };
        return Err(failed("cublasLtMatrixLayoutSetAttribute", error));
    }
    Ok(layout)
}

fn failed(call: &'static str, lt::CublasError(status): lt::CublasError) -> Error {
    Error::Driver { call, code: status as u32, text: format!("{status:?}"), kernel: None }
}
