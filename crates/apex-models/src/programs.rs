//! The file of the forests for programs.

use crate::golden::check_golden;
use crate::refusal::Refusal;
use crate::tensor_file::{TensorFile, TensorWriter};
use crate::trees::{read_forest, write_forest};
use apex_policy::predict::features::COUNT;
use apex_policy::predict::programs::{FORESTS, Programs, Rest, Sighted, list_hash};

/// The word that a file of this model carries as its kind.
const KIND: &str = "program-trees";

/// Reads a file, checks all that it says of itself, and checks that the model reproduces its own examples.
pub fn read(bytes: &[u8]) -> Result<Programs, Refusal> {
    let file = TensorFile::parse(bytes)?;
    file.check_words(KIND, list_hash())?;
    let mut programs = Programs::default();
    for (forest, name) in programs.forests.iter_mut().zip(FORESTS) {
        *forest = read_forest(&file, name)?;
    }
    programs.widening.copy_from_slice(&file.floats("widening", &[Rest::ALL.len()])?);
    let inputs = file.floats("golden.inputs", &[0, COUNT])?;
    let outputs = file.floats("golden.outputs", &[inputs.len() / COUNT, FORESTS.len()])?;
    if inputs.is_empty() {
        return Err(Refusal::Missing("golden.inputs".into()));
    }
    let rows = inputs.as_chunks::<COUNT>().0.iter().zip(outputs.as_chunks::<{ FORESTS.len() }>().0);
    for (example, (row, expected)) in rows.enumerate() {
        check_golden(example, expected, &said(&programs, row))?;
    }
    Ok(programs)
}

/// The model as a file, with examples made from `golden` inputs; pairs of `words` are added to its header.
#[must_use]
pub fn write(programs: &Programs, golden: &[Sighted], words: &[(&str, &str)]) -> Vec<u8> {
    let mut file = TensorWriter::new(KIND, list_hash());
    for (key, word) in words {
        file = file.word(key, word);
    }
    for (forest, name) in programs.forests.iter().zip(FORESTS) {
        file = write_forest(forest, file, name);
    }
    let outputs: Vec<f32> = golden.iter().flat_map(|row| said(programs, row)).collect();
    file.floats("widening", &[Rest::ALL.len()], &programs.widening)
        .floats("golden.inputs", &[golden.len(), COUNT], golden.as_flattened())
        .floats("golden.outputs", &[golden.len(), FORESTS.len()], &outputs)
        .finish()
}

fn said(programs: &Programs, row: &Sighted) -> [f32; FORESTS.len()] {
    programs.forests.each_ref().map(|forest| forest.predict(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use apex_policy::predict::trees::{Forest, GrownTree};

    fn forest(trees: usize) -> Forest {
        let mut forest = Forest::new(0.25);
        for nth in 0..trees {
            forest.push(&GrownTree {
                features: std::array::from_fn(|at| ((at * 7 + nth) % COUNT) as u8),
                thresholds: std::array::from_fn(|at| (at % 11) as f32),
                leaves: std::array::from_fn(|at| at as f32 / 100.0 - 0.3),
            });
        }
        forest
    }

    #[test]
    fn they_survive_their_file_and_a_broken_one_is_refused() {
        let programs = Programs {
            forests: [forest(9), forest(8), forest(3)],
            widening: [1.5, 1.25, 1.0, 0.75],
        };
        let row: Sighted = std::array::from_fn(|at| (at % 9) as f32);
        let bytes = write(&programs, &[row], &[("data", "none")]);
        assert_eq!(read(&bytes), Ok(programs.clone()));
        assert!(read(&bytes[..bytes.len() - 1]).is_err());
        assert_eq!(
            read(&write(&programs, &[], &[])),
            Err(Refusal::Missing("golden.inputs".into()))
        );
    }
}
