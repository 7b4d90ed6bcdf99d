//! Makes rows of the events of one process.
//!
//! Events arrive ring by ring. Within a ring they are in order, so a ring's owner is known from its
//! last thread event; between rings they are put in the order in which the calls *ended*, because an
//! address is valid from the end of the call that made it and a well-behaved program frees it only
//! after the calls that use it. A batch holds what one look at the rings found; calls of two threads
//! that fall into two batches may stay out of order by a few milliseconds.

use crate::memory::{Memory, Range};
use crate::row::{Row, has_host_side};
use apex_core::event::{Copy, Direction, Event, ObjectKind, What};
use apex_core::time::Scale;

/// What is remembered of one process between batches.
#[derive(Debug, Default)]
pub struct Resolver {
    process: u32,
    pid: u32,
    owners: Vec<u32>,
    memory: Memory,
}

impl Resolver {
    /// For the process with this number in its session and this process id.
    #[must_use]
    pub fn of(process: u32, pid: u32) -> Resolver {
        Resolver { process, pid, ..Resolver::default() }
    }

    /// The thread that owns a ring as of this event. Called in the ring's own order.
    pub fn owner(&mut self, ring: usize, event: &Event) -> u32 {
        if self.owners.len() <= ring {
            self.owners.resize(ring + 1, 0);
        }
        if let What::Life(life) = event.what
            && life.object == ObjectKind::Thread
            && life.begins
        {
            self.owners[ring] = u32::try_from(life.handle).unwrap_or(0);
        }
        self.owners[ring]
    }

    /// The thread that owned a ring at the last event seen of it; 0 if none was.
    #[must_use]
    pub fn last_owner(&self, ring: usize) -> u32 {
        self.owners.get(ring).copied().unwrap_or(0)
    }

    /// Resolves one batch: pairs of thread and event. `origin` is the session's start on the
    /// monotonic clock.
    pub fn resolve(
        &mut self,
        batch: &mut [(u32, Event)],
        scale: &Scale,
        origin: u64,
        mut sink: impl FnMut(Row),
    ) {
        batch.sort_by_key(|(_, event)| event.head.start.saturating_add(event.head.ticks));
        for (tid, event) in batch {
            let (what, pageable) = self.decide(event);
            sink(Row {
                time_ns: scale.moment(event.head.start).saturating_sub(origin),
                host_ns: scale.span(event.head.ticks),
                process: self.process,
                pid: self.pid,
                tid: *tid,
                call: event.head.call,
                result: event.head.result,
                device: (event.head.device != UNKNOWN_DEVICE).then_some(event.head.device),
                context: event.head.context,
                stream: event.head.stream,
                what,
                pageable,
            });
        }
    }

    fn decide(&mut self, event: &Event) -> (What, Option<bool>) {
        let succeeded = event.head.result == 0;
        match event.what {
            What::Alloc { kind, address, bytes } if succeeded => {
                let device = (event.head.device != UNKNOWN_DEVICE).then_some(event.head.device);
                self.memory.allocated(address, Range { kind, bytes, device });
                (event.what, None)
            }
            What::Free { kind, address, bytes } if succeeded => {
                let what = match self.memory.freed(kind, address, bytes) {
                    Some(range) => What::Free { kind: range.kind, address, bytes: range.bytes },
                    None => event.what,
                };
                (what, None)
            }
            What::Copy(copy) => {
                let direction = match copy.direction {
                    Direction::Unstated => self.memory.direction(copy.to, copy.from),
                    stated => stated,
                };
                (What::Copy(Copy { direction, ..copy }), self.pageable(direction, &copy))
            }
            what => (what, None),
        }
    }

    fn pageable(&self, direction: Direction, copy: &Copy) -> Option<bool> {
        let host = if direction == Direction::HostToDevice { copy.from } else { copy.to };
        has_host_side(direction).then(|| !self.memory.is_pinned(host))
    }
}

const UNKNOWN_DEVICE: u8 = 255;

#[cfg(test)]
mod tests {
    use super::*;
    use apex_core::event::{AllocKind, CallId, Head, Life};
    use apex_core::time::Anchor;

    fn event(start: u64, ticks: u64, what: What) -> Event {
        let head =
            Head { call: CallId(0), result: 0, start, ticks, device: 0, context: 1, stream: 0 };
        Event { head, what }
    }

    fn copy(direction: Direction, to: u64, from: u64) -> What {
        What::Copy(Copy { direction, asynchronous: true, captured: false, to, from, bytes: 8 })
    }

    fn resolve(resolver: &mut Resolver, events: &[Event]) -> Vec<Row> {
        let scale = Scale::between(Anchor { ticks: 0, nanos: 0 }, Anchor { ticks: 1, nanos: 2 });
        let mut batch: Vec<_> = events.iter().map(|event| (7, *event)).collect();
        let mut rows = Vec::new();
        resolver.resolve(&mut batch, &scale, 100, |row| rows.push(row));
        rows
    }

    #[test]
    fn a_copy_learns_its_direction_and_whether_its_host_side_is_pageable() {
        let mut resolver = Resolver::of(1, 42);
        let device = What::Alloc { kind: AllocKind::Plain, address: 1000, bytes: 64 };
        let pinned = What::Alloc { kind: AllocKind::Host, address: 2000, bytes: 64 };
        let rows = resolve(
            &mut resolver,
            &[
                // Recorded by another thread and therefore read first, but it ended last.
                event(150, 50, copy(Direction::Unstated, 1000, 2000)),
                event(60, 1, device),
                event(70, 1, pinned),
                event(300, 1, copy(Direction::DeviceToHost, 5000, 1000)),
            ],
        );
        assert_eq!(rows.iter().map(|row| row.time_ns).collect::<Vec<_>>(), [20, 40, 200, 500]);
        assert_eq!(rows[2].pageable, Some(false));
        assert_eq!(rows[2].what, copy(Direction::HostToDevice, 1000, 2000));
        assert_eq!(rows[3].pageable, Some(true));
        assert_eq!((rows[0].process, rows[0].pid, rows[0].tid), (1, 42, 7));
    }

    #[test]
    fn a_free_learns_what_it_gave_back() {
        let mut resolver = Resolver::of(0, 1);
        let managed = What::Alloc { kind: AllocKind::Managed, address: 1000, bytes: 64 };
        let free = What::Free { kind: AllocKind::Plain, address: 1000, bytes: 0 };
        let rows = resolve(&mut resolver, &[event(200, 1, managed), event(300, 1, free)]);
        let expected = What::Free { kind: AllocKind::Managed, address: 1000, bytes: 64 };
        assert_eq!(rows[1].what, expected);
    }

    #[test]
    fn a_ring_changes_its_owner() {
        let mut resolver = Resolver::of(0, 1);
        let thread = |handle| {
            let life =
                Life { object: ObjectKind::Thread, begins: true, handle, flags: 0, priority: 0 };
            event(1, 0, What::Life(life))
        };
        assert_eq!(resolver.owner(3, &event(1, 0, What::Other)), 0);
        assert_eq!(resolver.owner(3, &thread(11)), 11);
        assert_eq!(resolver.owner(3, &event(1, 0, What::Other)), 11);
        assert_eq!(resolver.owner(3, &thread(12)), 12);
    }
}
