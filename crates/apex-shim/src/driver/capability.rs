//! Says of the device that it is of another compute capability, to programs that refuse older ones at their start.
//!
//! Only where the settings ask for it. The two functions that tell a capability are replaced in the table before any
//! call; every other answer stays the driver's, limits of shared memory and registers among them, because kernels rely
//! on them. apex itself asks for the real numbers. Answers are counted, and told now and then.

use super::driver;
use apex_core::knobs::Capability;
use apex_cuda::Function;
use apex_cuda::types::*;
use core::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

const MAJOR: CUdevice_attribute = 75;
const MINOR: CUdevice_attribute = 76;

type AskAttribute = unsafe extern "C" fn(*mut i32, CUdevice_attribute, CUdevice) -> CUresult;
type AskCapability = unsafe extern "C" fn(*mut i32, *mut i32, CUdevice) -> CUresult;

/// What is claimed, and the driver's own functions.
struct Claim {
    capability: Capability,
    attribute: AskAttribute,
    both: AskCapability,
}

static CLAIM: OnceLock<Claim> = OnceLock::new();
static ANSWERS: AtomicU64 = AtomicU64::new(0);
/// Who tells how many answers were given.
static TELLS: OnceLock<fn(u64)> = OnceLock::new();

/// Takes the place of the driver's functions among its addresses; which of them, with ours.
///
/// # Safety
///
/// The addresses are those of functions with the signatures of their rows.
pub(super) unsafe fn claim(
    addresses: &mut [*const c_void; Function::COUNT],
    capability: Capability,
) -> [(usize, usize); 2] {
    let of = |function: Function| addresses[function as usize];
    let (attribute, both) =
        (of(Function::cuDeviceGetAttribute), of(Function::cuDeviceComputeCapability));
    // SAFETY: the caller vouches for the signatures.
    let claim = unsafe {
        Claim {
            capability,
            attribute: core::mem::transmute::<*const c_void, AskAttribute>(attribute),
            both: core::mem::transmute::<*const c_void, AskCapability>(both),
        }
    };
    let _ = CLAIM.set(claim);
    let (ours_attribute, ours_both) = (tell_attribute as *const c_void, tell_both as *const c_void);
    addresses[Function::cuDeviceGetAttribute as usize] = ours_attribute;
    addresses[Function::cuDeviceComputeCapability as usize] = ours_both;
    [(attribute as usize, ours_attribute as usize), (both as usize, ours_both as usize)]
}

/// What is claimed, where anything is.
pub(crate) fn claimed() -> Option<Capability> {
    CLAIM.get().map(|claim| claim.capability)
}

/// From now on every answer is told, the first ones and then ever fewer.
pub(crate) fn tell_by(tells: fn(u64)) {
    let _ = TELLS.set(tells);
}

/// An attribute as the driver has it; 0 where it has none.
pub(crate) fn real_attribute(attribute: CUdevice_attribute, device: CUdevice) -> i32 {
    let ask = CLAIM.get().map_or(driver().cuDeviceGetAttribute, |claim| claim.attribute);
    let mut value = 0;
    // SAFETY: a valid place for the answer.
    unsafe { ask(&raw mut value, attribute, device) };
    value
}

unsafe extern "C" fn tell_attribute(
    value: *mut i32,
    attribute: CUdevice_attribute,
    device: CUdevice,
) -> CUresult {
    let Some(claim) = CLAIM.get() else { return CUDA_ERROR_NOT_INITIALIZED };
    // SAFETY: the program's own arguments.
    let result = unsafe { (claim.attribute)(value, attribute, device) };
    let other = match attribute {
        MAJOR => claim.capability.major,
        MINOR => claim.capability.minor,
        _ => return result,
    };
    if result == CUDA_SUCCESS && !value.is_null() {
        // SAFETY: the driver has written its answer here.
        unsafe { value.write(other) };
        count();
    }
    result
}

unsafe extern "C" fn tell_both(major: *mut i32, minor: *mut i32, device: CUdevice) -> CUresult {
    let Some(claim) = CLAIM.get() else { return CUDA_ERROR_NOT_INITIALIZED };
    // SAFETY: the program's own arguments.
    let result = unsafe { (claim.both)(major, minor, device) };
    if result == CUDA_SUCCESS && !major.is_null() && !minor.is_null() {
        // SAFETY: the driver has written its answers here.
        unsafe {
            major.write(claim.capability.major);
            minor.write(claim.capability.minor);
        }
        count();
    }
    result
}

fn count() {
    let answers = ANSWERS.fetch_add(1, Ordering::Relaxed) + 1;
    // Each telling is a write to a file.
    if answers.is_power_of_two()
        && let Some(tells) = TELLS.get()
    {
        tells(answers);
    }
}
