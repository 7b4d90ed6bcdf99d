//! Replaces a model while others read it: at once, without a pause and without a torn read.
//!
//! A reader keeps a model of its own and looks at one number to see whether there is a newer one, so asking
//! costs about a nanosecond and takes no lock. Only when a model was replaced does it fetch the new one, and it
//! goes on with the old one if that is being written just then. A model is one shared, unchanging value: a
//! reader has the old one or the new one, whole.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The model in use, for all who ask it.
#[derive(Debug)]
pub struct Shared<T> {
    generation: AtomicU64,
    current: Mutex<Arc<T>>,
}

impl<T> Shared<T> {
    /// Begins with a model.
    pub fn new(model: T) -> Shared<T> {
        Shared { generation: AtomicU64::new(0), current: Mutex::new(Arc::new(model)) }
    }

    /// The model in use.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the model in use. Whoever reads the old one keeps it until its next question.
    pub fn replace(&self, model: T) {
        let model = Arc::new(model);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        *current = model;
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// A reader; each thread has its own.
    pub fn reader(self: &Arc<Shared<T>>) -> Reader<T> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        Reader {
            generation: self.generation.load(Ordering::Acquire),
            model: Arc::clone(&current),
            shared: Arc::clone(self),
        }
    }
}

/// One thread's view of the model in use.
#[derive(Debug)]
pub struct Reader<T> {
    generation: u64,
    model: Arc<T>,
    shared: Arc<Shared<T>>,
}

impl<T> Reader<T> {
    /// The model in use; for the moment of a replacement the one before it. Never waits.
    #[inline]
    pub fn get(&mut self) -> &T {
        if self.shared.generation.load(Ordering::Relaxed) != self.generation {
            self.renew();
        }
        &self.model
    }

    #[cold]
    fn renew(&mut self) {
        if let Ok(current) = self.shared.current.try_lock() {
            self.generation = self.shared.generation.load(Ordering::Acquire);
            self.model = Arc::clone(&current);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64};
    use std::time::Instant;

    #[test]
    fn replacing_under_load_tears_nothing() {
        // Models that are all one number: a torn read would show two.
        let models: Vec<[u64; 512]> = (0..8).map(|number| [number; 512]).collect();
        let shared = Arc::new(Shared::new(models[0]));
        let (done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
        let last = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..3)
                .map(|_| {
                    let mut reader = shared.reader();
                    let (done, reads) = (&done, &reads);
                    scope.spawn(move || {
                        while !done.load(Ordering::Relaxed) {
                            let model = reader.get();
                            assert!(model.iter().all(|number| *number == model[0]));
                            assert!(model[0] < 8);
                            reads.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            // On a busy machine it may take a while until the readers have a processor at all.
            let begun = Instant::now();
            let mut round = 0;
            while round < 20_000
                || reads.load(Ordering::Relaxed) < 300 && begun.elapsed().as_secs() < 20
            {
                shared.replace(models[round % models.len()]);
                round += 1;
                if round % 64 == 0 {
                    std::thread::yield_now();
                }
            }
            done.store(true, Ordering::Relaxed);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
            models[(round - 1) % models.len()][0]
        });
        let reads = reads.into_inner();
        assert!(reads >= 300, "{reads} reads");
        assert_eq!(shared.reader().get()[0], last);
    }
}
