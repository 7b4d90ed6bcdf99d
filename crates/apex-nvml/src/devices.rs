//! What the software GPU tells of its devices, without being started.
//!
//! Its library is the one that the program's driver is, by the path that `apex run` gives, or else beside this one. It
//! is opened and never initialised: a program may ask here and fork afterwards.

use crate::border::{DRIVER_NOT_LOADED, INVALID_ARGUMENT, UNINITIALIZED};
use apex_core::knobs::Knobs;
use apex_cuda::Library;
use apex_cuda::soft::{DeviceFacts, TELL_DEVICE, TellDevice};
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// How often the library was initialised and not shut down.
static USERS: AtomicU32 = AtomicU32::new(0);

static TELL: OnceLock<Option<TellDevice>> = OnceLock::new();

/// Begins the use of the library.
pub(crate) fn begin() -> Result<(), c_int> {
    TELL.get_or_init(open).ok_or(DRIVER_NOT_LOADED)?;
    USERS.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Ends one use of it.
pub(crate) fn end() -> Result<(), c_int> {
    let one_less = |users: u32| users.checked_sub(1);
    let ended = USERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
    ended.map(|_| ()).map_err(|_| UNINITIALIZED)
}

/// How many devices there are.
pub(crate) fn count() -> Result<u32, c_int> {
    begun()?;
    Ok(facts(0).map_or(0, |facts| facts.devices))
}

/// The device behind a handle. A handle is the device's number, from 1.
pub(crate) fn device(handle: *const c_void) -> Result<(u32, DeviceFacts), c_int> {
    begun()?;
    let number = u32::try_from(handle.addr()).ok().and_then(|number| number.checked_sub(1));
    let number = number.ok_or(INVALID_ARGUMENT)?;
    Ok((number, facts(number).ok_or(INVALID_ARGUMENT)?))
}

/// The handle of a device.
pub(crate) fn handle(number: u32) -> *mut c_void {
    core::ptr::without_provenance_mut(number as usize + 1)
}

/// The number of the first device of which something is true.
pub(crate) fn find(is: impl Fn(&DeviceFacts) -> bool) -> Result<Option<u32>, c_int> {
    Ok((0..count()?).find(|&number| facts(number).as_ref().is_some_and(&is)))
}

fn begun() -> Result<(), c_int> {
    if USERS.load(Ordering::Relaxed) == 0 { Err(UNINITIALIZED) } else { Ok(()) }
}

fn facts(number: u32) -> Option<DeviceFacts> {
    let tell = (*TELL.get()?)?;
    let mut facts = MaybeUninit::uninit();
    // SAFETY: a place for the facts, which are written where the answer is not 0.
    unsafe { (tell(number, facts.as_mut_ptr()) != 0).then(|| facts.assume_init()) }
}

fn open() -> Option<TellDevice> {
    let named = Knobs::from_environment(|_| ()).real_libcuda;
    let path = named.or_else(beside)?;
    // SAFETY: the user, or apex's own folder, says that this is the software GPU.
    let library = unsafe { Library::open(&path) }.ok()?;
    let address = library.symbol(TELL_DEVICE)?;
    // SAFETY: what the software GPU hands out by this name has this signature.
    Some(unsafe { core::mem::transmute::<*const c_void, TellDevice>(address) })
}

/// The software GPU's library in the folder of this one.
fn beside() -> Option<PathBuf> {
    // SAFETY: an all-zero `Dl_info` is a valid place for the answer.
    let mut found: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: an address inside this library and a place for the answer.
    if unsafe { libc::dladdr(beside as *const c_void, &raw mut found) } == 0 {
        return None;
    }
    // SAFETY: the loader's own string, copied at once.
    let own =
        PathBuf::from(OsStr::from_bytes(unsafe { CStr::from_ptr(found.dli_fname) }.to_bytes()));
    Some(own.canonicalize().ok()?.parent()?.join("libapex_softgpu.so"))
}
