//! A barrier for all threads of this process, paid for by the one that asks.
//!
//! Two threads that each say something and then look at what the other says need a barrier between the two.
//! Where one does that at every launch and the other once in a burst, the kernel (`membarrier`) lets the second
//! pay for both: every processor that runs a thread of this process does a barrier before the call returns.

use std::sync::OnceLock;

const EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_EXPEDITED: libc::c_int = 1 << 4;

/// Whether the kernel has it and lets us; the first call asks.
pub(super) fn is_there() -> bool {
    static THERE: OnceLock<bool> = OnceLock::new();
    *THERE.get_or_init(|| call(REGISTER_EXPEDITED) && call(EXPEDITED))
}

/// Every other thread has done a full barrier when this returns.
pub(super) fn everywhere() {
    if !call(EXPEDITED) {
        // A forked child may have to say anew that it uses it.
        call(REGISTER_EXPEDITED);
        call(EXPEDITED);
    }
}

fn call(command: libc::c_int) -> bool {
    // SAFETY: a system call that touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
