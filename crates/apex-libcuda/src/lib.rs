//! The software GPU under the driver's own name.
//!
//! Put into a folder as `libcuda.so.1` and that folder on `LD_LIBRARY_PATH`, it gives any
//! program a CUDA driver without apex around it. Every name of apex-cuda's table is
//! exported; each is one jump to what answers it in `apex-softgpu`, and nothing else is
//! done here.
//!
//! A program compares what `dlsym` gives with what `cuGetProcAddress` gives, as with any
//! driver, so the software GPU is told at the library's start to hand out these entries
//! in place of its own.

#![allow(non_snake_case, reason = "exported functions bear the driver's own names")]

use apex_cuda::{Function, driver_functions};
use core::ffi::c_void;

macro_rules! exports {
    ($($kind:ident $treatment:ident $(($module:ident))? $order:ident $since:literal
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        $(
            #[unsafe(naked)]
            #[cfg_attr(not(test), unsafe(no_mangle))]
            unsafe extern "C" fn $name() {
                core::arch::naked_asm!(
                    "jmp qword ptr [rip + {answers} + {offset}]",
                    answers = sym apex_softgpu::ANSWERS,
                    offset = const 8 * Function::$name as usize,
                )
            }
        )*

        /// The exported entry of a function.
        fn entry(function: Function) -> *const c_void {
            match function {
                $(Function::$name => $name as *const c_void,)*
            }
        }
    };
}

driver_functions!(exports);

extern "C" fn start() {
    apex_softgpu::hand_out(entry);
}

/// The loader calls this before anybody can ask for a function.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static START: extern "C" fn() = start;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_out_is_what_is_exported() {
        start();
        // SAFETY: the name ends with a NUL.
        let found = unsafe { apex_softgpu::apex_softgpu_function(c"cuInit".as_ptr()) };
        assert_eq!(found, entry(Function::cuInit));
    }
}
