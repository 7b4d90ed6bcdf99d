//! A jump for each name of the table to what answers it.

#![allow(
    non_snake_case,
    non_camel_case_types,
    reason = "exported functions bear cuDNN's own names"
)]

use crate::names::functions;
use core::ffi::c_int;

/// `CUDNN_STATUS_NOT_SUPPORTED`.
const NOT_SUPPORTED: c_int = 3000;

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
    fn handles_are_answered_and_operations_are_not() {
        assert!(is_answered("cudnnCreate") && is_answered("cudnnGetVersion"));
        assert!(!is_answered("cudnnConvolutionForward"));
        assert_eq!(not_supported(), 3000);
    }
}
