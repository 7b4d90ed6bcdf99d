//! The face of the library: one exported function per row of the driver table.
//!
//! A row that says `pass` becomes one jump through the table of real addresses. `note(module)`
//! becomes forward, then record: the module's function of the same name only *describes* the call
//! after it was made, so it cannot make it twice or lose it. `hook(module)` hands the call to the
//! module, which forwards it itself. To see one more function, change its row; the compiler then
//! asks for the function.
//!
//! The table of real addresses begins as a row of stubs: whichever entry is called first loads the
//! driver and jumps on, so no entry ever asks whether the driver is there.

#![allow(non_snake_case, reason = "exported functions bear the driver's own names")]

use crate::record;
use apex_cuda::types::*;
use apex_cuda::{Driver, Function, driver_functions};
use core::arch::{global_asm, naked_asm};

unsafe extern "C" {
    /// Addresses of the real driver, in table order; stubs until it is loaded.
    static mut apex_driver: Driver;
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

// A stub keeps its number in r11, which no C caller expects to survive, and all argument registers
// as they were.
global_asm!(
    ".pushsection .text.apex_stubs,\"ax\",@progbits",
    ".hidden apex_stubs",
    ".globl apex_stubs",
    ".balign 16",
    "apex_stubs:",
    ".set apex_number, 0",
    ".rept {count}",
    ".balign 16",
    "movl $apex_number, %r11d",
    "jmp apex_first_call",
    ".set apex_number, apex_number + 1",
    ".endr",
    "apex_first_call:",
    "push %rdi; push %rsi; push %rdx; push %rcx; push %r8; push %r9; push %r11",
    "sub $128, %rsp",
    "movups %xmm0, (%rsp); movups %xmm1, 16(%rsp); movups %xmm2, 32(%rsp); movups %xmm3, 48(%rsp)",
    "movups %xmm4, 64(%rsp); movups %xmm5, 80(%rsp); movups %xmm6, 96(%rsp); movups %xmm7, 112(%rsp)",
    "mov %r11, %rdi",
    "call {resolve}",
    "movups (%rsp), %xmm0; movups 16(%rsp), %xmm1; movups 32(%rsp), %xmm2; movups 48(%rsp), %xmm3",
    "movups 64(%rsp), %xmm4; movups 80(%rsp), %xmm5; movups 96(%rsp), %xmm6; movups 112(%rsp), %xmm7",
    "add $128, %rsp",
    "pop %r11; pop %r9; pop %r8; pop %rcx; pop %rdx; pop %rsi; pop %rdi",
    "jmp *%rax",
    ".popsection",
    ".pushsection .data.apex_driver,\"aw\",@progbits",
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
    resolve = sym crate::load::real_address,
    options(att_syntax),
);

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
            let result = unsafe { (driver().$name)($($argument),*) };
            record::call(Function::$name, is_per_thread_twin(stringify!($name)), started, result, || {
                // SAFETY: the same arguments; what they point to is valid if the driver took it.
                unsafe { crate::hooks::$module::$name(result, $($argument),*) }
            });
            result
        }
    };
    (hook($module:ident) $name:ident($($argument:ident: $type:ty),*)) => {
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name($($argument: $type),*) -> CUresult {
            // SAFETY: the program's own arguments, unchanged.
            unsafe { crate::hooks::$module::$name($($argument),*) }
        }
    };
}

macro_rules! exports {
    ($($kind:ident $treatment:ident $(($module:ident))? $since:literal
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        $(export! { $treatment $(($module))? $name($($argument: $type),*) })*

        /// The address of our own entry for each function, in table order.
        pub(crate) fn own_entries() -> [*const c_void; Function::COUNT] {
            [$($name as *const c_void),*]
        }
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
