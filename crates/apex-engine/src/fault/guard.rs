//! Turns a memory fault of the host into a value.
//!
//! Kernels address host memory, so an access outside it raises SIGSEGV or SIGBUS in the
//! worker. [`protect`] notes where the stack stood and calls; the handler, when the thread
//! that faulted is inside such a call, writes that stack and the address of the way out
//! into the interrupted context and returns, so execution goes on as if the call had come
//! back. Frames in between are dropped without their destructors: code that runs guarded
//! owns no lock, and whatever memory it owns is lost. Faults of everyone else go to the
//! handler that was there before.

use super::operand::{self, Registers};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::{Once, OnceLock};

/// A memory fault, as the processor reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryFault {
    /// The address, where the processor knows it (not for addresses no page can have).
    pub(crate) address: Option<u64>,
    /// The machine instruction.
    pub(crate) instruction: usize,
    /// The registers before it.
    pub(crate) registers: Registers,
}

/// What one guarded call leaves for the handler.
#[repr(C)]
struct Context {
    /// Stack pointer inside [`enter`], with the saved registers above it.
    stack: usize,
    /// The call around this one.
    outer: *mut Context,
    fault: MemoryFault,
}

thread_local! {
    // A constant without a destructor: reading it in a signal handler allocates nothing.
    static INNERMOST: Cell<*mut Context> = const { Cell::new(std::ptr::null_mut()) };
}

/// Calls `body`; a memory fault inside ends it at once.
pub(crate) fn protect<F: FnOnce()>(body: F) -> Result<(), Box<MemoryFault>> {
    install();
    let mut body = Some(body);
    let mut context = Context {
        stack: 0,
        outer: INNERMOST.get(),
        fault: MemoryFault { address: None, instruction: 0, registers: Registers::default() },
    };
    let context_pointer = &raw mut context;
    INNERMOST.set(context_pointer);
    // SAFETY: `call` matches the data it gets, and both outlive the call; the context stays
    // registered exactly as long as its stack does.
    let faulted = unsafe { enter(call::<F>, (&raw mut body).cast(), context_pointer) };
    INNERMOST.set(context.outer);
    // SAFETY: the handler wrote through the same pointer while `enter` ran.
    let fault = unsafe { (&raw const (*context_pointer).fault).read_volatile() };
    if faulted == 0 { Ok(()) } else { Err(Box::new(fault)) }
}

extern "C" fn call<F: FnOnce()>(data: *mut c_void) {
    // SAFETY: `protect` passes its own `Option<F>`.
    let body = unsafe { &mut *data.cast::<Option<F>>() };
    if let Some(body) = body.take() {
        body();
    }
}

/// Saves the registers a function must keep, notes the stack, calls. Gives 0 after a plain
/// return and 1 when the handler sent execution to [`leave`].
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn enter(
    body: extern "C" fn(*mut c_void),
    data: *mut c_void,
    context: *mut Context,
) -> u64 {
    core::arch::naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "mov [rdx], rsp",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "xor eax, eax",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Where the handler sends execution, with the stack as [`enter`] noted it.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn leave() {
    core::arch::naked_asm!(
        "cld",
        "mov eax, 1",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// As above: x19 to x30 and the lower halves of v8 to v15 are the callee's to keep.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn enter(
    body: extern "C" fn(*mut c_void),
    data: *mut c_void,
    context: *mut Context,
) -> u64 {
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-160]!",
        "stp x19, x20, [sp, #16]",
        "stp x21, x22, [sp, #32]",
        "stp x23, x24, [sp, #48]",
        "stp x25, x26, [sp, #64]",
        "stp x27, x28, [sp, #80]",
        "stp d8, d9, [sp, #96]",
        "stp d10, d11, [sp, #112]",
        "stp d12, d13, [sp, #128]",
        "stp d14, d15, [sp, #144]",
        "mov x9, sp",
        "str x9, [x2]",
        "mov x9, x0",
        "mov x0, x1",
        "blr x9",
        "mov x0, #0",
        "ldp x19, x20, [sp, #16]",
        "ldp x21, x22, [sp, #32]",
        "ldp x23, x24, [sp, #48]",
        "ldp x25, x26, [sp, #64]",
        "ldp x27, x28, [sp, #80]",
        "ldp d8, d9, [sp, #96]",
        "ldp d10, d11, [sp, #112]",
        "ldp d12, d13, [sp, #128]",
        "ldp d14, d15, [sp, #144]",
        "ldp x29, x30, [sp], #160",
        "ret",
    )
}

/// Where the handler sends execution.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn leave() {
    core::arch::naked_asm!(
        "mov x0, #1",
        "ldp x19, x20, [sp, #16]",
        "ldp x21, x22, [sp, #32]",
        "ldp x23, x24, [sp, #48]",
        "ldp x25, x26, [sp, #64]",
        "ldp x27, x28, [sp, #80]",
        "ldp d8, d9, [sp, #96]",
        "ldp d10, d11, [sp, #112]",
        "ldp d12, d13, [sp, #128]",
        "ldp d14, d15, [sp, #144]",
        "ldp x29, x30, [sp], #160",
        "ret",
    )
}

/// Ends the innermost guarded call of this thread as a fault does, with no address.
///
/// # Safety
/// A call is under way, and the frames in between own nothing that must be given back.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn leave_call() -> ! {
    // SAFETY: the caller's; the context lives on this thread's stack while its call runs.
    unsafe { leave_at((*INNERMOST.get()).stack) }
}

#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn leave_at(stack: usize) -> ! {
    core::arch::naked_asm!("mov rsp, rdi", "jmp {leave}", leave = sym leave)
}

struct Previous(libc::sigaction);

static PREVIOUS: [OnceLock<Previous>; 2] = [const { OnceLock::new() }; 2];
const SIGNALS: [i32; 2] = [libc::SIGSEGV, libc::SIGBUS];
static INSTALL: Once = Once::new();

fn install() {
    INSTALL.call_once(|| {
        for (slot, signal) in SIGNALS.into_iter().enumerate() {
            // SAFETY: plain system calls with structures of our own; the table is written
            // once, before our handler can read it.
            unsafe {
                let mut previous: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, std::ptr::null(), &raw mut previous);
                let _ = PREVIOUS[slot].set(Previous(previous));
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handler as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigemptyset(&raw mut action.sa_mask);
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
    });
}

extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    let innermost = INNERMOST.get();
    // SAFETY: the kernel gives valid structures.
    let is_sent = unsafe { (*info).si_code } <= 0;
    if innermost.is_null() || is_sent {
        // SAFETY: the kernel's own arguments, handed on.
        unsafe { forward(signal, info, context, is_sent) };
        return;
    }
    // SAFETY: the kernel gives valid structures; `innermost` lives on this thread's stack
    // below the interrupted frame, because `protect` unregisters it before it returns.
    unsafe {
        let machine = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext;
        // SI_KERNEL: the address is none that pages have, and is not reported.
        let address = ((*info).si_code != 0x80).then(|| (*info).si_addr() as u64);
        let kept = operand::registers(machine);
        let (instruction, stack) = registers(machine);
        (*innermost).fault =
            MemoryFault { address, instruction: *instruction as usize, registers: kept };
        *instruction = (leave as *const () as usize) as _;
        *stack = (*innermost).stack as _;
    }
}

#[cfg(target_arch = "x86_64")]
fn registers(machine: &mut libc::mcontext_t) -> (&mut i64, &mut i64) {
    let [instruction, stack] = machine
        .gregs
        .get_disjoint_mut([libc::REG_RIP as usize, libc::REG_RSP as usize])
        .unwrap_or_else(|_| std::process::abort());
    (instruction, stack)
}

#[cfg(target_arch = "aarch64")]
fn registers(machine: &mut libc::mcontext_t) -> (&mut u64, &mut u64) {
    (&mut machine.pc, &mut machine.sp)
}

/// Does what would have happened without us. A signal that was sent, by `kill` or `raise`, does not come
/// again by itself as one that an instruction raised does.
unsafe fn forward(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void, is_sent: bool) {
    let slot = usize::from(signal != libc::SIGSEGV);
    // SAFETY: written before the handler was installed, never after; the previous handler
    // gets the arguments its flags ask for.
    unsafe {
        if let Some(Previous(previous)) = PREVIOUS[slot].get() {
            match previous.sa_sigaction {
                libc::SIG_IGN if is_sent => {}
                libc::SIG_DFL | libc::SIG_IGN => {
                    // The instruction faults again, now with the default action.
                    libc::sigaction(signal, previous, std::ptr::null_mut());
                    if is_sent {
                        libc::raise(signal);
                    }
                }
                address if previous.sa_flags & libc::SA_SIGINFO != 0 => {
                    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) =
                        std::mem::transmute(address);
                    handler(signal, info, context);
                }
                address => {
                    let handler: extern "C" fn(i32) = std::mem::transmute(address);
                    handler(signal);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_becomes_a_value_again_and_again() {
        for turn in 1..4u64 {
            let address = 0x10 * turn;
            let result = protect(|| {
                // SAFETY: faults by design; the guard catches it.
                unsafe {
                    std::ptr::with_exposed_provenance::<u32>(address as usize).read_volatile()
                };
            });
            assert_eq!(result.unwrap_err().address, Some(address));
        }
        let far = protect(|| {
            let address = 0x0f00_0000_0000_0000usize;
            // SAFETY: as above.
            unsafe { std::ptr::with_exposed_provenance::<u32>(address).read_volatile() };
        });
        assert_eq!(far.unwrap_err().address, None);
        let mut value = 0;
        assert!(protect(|| value = 7).is_ok());
        assert_eq!(value, 7);
    }
}
