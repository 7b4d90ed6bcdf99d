//! What every model that comes as a file can do, whatever its format.

use crate::refusal::Refusal;
use apex_policy::predict::features::COUNT;

/// A model that comes as a file and predicts time.
pub trait Model: Sized {
    /// What one of its examples asks.
    type Input;

    /// Reads a file, checks all that it says of itself, and checks that the model reproduces its own examples.
    fn read(bytes: &[u8]) -> Result<Self, Refusal>;

    /// The model as a file, with examples made from `golden` inputs; pairs of `words` are added to its header.
    #[must_use]
    fn write(&self, golden: &[Self::Input], words: &[(&str, &str)]) -> Vec<u8>;

    /// log2 of time over the expected time.
    fn over_expected(&self, features: &[f32; COUNT]) -> f32;
}
