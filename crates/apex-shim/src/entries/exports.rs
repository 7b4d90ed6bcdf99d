//! The face of the library: one exported function per row of the driver table.
//!
//! A row that says `pass` becomes one jump through the table of real addresses. `note(module)`
//! becomes forward, then record: the module's function of the same name only *describes* the call
//! after it was made, so it cannot make it twice or lose it. `hook(module)` hands the call to the
//! module, which forwards it itself. To see one more function, change its row; the compiler then
//! asks for the function.

#![allow(non_snake_case, reason = "exported functions bear the driver's own names")]

use crate::aspects;
use crate::driver::{apex_driver, driver};
use crate::state::inside;
use apex_cuda::types::*;
use apex_cuda::{Function, driver_functions};
use core::arch::naked_asm;

/// Addresses of functions.
struct Entries([*const c_void; Function::COUNT]);

// SAFETY: they never change, and code may be called from any thread.
unsafe impl Sync for Entries {}

/// Our own entry for a function.
pub(super) fn own_entry(function: Function) -> *const c_void {
    OWN_ENTRIES.0[function as usize]
}

/// In a twin function a null stream is the calling thread's own.
const fn is_per_thread_twin(name: &str) -> bool {
    let name = name.as_bytes();
    let [.., b'_', b'p', b't', middle, last] = name else { return false };
    matches!((middle, last), (b's', b'z') | (b'd', b's'))
}

macro_rules! export {
    (pass $name:ident($($arguments:tt)*)) => {
        #[unsafe(naked)]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name() {
            naked_asm!(
                "jmp qword ptr [rip + {table} + {offset}]",
                table = sym apex_driver,
                offset = const 8 * Function::$name as usize,
            )
        }
    };
    (note($module:ident) $name:ident($($argument:ident: $type:ty),*)) => {
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name($($argument: $type),*) -> CUresult {
            let started = apex_core::time::ticks();
            // SAFETY: the program's own arguments, unchanged.
            let forward = || unsafe { (driver().$name)($($argument),*) };
            let result = inside::call(Function::$name, started, forward);
            aspects::call(Function::$name, is_per_thread_twin(stringify!($name)), started, result, || {
                // SAFETY: the same arguments; what they point to is valid if the driver took it.
                unsafe { crate::entries::hooks::$module::$name(result, $($argument),*) }
            });
            result
        }
    };
    (hook($module:ident) $name:ident($($argument:ident: $type:ty),*)) => {
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name($($argument: $type),*) -> CUresult {
            // SAFETY: the program's own arguments, unchanged.
            unsafe { crate::entries::hooks::$module::$name($($argument),*) }
        }
    };
}

macro_rules! exports {
    ($($kind:ident $treatment:ident $(($module:ident))? $order:ident $since:literal
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        $(export! { $treatment $(($module))? $name($($argument: $type),*) })*

        /// Our own entry for each function, in table order. A test binary exports none and keeps them by this.
        #[used]
        static OWN_ENTRIES: Entries = Entries([$($name as *const c_void),*]);
    };
}

driver_functions!(exports);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twins_are_told_by_their_name() {
        assert!(is_per_thread_twin("cuLaunchKernel_ptsz"));
        assert!(is_per_thread_twin("cuMemcpy_ptds"));
        assert!(!is_per_thread_twin("cuLaunchKernel"));
        assert!(!is_per_thread_twin("cuMemcpyHtoD_v2"));
    }
}
