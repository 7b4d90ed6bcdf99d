//! What becomes of calls whose time is not what it seems: first launches, copies that wait, launches of long kernels.

use super::*;
use crate::names::Demangled;
use crate::row::tests::row;
use crate::summary::Summary;
use apex_core::event::{Copy, KernelId, Launch, SyncKind};

const MILLI: u64 = 1_000_000;

/// Calls one after the other.
#[derive(Default)]
struct Calls {
    tally: Tally,
    now_ns: u64,
}

impl Calls {
    fn call(&mut self, host_ns: u64, what: What) {
        let row = Row { host_ns, ..row(self.now_ns, what) };
        self.tally.add(&Known::default(), &row);
        self.now_ns += host_ns;
    }

    fn launch(&mut self, host_ns: u64) {
        let (kernel, shape) = (KernelId(1), LaunchShape::default());
        let launch = Launch { kernel, shape, cooperative: false, captured: false };
        self.call(host_ns, What::Launch(launch));
    }

    /// A launch that was timed on an idle stream, and the wait for it.
    fn launch_and_wait(&mut self, host_ns: u64, kernel_ns: u64) {
        self.launch(host_ns);
        let (kernel, shape) = (KernelId(1), LaunchShape::default());
        let basis = TimeBasis::EventPairIdle;
        self.call(0, What::GpuTime { kernel, shape, nanos: kernel_ns, basis });
        self.call(kernel_ns, What::Sync { kind: SyncKind::Context, object: 0 });
    }

    fn summary(&self) -> Summary {
        let frame = Frame { wall_ns: self.now_ns, most_rows: 10, ..Frame::default() };
        self.tally.summary(&Known::default(), &frame, &mut Demangled::default())
    }
}

#[test]
fn a_first_launch_that_compiles_is_loading_and_no_launching() {
    let mut calls = Calls::default();
    calls.launch_and_wait(100 * MILLI, 565 * MILLI);
    (0..9).for_each(|_| calls.launch_and_wait(5_000, 565 * MILLI));
    let summary = calls.summary();
    let loads = &summary.loads;
    assert_eq!((loads.count, loads.first_launches), (0, 1));
    assert_eq!(loads.first_launch_ns, 100 * MILLI - 5_000);
    let bound = summary.launch_bound.unwrap();
    assert_eq!(bound.found_idle, 1.0);
    assert!(bound.share < 0.001, "ten launches of 5 µs hold up nothing: {bound:?}");
}

#[test]
fn a_gpu_that_waits_for_launch_calls_is_launch_bound() {
    let mut calls = Calls::default();
    (0..100).for_each(|_| calls.launch_and_wait(6_000, 2_000));
    let bound = calls.summary().launch_bound.unwrap();
    assert!((bound.share - 0.75).abs() < 0.01, "{bound:?}");
    // What lies between launches is the host's.
    let mut calls = Calls::default();
    for _ in 0..100 {
        calls.launch_and_wait(6_000, 2_000);
        calls.now_ns += MILLI;
    }
    assert!(calls.summary().launch_bound.unwrap().share < 0.01);
}

#[test]
fn what_untimed_launches_took_is_not_guessed_from_the_first() {
    let mut calls = Calls::default();
    calls.launch(50 * MILLI);
    calls.launch(4_000);
    // Their end was not read.
    (0..98).for_each(|_| calls.launch(0));
    let kernel = &calls.summary().kernels[0];
    assert_eq!((kernel.calls, kernel.host_ns), (100, 50 * MILLI + 99 * 4_000));
    let mut once = Calls::default();
    once.launch(50 * MILLI);
    assert_eq!(once.summary().loads.first_launch_ns, 50 * MILLI, "nothing else to compare with");
}

#[test]
fn blocking_copies_are_waiting_said_apart() {
    let mut calls = Calls::default();
    let copy = |direction, asynchronous| {
        What::Copy(Copy { direction, asynchronous, captured: false, to: 0, from: 0, bytes: 64 })
    };
    calls.call(3 * MILLI, copy(Direction::DeviceToHost, false));
    calls.call(MILLI, copy(Direction::HostToDevice, true));
    calls.call(2 * MILLI, What::Sync { kind: SyncKind::Context, object: 0 });
    let summary = calls.summary();
    let syncs = &summary.syncs;
    assert_eq!((syncs.count, syncs.waited_ns), (1, 2 * MILLI));
    assert_eq!((syncs.blocking_copies, syncs.blocking_copies_ns), (1, 3 * MILLI));
    assert!((syncs.share_of_wall - 5.0 / 6.0).abs() < 1e-9, "{syncs:?}");
    assert_eq!((summary.threads[0].waited_ns, summary.waited_ns()), (5 * MILLI, 5 * MILLI));
}
