//! NVRTC asked for machine code answers with the PTX that it was made of, on the software GPU.
//!
//! The compiler keeps both, and the image goes to a driver that reads only PTX. A program finds the two functions by
//! `dlsym`; each library that is asked has a slot here, so that several versions can be open at once. Where the
//! compiler has no PTX, or no machine code, its own answer stands.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Libraries told apart; one more gets its own functions.
const SLOTS: usize = 4;

/// `nvrtcResult` of success.
const SUCCESS: c_int = 0;

/// Asks a program for the size of one of its outputs, or for the output.
type AskSize = unsafe extern "C" fn(*mut c_void, *mut usize) -> c_int;
type AskBytes = unsafe extern "C" fn(*mut c_void, *mut c_char) -> c_int;

/// What one library answers with.
struct Slot {
    /// One more than the handle, which is 0 for a search in all libraries; 0 while the slot is free.
    owner: AtomicUsize,
    ptx_size: AtomicUsize,
    ptx: AtomicUsize,
    cubin_size: AtomicUsize,
    cubin: AtomicUsize,
}

static FOUND: [Slot; SLOTS] = [const {
    Slot {
        owner: AtomicUsize::new(0),
        ptx_size: AtomicUsize::new(0),
        ptx: AtomicUsize::new(0),
        cubin_size: AtomicUsize::new(0),
        cubin: AtomicUsize::new(0),
    }
}; SLOTS];

static SIZES: [AskSize; SLOTS] =
    [cubin_size::<0>, cubin_size::<1>, cubin_size::<2>, cubin_size::<3>];
static BYTES: [AskBytes; SLOTS] = [cubin::<0>, cubin::<1>, cubin::<2>, cubin::<3>];

/// Our own function for one of NVRTC's, in a library that has it. `find` is the real `dlsym` of that library.
pub(super) fn function(
    handle: *mut c_void,
    name: &CStr,
    find: impl Fn(&CStr) -> usize,
) -> Option<*const c_void> {
    let wants_size = match name.to_bytes() {
        b"nvrtcGetCUBINSize" => true,
        b"nvrtcGetCUBIN" => false,
        _ => return None,
    };
    let nth = slot((handle as usize).wrapping_add(1), &find)?;
    Some(if wants_size { SIZES[nth] as *const c_void } else { BYTES[nth] as *const c_void })
}

/// The slot of a library; none for one that lacks a function, or where all are taken.
fn slot(owner: usize, find: &impl Fn(&CStr) -> usize) -> Option<usize> {
    let names = [c"nvrtcGetPTXSize", c"nvrtcGetPTX", c"nvrtcGetCUBINSize", c"nvrtcGetCUBIN"];
    let [ptx_size, ptx, cubin_size, cubin] = names.map(find);
    if [ptx_size, ptx, cubin_size, cubin].contains(&0) {
        return None;
    }
    FOUND.iter().position(|slot| {
        let taken = slot.owner.compare_exchange(0, owner, Ordering::AcqRel, Ordering::Acquire);
        if taken.is_err_and(|other| other != owner) {
            return false;
        }
        // A library that was closed may have left its handle to another.
        slot.ptx_size.store(ptx_size, Ordering::Relaxed);
        slot.ptx.store(ptx, Ordering::Relaxed);
        slot.cubin_size.store(cubin_size, Ordering::Relaxed);
        slot.cubin.store(cubin, Ordering::Release);
        true
    })
}

unsafe extern "C" fn cubin_size<const N: usize>(program: *mut c_void, size: *mut usize) -> c_int {
    let slot = &FOUND[N];
    // SAFETY: the program's own arguments, for the library's own function.
    let result = unsafe { ask_size(&slot.cubin_size, program, size) };
    // SAFETY: a call that succeeded has written the size.
    if result != SUCCESS || size.is_null() || unsafe { *size } == 0 {
        return result;
    }
    if let Some(ptx) = ptx_bytes(slot, program) {
        // SAFETY: as above.
        unsafe { *size = ptx };
    }
    result
}

unsafe extern "C" fn cubin<const N: usize>(program: *mut c_void, code: *mut c_char) -> c_int {
    let slot = &FOUND[N];
    let ask = if ptx_bytes(slot, program).is_some() { &slot.ptx } else { &slot.cubin };
    // SAFETY: the address is that of a function with this signature, and the buffer has the size that was told.
    let ask: AskBytes = unsafe { core::mem::transmute(ask.load(Ordering::Acquire)) };
    // SAFETY: as above.
    unsafe { ask(program, code) }
}

/// How long the PTX of a program is, if it has machine code and PTX.
fn ptx_bytes(slot: &Slot, program: *mut c_void) -> Option<usize> {
    let (mut machine, mut ptx) = (0, 0);
    // SAFETY: two places for a size.
    let (has_machine, has_ptx) = unsafe {
        (
            ask_size(&slot.cubin_size, program, &raw mut machine),
            ask_size(&slot.ptx_size, program, &raw mut ptx),
        )
    };
    // One byte is the NUL of a text without words.
    let both = has_machine == SUCCESS && has_ptx == SUCCESS && machine > 0 && ptx > 1;
    both.then_some(ptx)
}

/// # Safety
///
/// `size` is null or a place for a size.
unsafe fn ask_size(function: &AtomicUsize, program: *mut c_void, size: *mut usize) -> c_int {
    // SAFETY: the address is that of a function with this signature.
    let ask: AskSize = unsafe { core::mem::transmute(function.load(Ordering::Acquire)) };
    // SAFETY: the caller vouches for the place.
    unsafe { ask(program, size) }
}
