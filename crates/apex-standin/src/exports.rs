//! The exported functions, one per row of the table.
//!
//! [`ANSWERS`] is a whole driver: each field holds the function of that name from
//! one of the modules, or else the default that answers "not supported". Each export
//! is a jump through its field. It is written as assembly so that every export has
//! an address of its own: the shim tells functions apart by address, and the
//! compiler would merge two functions with equal bodies into one.

use core::sync::atomic::{AtomicU32, Ordering};

use apex_cuda::types::*;
use apex_cuda::{Driver, Function, driver_functions};

/// How often each function that is not answered here was asked for.
static UNSUPPORTED: [AtomicU32; Function::COUNT] = [const { AtomicU32::new(0) }; Function::COUNT];

fn unsupported(function: Function) -> CUresult {
    UNSUPPORTED[function as usize].fetch_add(1, Ordering::Relaxed);
    CUDA_ERROR_NOT_SUPPORTED
}

/// The functions that the modules answer.
mod answered {
    pub(super) use crate::{
        array::*, capture::*, context::*, copy::*, device::*, event::*, exec::*, graph::*,
        kernel::*, launch::*, library::*, link::*, memory::*, module::*, node::*, occupancy::*,
        pointer::*, pool::*, resolve::*, set::*, stream::*, twins::*, vmm::*,
    };
}

macro_rules! table {
    ($(
        $kind:ident $treatment:ident $(($module:ident))? $since:literal
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;
    )*) => {
        #[allow(dead_code, reason = "the defaults of answered functions are hidden")]
        mod default {
            use super::*;
            $(
                #[allow(clippy::too_many_arguments, reason = "the driver's own signatures")]
                pub(super) unsafe extern "C" fn $name($(_: $type),*) $(-> $result)? {
                    let _result = unsupported(Function::$name);
                    $(_result as $result)?
                }
            )*
        }

        /// What answers each function.
        static ANSWERS: Driver = {
            use default::*;
            {
                // The inner scope hides the defaults of the same name.
                #[allow(unused_imports, reason = "the modules also hold what is no driver function")]
                use answered::*;
                Driver { $($name,)* }
            }
        };

        mod export {
            use super::*;
            $(
                /// # Safety
                ///
                /// The caller keeps the C contract of the driver function.
                #[unsafe(naked)]
                #[cfg_attr(not(test), unsafe(no_mangle))]
                pub(super) unsafe extern "C" fn $name() {
                    core::arch::naked_asm!(
                        "jmp qword ptr [rip + {answers} + {offset}]",
                        answers = sym ANSWERS,
                        offset = const 8 * Function::$name as usize,
                    )
                }
            )*
        }

        /// The address under which a function is exported.
        pub(crate) fn address(function: Function) -> *const c_void {
            match function {
                $(Function::$name => export::$name as *const c_void,)*
            }
        }
    };
}

driver_functions!(table);

/// How many kernels were launched in this process, graph nodes included. For tests;
/// no libcuda has it.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn apex_standin_launches() -> u64 {
    crate::launch::launches()
}

/// How often a function that is not answered here was called, by its number in the
/// table. For tests; no libcuda has it.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn apex_standin_unsupported(function: u16) -> u32 {
    UNSUPPORTED.get(usize::from(function)).map_or(0, |count| count.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_export_has_its_own_address() {
        let addresses: HashSet<_> =
            Function::ALL.iter().map(|&function| address(function)).collect();
        assert_eq!(addresses.len(), Function::COUNT);
    }

    #[test]
    fn what_is_not_answered_is_not_supported_and_counted() {
        // SAFETY: the function takes a handle, which is not looked at.
        let result = unsafe { (ANSWERS.cuIpcCloseMemHandle)(0) };
        assert_eq!(result, CUDA_ERROR_NOT_SUPPORTED);
        assert!(apex_standin_unsupported(Function::cuIpcCloseMemHandle as u16) > 0);
        assert_eq!(apex_standin_unsupported(u16::MAX), 0);
        let _ = apex_standin_launches();
    }

    #[test]
    fn an_export_reaches_its_answer() {
        // SAFETY: the exported function has the signature of the table's row.
        let version = unsafe {
            core::mem::transmute::<*const c_void, unsafe extern "C" fn(*mut i32) -> CUresult>(
                address(Function::cuDriverGetVersion),
            )
        };
        let mut answer = 0;
        // SAFETY: `answer` can be written.
        assert_eq!(unsafe { version(&raw mut answer) }, CUDA_SUCCESS);
        assert_eq!(answer, 13000);
    }
}
