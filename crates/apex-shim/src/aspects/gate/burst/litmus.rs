//! Two threads that race for the end of a burst: the barrier between them is needed, and enough.
//!
//! A launch counts with a plain store, then looks whether the burst is open; an end says that it is not, then looks
//! whether all is done. Without the barrier the store may wait in its processor's buffer until the end has looked,
//! and neither sees the other: a launch lies on the GPU and no burst is open. The buffer empties in order, so stores to
//! lines that lie in no cache, made right before, keep it there for long enough: without the barrier dozens of ten
//! thousand rounds end so, where the two threads have a processor each.

use super::tests::{KEY, Program};
use super::*;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// The thread that launches, by the number that its stream knows it by.
const LAUNCHER: u64 = 64;
const COLD_LINES: usize = 16;
const MOST_ROUNDS: u64 = 50_000;
const LONGEST: Duration = Duration::from_secs(2);
/// Ends the launching thread.
const OVER: u64 = u64::MAX;

#[repr(align(64))]
struct Line(AtomicU64);

#[test]
fn of_a_launch_and_an_end_at_once_one_sees_the_other() {
    let processors = allowed_processors();
    if !barrier::is_there() || processors.len() < 2 {
        return;
    }
    let program = Program::new("litmus");
    let cold: [Line; COLD_LINES] = core::array::from_fn(|_| Line(AtomicU64::new(0)));
    let (round, launched) = (AtomicU64::new(0), AtomicU64::new(0));
    let (mut rounds, mut lost) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            stay_on(processors[1]);
            let mut last = 0;
            loop {
                let now = round.load(Ordering::Acquire);
                if now == OVER {
                    return;
                }
                if now == last {
                    core::hint::spin_loop();
                    continue;
                }
                last = now;
                cold.iter().for_each(|line| line.0.store(now, Ordering::Relaxed));
                program.launch(LAUNCHER);
                launched.store(now, Ordering::Release);
            }
        });
        stay_on(processors[0]);
        let since = Instant::now();
        while rounds < MOST_ROUNDS && since.elapsed() < LONGEST {
            rounds += 1;
            // A burst is open, all of it is done, and the other thread stands still.
            program.launch(LAUNCHER);
            program.streams.waited(Some(KEY), is_blocking);
            cold.iter().for_each(flush);
            round.store(rounds, Ordering::SeqCst);
            // Each round meets the launch at another moment.
            (0..rounds.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 255).for_each(|step| {
                core::hint::black_box(step);
            });
            program.at_work().end_if_over();
            while launched.load(Ordering::Acquire) != rounds {
                core::hint::spin_loop();
            }
            lost += u64::from(!program.bursts.is_open() && !program.streams.is_waited_for());
            program.at_work().waited(None);
        }
        round.store(OVER, Ordering::SeqCst);
    });
    assert_eq!(lost, 0, "of {rounds} rounds");
}

fn flush(line: &Line) {
    // SAFETY: a line of memory that is there; every x86-64 processor can.
    unsafe { core::arch::x86_64::_mm_clflush(line.0.as_ptr().cast()) };
}

fn allowed_processors() -> Vec<usize> {
    // SAFETY: an empty set is a valid one, and a place for the answer.
    unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&set), &raw mut set);
        (0..libc::CPU_SETSIZE as usize)
            .filter(|&processor| libc::CPU_ISSET(processor, &set))
            .collect()
    }
}

/// Two threads on one processor would meet only where one is put off.
fn stay_on(processor: usize) {
    // SAFETY: a set of our own, for the calling thread.
    unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}
