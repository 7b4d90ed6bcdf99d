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
//!
//! `cuGetProcAddress` stands here, because its answer is an entry of the table. It gives
//! the address of the export, which is the one that `dlsym` gives for the chosen symbol.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use apex_cuda::soft::{TELL_DEVICE, TellDevice};
use apex_cuda::types::*;
use apex_cuda::{Driver, Function, driver_functions};

use crate::api::facts::tell_device;
use crate::api::names::{FLAGS, FOUND, find};
use crate::border::{put, put_if_wanted, text};
use crate::machine::device::DRIVER_VERSION;
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
    pub(super) use super::{cuGetProcAddress, cuGetProcAddress_v2};
    pub(super) use crate::api::{
        array::*, capture::*, context::*, copy::*, device::*, event::*, executable::*, fill::*,
        graph::*, ipc::*, kernel::*, launch::*, library::*, link::*, managed::*, memory::*,
        module::*, node::*, occupancy::*, pointer::*, pool::*, private_tables::*, profiler::*,
        stream::*, tensor_map::*, texture::*, texture_reference::*, twins::*, user_object::*,
        virtual_memory::*,
    };
}

macro_rules! table {
    ($(
        $kind:ident $treatment:ident $(($module:ident))? $order:ident $since:literal
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

/// The address of the driver function of that name, or of the one that tells a device; null where there is none.
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
        let name = unsafe { text(name) }.ok()?;
        if name == TELL_DEVICE {
            let tell: TellDevice = tell_device;
            return Some(tell as *const c_void);
        }
        Function::ALL.iter().find(|function| function.c_name() == name).copied().map(address)
    });
    found.ok().flatten().unwrap_or(core::ptr::null())
}

/// # Safety
///
/// The pointers are the program's.
unsafe fn resolve(
    name: *const c_char,
    out: *mut *mut c_void,
    version: i32,
    flags: u64,
) -> Result<CUdriverProcAddressQueryResult, CUresult> {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        let name = text(name)?;
        if flags > FLAGS || version > DRIVER_VERSION {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        put(out, null_mut())?;
        let name = name.to_str().map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
        match find(name, version, flags) {
            Ok(function) => {
                put(out, address(function).cast_mut())?;
                Ok(FOUND)
            }
            Err(status) => Ok(status),
        }
    }
}

answers! {
    fn cuGetProcAddress(name: *const c_char, out: *mut *mut c_void, version: i32, flags: u64) {
        match resolve(name, out, version, flags)? {
            FOUND => Ok(()),
            _ => Err(CUDA_ERROR_NOT_FOUND),
        }
    }

    fn cuGetProcAddress_v2(
        name: *const c_char,
        out: *mut *mut c_void,
        version: i32,
        flags: u64,
        status: *mut CUdriverProcAddressQueryResult,
    ) {
        // What is not found is said by the status and the null address alone.
        put_if_wanted(status, resolve(name, out, version, flags)?);
        Ok(())
    }
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

    #[test]
    fn an_empty_name_is_answered_with_nothing() {
        let mut out = core::ptr::without_provenance_mut(1);
        // SAFETY: the name ends with a NUL, `out` can be written.
        let result = unsafe { cuGetProcAddress_v2(c"".as_ptr(), &raw mut out, 0, 0, null_mut()) };
        assert_eq!((result, out), (CUDA_SUCCESS, null_mut()));
        // SAFETY: as above.
        let result = unsafe { cuGetProcAddress(c"cuNope".as_ptr(), &raw mut out, 12_000, 0) };
        assert_eq!(result, CUDA_ERROR_NOT_FOUND);
        // SAFETY: as above.
        let result = unsafe { cuGetProcAddress(c"cuInit".as_ptr(), &raw mut out, 13_010, 0) };
        assert_eq!(result, CUDA_ERROR_INVALID_VALUE, "newer than the driver");
    }
}
