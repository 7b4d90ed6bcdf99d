//! Files of trained models. What is accepted is asked once, as a launch would.

use super::{Examples, Read, Reader, copy, no_variables};
use anyhow::Result;
use apex_models::{CheckSet, Model as _, onnx};
use apex_policy::predict::features::COUNT;
use apex_policy::predict::network::{INPUTS, SmallNetwork};
use apex_policy::predict::trees::Trees;
use apex_train::models::{
    CHECK_FILE, LARGE_BYTES_FILE, MANIFEST_FILE, Manifest, SMALL_FILE, TREES_FILE,
};
use std::path::Path;

pub(crate) const READER: Reader = Reader {
    name: "models",
    gather,
    variables: no_variables,
    open,
    words: &[
        "{",
        "}",
        "[",
        "]",
        "\"",
        ",",
        "-1",
        "18446744073709551615",
        "\"shape\":[",
        "\"data_offsets\":[",
        "\"dtype\":\"F64\"",
    ],
    cases: u64::MAX,
};

fn gather(folder: &Path) -> Result<()> {
    let files = [SMALL_FILE, TREES_FILE, LARGE_BYTES_FILE, CHECK_FILE, MANIFEST_FILE];
    let paths = files.map(|file| format!("models/{file}"));
    copy(folder, &paths.each_ref().map(String::as_str))
}

fn open(_: &Examples, _: &Path) -> Result<Read> {
    Ok(Box::new(|name, bytes| match name {
        SMALL_FILE => SmallNetwork::read(bytes)
            .map(|model| std::hint::black_box(model.outputs(&[1.0; INPUTS])))
            .is_ok(),
        TREES_FILE => Trees::read(bytes)
            .map(|model| std::hint::black_box(model.outputs(&[1.0; COUNT])))
            .is_ok(),
        LARGE_BYTES_FILE => onnx::read(bytes).is_ok(),
        CHECK_FILE => CheckSet::read(bytes).is_ok(),
        _ => serde_json::from_slice::<Manifest>(bytes).is_ok(),
    }))
}
