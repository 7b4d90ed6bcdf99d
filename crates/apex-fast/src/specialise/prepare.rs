//! Forms that earlier processes know are made ready when the program loads the code, before it launches.
//!
//! Programs often launch hundreds of times within a millisecond. What an earlier run found is of use to those launches
//! only if it is ready before the first. So where it is expected to gain more than it costs, it is made within the call
//! that loads the code; else this layer's thread makes it.

use super::images::{self, Owner};
use super::kernels::{self, Kernel, State};
use super::make::Job;
use super::study::machine;
use super::{beneath, own_context, past, thread};
use apex_core::time;
use apex_cuda::types::*;
use core::ptr::null_mut;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// Kernels of an image that are made ready at most.
const MOST_KERNELS: usize = 32;

/// Nanoseconds that the program has waited so far.
static WAITED: AtomicU64 = AtomicU64::new(0);

/// The program has loaded code.
pub(super) fn prepare(owner: Owner) {
    // Forms can be made ready only in a context.
    if !past::is_kept() || crate::captures::any() || own_context() == 0 {
        return;
    }
    let Some(image) = images::digest(owner) else { return };
    let context = own_context();
    let mut hopeful = past::kernels(&machine(), image);
    hopeful.retain(|(_, earlier)| earlier.is_worth_making());
    for (name, earlier) in hopeful.into_iter().take(MOST_KERNELS) {
        let Some(kernel) = kernel(owner, &name) else { continue };
        if !kernel.begins() {
            continue;
        }
        let job = Job::Study { kernel, context };
        let is_worth = earlier.is_worth_waiting(WAITED.load(Ordering::Relaxed));
        match thread::try_pause().filter(|_| is_worth) {
            Some(pause) => {
                let begun = time::monotonic_nanos();
                if catch_unwind(AssertUnwindSafe(|| job.carry_out())).is_err() {
                    kernel.set(State::Left);
                }
                WAITED.fetch_add(time::monotonic_nanos() - begun, Ordering::Relaxed);
                drop(pause);
            }
            None => thread::ask(job),
        }
    }
}

/// A kernel by its name, as the program will launch it.
fn kernel(owner: Owner, name: &str) -> Option<&'static Kernel> {
    let name = CString::new(name).ok()?;
    let (mut function, mut kernel): (CUfunction, CUkernel) = (null_mut(), null_mut());
    // SAFETY: code that the program has just loaded, a string, and valid places for the answers.
    let result = unsafe {
        match owner {
            Owner::Module(module) => (beneath().cuModuleGetFunction)(
                &raw mut function,
                module as CUmodule,
                name.as_ptr(),
            ),
            Owner::Library(library) => {
                (beneath().cuLibraryGetKernel)(&raw mut kernel, library as CUlibrary, name.as_ptr())
            }
        }
    };
    let handle = if function.is_null() { kernel as CUfunction } else { function };
    (result == CUDA_SUCCESS).then(|| kernels::get(handle)).flatten()
}
