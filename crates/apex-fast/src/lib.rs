//! Makes a program faster below its driver calls.
//!
//! Each accelerator is a layer: it takes the driver's functions as one table of addresses, keeps them as what lies
//! *beneath* it, and puts its own functions in the place of some. What stands above calls the table as ever and cannot
//! tell. So the shim's records, samples, gate and tuning work through an accelerator without knowing it, and with none
//! switched on the table is the driver's own.
//!
//! | layer, from the bottom | switch | what it does |
//! |---|---|---|
//! | [`overlap`] | `overlap` | knows what launches touch, so that the queue's graphs have branches |
//! | [`queue`] | `launch` | a launch waits in a ring; a thread sends it, as a graph where it repeats |
//! | [`memory`] | `memory` | freed memory is handed out again without the driver |
//! | [`specialise`] | `specialise` | a kernel that is called with the same scalars and shape runs as one compiled for them |
//! | [`captures`] | any | knows whether a stream is being captured, for those beneath |
//!
//! Here stands what is done; whether it pays is decided in `apex-policy`. What fails here goes down as if this crate were
//! absent.

mod captures;
mod counts;
mod doors;
mod functions;
mod memory;
mod overlap;
mod queue;
mod specialise;
mod threads;

use apex_core::knobs::Fast;
use apex_cuda::{Driver, Function};
use core::ffi::c_void;

pub use counts::{Counts, Reason, count_in, count_in_own, counts};
pub use overlap::{Edge, Found, Sequence, endless as overlap_endless, hear as hear_of_sequences};
pub use queue::{expect, is_raised, known as known_costs, thread_number};
pub use specialise::{KEPT_MAGIC as SPECIALISED_MAGIC, Told, hear, keep_in as keep_specialised_in};

/// Puts the layers that are switched on upon the driver's functions.
///
/// # Safety
///
/// Each address is that of a function with the signature of its row, good for the rest of the process. To be called
/// once, before anybody calls through the table.
pub unsafe fn raise(addresses: &mut [*const c_void; Function::COUNT], fast: Fast) {
    // SAFETY: the caller's promise; each layer gets the functions of those beneath it.
    unsafe {
        // Where each call is to wait for the driver's answer, none can wait in a queue.
        if fast.launch && !fast.strict {
            if fast.overlap {
                overlap::raise(addresses);
            }
            queue::raise(addresses);
        }
        if fast.memory {
            memory::raise(addresses, fast.strict);
        }
        // Above the queue, which then sees the rewritten kernel's handle.
        if fast.specialise {
            specialise::raise(addresses);
        }
        if fast.any() {
            captures::raise(addresses);
        }
    }
}

/// A place in the order of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position(u64);

/// Behind everything that was called so far.
#[must_use]
pub fn position() -> Position {
    Position(queue::head())
}

/// Whether the driver was given everything before that place.
#[must_use]
pub fn has_sent(position: Position) -> bool {
    queue::has_sent(position.0)
}

/// The driver's functions without the queue: for questions about what was sent, which others need not wait for.
#[must_use]
pub fn beneath() -> Option<&'static Driver> {
    queue::lowest()
}

/// The program got a function of the driver that the table does not name.
pub fn unknown_function() {
    queue::leave();
    memory::step_aside();
    specialise::step_aside();
}
