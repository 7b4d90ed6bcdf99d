//! What a program does besides launching, as far as its bursts and its work in flight follow from it.
//!
//! Waits, copies and events come here after the driver has answered, and only tell: nothing is held here.

use super::attach::{here, is_on, own_key};
use super::program::Gate;
use super::tally::Tally;
use super::{blocking, exempt};
use crate::state::{captures, process::guard, thread};
use apex_core::time::monotonic_nanos;

/// The program has waited for a stream, for an event, or (with neither) for everything.
pub(crate) fn waited(stream: Option<u64>, event: Option<u64>) {
    if !is_on() {
        return;
    }
    guard(|| {
        let (gate, _, key) = here(stream.unwrap_or(0))?;
        let at_work = gate.at_work();
        let is_told = match event {
            Some(event) => at_work.waited_event(event),
            None => {
                // Where the default stream is named, it may be the thread's own; and the one for all has
                // waited for that too.
                let own = stream.filter(|&stream| stream <= 1).and_then(|_| own_key());
                at_work.waited(stream.map(|_| key));
                if own.is_some() {
                    at_work.waited(own);
                }
                true
            }
        };
        Tally::of(&mut thread::current()?.gate_room).end();
        let now = monotonic_nanos();
        if is_told {
            gate.flight.waited(now);
        }
        gate.tell_flight(now);
        Some(())
    });
}

/// Memory was copied: an input copy opens a burst, and a copy out that the program waited for ends one.
pub(crate) fn copied(to_host: bool, stream: Option<u64>) {
    if !is_on() || captures::any() {
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
            gate.at_work().touch(thread::number(), key, 0, 0);
        }
        Some(())
    });
}

/// A stream was made.
pub(crate) fn stream_made(stream: u64, flags: u32) {
    const NON_BLOCKING: u32 = 1;
    blocking::stream_made(stream, flags & NON_BLOCKING != 0);
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
            gate.streams.recorded(event, gate.named_by(stream, key));
            Some(())
        });
    }
}

/// A stream waits for an event.
pub(crate) fn stream_waits(stream: u64, event: u64) {
    if is_on() {
        guard(|| {
            let (gate, _, key) = here(stream)?;
            gate.streams.joins(gate.named_by(stream, key), event);
            Some(())
        });
    }
}

impl Gate {
    /// A note of a copy or an event does not say which default stream is meant: the thread's own, if it has used that.
    fn named_by(&self, stream: u64, key: u64) -> u64 {
        let own = own_key().filter(|&own| stream == 0 && self.streams.find(own).is_some());
        own.unwrap_or(key)
    }
}
