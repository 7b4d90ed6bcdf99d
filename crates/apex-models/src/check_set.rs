//! Says whether an offered model may take the place of the one in use.
//!
//! What is offered must be readable, made for this list of features, true to its own examples, and no worse on the
//! check set than what it replaces.

use crate::model::Model;
use crate::refusal::Refusal;
use crate::tensor_file::{TensorFile, TensorWriter};
use apex_policy::predict::features::{COUNT, list_hash};

/// Launches with their measured times, kept to compare models on. No model was trained on them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckSet {
    /// Features of each launch.
    pub features: Vec<[f32; COUNT]>,
    /// log2 of its measured time over its expected time.
    pub over_expected: Vec<f32>,
}

/// The word that a file of a check set carries as its kind.
const KIND: &str = "check-set";
/// How much worse than the present model an offered one may be: models differ by so much by chance.
const ALLOWANCE: f32 = 1.02;

impl CheckSet {
    /// Reads a check set's file.
    pub fn read(bytes: &[u8]) -> Result<CheckSet, Refusal> {
        let file = TensorFile::parse(bytes)?;
        file.check_words(KIND, list_hash())?;
        let features = file.floats("features", &[0, COUNT])?;
        let over_expected = file.floats("over_expected", &[features.len() / COUNT])?;
        Ok(CheckSet { features: features.as_chunks::<COUNT>().0.to_vec(), over_expected })
    }

    /// The check set as a file.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let count = self.over_expected.len();
        TensorWriter::new(KIND, list_hash())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::small_network::tests::{GOLDEN, sample};
    use apex_policy::predict::network::SmallNetwork;

    fn check_set(model: &SmallNetwork) -> CheckSet {
        let features: Vec<[f32; COUNT]> =
            (0..40).map(|nth| std::array::from_fn(|at| ((at * 7 + nth * 3) % 11) as f32)).collect();
        let over_expected = features.iter().map(|row| Model::over_expected(model, row)).collect();
        CheckSet { features, over_expected }
    }

    #[test]
    fn a_worse_model_is_refused_and_an_equal_one_is_taken() {
        let good = sample(1);
        let bad = sample(2);
        let check = check_set(&good);
        assert_eq!(CheckSet::read(&check.write()), Ok(check.clone()));
        assert!(check.error_of(&good) < 1e-6);
        let bytes = |model: &SmallNetwork| model.write(&GOLDEN, &[]);
        assert_eq!(consider(&bytes(&good), Some(&good), &check), Ok(good.clone()));
        assert_eq!(consider(&bytes(&good), Some(&bad), &check), Ok(good.clone()));
        assert!(matches!(consider(&bytes(&bad), Some(&good), &check), Err(Refusal::Worse { .. })));
        assert_eq!(consider(&bytes(&bad), None, &check), Ok(bad));
    }
}
