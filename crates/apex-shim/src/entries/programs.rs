//! Stands in front of `exec…` and `posix_spawn…`, for assemblers that a program starts by their own path.
//!
//! A framework brings NVIDIA's `ptxas` in its wheel and starts that very file. In a process that has called the
//! software GPU's driver, a file of a name that something stands in for is replaced by what stands in. A process that
//! has not is left alone: nvcc and make under `apex run` shall get machine code from the toolkit they use.
//!
//! Each is a filter of one argument followed by a jump: the others, of `execl` any number, stay where they are. The
//! filter may run between `fork` and `exec`, so it takes no lock and allocates nothing.

use crate::driver::{load, stand_ins};
use crate::entries::loader::real_function;
use core::arch::naked_asm;
use core::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicUsize, Ordering};

macro_rules! starts {
    ($($name:ident, $called:literal, $real:ident, $place:literal;)*) => {
        $(
            static $real: AtomicUsize = AtomicUsize::new(0);

            /// The function of glibc, with the program's path replaced.
            #[unsafe(naked)]
            #[cfg_attr(not(test), unsafe(no_mangle))]
            unsafe extern "C" fn $name() {
                naked_asm!(
                    "push rdi",
                    "push rsi",
                    "push rdx",
                    "push rcx",
                    "push r8",
                    "push r9",
                    "push rax",
                    concat!("mov rdi, [rsp + ", $place, "]"),
                    "call {filter}",
                    concat!("mov [rsp + ", $place, "], rax"),
                    "pop rax",
                    "pop r9",
                    "pop r8",
                    "pop rcx",
                    "pop rdx",
                    "pop rsi",
                    "pop rdi",
                    "jmp qword ptr [rip + {real}]",
                    filter = sym which_program,
                    real = sym $real,
                )
            }
        )*

        /// The loader's own functions of these names.
        fn find_real_functions() {
            $(
                if $real.load(Ordering::Relaxed) == 0 {
                    $real.store(real_function($called), Ordering::Relaxed);
                }
            )*
        }
    };
}

// 48 is the place of the first argument, 40 that of the second.
starts! {
    execve, c"execve", REAL_EXECVE, "48";
    execv, c"execv", REAL_EXECV, "48";
    execvp, c"execvp", REAL_EXECVP, "48";
    execvpe, c"execvpe", REAL_EXECVPE, "48";
    execl, c"execl", REAL_EXECL, "48";
    execlp, c"execlp", REAL_EXECLP, "48";
    execle, c"execle", REAL_EXECLE, "48";
    posix_spawn, c"posix_spawn", REAL_POSIX_SPAWN, "40";
    posix_spawnp, c"posix_spawnp", REAL_POSIX_SPAWNP, "40";
}

unsafe extern "C" fn which_program(path: *const c_char) -> *const c_char {
    find_real_functions();
    if path.is_null() || load::loaded().is_none() {
        return path;
    }
    // SAFETY: these functions are given a C string.
    let asked = unsafe { CStr::from_ptr(path) }.to_bytes();
    let file = asked.rsplit(|&byte| byte == b'/').next().unwrap_or(asked);
    stand_ins::known_file(file).map_or(path, CStr::as_ptr)
}
