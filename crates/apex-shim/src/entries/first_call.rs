//! What stands in the driver's table until the driver is loaded: a stub for each function.
//!
//! Whichever is called first has the driver loaded and apex begun, and jumps on to the real function.

use crate::aspects;
use crate::driver::load;
use crate::entries::exports::own_entry;
use apex_cuda::Function;
use core::arch::global_asm;
use core::ffi::c_void;

/// Where the stub of function `number` jumps on to. The first call begins everything.
pub(super) extern "C" fn real_address(number: usize) -> *const c_void {
    let address = load::real_address(number, own_entry);
    aspects::begin();
    address
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
    count = const Function::COUNT,
    resolve = sym real_address,
    options(att_syntax),
);
