//! The file of the small network: its layers by their numbers, the normalisation, and examples.
//!
//! Weights stand in the file by output, as trainers keep them; the network keeps them by input.

use crate::golden::check_golden;
use crate::model::Model;
use crate::refusal::Refusal;
use crate::tensor_file::{TensorFile, TensorWriter};
use apex_policy::predict::features::{COUNT, SMALL, list_hash};
use apex_policy::predict::network::{INPUTS, Layer, OUTPUTS, SmallNetwork};

/// The word that a file of this model carries as its kind.
const KIND: &str = "small-network";

impl Model for SmallNetwork {
    type Input = [f32; INPUTS];

    fn read(bytes: &[u8]) -> Result<SmallNetwork, Refusal> {
        let file = TensorFile::parse(bytes)?;
        file.check_words(KIND, list_hash())?;
        let array = |name: &str| -> Result<[f32; INPUTS], Refusal> {
            let values = file.floats(name, &[INPUTS])?;
            values.try_into().map_err(|_| Refusal::Missing(name.into()))
        };
        let network = SmallNetwork {
            mean: array("mean")?,
            scale: array("scale")?,
            first: read_layer(&file, "layer0")?,
            second: read_layer(&file, "layer1")?,
            third: read_layer(&file, "layer2")?,
            widening: file.floats("widening", &[1])?[0],
            knows_shares: file.floats("knows_shares", &[1])?[0] > 0.0,
        };
        let inputs = file.floats("golden.inputs", &[0, INPUTS])?;
        let outputs = file.floats("golden.outputs", &[inputs.len() / INPUTS, OUTPUTS])?;
        if inputs.is_empty() {
            return Err(Refusal::Missing("golden.inputs".into()));
        }
        let (rows, expected) = (inputs.as_chunks::<INPUTS>().0, outputs.as_chunks::<OUTPUTS>().0);
        for (example, (row, expected)) in rows.iter().zip(expected).enumerate() {
            check_golden(example, expected, &network.outputs(row))?;
        }
        Ok(network)
    }

    fn write(&self, golden: &[[f32; INPUTS]], words: &[(&str, &str)]) -> Vec<u8> {
        let mut file = TensorWriter::new(KIND, list_hash());
        for (key, word) in words {
            file = file.word(key, word);
        }
        file = file.floats("mean", &[INPUTS], &self.mean).floats("scale", &[INPUTS], &self.scale);
        file = write_layer(&self.first, file, "layer0");
        file = write_layer(&self.second, file, "layer1");
        file = write_layer(&self.third, file, "layer2");
        let outputs: Vec<f32> = golden.iter().flat_map(|row| self.outputs(row)).collect();
        file.floats("widening", &[1], &[self.widening])
            .floats("knows_shares", &[1], &[f32::from(u8::from(self.knows_shares))])
            .floats("golden.inputs", &[golden.len(), INPUTS], golden.as_flattened())
            .floats("golden.outputs", &[golden.len(), OUTPUTS], &outputs)
            .finish()
    }

    fn over_expected(&self, features: &[f32; COUNT]) -> f32 {
        self.outputs(&SMALL.map(|place| features[place]))[0]
    }
}

fn read_layer<const IN: usize, const OUT: usize>(
    file: &TensorFile<'_>,
    name: &str,
) -> Result<Layer<IN, OUT>, Refusal> {
    let flat = file.floats(&format!("{name}.weight"), &[OUT, IN])?;
    let bias = file.floats(&format!("{name}.bias"), &[OUT])?;
    let mut layer = Layer { weights: [[0.0; OUT]; IN], bias: [0.0; OUT] };
    for (output, row) in flat.chunks_exact(IN).enumerate() {
        for (input, weight) in row.iter().enumerate() {
            layer.weights[input][output] = *weight;
        }
    }
    layer.bias.copy_from_slice(&bias);
    Ok(layer)
}

fn write_layer<const IN: usize, const OUT: usize>(
    layer: &Layer<IN, OUT>,
    file: TensorWriter,
    name: &str,
) -> TensorWriter {
    let flat: Vec<f32> =
        (0..OUT).flat_map(|output| layer.weights.iter().map(move |row| row[output])).collect();
    file.floats(&format!("{name}.weight"), &[OUT, IN], &flat).floats(
        &format!("{name}.bias"),
        &[OUT],
        &layer.bias,
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Some network, the same every time.
    pub(crate) fn sample(seed: u32) -> SmallNetwork {
        let mut state = seed;
        let mut next = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        fn layer<const IN: usize, const OUT: usize>(
            next: &mut impl FnMut() -> f32,
        ) -> Layer<IN, OUT> {
            let mut layer = Layer { weights: [[0.0; OUT]; IN], bias: [0.0; OUT] };
            layer.weights.iter_mut().flatten().for_each(|weight| *weight = next());
            layer.bias.iter_mut().for_each(|bias| *bias = next());
            layer
        }
        SmallNetwork {
            mean: [1.0; INPUTS],
            scale: [0.5; INPUTS],
            first: layer(&mut next),
            second: layer(&mut next),
            third: layer(&mut next),
            widening: 1.5,
            knows_shares: true,
        }
    }

    pub(crate) const GOLDEN: [[f32; INPUTS]; 2] =
        [[1.0, 2.0, 3.0, 4.0, 0.5, 1.0, -2.0, 12.0], [0.0; INPUTS]];

    #[test]
    fn it_survives_its_file() {
        let network = sample(2);
        let bytes = network.write(&GOLDEN, &[("data", "none")]);
        assert_eq!(SmallNetwork::read(&bytes), Ok(network));
    }

    #[test]
    fn a_model_that_contradicts_its_examples_is_refused() {
        let network = sample(3);
        let other = sample(4);
        let outputs: Vec<f32> = GOLDEN.iter().flat_map(|row| other.outputs(row)).collect();
        let file = TensorWriter::new(KIND, list_hash()).floats("mean", &[8], &network.mean).floats(
            "scale",
            &[8],
            &network.scale,
        );
        let file = write_layer(&network.first, file, "layer0");
        let file = write_layer(&network.second, file, "layer1");
        let file = write_layer(&network.third, file, "layer2");
        let bytes = file
            .floats("widening", &[1], &[1.0])
            .floats("knows_shares", &[1], &[1.0])
            .floats("golden.inputs", &[2, INPUTS], GOLDEN.as_flattened())
            .floats("golden.outputs", &[2, OUTPUTS], &outputs)
            .finish();
        assert!(matches!(SmallNetwork::read(&bytes), Err(Refusal::Golden { example: 0, .. })));
    }
}
