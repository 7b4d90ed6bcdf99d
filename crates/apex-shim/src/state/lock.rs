//! A lock that a fork cannot leave locked.
//!
//! It names the process that holds it. In a child of `fork` a lock that another thread of the parent held
//! is taken over at once, because that thread is not there; what it may have left half done is left
//! behind. Only what is done once takes such a lock (facts of kernels, contexts, graphs), never the way of
//! a recorded call, and never across a call of the driver, which may come back into this library.

use core::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

/// A value behind a lock.
pub(crate) struct Lock<T> {
    /// Process whose thread holds it; 0 when none does.
    owner: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only by the thread that holds the lock.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The value, while the lock is held.
pub(crate) struct Held<'a, T>(&'a Lock<T>);

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Lock<T> {
        Lock { owner: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }
}

impl<T> core::ops::Deref for Held<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: held by this thread.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> core::ops::DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: held by this thread, and borrowed uniquely.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.0.owner.store(0, Ordering::Release);
    }
}

/// Takes a lock of ours, or gives up after a long time: the program must not wait for us.
pub(crate) fn locked<T: Default>(lock: &Lock<T>) -> Option<Held<'_, T>> {
    const TRIES: u32 = 100_000;
    let me = std::process::id();
    for _ in 0..TRIES {
        match lock.owner.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return Some(Held(lock)),
            Err(owner) if owner != me => {
                let taken =
                    lock.owner.compare_exchange(owner, me, Ordering::Acquire, Ordering::Relaxed);
                if taken.is_ok() {
                    // SAFETY: held by this thread; the old value may be half changed and is not dropped.
                    unsafe { lock.value.get().write(T::default()) };
                    return Some(Held(lock));
                }
            }
            // SAFETY: gives up the processor for a moment.
            Err(_) => unsafe {
                libc::sched_yield();
            },
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time() {
        static COUNT: Lock<u64> = Lock::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| *locked(&COUNT).unwrap() += 1));
            }
        });
        assert_eq!(*locked(&COUNT).unwrap(), 4000);
    }

    #[test]
    fn a_lock_of_another_process_is_taken_over_and_its_value_left_behind() {
        let lock = Lock::new(7_u32);
        lock.owner.store(std::process::id() + 1, Ordering::Relaxed);
        assert_eq!(*locked(&lock).unwrap(), 0);
        assert_eq!(lock.owner.load(Ordering::Relaxed), 0);
    }
}
