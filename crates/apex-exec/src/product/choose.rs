//! Which kernel multiplies: a pure function of device, product and what was measured.
//!
//! A kernel that cannot do a product is out, with the reason. Among the others the fastest at the nearest
//! measured shape is taken; nearness is the distance of the logarithms of the sides, since speed follows
//! ratios. Where nothing near was measured, the shape decides.

use super::matmul_kernel::MatmulKernel;
use super::request::{Activation, Question};
use super::table::Table;
use core::fmt;

/// A kernel for a product, and why it was taken.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// let choice = executor.ops().explain_matmul::<f64>(&apex_exec::Matmul::new(8, 8, 8))?;
/// assert_eq!(choice.kernel, apex_exec::MatmulKernel::Plain);
/// assert!(choice.to_string().starts_with("plain: "));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatmulChoice {
    /// The kernel.
    pub kernel: MatmulKernel,
    /// Why.
    pub reason: String,
}

impl fmt::Display for MatmulChoice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.kernel.name(), self.reason)
    }
}

/// What the choice needs to know of the device and its machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    pub(crate) compute_capability: (u32, u32),
    pub(crate) multiprocessors: u32,
    pub(crate) is_software: bool,
    pub(crate) has_compiler: bool,
    pub(crate) has_cublas: bool,
}

/// Why a kernel cannot do a product; nothing where it can.
pub(crate) fn obstacle(
    kernel: MatmulKernel,
    question: &Question,
    site: &Site,
) -> Option<&'static str> {
    let Question { element, k, aligned, activation, adds, .. } = *question;
    let is_16_bit = question.is_16_bit();
    let needs_compiler = "it is compiled at run time, and NVRTC is not here";
    match kernel {
        MatmulKernel::Plain => None,
        MatmulKernel::SmallF32 | MatmulKernel::TiledF32 if element != "f32" => Some("it takes f32"),
        MatmulKernel::Mma | MatmulKernel::Wgmma if !is_16_bit => Some("it takes f16 and bf16"),
        MatmulKernel::CublasLt => {
            let fusable = matches!(activation, Activation::None | Activation::Relu);
            match () {
                () if !site.has_cublas => Some("cuBLASLt is not here"),
                () if element == "f64" => Some("it is asked for f32, f16 and bf16"),
                () if k == 0 => Some("k is 0"),
                () if is_16_bit && adds => {
                    Some("it rounds a product to 16 bits before it adds to it")
                }
                () if !fusable => Some("it fuses no activation but relu exactly"),
                () => None,
            }
        }
        _ if !site.has_compiler => Some(needs_compiler),
        _ if site.compute_capability < (8, 0) => Some("it needs compute capability 8.0"),
        MatmulKernel::Wgmma if site.is_software => Some("the software GPU has no wgmma"),
        MatmulKernel::Wgmma if site.compute_capability.0 != 9 => {
            Some("it needs compute capability 9.0")
        }
        MatmulKernel::Wgmma if !aligned => {
            Some("a matrix, row or batch begins off a 16-byte border")
        }
        _ => None,
    }
}

/// Shapes farther than this (a factor of twelve in one side, say) tell nothing.
const NEAR: f64 = 2.5;

/// The kernel for a product.
pub(crate) fn choose(question: &Question, site: &Site, table: &Table) -> MatmulChoice {
    if site.is_software {
        let reason = "on the software GPU the plainest kernel is the fastest".into();
        return MatmulChoice { kernel: MatmulKernel::Plain, reason };
    }
    let possible = |kernel| obstacle(kernel, question, site).is_none();
    if let Some((row, distance)) = table.nearest(question, &possible)
        && distance <= NEAR
    {
        let mut times: Vec<(MatmulKernel, f64)> =
            row.micros.iter().copied().filter(|(kernel, _)| possible(*kernel)).collect();
        times.sort_by(|left, right| left.1.total_cmp(&right.1));
        if let Some((kernel, _)) = times.first() {
            let list: Vec<String> = times
                .iter()
                .map(|(kernel, micros)| format!("{} {micros:.1} µs", kernel.name()))
                .collect();
            let reason = format!(
                "measured on {} at {} {} {} x {} x {}, batch {}: {}",
                table.device,
                row.element,
                row.layout,
                row.m,
                row.n,
                row.k,
                row.batch,
                list.join(", ")
            );
            return MatmulChoice { kernel: *kernel, reason };
        }
    }
    by_shape(question, site)
}

fn by_shape(question: &Question, site: &Site) -> MatmulChoice {
    let possible = |kernel| obstacle(kernel, question, site).is_none();
    let because = |kernel, reason: &str| MatmulChoice { kernel, reason: reason.into() };
    let tiles = |side: u64| {
        u64::from(question.m).div_ceil(side)
            * u64::from(question.n).div_ceil(side)
            * u64::from(question.batch)
    };
    let few_tiles = tiles(128) < u64::from(site.multiprocessors);
    let order: &[(MatmulKernel, &str)] = if question.is_16_bit() {
        &[
            (
                MatmulKernel::CublasLt,
                "nothing near was measured; cuBLASLt is the safe choice on tensor cores",
            ),
            (MatmulKernel::Wgmma, "nothing near was measured, and cuBLASLt is not possible"),
            (MatmulKernel::Mma, "nothing near was measured; any shape goes through mma"),
        ]
    } else if few_tiles {
        &[(
            MatmulKernel::SmallF32,
            "nothing near was measured; tiles of 128 would leave multiprocessors idle",
        )]
    } else {
        &[
            (
                MatmulKernel::CublasLt,
                "nothing near was measured; cuBLASLt is the safe choice for large f32",
            ),
            (MatmulKernel::TiledF32, "nothing near was measured, and cuBLASLt is not possible"),
        ]
    };
    match order.iter().find(|(kernel, _)| possible(*kernel)) {
        Some((kernel, reason)) => because(*kernel, reason),
        None if question.element == "f64" => {
            because(MatmulKernel::Plain, "f64 has this kernel alone")
        }
        None => {
            because(MatmulKernel::Plain, "the faster kernels need NVRTC and compute capability 8.0")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: Site = Site {
        compute_capability: (9, 0),
        multiprocessors: 132,
        is_software: false,
        has_compiler: true,
        has_cublas: true,
    };

    fn question(element: &'static str, m: u32, n: u32, k: u32) -> Question {
        Question {
            element,
            m,
            n,
            k,
            batch: 1,
            transpose_a: false,
            transpose_b: false,
            aligned: true,
            activation: Activation::None,
            adds: false,
        }
    }

    fn table() -> Table {
        Table::parse(
            "device Test\nbf16 nn 1024 1024 1024 1 wgmma=6.0 cublaslt=6.5 mma=9\n\
             bf16 nn 8192 8192 8192 1 wgmma=1700 cublaslt=1500\nf32 nn 256 256 256 1 small_f32=7 cublaslt=9\n",
        )
    }

    #[test]
    fn the_fastest_at_the_nearest_shape_is_taken() {
        let kernel = |question| choose(&question, &H200, &table()).kernel;
        assert_eq!(kernel(question("bf16", 1000, 1100, 900)), MatmulKernel::Wgmma);
        assert_eq!(kernel(question("bf16", 7000, 8192, 8192)), MatmulKernel::CublasLt);
        assert_eq!(kernel(question("f32", 300, 256, 256)), MatmulKernel::SmallF32);
        let choice = choose(&question("bf16", 1024, 1024, 1024), &H200, &table());
        assert!(
            choice.reason.contains("measured on Test at bf16 nn 1024 x 1024 x 1024"),
            "{choice}"
        );
        assert!(choice.reason.contains("wgmma 6.0 µs, cublaslt 6.5 µs"), "{choice}");
    }

    #[test]
    fn what_cannot_be_done_is_not_chosen() {
        let mut odd = question("bf16", 1024, 1024, 1024);
        odd.aligned = false;
        assert_eq!(choose(&odd, &H200, &table()).kernel, MatmulKernel::CublasLt);
        let mut gelu = odd;
        gelu.activation = Activation::Gelu;
        assert_eq!(choose(&gelu, &H200, &table()).kernel, MatmulKernel::Mma);
        let without = Site { has_compiler: false, has_cublas: false, ..H200 };
        assert_eq!(choose(&odd, &without, &table()).kernel, MatmulKernel::Plain);
        assert_eq!(choose(&question("f64", 9, 9, 9), &H200, &table()).kernel, MatmulKernel::Plain);
        let soft = Site { is_software: true, ..H200 };
        assert_eq!(choose(&odd, &soft, &table()).kernel, MatmulKernel::Plain);
        assert!(obstacle(MatmulKernel::Wgmma, &question("bf16", 8, 8, 8), &soft).is_some());
        let ampere = Site { compute_capability: (8, 6), ..H200 };
        assert!(obstacle(MatmulKernel::Wgmma, &question("bf16", 8, 8, 8), &ampere).is_some());
        assert!(obstacle(MatmulKernel::Mma, &question("bf16", 8, 8, 8), &ampere).is_none());
    }

    #[test]
    fn without_a_near_measurement_the_shape_decides() {
        let kernel = |question| choose(&question, &H200, &Table::default()).kernel;
        assert_eq!(kernel(question("f32", 256, 256, 256)), MatmulKernel::SmallF32);
        assert_eq!(kernel(question("f32", 4096, 4096, 4096)), MatmulKernel::CublasLt);
        assert_eq!(kernel(question("f16", 4096, 4096, 4096)), MatmulKernel::CublasLt);
        let far = choose(&question("bf16", 1, 1, 1 << 20), &H200, &table());
        assert!(far.reason.contains("nothing near was measured"), "{far}");
    }
}
