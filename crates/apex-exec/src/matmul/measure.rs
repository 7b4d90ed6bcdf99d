//! Measures the kernels of a product, and keeps what was found for this device.

use crate::buffer::Buffer;
use crate::error::Result;
use crate::executor::Executor;
use crate::float::Float;
use crate::product::MatmulKernel;
use crate::product::choose::obstacle;
use crate::product::request::{Matmul, Operands, Places, Stored};
use crate::product::table::{Row, Table};
use half::{bf16, f16};

/// A shape to be measured.
///
/// ```
/// use apex_exec::{Matmul, MatmulShape};
///
/// let shape = MatmulShape::new::<f32>(Matmul::new(64, 64, 64));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MatmulShape {
    element: &'static str,
    product: Matmul,
}

impl MatmulShape {
    /// A product of matrices of `T`: `f32`, `f16` or `bf16`.
    ///
    /// ```
    /// use apex_exec::{Matmul, MatmulShape};
    ///
    /// let shape = MatmulShape::new::<half::bf16>(Matmul::new(64, 64, 64).transpose_b());
    /// ```
    #[must_use]
    pub fn new<T: Float>(product: Matmul) -> MatmulShape {
        MatmulShape { element: T::NAME, product }
    }
}

/// Times every kernel that can do each product, and puts what it finds into the table that products are chosen
/// by: of this executor at once, and of this device and driver for later processes. Gives the table's text.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// use apex_exec::{Matmul, MatmulShape};
///
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// let table = apex_exec::measure_matmul(&executor, &[MatmulShape::new::<f32>(Matmul::new(16, 16, 16))])?;
/// assert!(table.contains("f32 nn 16 16 16 1 "));
/// # Ok(())
/// # }
/// ```
pub fn measure_matmul(executor: &Executor, shapes: &[MatmulShape]) -> Result<String> {
    let mut rows = Vec::new();
    for shape in shapes {
        rows.extend(match shape.element {
            "f32" => measure::<f32>(executor, &shape.product)?,
            "f16" => measure::<f16>(executor, &shape.product)?,
            "bf16" => measure::<bf16>(executor, &shape.product)?,
            _ => None, // f64 has one kernel
        });
    }
    let facts = executor.facts();
    Ok(executor.matmul_state().change_table(facts, |table: &mut Table| {
        table.device.clone_from(&facts.name);
        for row in rows {
            table.put(row);
        }
        // Times of the software GPU choose nothing there, and would say nothing elsewhere.
        if !facts.is_software {
            table.save(facts);
        }
        table.text()
    }))
}

/// Each round of a kernel lasts about this long.
const ROUND_SECONDS: f64 = 2e-3;
const ROUNDS: usize = 7;

fn measure<T: Float>(executor: &Executor, product: &Matmul) -> Result<Option<Row>> {
    let operands = Operands::new(product)?;
    if operands.is_empty() {
        return Ok(None);
    }
    let ops = executor.ops();
    let batch = operands.batch as usize;
    let matrix = |stored: Stored| -> Result<Buffer<T>> {
        executor.zeros(stored.batch_stride * (batch - 1) + stored.rows * stored.row_stride)
    };
    let (a, b, mut c) = (matrix(operands.a)?, matrix(operands.b)?, matrix(operands.c)?);
    let places = Places {
        a: *a.place().address,
        b: *b.place().address,
        c: *c.place().address,
        has_bias: false,
    };
    let question = super::launch::question::<T>(product, &operands, places);
    let site = ops.site();
    let mut micros = Vec::new();
    for kernel in MatmulKernel::ALL {
        // The plain kernel is for what nothing else takes, and for the software GPU, where it is the choice.
        let is_only_one = site.is_software;
        if (kernel == MatmulKernel::Plain) != is_only_one
            || obstacle(kernel, &question, &site).is_some()
        {
            continue;
        }
        let asked = Matmul { kernel: Some(kernel), ..product.clone() };
        let stream = executor.stream();
        let mut time = |repeats: usize| -> Result<f64> {
            let begin = stream.record()?;
            for _ in 0..repeats {
                ops.matmul(&asked, &a, &b, &mut c)?;
            }
            Ok(stream.record()?.seconds_since(&begin)? / repeats as f64)
        };
        time(2)?;
        let repeats = (ROUND_SECONDS / time(2)?.max(1e-7)).clamp(1.0, 1000.0) as usize;
        let mut times = Vec::new();
        for _ in 0..if site.is_software { 1 } else { ROUNDS } {
            times.push(time(repeats)?);
        }
        times.sort_by(f64::total_cmp);
        micros.push((kernel, times[times.len() / 2] * 1e6));
    }
    Ok(Some(Row {
        element: T::NAME.into(),
        layout: question.layout().into(),
        m: operands.m,
        n: operands.n,
        k: operands.k,
        batch: operands.batch,
        micros,
    }))
}
