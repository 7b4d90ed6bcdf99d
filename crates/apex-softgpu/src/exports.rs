//! The driver's functions, one per row of the table, found through the one exported
//! function.
//!
//! [`ANSWERS`] is a whole driver: each field holds the function of that name from
//! one of the modules, or else the default that answers "not supported". What is
//! handed out is a jump through the field. It is written as assembly so that every
//! function has an address of its own: the shim tells functions apart by address, and
//! the compiler would merge two functions with equal bodies into one. A library that
//! exports all names, `apex-libcuda`, has such jumps of its own and lets them be handed
//! out instead.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use apex_cuda::types::*;
use apex_cuda::{Driver, Function, driver_functions};

use crate::settings::{say, settings};

/// Says once for each function, where it is wanted, that it is not answered.
fn unsupported(function: Function) -> CUresult {
    static SAID: [AtomicBool; Function::COUNT] =
        [const { AtomicBool::new(false) }; Function::COUNT];
    if settings().softgpu_verbose && !SAID[function as usize].swap(true, Ordering::Relaxed) {
        say(&format!("{} is not supported by the software GPU", function.name()));
    }
    CUDA_ERROR_NOT_SUPPORTED
}

/// The functions that the modules answer.
mod answered {
    pub(super) use crate::{
        array::*, capture::*, context::*, copy::*, device::*, event::*, exec::*, graph::*, ipc::*,
        kernel::*, launch::*, library::*, link::*, managed::*, memory::*, module::*, node::*,
        occupancy::*, pointer::*, pool::*, profiler::*, reference::*, resolve::*, set::*,
        stream::*, texture::*, twins::*, user_object::*, vmm::*,
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
                    // The number keeps functions of equal signature apart.
                    let _result = unsupported(Function::$name);
                    $(_result as $result)?
                }
            )*
        }

        /// What answers each function.
        #[doc(hidden)]
        pub static ANSWERS: Driver = {
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
                pub(super) unsafe extern "C" fn $name() {
                    core::arch::naked_asm!(
                        "jmp qword ptr [rip + {answers} + {offset}]",
                        answers = sym ANSWERS,
                        offset = const 8 * Function::$name as usize,
                    )
                }
            )*
        }

        /// Whether one of the modules answers a function.
        pub fn is_answered(function: Function) -> bool {
            let default = match function {
                $(Function::$name => default::$name as *const c_void,)*
            };
            ANSWERS.address(function) != default
        }

        /// The jump of our own to what answers a function.
        fn own_entry(function: Function) -> *const c_void {
            match function {
                $(Function::$name => export::$name as *const c_void,)*
            }
        }
    };
}

driver_functions!(table);

/// Entries that are handed out in place of our own.
static ENTRIES: OnceLock<fn(Function) -> *const c_void> = OnceLock::new();

/// From now on hands out these entries: those of the library that exports the names.
#[doc(hidden)]
pub fn hand_out(entries: fn(Function) -> *const c_void) {
    ENTRIES.set(entries).ok();
}

/// The address under which a function is handed out.
pub(crate) fn address(function: Function) -> *const c_void {
    ENTRIES.get().map_or_else(|| own_entry(function), |entries| entries(function))
}

/// The address of the driver function of that name; null where there is none.
///
/// The one function that the library exports: its names are those of a libcuda, and
/// a program must not find them by accident.
///
/// # Safety
///
/// `name` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn apex_softgpu_function(name: *const c_char) -> *const c_void {
    let found = std::panic::catch_unwind(|| {
        // SAFETY: the caller vouches for the name.
        let name = unsafe { crate::border::text(name) }.ok()?;
        Function::ALL.iter().find(|function| function.c_name() == name).copied()
    });
    found.ok().flatten().map_or(core::ptr::null(), address)
}

/// A whole driver on the software GPU, for what is linked with it.
pub fn driver() -> Driver {
    // SAFETY: each address is that of the function of its name, with the table's signature.
    unsafe { Driver::from_addresses(address) }
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
        let result = unsafe { (ANSWERS.cuGraphicsUnregisterResource)(core::ptr::null_mut()) };
        assert_eq!(result, CUDA_ERROR_NOT_SUPPORTED);
        assert!(!is_answered(Function::cuGraphicsUnregisterResource));
        assert!(is_answered(Function::cuLaunchKernel));
    }

    #[test]
    fn functions_are_found_by_name() {
        // SAFETY: the names end with a NUL.
        unsafe {
            let found = apex_softgpu_function(c"cuInit".as_ptr());
            assert_eq!(found, address(Function::cuInit));
            assert!(apex_softgpu_function(c"cuNope".as_ptr()).is_null());
            assert!(apex_softgpu_function(core::ptr::null()).is_null());
        }
    }

    /// The list from which the coverage page is made; `UPDATE_EXPECT=1` renews it.
    #[test]
    fn the_list_of_answered_functions_is_true() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../apex-cuda/softgpu_functions.txt");
        let answered = Function::ALL.iter().filter(|&&function| is_answered(function));
        let names: Vec<&str> = answered.map(|function| function.name()).collect();
        let list = names.join("\n") + "\n";
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(path, &list).unwrap();
        }
        let kept = std::fs::read_to_string(path).unwrap();
        assert!(
            kept == list,
            "renew the list with UPDATE_EXPECT=1 and the page with cargo xtask docs"
        );
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
