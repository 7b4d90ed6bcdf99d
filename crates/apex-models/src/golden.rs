//! A model's own examples: each file carries some, and they must come out again.

use crate::refusal::Refusal;

/// Compares what a model says with what its file says that it said; sums may round otherwise elsewhere.
pub(crate) fn check_golden(example: usize, expected: &[f32], found: &[f32]) -> Result<(), Refusal> {
    for (&expected, &found) in expected.iter().zip(found) {
        let near = (expected - found).abs() <= 1e-3 * (1.0 + expected.abs());
        if !near {
            return Err(Refusal::Golden { example, expected, found });
        }
    }
    Ok(())
}
