//! Launches wait here, and a thread of apex's own sends them.
//!
//! A launch that went well before is copied into a ring and returns. Whoever holds the ring's far end sends what stands
//! there: the thread, or a caller who must wait until all has gone ([`reach`]). So nothing depends on the thread: where it
//! is stopped or gets no processor, callers send for themselves.
//!
//! What holds everywhere:
//!
//! 1. There is one ring in a process and one order in it, the order of the calls. The driver sees the same calls in the
//!    same order as without apex, so streams, events and the legacy default stream need no thought here.
//! 2. A call waits only if the same call, with the same handles, was answered with success before and nothing that it
//!    names can have ended since ([`known`]). Whatever else would be refused is refused at the call.
//! 3. Every function of the driver's table has a word ([`apex_cuda::Order`]) that says what it does to the ring.
//! 4. Nothing is ever held back. What stands in the ring is sent as soon as the driver has taken what came before.
//!
//! One case is open. The driver lets a launch wait where its stream holds about a thousand that have not begun. Without
//! apex one thread waits then; with it all that must follow wait. A program in which another thread's call of the driver is
//! to set that stream free would stand still.
//!
//! | module | what is there |
//! |---|---|
//! | [`ring`] | the calls that wait, as bytes |
//! | [`known`] | the calls that may wait |
//! | [`closed`] | why nothing waits now |
//! | [`graphs`] | sequences of launches that the driver keeps as graphs |
//! | [`send`] | takes what waits and gives it to the driver |
//! | [`enter`] | the program's side: puts a call into the ring, or finds out why it may not |
//! | [`thread`] | the thread that sends, sleeps and makes room for others |
//! | [`doors`] | the functions that stand in the driver's place |

mod closed;
mod costs;
mod doors;
mod enter;
mod graphs;
mod known;
mod pointers;
mod ring;
mod send;
mod thread;

use apex_cuda::{Driver, Function};
use core::ffi::c_void;
use std::sync::OnceLock;

pub use costs::{expect, known};
pub(crate) use enter::leave;
pub use thread::number as thread_number;

/// The driver's functions, which lie beneath.
static BENEATH: OnceLock<Driver> = OnceLock::new();

/// Puts the queue upon the driver's functions.
///
/// # Safety
///
/// As for [`crate::raise`].
pub(crate) unsafe fn raise(addresses: &mut [*const c_void; Function::COUNT]) {
    // SAFETY: the caller's promise.
    let beneath = unsafe { Driver::from_addresses(|function| addresses[function as usize]) };
    if thread::processors() < 2 || BENEATH.set(beneath).is_err() {
        return;
    }
    // SAFETY: plain functions of this library, which is never unloaded.
    unsafe {
        libc::pthread_atfork(
            Some(enter::before_fork),
            Some(enter::after_fork),
            Some(enter::in_child),
        );
        libc::atexit(enter::leave);
    }
    doors::open(addresses);
}

/// Whether launches may wait here.
#[must_use]
pub fn is_raised() -> bool {
    BENEATH.get().is_some()
}

/// The driver's functions, if the queue stands upon them.
pub(crate) fn lowest() -> Option<&'static Driver> {
    BENEATH.get()
}

/// Where the next call that waits will stand.
pub(crate) fn head() -> u64 {
    ring::head()
}

/// Whether the driver was given everything before a place.
pub(crate) fn has_sent(place: u64) -> bool {
    ring::tail() >= place
}

/// The driver's functions, which lie beneath. Only for functions that stand upon them.
#[inline(always)]
fn beneath() -> &'static Driver {
    match BENEATH.get() {
        Some(driver) => driver,
        None => unreachable!("doors are opened after what lies beneath is set"),
    }
}
