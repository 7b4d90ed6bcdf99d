//! What `manifest.json` of a folder of models says: which files, made from what, and how well they do.

use crate::fit::Report;
use crate::peaks::Peaks;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What `manifest.json` says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this document.
    pub schema: u32,
    /// Hash of the list of features.
    pub features_hash: String,
    /// The features in their order.
    pub features: Vec<String>,
    /// Those that the small network sees.
    pub small_features: Vec<String>,
    /// Hash of the file of rows.
    pub data_hash: String,
    /// The bound of each device by its name; the normalisation of each model is in its file.
    pub devices: BTreeMap<String, Peaks>,
    /// The files.
    pub files: Vec<ModelFile>,
    /// Every score.
    pub report: Report,
}

/// One file of the folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelFile {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: usize,
    /// FNV-1a over them.
    pub hash: String,
    /// Weights, or values of trees.
    pub parameters: usize,
}
