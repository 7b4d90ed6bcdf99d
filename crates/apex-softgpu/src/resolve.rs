//! The search for functions by name: `cuGetProcAddress` and export tables.
//!
//! A name stands for a family: `cuMemAlloc` and `cuMemAlloc_v2`, each perhaps with a
//! twin for the thread's own stream. The version asked for chooses the newest one
//! that is not newer, the flags choose the twin. The address is that of the export,
//! so it is the one that `dlsym` gives for the chosen symbol.

use core::ptr::null_mut;
use std::collections::HashMap;
use std::sync::{Once, OnceLock};

use apex_cuda::Function;
use apex_cuda::types::*;

use crate::border::{get, put, put_if_wanted, text};
use crate::device::DRIVER_VERSION;
use crate::settings::say;

const PER_THREAD: u64 = 2;
const FLAGS: u64 = 3;
const FOUND: CUdriverProcAddressQueryResult = 0;
const NOT_FOUND: CUdriverProcAddressQueryResult = 1;
const TOO_NEW: CUdriverProcAddressQueryResult = 2;

/// The private tables that NVIDIA's runtime asks for and cannot do without: its own interface, and the
/// proof that the driver is NVIDIA's.
const STATIC_RUNTIME_ASKS: [[u8; 16]; 2] = [
    0x6bd5_fb6c_5bf4_e74a_8987_d939_12fd_9df9_u128.to_be_bytes(),
    0xd408_2055_bde6_704b_8d34_ba12_3c66_e1f2_u128.to_be_bytes(),
];

/// What is said to a program that brings that runtime.
const STATIC_RUNTIME: &str = "this program carries NVIDIA's static CUDA runtime, which only NVIDIA's \
     driver can serve: link it with -cudart shared (nvcc) to run it on the software GPU";

/// The members of a family, oldest first, without and with a stream of their own.
#[derive(Default)]
struct Family {
    plain: Vec<Function>,
    per_thread: Vec<Function>,
}

fn families() -> &'static HashMap<&'static str, Family> {
    static FAMILIES: OnceLock<HashMap<&str, Family>> = OnceLock::new();
    FAMILIES.get_or_init(|| {
        let mut families: HashMap<&str, Family> = HashMap::new();
        // What has no published version is never given out, as by the driver.
        for &function in Function::ALL.iter().filter(|function| function.since() > 0) {
            let name = function.name();
            let base = name.strip_suffix("_ptsz").or(name.strip_suffix("_ptds"));
            let family = families.entry(without_version(base.unwrap_or(name))).or_default();
            if base.is_some() { &mut family.per_thread } else { &mut family.plain }.push(function);
        }
        for family in families.values_mut() {
            family.plain.sort_by_key(|function| function.since());
            family.per_thread.sort_by_key(|function| function.since());
        }
        families
    })
}

fn without_version(name: &str) -> &str {
    match name.rsplit_once("_v") {
        Some((base, digits)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => base,
        _ => name,
    }
}

/// The function that a name, a version and flags choose, or why there is none.
fn find(name: &str, version: i32, flags: u64) -> Result<Function, CUdriverProcAddressQueryResult> {
    let family = families().get(name).ok_or(NOT_FOUND)?;
    let newest = |members: &[Function]| {
        members.iter().rev().find(|function| function.since() as i64 <= i64::from(version)).copied()
    };
    let own = if flags & PER_THREAD != 0 { newest(&family.per_thread) } else { None };
    own.or_else(|| newest(&family.plain)).ok_or(TOO_NEW)
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
                put(out, crate::exports::address(function).cast_mut())?;
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
        // What is not found is told by the status and the null address alone.
        put_if_wanted(status, resolve(name, out, version, flags)?);
        Ok(())
    }

    fn cuGetExportTable(out: *mut *const c_void, id: *const CUuuid) {
        put(out, core::ptr::null())?;
        if STATIC_RUNTIME_ASKS.contains(&get(id)?.bytes.map(i8::cast_unsigned)) {
            static SAID: Once = Once::new();
            SAID.call_once(|| say(STATIC_RUNTIME));
        }
        Err(CUDA_ERROR_NOT_FOUND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, version: i32, flags: u64, expected: Result<Function, u32>) {
        assert_eq!(find(name, version, flags), expected, "{name} {version} {flags}");
    }

    #[test]
    fn version_and_flags_choose() {
        check("cuMemAlloc", 2000, 0, Ok(Function::cuMemAlloc));
        check("cuMemAlloc", 3019, 0, Ok(Function::cuMemAlloc));
        check("cuMemAlloc", 13_000, 0, Ok(Function::cuMemAlloc_v2));
        check("cuMemAlloc", 13_000, 2, Ok(Function::cuMemAlloc_v2));
        check("cuLaunchKernel", 12_000, 0, Ok(Function::cuLaunchKernel));
        check("cuLaunchKernel", 12_000, 2, Ok(Function::cuLaunchKernel_ptsz));
        check("cuMemcpyHtoD", 12_000, 2, Ok(Function::cuMemcpyHtoD_v2_ptds));
        check("cuGetProcAddress", 11_030, 0, Ok(Function::cuGetProcAddress));
        check("cuGetProcAddress", 12_000, 0, Ok(Function::cuGetProcAddress_v2));
        check("cuCtxCreate", 1000, 0, Err(TOO_NEW));
        check("cuNoSuchFunction", 12_000, 0, Err(NOT_FOUND));
        check("cudbgMain", 12_000, 0, Err(NOT_FOUND));
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
