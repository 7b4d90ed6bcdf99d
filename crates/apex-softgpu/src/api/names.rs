//! The search for functions by name.
//!
//! A name stands for a family: `cuMemAlloc` and `cuMemAlloc_v2`, each perhaps with a
//! twin for the thread's own stream. The version asked for chooses the newest one
//! that is not newer, the flags choose the twin.

use std::collections::HashMap;
use std::sync::OnceLock;

use apex_cuda::Function;
use apex_cuda::types::*;

const PER_THREAD: u64 = 2;
pub(crate) const FLAGS: u64 = 3;
pub(crate) const FOUND: CUdriverProcAddressQueryResult = 0;
const NOT_FOUND: CUdriverProcAddressQueryResult = 1;
const TOO_NEW: CUdriverProcAddressQueryResult = 2;

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
pub(crate) fn find(
    name: &str,
    version: i32,
    flags: u64,
) -> Result<Function, CUdriverProcAddressQueryResult> {
    let family = families().get(name).ok_or(NOT_FOUND)?;
    let newest = |members: &[Function]| {
        members.iter().rev().find(|function| function.since() as i64 <= i64::from(version)).copied()
    };
    let own = if flags & PER_THREAD != 0 { newest(&family.per_thread) } else { None };
    own.or_else(|| newest(&family.plain)).ok_or(TOO_NEW)
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
}
