//! The sources of the operations: one module each, so that a program loads what it uses.

use crate::kept::KeptSource;

/// What goes before every source of an operation, and before a fused chain.
pub(crate) const PRELUDE: &str = include_str!("../../kernels/ops/prelude.cuh");

macro_rules! operations {
    ($($constant:ident = $file:literal $(after $($before:literal)+)?;)*) => {
        $(
            pub(crate) static $constant: KeptSource = KeptSource {
                name: concat!("ops/", $file),
                source: concat!(
                    include_str!("../../kernels/ops/prelude.cuh"),
                    $($(include_str!(concat!("../../kernels/ops/", $before)),)+)?
                    include_str!(concat!("../../kernels/ops/", $file, ".cu")),
                ),
                ptx: include_str!(concat!("../../kernels/ops/", $file, ".ptx")),
            };
        )*
    };
}

operations! {
    ELEMENTWISE = "elementwise";
    STEPS = "steps";
    SOFTMAX = "softmax" after "rows.cuh";
    LAYER_NORM = "layer_norm" after "rows.cuh" "moments.cuh";
    BATCH_NORM = "batch_norm" after "moments.cuh";
    REDUCE = "reduce";
    TRANSPOSE = "transpose";
    MATMUL_PLAIN = "matmul_plain";
}
