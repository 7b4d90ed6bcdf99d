//! Gives a time to launches that did not read the clock.
//!
//! Where reading the clock is slow the shim leaves most launches of a hurry unread (`apex_core::pace` says
//! which, and what error remains). They wait here, ring by ring, for the next reading of their thread,
//! which is never more than a few calls away, and are then spread between the readings around them. If the
//! readings lie too far apart for a hurry the program has paused between them: the launches then follow
//! the first reading at the pace of the hurry, so that the pause stays whole. A ring's times never run
//! backwards because of what is done here.
//!
//! The last launches of a thread wait until it makes another call or the session ends; a collector that is
//! killed loses them, fifteen at most for each thread.

use apex_core::event::{Event, What};
use apex_core::pace::{UNREAD, is_hurry};

/// The launches of one process that wait for a time, and what their times are made from.
#[derive(Debug, Default)]
pub(crate) struct Interpolator {
    rings: Vec<Stretch>,
}

/// What follows the last reading in one ring.
#[derive(Debug, Default)]
struct Stretch {
    /// The last call whose start was read: that start, and its length if that was read too.
    start: u64,
    ticks: u64,
    /// Ticks from launch to launch in the last hurry.
    step: u64,
    /// Launches since, with their threads.
    waiting: Vec<(u32, Event)>,
}

/// More than this wait only if the program wrote over its ring, or readings found it full.
const MOST_WAITING: usize = 4096;

impl Interpolator {
    /// Takes the next event of a ring with its thread; hands on what has a time now.
    pub(crate) fn take(
        &mut self,
        ring: usize,
        thread: u32,
        event: Event,
        sink: &mut Vec<(u32, Event)>,
    ) {
        if self.rings.len() <= ring {
            self.rings.resize_with(ring + 1, Stretch::default);
        }
        let stretch = &mut self.rings[ring];
        match event.what {
            What::Launch(_) if event.head.start == UNREAD => {
                stretch.waiting.push((thread, event));
                if stretch.waiting.len() >= MOST_WAITING {
                    stretch.follow(u64::MAX, sink);
                }
            }
            // Written when the time became known: no reading of its place in the ring.
            What::GpuTime { .. } => sink.push((thread, event)),
            _ => {
                stretch.close(event.head.start, sink);
                (stretch.start, stretch.ticks) = (event.head.start, event.head.ticks);
                sink.push((thread, event));
            }
        }
    }

    /// No further reading will come: hands on what still waits.
    pub(crate) fn finish(&mut self, sink: &mut Vec<(u32, Event)>) {
        for stretch in &mut self.rings {
            stretch.follow(u64::MAX, sink);
        }
    }
}

impl Stretch {
    /// Spreads what waits up to the next reading.
    fn close(&mut self, next: u64, sink: &mut Vec<(u32, Event)>) {
        let launches = self.waiting.len() as u64;
        let apart = next.saturating_sub(self.start);
        if !is_hurry(launches + 1, apart) {
            return self.follow(next, sink);
        }
        // With the end of the first call known, the others share what is left.
        self.step = if self.ticks == 0 || launches == 0 {
            apart / (launches + 1)
        } else {
            apart.saturating_sub(self.ticks) / launches
        };
        self.place(self.step, next, sink);
    }

    /// Lets what waits follow the last reading at the pace of the last hurry.
    fn follow(&mut self, next: u64, sink: &mut Vec<(u32, Event)>) {
        self.place(if self.step == 0 { self.ticks } else { self.step }, next, sink);
    }

    fn place(&mut self, step: u64, next: u64, sink: &mut Vec<(u32, Event)>) {
        let first = if self.ticks == 0 { step } else { self.ticks };
        let mut time = self.start.saturating_add(first);
        for (thread, mut event) in self.waiting.drain(..) {
            event.head.start = time.min(next);
            sink.push((thread, event));
            time = time.saturating_add(step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apex_core::event::{CallId, Head, KernelId, Launch, LaunchShape, TimeBasis};

    fn event(start: u64, ticks: u64, what: What) -> Event {
        let head =
            Head { call: CallId(0), result: 0, start, ticks, device: 0, context: 1, stream: 0 };
        Event { head, what }
    }

    fn launch(start: u64, ticks: u64) -> Event {
        let (kernel, shape) = (KernelId(1), LaunchShape::default());
        event(
            start,
            ticks,
            What::Launch(Launch { kernel, shape, cooperative: false, captured: false }),
        )
    }

    /// The times that come out for events of one ring, in their order.
    fn check(events: &[Event], expected: &[u64]) {
        let mut interpolator = Interpolator::default();
        let mut placed = Vec::new();
        for event in events {
            interpolator.take(0, 7, *event, &mut placed);
        }
        interpolator.finish(&mut placed);
        assert_eq!(placed.iter().map(|(_, event)| event.head.start).collect::<Vec<_>>(), expected);
    }

    const NONE: u64 = UNREAD;

    #[test]
    fn unread_launches_share_the_time_between_two_readings() {
        let unread = launch(NONE, 0);
        check(
            &[launch(1000, 300), unread, unread, unread, launch(2200, 300)],
            &[1000, 1300, 1600, 1900, 2200],
        );
        check(&[launch(1000, 0), unread, unread, launch(1900, 0)], &[1000, 1300, 1600, 1900]);
    }

    #[test]
    fn a_pause_stays_whole_before_the_reading_that_shows_it() {
        let unread = launch(NONE, 0);
        let pause = 20_000_000;
        check(
            &[
                launch(1000, 300),
                unread,
                launch(1800, 300),
                unread,
                unread,
                event(pause, 9, What::Other),
            ],
            &[1000, 1300, 1800, 2100, 2600, pause],
        );
        // Nothing is known of the pace yet: as long as the first launch took.
        check(&[launch(1000, 300), unread, launch(pause, 300)], &[1000, 1300, pause]);
    }

    #[test]
    fn the_last_launches_follow_at_the_pace_of_those_before() {
        let unread = launch(NONE, 0);
        check(
            &[launch(1000, 100), unread, launch(1900, 100), unread, unread],
            &[1000, 1100, 1900, 2000, 2800],
        );
    }

    #[test]
    fn rings_do_not_mix_and_a_gpu_time_is_no_reading() {
        let mut interpolator = Interpolator::default();
        let mut placed = Vec::new();
        let shape = LaunchShape::default();
        let (kernel, basis) = (KernelId(1), TimeBasis::EventPair);
        let time = event(40, 0, What::GpuTime { kernel, shape, nanos: 5, basis });
        let arriving =
            [(0, launch(1000, 100)), (0, launch(NONE, 0)), (1, launch(5000, 100)), (0, time)];
        for (ring, event) in arriving {
            interpolator.take(ring, 7, event, &mut placed);
        }
        assert_eq!(placed.len(), 3);
        interpolator.take(0, 7, launch(1500, 100), &mut placed);
        assert_eq!(placed[3].1.head.start, 1100);
    }

    #[test]
    fn numbers_without_sense_do_no_harm() {
        let unread = launch(NONE, 0);
        let events =
            [launch(u64::MAX, u64::MAX), unread, launch(3, u64::MAX), unread, launch(1, 0)];
        let mut interpolator = Interpolator::default();
        let mut placed = Vec::new();
        for nth in 0..2 * MOST_WAITING {
            interpolator.take(nth % 3, 1, events[nth % events.len()], &mut placed);
            interpolator.take(1, 1, unread, &mut placed);
        }
        interpolator.finish(&mut placed);
        assert_eq!(placed.len(), 4 * MOST_WAITING);
    }
}
