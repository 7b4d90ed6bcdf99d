//! The file of the boosted trees: nodes and values of each forest, and the likeness they were grown on.

use crate::golden::check_golden;
use crate::likeness;
use crate::model::Model;
use crate::refusal::Refusal;
use crate::tensor_file::{TensorFile, TensorWriter};
use apex_policy::predict::acquaintance::Acquaintance;
use apex_policy::predict::features::{COUNT, list_hash};
use apex_policy::predict::trees::{FORESTS, Forest, GrownTree, LEAVES, Trees};

/// The word that a file of this model carries as its kind.
const KIND: &str = "boosted-trees";

impl Model for Trees {
    type Input = [f32; COUNT];

    fn read(bytes: &[u8]) -> Result<Trees, Refusal> {
        let file = TensorFile::parse(bytes)?;
        file.check_words(KIND, list_hash())?;
        let mut trees = Trees::default();
        for (forest, name) in trees.forests.iter_mut().zip(FORESTS) {
            *forest = read_forest(&file, name)?;
        }
        trees.widening.copy_from_slice(&file.floats("widening", &[Acquaintance::ALL.len()])?);
        trees.trust.copy_from_slice(&file.floats("trust", &[Acquaintance::ALL.len()])?);
        trees.caution.copy_from_slice(&file.floats("caution", &[Acquaintance::ALL.len()])?);
        trees.likeness = likeness::read(&file)?;
        let inputs = file.floats("golden.inputs", &[0, COUNT])?;
        let outputs = file.floats("golden.outputs", &[inputs.len() / COUNT, FORESTS.len()])?;
        if inputs.is_empty() {
            return Err(Refusal::Missing("golden.inputs".into()));
        }
        let (rows, expected) =
            (inputs.as_chunks::<COUNT>().0, outputs.as_chunks::<{ FORESTS.len() }>().0);
        for (example, (row, expected)) in rows.iter().zip(expected).enumerate() {
            check_golden(example, expected, &trees.outputs(row))?;
        }
        Ok(trees)
    }

    fn write(&self, golden: &[[f32; COUNT]], words: &[(&str, &str)]) -> Vec<u8> {
        let mut file = TensorWriter::new(KIND, list_hash());
        for (key, word) in words {
            file = file.word(key, word);
        }
        for (forest, name) in self.forests.iter().zip(FORESTS) {
            file = write_forest(forest, file, name);
        }
        let outputs: Vec<f32> = golden.iter().flat_map(|row| self.outputs(row)).collect();
        likeness::write(&self.likeness, file)
            .floats("widening", &[Acquaintance::ALL.len()], &self.widening)
            .floats("trust", &[Acquaintance::ALL.len()], &self.trust)
            .floats("caution", &[Acquaintance::ALL.len()], &self.caution)
            .floats("golden.inputs", &[golden.len(), COUNT], golden.as_flattened())
            .floats("golden.outputs", &[golden.len(), FORESTS.len()], &outputs)
            .finish()
    }

    fn over_expected(&self, features: &[f32; COUNT]) -> f32 {
        Trees::over_expected(self, features)
    }
}

pub(crate) fn read_forest(file: &TensorFile<'_>, name: &str) -> Result<Forest, Refusal> {
    let count = file.shape(&format!("{name}.leaves"))?.first().copied().unwrap_or(0);
    let features = file.bytes(&format!("{name}.features"), &[count, LEAVES])?;
    let thresholds = file.floats(&format!("{name}.thresholds"), &[count, LEAVES])?;
    let leaves = file.floats(&format!("{name}.leaves"), &[count, LEAVES])?;
    if let Some(&feature) = features.iter().find(|&&feature| usize::from(feature) >= COUNT) {
        return Err(Refusal::NoSuchFeature(usize::from(feature)));
    }
    let mut forest = Forest::new(file.floats(&format!("{name}.base"), &[1])?[0]);
    let rows = |flat: &[f32]| flat.as_chunks::<LEAVES>().0.to_vec();
    let bytes = features.as_chunks::<LEAVES>().0;
    for ((features, thresholds), leaves) in bytes.iter().zip(rows(&thresholds)).zip(rows(&leaves)) {
        forest.push(&GrownTree { features: *features, thresholds, leaves });
    }
    Ok(forest)
}

pub(crate) fn write_forest(forest: &Forest, file: TensorWriter, name: &str) -> TensorWriter {
    let features: Vec<u8> = forest.grown().flat_map(|tree| tree.features).collect();
    let thresholds: Vec<f32> = forest.grown().flat_map(|tree| tree.thresholds).collect();
    let leaves: Vec<f32> = forest.grown().flat_map(|tree| tree.leaves).collect();
    let shape = [forest.len(), LEAVES];
    file.bytes(&format!("{name}.features"), &shape, &features)
        .floats(&format!("{name}.thresholds"), &shape, &thresholds)
        .floats(&format!("{name}.leaves"), &shape, &leaves)
        .floats(&format!("{name}.base"), &[1], &[forest.base()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use apex_policy::predict::features::{FNV_START, fnv};
    use apex_policy::predict::likeness::Likeness;

    /// Some forest, the same every time.
    fn forest(trees: usize, mut seed: u64) -> Forest {
        let mut next = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        let mut forest = Forest::new(0.25);
        for _ in 0..trees {
            forest.push(&GrownTree {
                features: std::array::from_fn(|_| next(COUNT as u64) as u8),
                thresholds: std::array::from_fn(|_| next(20) as f32),
                leaves: std::array::from_fn(|_| next(1000) as f32 / 1000.0 - 0.5),
            });
        }
        forest
    }

    fn sample(seed: u64) -> Trees {
        Trees {
            forests: std::array::from_fn(|nth| forest(11 + nth, seed + nth as u64)),
            widening: [3.0, 2.5, 2.0, 1.75, 1.5, 1.0],
            trust: [0.5, 0.6, 0.7, 0.75, 0.8, 0.9],
            caution: [0.3, 0.25, 0.2, 0.15, 0.1, 0.0],
            likeness: Likeness::default(),
        }
    }

    fn features(seed: u32) -> [f32; COUNT] {
        std::array::from_fn(|at| {
            ((at as u32).wrapping_mul(2_654_435_761).wrapping_add(seed) % 20) as f32
        })
    }

    #[test]
    fn it_survives_its_file() {
        let trees = sample(9);
        let bytes = trees.write(&[features(1), features(2)], &[("data", "none")]);
        assert_eq!(Trees::read(&bytes), Ok(trees));
    }

    #[test]
    fn a_feature_beyond_the_list_is_refused() {
        let trees = sample(9);
        let bytes = trees.write(&[features(1)], &[]);
        let file = TensorFile::parse(&bytes).unwrap();
        let features = file.bytes("over_base.features", &[0, LEAVES]).unwrap();
        let begin = features.as_ptr() as usize - bytes.as_ptr() as usize;
        let mut broken = bytes.clone();
        broken[begin] = 250;
        let length = u64::from_le_bytes(broken[..8].try_into().unwrap()) as usize;
        let digest = fnv(FNV_START, &broken[8 + length..]);
        let header = String::from_utf8(broken[8..8 + length].to_vec()).unwrap();
        let old = file.word("digest").unwrap();
        let header = header.replace(old, &format!("{digest:016x}"));
        broken[8..8 + length].copy_from_slice(header.as_bytes());
        assert_eq!(Trees::read(&broken), Err(Refusal::NoSuchFeature(250)));
    }
}
