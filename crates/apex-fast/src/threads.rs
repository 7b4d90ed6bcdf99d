//! Threads of apex's own inside the program.

/// Begins one. Signals of the program are not for it.
#[cold]
pub(crate) fn begin(name: &str, stack: usize, run: fn()) -> bool {
    // SAFETY: an empty set of signals is a valid place for the answer; both sets outlive the calls.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { core::mem::zeroed() };
    // SAFETY: as above.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
    }
    let thread = std::thread::Builder::new().name(name.into()).stack_size(stack);
    let begun = thread.spawn(run);
    // SAFETY: the set that was there before.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut());
    }
    begun.is_ok()
}
