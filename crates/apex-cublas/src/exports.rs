//! A jump for each name of the table to what answers it.

#![allow(
    non_snake_case,
    non_camel_case_types,
    reason = "exported functions bear the libraries' own names"
)]

use crate::names::functions;
use crate::status::NOT_SUPPORTED;
use core::ffi::c_int;

/// What answers all other names.
extern "C" fn not_supported() -> c_int {
    NOT_SUPPORTED
}

macro_rules! exports {
    ($($name:ident)*) => { apex_cuda::stand_in_exports! { not_supported; $($name)* } };
}

functions!(exports);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_stands_once_and_in_order() {
        assert!(NAMES.is_sorted_by(|first, second| first < second));
    }

    #[test]
    fn products_are_answered_in_all_forms() {
        for name in NAMES {
            let form = name.strip_prefix("cublas").unwrap_or_default();
            let form = form.strip_suffix("_64").unwrap_or(form);
            let is_product =
                matches!(form, "GemmEx" | "GemmStridedBatchedEx" | "GemmBatchedEx" | "SgemmEx")
                    || matches!(
                        form.get(1..),
                        Some("gemm_v2" | "gemmStridedBatched" | "gemmBatched")
                    );
            if is_product {
                assert!(is_answered(name), "{name}");
            }
        }
        assert!(is_answered("cublasLtMatmul") && is_answered("cublasSdot_v2"));
        assert!(!is_answered("cublasStrsm_v2"));
    }
}
