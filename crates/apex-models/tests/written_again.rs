//! The models of this repository, read and written again: the same bytes.
//!
//! So a change of a writer is seen, and what other tools read stays what they read.

use apex_models::tensor_file::TensorFile;
use apex_models::{CheckSet, Model, Refusal};
use apex_policy::predict::features::COUNT;
use apex_policy::predict::network::{INPUTS, SmallNetwork};
use apex_policy::predict::trees::Trees;
use std::path::Path;

fn file(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models");
    std::fs::read(folder.join(name)).expect("the repository holds its models")
}

/// The examples of a file, and the rows that its model was trained on.
fn golden<const N: usize>(bytes: &[u8]) -> Result<(Vec<[f32; N]>, String), Refusal> {
    let file = TensorFile::parse(bytes)?;
    let inputs = file.floats("golden.inputs", &[0, N])?;
    Ok((inputs.as_chunks::<N>().0.to_vec(), file.word("data").unwrap_or_default().to_owned()))
}

#[test]
fn the_models_of_the_repository_are_written_as_they_were() {
    let bytes = file("small-network.safetensors");
    let (inputs, data) = golden::<INPUTS>(&bytes).unwrap();
    let words = [("data", data.as_str())];
    assert!(SmallNetwork::read(&bytes).unwrap().write(&inputs, &words) == bytes);

    let bytes = file("trees.safetensors");
    let (inputs, data) = golden::<COUNT>(&bytes).unwrap();
    let words = [("data", data.as_str())];
    assert!(Trees::read(&bytes).unwrap().write(&inputs, &words) == bytes);

    // The large network was given the same examples.
    for name in ["large-network.onnx", "large-network-int8.onnx"] {
        let bytes = file(name);
        let network = apex_models::onnx::read(&bytes).unwrap();
        assert!(Model::write(&network, &inputs, &words) == bytes, "{name}");
    }

    let bytes = file("check-set.safetensors");
    assert!(CheckSet::read(&bytes).unwrap().write() == bytes);
}
