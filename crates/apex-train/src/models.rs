//! Writes trained models with all that is needed to trust them, and reads them back.
//!
//! A folder holds one file for each model, a check set, loss curves, and `manifest.json`: the list of features and
//! its hash, the hash of the data, the bound of every device, and every score. Files are written under another
//! name and renamed, because a daemon may watch the folder.

use crate::Error;
use crate::fit::Fitted;
pub use crate::manifest::{Manifest, ModelFile};
use crate::model_card;
use apex_core::small_file::{self, read_text};
use apex_models::dense::DenseNetwork;
use apex_models::{CheckSet, Model as _, Refusal, onnx};
use apex_policy::predict::features::{FNV_START, NAMES, SMALL, fnv, list_hash};
use apex_policy::predict::network::SmallNetwork;
use apex_policy::predict::trees::Trees;
use std::fs;
use std::path::Path;

/// File of the small network.
pub const SMALL_FILE: &str = "small-network.safetensors";
/// File of the boosted trees.
pub const TREES_FILE: &str = "trees.safetensors";
/// File of the large network in single precision.
pub const LARGE_FILE: &str = "large-network.onnx";
/// File of the large network in bytes.
pub const LARGE_BYTES_FILE: &str = "large-network-int8.onnx";
/// File of the rows that later models are compared on.
pub const CHECK_FILE: &str = "check-set.safetensors";
/// File of the models' card, for people.
pub const CARD_FILE: &str = "models.md";
/// File of everything that is known of the models.
pub const MANIFEST_FILE: &str = "manifest.json";

const SCHEMA: u32 = 1;

/// Writes everything into a folder.
pub fn write(folder: &Path, fitted: &Fitted, data_hash: u64) -> Result<Manifest, Error> {
    fs::create_dir_all(folder).map_err(Error::write(folder))?;
    let data = format!("{data_hash:016x}");
    let words = [("data", data.as_str())];
    let mut files = Vec::new();
    let mut keep = |name: &str, bytes: Vec<u8>, parameters: usize| -> Result<(), Error> {
        replace(&folder.join(name), &bytes)?;
        let hash = format!("{:016x}", fnv(FNV_START, &bytes));
        files.push(ModelFile { name: name.into(), bytes: bytes.len(), hash, parameters });
        Ok(())
    };
    let golden_small: Vec<_> =
        fitted.golden.iter().map(|row| SMALL.map(|place| row[place])).collect();
    keep(SMALL_FILE, fitted.small.write(&golden_small, &words), 316)?;
    let values = fitted.trees.forests.iter().map(|forest| forest.len() * 127).sum();
    keep(TREES_FILE, fitted.trees.write(&fitted.golden, &words), values)?;
    if let Some(large) = &fitted.large {
        let parameters = large.parameters();
        keep(LARGE_FILE, onnx::write(large, &fitted.golden, &words), parameters)?;
        let bytes = onnx::write(&large.quantised(), &fitted.golden, &words);
        keep(LARGE_BYTES_FILE, bytes, parameters)?;
    }
    keep(CHECK_FILE, fitted.check.write(), 0)?;
    for (name, picture) in &fitted.charts {
        replace(&folder.join(name), picture.as_bytes())?;
    }
    replace(&folder.join(CARD_FILE), model_card::text(&fitted.report, &files, &data).as_bytes())?;
    let names = |places: &[usize]| places.iter().map(|place| NAMES[*place].to_owned()).collect();
    let manifest = Manifest {
        schema: SCHEMA,
        features_hash: format!("{:016x}", list_hash()),
        features: NAMES.iter().map(|name| (*name).to_owned()).collect(),
        small_features: names(&SMALL),
        data_hash: data,
        devices: fitted.peaks.clone(),
        files,
        report: fitted.report.clone(),
    };
    let path = folder.join(MANIFEST_FILE);
    let mut text = serde_json::to_string_pretty(&manifest)
        .map_err(|error| Error::Write(path.clone(), error.into()))?;
    text.push('\n');
    replace(&path, text.as_bytes())?;
    Ok(manifest)
}

/// All models of a folder, checked.
#[derive(Debug)]
pub struct Loaded {
    /// What is known of them.
    pub manifest: Manifest,
    /// The small network.
    pub small: SmallNetwork,
    /// The trees.
    pub trees: Trees,
    /// The large network in bytes, where it was trained.
    pub large: Option<DenseNetwork>,
    /// Rows to compare models on.
    pub check: CheckSet,
}

/// Reads a folder of models.
pub fn load(folder: &Path) -> Result<Loaded, Error> {
    let path = folder.join(MANIFEST_FILE);
    let text = read_text(&path, small_file::MADE).map_err(Error::read(&path))?;
    let manifest: Manifest = serde_json::from_str(&text)
        .map_err(|error| Error::Refused(path.clone(), Refusal::Header(error.to_string())))?;
    let large = folder.join(LARGE_BYTES_FILE);
    Ok(Loaded {
        small: read(&folder.join(SMALL_FILE), SmallNetwork::read)?,
        trees: read(&folder.join(TREES_FILE), Trees::read)?,
        large: if large.exists() { Some(read(&large, onnx::read)?) } else { None },
        check: read(&folder.join(CHECK_FILE), CheckSet::read)?,
        manifest,
    })
}

/// Reads one file as a model.
pub fn read<T>(path: &Path, parse: fn(&[u8]) -> Result<T, Refusal>) -> Result<T, Error> {
    let bytes = small_file::read(path, small_file::MADE).map_err(Error::read(path))?;
    parse(&bytes).map_err(|refusal| Error::Refused(path.to_owned(), refusal))
}

/// Puts bytes in the place of a file, whole or not at all.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let part = path.with_extension("part");
    fs::write(&part, bytes).map_err(Error::write(&part))?;
    fs::rename(&part, path).map_err(Error::write(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::tests::fixture;
    use crate::fit::{Options, fit};
    use crate::matmul::Threads;

    #[test]
    fn a_folder_of_models_is_read_back_and_a_broken_file_is_named() {
        let options = Options {
            threads: Threads::one(),
            trees: 8,
            small_epochs: 2,
            large_epochs: 1,
            ..Options::quick(1)
        };
        let fitted = fit(&fixture(8, 30), &options, &mut |_| {}).unwrap();
        let place = tempfile::tempdir().unwrap();
        let manifest = write(place.path(), &fitted, 7).unwrap();
        let loaded = load(place.path()).unwrap();
        assert_eq!(loaded.manifest, manifest);
        assert_eq!(loaded.trees, fitted.trees);
        assert_eq!(loaded.small, fitted.small);
        assert_eq!(loaded.large, fitted.large.map(|large| large.quantised()));
        assert!(place.path().join("loss-trees.svg").exists());
        let path = place.path().join(TREES_FILE);
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert!(matches!(load(place.path()), Err(Error::Refused(found, _)) if found == path));
    }
}
