//! The table of the driver's functions.
//!
//! It begins as a row of stubs (`apex_stubs`, written out beside the entries): whichever is called first loads the
//! driver (`load.rs`) and jumps on, so nobody ever asks whether the driver is there.

use apex_cuda::{Driver, Function};
use core::arch::global_asm;
use core::ffi::c_void;

unsafe extern "C" {
    /// Addresses of the real driver, in table order; stubs until it is loaded.
    pub(crate) static mut apex_driver: Driver;
}

const TABLE: *const Driver = &raw const apex_driver;

/// The driver's functions by name. Each may still be a stub; calling it is right in any case.
#[inline(always)]
pub(crate) fn driver() -> &'static Driver {
    // SAFETY: the table has the layout of `Driver` (asserted by apex-cuda), no entry is ever null,
    // and entries change only from a stub to the function it stands for, by pointer-sized stores.
    unsafe { &*TABLE }
}

/// Replaces every stub.
///
/// # Safety
///
/// Each address is that of a function with the signature of its row.
pub(crate) unsafe fn set_driver(addresses: &[*const c_void; Function::COUNT]) {
    let table = (&raw mut apex_driver).cast::<*const c_void>();
    for (nth, &address) in addresses.iter().enumerate() {
        // SAFETY: `nth` is below the number of rows; pointer-sized stores do not tear.
        unsafe { table.add(nth).write_volatile(address) };
    }
}

/// Has another function answer for one of the driver's.
///
/// # Safety
///
/// The address is that of a function with the signature of its row.
pub(crate) unsafe fn replace(function: Function, address: *const c_void) {
    let table = (&raw mut apex_driver).cast::<*const c_void>();
    // SAFETY: a row of the table; pointer-sized stores do not tear.
    unsafe { table.add(function as usize).write_volatile(address) };
}

global_asm!(
    ".pushsection .data.apex_driver,\"aw\",@progbits",
    ".hidden apex_stubs",
    ".hidden apex_driver",
    ".globl apex_driver",
    ".balign 64",
    "apex_driver:",
    ".set apex_number, 0",
    ".rept {count}",
    ".quad apex_stubs + 16 * apex_number",
    ".set apex_number, apex_number + 1",
    ".endr",
    ".popsection",
    count = const Function::COUNT,
    options(att_syntax),
);
