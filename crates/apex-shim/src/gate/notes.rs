//! What a program does besides launching, as far as its bursts and its work in flight follow from it.
//!
//! Waits, copies and events come here after the driver has answered, and only tell: nothing is held here.

use super::attach::{here, own_key};
use super::{Gate, exempt, is_on, lanes};
use crate::process::guard;
use crate::{capture, thread};
use apex_core::time::monotonic_nanos;
use apex_policy::schedule::Work;

/// The program has waited for a stream, for an event, or (with neither) for everything.
pub(crate) fn waited(stream: Option<u64>, event: Option<u64>) {
    if !is_on() {
        return;
    }
    guard(|| {
        let (gate, _, key) = here(stream.unwrap_or(0))?;
        let Gate { page, slot, bursts, flight, .. } = gate;
        match event {
            Some(event) => bursts.waited_event(page, *slot, event),
            None => {
                // Where the default stream is named, it may be the thread's own; and the one for all has
                // waited for that too.
                let own = stream.filter(|&stream| stream <= 1).and_then(|_| own_key());
                let keys = [stream.map(|_| key), own];
                for &key in &keys[..1 + usize::from(own.is_some())] {
                    flight.waited(key, monotonic_nanos());
                    bursts.waited(page, *slot, key);
                }
            }
        }
        thread::current()?.tally.end();
        gate.tell_flight(monotonic_nanos());
        Some(())
    });
}

/// Memory was copied: an input copy opens a burst, and a copy out that the program waited for ends one.
pub(crate) fn copied(to_host: bool, stream: Option<u64>) {
    if !is_on() || capture::any() {
        return;
    }
    if to_host && stream.is_none() {
        return waited(Some(0), None);
    }
    guard(|| {
        let stream = stream.unwrap_or(0);
        let (gate, _, key) = here(stream)?;
        if gate.has_bursts {
            let key = gate.named_by(stream, key);
            gate.bursts.touch(&gate.page, gate.slot, key, 0, &Work::default());
        }
        Some(())
    });
}

/// A stream was made.
pub(crate) fn stream_made(stream: u64, flags: u32) {
    const NON_BLOCKING: u32 = 1;
    lanes::stream_made(stream, flags & NON_BLOCKING != 0);
}

/// An event was made; one that another process may open is kept in mind.
pub(crate) fn event_made(event: u64, flags: u32) {
    const INTERPROCESS: u32 = 4;
    if flags & INTERPROCESS != 0 {
        exempt::share_event(event);
    }
}

/// An event was recorded on a stream.
pub(crate) fn event_recorded(event: u64, stream: u64) {
    exempt::recorded(event, stream);
    if is_on() {
        guard(|| {
            let (gate, _, key) = here(stream)?;
            if gate.has_bursts {
                gate.bursts.lanes.recorded(event, gate.named_by(stream, key));
            }
            Some(())
        });
    }
}

/// A stream waits for an event.
pub(crate) fn stream_waits(stream: u64, event: u64) {
    if is_on() {
        guard(|| {
            let (gate, _, key) = here(stream)?;
            if gate.has_bursts {
                gate.bursts.lanes.joins(gate.named_by(stream, key), event);
            }
            Some(())
        });
    }
}

impl Gate {
    /// A note of a copy or an event does not say which default stream is meant: the thread's own, if it has used that.
    fn named_by(&self, stream: u64, key: u64) -> u64 {
        let own = own_key().filter(|&own| stream == 0 && self.bursts.lanes.find(own).is_some());
        own.unwrap_or(key)
    }
}
