//! What launches touch, so that those of one graph which touch nothing in common may run at once.
//!
//! This lies beneath the queue and sees what the program's calls tell of memory and code: which allocations there are
//! ([`allocations`]), which image each kernel came from ([`images`]). From a kernel's PTX follows what its launches touch
//! ([`kernels`], on a thread of its own), from that which launches depend on each other ([`piece`]). The queue asks when it
//! has made a graph, and again before a launch of the graph with other parameters. What was found is told to whoever
//! listens ([`told`]).
//!
//! What holds everywhere:
//!
//! 1. What is not proven keeps its place: such a launch waits for all before it, and all behind it wait for it.
//! 2. Only launches that stand side by side in one stream, without another call between them, are ever reordered.
//! 3. Memory counts only if it was allocated as the device's own and was not shown to anybody else: no managed or mapped
//!    memory, none that is mapped at several addresses, none of other processes.

mod allocations;
mod doors;
mod images;
mod kernels;
mod piece;
mod told;

use apex_cuda::{Driver, Function};
use core::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use kernels::settled;
pub(crate) use piece::{Launched, Piece, Placing};
pub use told::{Edge, Found, Sequence, hear};

/// What lies beneath.
static BENEATH: OnceLock<Driver> = OnceLock::new();
/// Branches and chain take turns for ever.
static IS_ENDLESS: AtomicBool = AtomicBool::new(false);

/// Puts this layer upon the driver's functions.
///
/// # Safety
///
/// As for [`crate::raise`].
pub(crate) unsafe fn raise(addresses: &mut [*const c_void; Function::COUNT]) {
    // SAFETY: the caller's promise.
    let beneath = unsafe { Driver::from_addresses(|function| addresses[function as usize]) };
    if BENEATH.set(beneath).is_ok() {
        // SAFETY: a plain function of this library, which is never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        doors::open(addresses);
    }
}

/// Whether anything is known here.
pub(crate) fn is_raised() -> bool {
    BENEATH.get().is_some()
}

/// For tests: branches and chain take turns for ever, whether or not branches pay.
pub fn endless() {
    IS_ENDLESS.store(true, Ordering::Relaxed);
}

/// In a child of `fork` nothing is noted: who held a lock is not there, and nothing waits there either.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

extern "C" fn in_child() {
    IS_CHILD.store(true, Ordering::SeqCst);
}

fn is_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}

/// Whether branches and chain take turns for ever.
pub(crate) fn is_endless() -> bool {
    IS_ENDLESS.load(Ordering::Relaxed)
}

fn beneath() -> &'static Driver {
    match BENEATH.get() {
        Some(driver) => driver,
        None => unreachable!("doors are opened after what lies beneath is set"),
    }
}
