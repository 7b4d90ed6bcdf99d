//! Replaces a model while others read it: checked first, then at once, without a pause and without a torn read.
//!
//! A reader keeps a model of its own and looks at one number to see whether there is a newer one, so asking
//! costs about a nanosecond and takes no lock; only when a model was replaced does it fetch the new one, and it
//! goes on with the old one if that is being written just then. A model is one shared, unchanging value: a
//! reader has the old one or the new one, whole. What is offered must be readable, made for this list of
//! features, true to its own examples, and no worse on the check set than what it replaces.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::features::{COUNT, SMALL, list_hash};
use super::network::SmallNetwork;
use super::tensor_file::{Refusal, TensorFile, TensorWriter};
use super::trees::Trees;

/// A model that comes as a file and predicts time.
pub trait Model: Sized {
    /// Reads a file and checks all that it says of itself.
    fn read(bytes: &[u8]) -> Result<Self, Refusal>;

    /// log2 of time over the expected time.
    fn over_expected(&self, features: &[f32; COUNT]) -> f32;
}

impl Model for SmallNetwork {
    fn read(bytes: &[u8]) -> Result<SmallNetwork, Refusal> {
        SmallNetwork::read(bytes)
    }

    fn over_expected(&self, features: &[f32; COUNT]) -> f32 {
        self.outputs(&SMALL.map(|place| features[place]))[0]
    }
}

impl Model for Trees {
    fn read(bytes: &[u8]) -> Result<Trees, Refusal> {
        Trees::read(bytes)
    }

    fn over_expected(&self, features: &[f32; COUNT]) -> f32 {
        Trees::over_expected(self, features)
    }
}

/// Launches with their measured times, kept to compare models on. No model was trained on them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckSet {
    /// Features of each launch.
    pub features: Vec<[f32; COUNT]>,
    /// log2 of its measured time over its expected time.
    pub over_expected: Vec<f32>,
}

/// The word that a file of a check set carries as its kind.
pub const CHECK_SET_KIND: &str = "check-set";
/// How much worse than the present model an offered one may be: models differ by so much by chance.
const ALLOWANCE: f32 = 1.02;

impl CheckSet {
    /// Reads a check set's file.
    pub fn read(bytes: &[u8]) -> Result<CheckSet, Refusal> {
        let file = TensorFile::parse(bytes)?;
        file.check_words(CHECK_SET_KIND, list_hash())?;
        let features = file.floats("features", &[0, COUNT])?;
        let over_expected = file.floats("over_expected", &[features.len() / COUNT])?;
        Ok(CheckSet { features: features.as_chunks::<COUNT>().0.to_vec(), over_expected })
    }

    /// The check set as a file.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let count = self.over_expected.len();
        TensorWriter::new(CHECK_SET_KIND, list_hash())
            .floats("features", &[count, COUNT], self.features.as_flattened())
            .floats("over_expected", &[count], &self.over_expected)
            .finish()
    }

    /// The mean error of a model's times, as a share.
    #[must_use]
    pub fn error_of(&self, model: &impl Model) -> f32 {
        let errors =
            self.features.iter().zip(&self.over_expected).map(|(features, truth)| {
                ((model.over_expected(features) - truth).exp2() - 1.0).abs()
            });
        errors.sum::<f32>() / self.over_expected.len().max(1) as f32
    }
}

/// Reads an offered model and refuses it if it is broken, or worse than the present one.
pub fn consider<M: Model>(
    offered: &[u8],
    present: Option<&M>,
    check: &CheckSet,
) -> Result<M, Refusal> {
    let offered = M::read(offered)?;
    if let Some(present) = present {
        let (present, found) = (check.error_of(present), check.error_of(&offered));
        // An error that is no number is worse than any.
        if found.is_nan() || found > present * ALLOWANCE {
            return Err(Refusal::Worse { present, offered: found });
        }
    }
    Ok(offered)
}

/// The place where the model in use lies.
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
    use crate::predict::network;
    use std::sync::atomic::{AtomicBool, AtomicU64};
    use std::time::Instant;

    fn check_set(model: &SmallNetwork) -> CheckSet {
        let features: Vec<[f32; COUNT]> =
            (0..40).map(|nth| std::array::from_fn(|at| ((at * 7 + nth * 3) % 11) as f32)).collect();
        let over_expected = features.iter().map(|row| Model::over_expected(model, row)).collect();
        CheckSet { features, over_expected }
    }

    #[test]
    fn a_worse_model_is_refused_and_an_equal_one_is_taken() {
        let good = network::tests::sample(1);
        let bad = network::tests::sample(2);
        let check = check_set(&good);
        assert_eq!(CheckSet::read(&check.write()), Ok(check.clone()));
        assert!(check.error_of(&good) < 1e-6);
        let bytes = |model: &SmallNetwork| model.write(&network::tests::GOLDEN, &[]);
        assert_eq!(consider(&bytes(&good), Some(&good), &check), Ok(good.clone()));
        assert_eq!(consider(&bytes(&good), Some(&bad), &check), Ok(good.clone()));
        assert!(matches!(consider(&bytes(&bad), Some(&good), &check), Err(Refusal::Worse { .. })));
        assert_eq!(consider(&bytes(&bad), None, &check), Ok(bad));
    }

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
