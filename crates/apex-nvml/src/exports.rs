//! A jump for each name of the table to what answers it.

#![allow(non_snake_case, non_camel_case_types, reason = "exported functions bear NVML's own names")]

use crate::border::NOT_SUPPORTED;
use crate::names::functions;
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
    fn what_is_answered_is_found_by_its_name() {
        for name in crate::answers::ANSWERED {
            assert!(is_answered(name), "{name}");
        }
        assert!(!is_answered("nvmlDeviceGetPowerUsage"));
        let answered = NAMES.iter().filter(|name| is_answered(name)).count();
        assert_eq!(answered, crate::answers::ANSWERED.len());
    }
}
